"""Table, README and figure of this experiment, from its evidence; `--check` names what differs.

The evidence: `documents.csv`, `cases.csv.gz`, `speeds.csv` and `settings.json`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments._tools.contestants import NAMES
from experiments._tools.evidence import Row, read_rows
from experiments._tools.probes import TASK_FIRST
from experiments._tools.recompute import README, TABLE, csv_text, main, readme
from experiments._tools.retrieval_cases import Evidence, read_cases
from experiments._tools.retrieval_report import as_rows, reach, save
from experiments._tools.retrievers_compared import Comparison
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.memory.embedders.minilm import MAX_TOKENS

SAME, SAME_CLASS, RARE = "same task", "same class", "rare class"


def compute(folder: Path) -> Mapping[str, str]:
    evidence = read_cases(folder)
    rows = list(as_rows(evidence.comparison))
    values = _scores(evidence.comparison) | _documents(evidence) | {"rows": rows}
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = {(row["probe"], row["match"], row["retriever"]): row for row in read_rows(folder / TABLE)}
    cells = [rows[RARE, match, "jaccard"] for match in ("task_error", "task")]
    with_signature, without = (
        f"{float(row['ndcg']):.2f} {interval(float(row['ndcg_low']), float(row['ndcg_high']), 2, scale=1)}"
        for row in cells
    )
    text = (
        "the matched text matters more than the retriever: Jaccard nDCG@5 on rare classes is "
        f"{with_signature} with the error signature, {without} without"
    )
    return Row(text, f"{cells[0]['queries']} queries, {cells[0]['tasks']} tasks")


def draw(folder: Path) -> Sequence[Path]:
    evidence = read_cases(folder)
    return [path for path in save(evidence.comparison, evidence.settings.sources, folder) if path.name != TABLE]


def _scores(comparison: Comparison) -> dict[str, Any]:
    speeds = {(speed.match, speed.retriever): speed for speed in comparison.speeds}

    def ndcg(probe: str, match: str, retriever: str) -> Estimate:
        return comparison.cell(probe, match, retriever).quality.ndcg

    def minus(probe: str, second: tuple[str, str], first: tuple[str, str]) -> Estimate:
        """Paired difference of two cells, each given by text and retriever."""
        return comparison.minus(comparison.cell(probe, *second), comparison.cell(probe, *first))

    def over(probe: str, match: str, first: str, names: Sequence[str]) -> list[tuple[str, Estimate]]:
        """Each retriever minus `first`, the largest difference first."""
        gains = [(name, minus(probe, (match, name), (match, first))) for name in names]
        return sorted(gains, key=lambda gain: -gain[1].value)

    reading = NAMES[:5]
    by_match = [(name, minus(RARE, ("task_error", name), ("task", name))) for name in reading]
    by_code = [(name, minus(RARE, ("task_code", name), ("task", name))) for name in reading]
    words = sorted(ndcg(RARE, "words", name).value for name in reading)
    return {
        "SAME": SAME,
        "SAME_CLASS": SAME_CLASS,
        "RARE": RARE,
        "TASK_FIRST": TASK_FIRST,
        "names": NAMES,
        "reading": reading,
        "ndcg": ndcg,
        "minus": minus,
        "over": over,
        "milliseconds": lambda match, name: speeds[match, name].query_ms,
        "signature": sorted(by_match, key=lambda gain: -gain[1].value),
        "ratios": sorted(ndcg(RARE, "task_error", name).value / ndcg(RARE, "task", name).value for name in reading),
        "code": sorted(by_code, key=lambda gain: gain[1].value),
        "words_range": (words[0], words[-1]),
        "reach": lambda name: reach(comparison.cell(SAME_CLASS, "task_error", name)),
        "probes": {probe.name: probe for probe in comparison.probes},
        "quality": lambda probe: comparison.cell(probe, "task", "jaccard").quality,
        "hybrid_ms": sorted(
            speeds[match, "hybrid"].query_ms for match in ("task", "task_error", "task_code", "program", "words")
        ),
        "hit": lambda probe, match, name: comparison.cell(probe, match, name).quality.hit,
    }


def _documents(evidence: Evidence) -> dict[str, Any]:
    documents = evidence.documents
    classes = Counter(row["class"] for row in documents)
    (common, most), (second, next_most), *_ = classes.most_common()
    tasks = {row["task"] for row in documents}
    longer = [row for row in documents if int(row["tokens"]) > MAX_TOKENS]
    [(talker, talked), *_] = Counter(row["model"] for row in documents if row["class"] == second).most_common()
    return {
        "documents": documents,
        "n_tasks": len(tasks),
        "humaneval": sum("humaneval" in task.lower() for task in tasks),
        "models": sorted({row["model"] for row in documents}),
        "classes": {"common": (common, most), "second": (second, next_most)},
        "others": len(documents) - most - next_most,
        "rare_documents": len(documents) - most,
        "unshown": evidence.settings.unshown,
        "signature_first": sum(row["signature_first"] == "True" for row in documents),
        "longer": len(longer),
        "longer_rare": sum(row["class"] != common for row in longer),
        "max_tokens": MAX_TOKENS,
        "talker": (talker, talked),
    }


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
