"""Outcomes by task in logs of other evaluation tools, for paired comparisons. Nothing is executed here.

Formats, recognised by their content:

- lm-evaluation-harness, `--log_samples`: `samples_TASK_TIME.jsonl`, one object per document and filter, with `doc_id`,
  `doc_hash`, `filter`, `filtered_resps` and one field per metric. Only metrics of 0 and 1 can be paired. A document is
  identified by its hash, as other tasks have the same numbers.
- evalplus: `*_eval_results.json`, by task a list of samples with `base_status` and `plus_status`, or the older form
  with lists `base` and `plus` of `[status, details]`.
- inspect_ai: a log in JSON, or `.eval`, a zip archive with `summaries.json` or `samples/*.json`; a score is passed if
  its value is `C`, true or 1, and failed if it is `I`, `N`, false or 0.
- trials of agents (`audit.trials`): a folder or a text log; the outcome is that of the last trial.
- all logs that `audit.samples` reads: the logged verdict.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.audit.transcripts import read_rows, unpacked
from reflexion_lab.audit.trials import TEXT_TRIAL, Trials, read_trials
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import LARGEST, RATIO, SMALL, content
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

ZIP = b"PK\x03\x04"
UNPACKABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, ValueError, OSError, EOFError)
"""Raised for members that are damaged, encrypted, of an unknown method or no JSON; deep JSON is a RuntimeError."""
GRADES: dict[str | float, bool] = {"C": True, "I": False, "N": False, 1: True, 0: False}
"""Grades of inspect_ai that can be paired; P (partial) cannot."""
HEAD = 10_000
"""Bytes in which a text log names its first trial."""
NOT_METRICS = frozenset({"doc_id", "filter", "resps", "filtered_resps", "target", "arguments", "doc", "metrics"})


class Outcomes(Record, frozen=True, kw_only=True):
    """One run of one system."""

    name: str
    format: str
    metric: str
    """Source of an outcome: a metric, a scorer, a status, or the logged verdict."""
    by_task: dict[str, tuple[bool, ...]]
    """By task, the outcome of each sample, epoch or run, in the order of the log."""
    trials: Trials | None = None
    """None if the log is no log of trials."""
    ungraded: int = 0
    """Samples left out: without a score, or with one that cannot be paired."""

    @property
    def n(self) -> int:
        return sum(map(len, self.by_task.values()))

    @property
    def share(self) -> Estimate:
        """Share of passed samples, with an interval over tasks."""
        from reflexion_lab.analysis.stats.bootstrap import interval

        return interval(_matrix(self.by_task, list(self.by_task)))


class PairedOutcomes(Record, frozen=True, kw_only=True):
    """The second log compared with the first, on the tasks of both. A task with all of its samples is one cluster."""

    first: str
    second: str
    metric: str
    """The compared metric: for two logs of trials, success by the last trial of both."""
    tasks: int
    cases: int
    """Pairs of samples, by their place in the log of a task."""
    gained: int
    """Pairs passed only in the second."""
    lost: int
    """Pairs passed only in the first."""
    difference: Estimate
    """share(second) - share(first), with `bootstrap.difference`'s interval over tasks."""
    p: float
    """Sign-flip test over tasks (`permutation.sign_flip`); with one sample a task McNemar's exact test."""
    alone: int
    """Tasks of one log alone, left out."""


def read_outcomes(path: Path | str, metric: str = "") -> Outcomes:
    """The outcomes of one log.

    Parameters
    ----------
    metric : str, default ""
        Metric, scorer or status to read, such as `exact_match`, `acc,none`'s `acc`, `plus` or `match`; by default the
        only one, or `plus` for evalplus.

    Raises
    ------
    DataError
        The file cannot be read, or has no outcomes of 0 and 1.
    ConfigError
        There are several metrics, or `metric` is none of them.
    """
    path = Path(path)
    if path.is_dir():
        return _logged(path) if (path / "manifest.json").is_file() else _trials(path)
    data = content(path, "a log of an evaluation")
    if data.startswith(ZIP):
        return _inspect(path, _unzipped(path, data), metric)
    text = unpacked(path, data)
    whole = None
    with contextlib.suppress(ValueError, RecursionError):  # of another form, such as one object a line
        whole = json.loads(text) if text.lstrip()[:1] == b"{" else None
    if isinstance(whole, dict) and isinstance(entries := whole.get("eval"), dict):
        samples = whole.get("samples")
        is_inspect = isinstance(samples, list)
        return _inspect(path, _objects(path, samples or []), metric) if is_inspect else _evalplus(path, entries, metric)
    if TEXT_TRIAL.search(text[:HEAD].decode(errors="replace")):
        return _trials(path)
    first = next(read_rows(path), None)
    if first is not None and "doc_id" in first.fields and "filtered_resps" in first.fields:
        return _lm_eval(path, metric)
    return _logged(path)


def compare(first: Outcomes, second: Outcomes) -> PairedOutcomes:
    """Pairs of the same place in the log of the same task. Raises DataError: the two have no task in common, or are
    logs of trials that start at different trials; ConfigError: two logs of one format have different metrics.
    """
    import numpy as np

    from reflexion_lab.analysis.stats.bootstrap import difference
    from reflexion_lab.analysis.stats.permutation import sign_flip

    if first.trials and second.trials:
        if first.trials.start != second.trials.start:
            starts = f"logs from trial {first.trials.start} and {second.trials.start}"
            raise DataError(f"{first.name} and {second.name}", starts, "the same first trial")
        last = min(first.trials.length, second.trials.length)
        first, second = _by_trial(first.trials, last), _by_trial(second.trials, last)
    if first.format == second.format and first.metric != second.metric:
        metrics = f"{first.metric} of {first.name}, {second.metric} of {second.name}"
        raise ConfigError("--metric", metrics, "one that both have, such as base for evalplus")
    tasks = [task for task in first.by_task if task in second.by_task]
    if not tasks:
        named = f"{next(iter(first.by_task), 'nothing')!r} and {next(iter(second.by_task), 'nothing')!r}"
        raise DataError(f"{first.name} and {second.name}", f"no common task ({named[:120]})", "logs of the same tasks")
    width = max(len(run.by_task[task]) for run in (first, second) for task in tasks)
    sides = [_matrix(run.by_task, tasks, width) for run in (first, second)]
    both = np.isfinite(sides[0]) & np.isfinite(sides[1])
    before, after = (np.where(both, side, np.nan) for side in sides)
    return PairedOutcomes(
        first=first.name,
        second=second.name,
        metric=second.metric,
        tasks=len(tasks),
        cases=int(both.sum()),
        gained=int((after > before).sum()),
        lost=int((after < before).sum()),
        difference=difference(before, after),
        p=sign_flip(before, after),
        alone=len(first.by_task.keys() ^ second.by_task.keys()),
    )


def _by_trial(trials: Trials, last: int) -> Outcomes:
    return Outcomes(
        name=trials.label,
        format="trials",
        metric=f"solved by trial {last + trials.start - 1}",
        by_task={name: (solved,) for name, solved in trials.at(last).items()},
        trials=trials,
    )


def _matrix(by_task: Mapping[str, Sequence[bool]], tasks: Sequence[str], width: int = 0) -> NDArray[float64]:
    """Shape (tasks, samples); NaN where a task has fewer samples."""
    import numpy as np

    width = width or max(len(by_task[task]) for task in tasks)
    return np.array([[*map(float, by_task[task]), *[np.nan] * (width - len(by_task[task]))] for task in tasks])


def _collected(path: Path, outcomes: Iterable[tuple[str, bool]]) -> dict[str, tuple[bool, ...]]:
    by_task: dict[str, list[bool]] = {}
    for task, passed in outcomes:
        by_task.setdefault(task, []).append(passed)
    if not by_task:
        raise DataError(path, "no outcome", "one of 0 or 1 per sample")
    return {task: tuple(passed) for task, passed in by_task.items()}


def _chosen(path: Path, metric: str, known: Iterable[str], default: str = "") -> str:
    names = sorted(set(known))
    if not names:
        raise DataError(path, "no metric of 0 and 1", "one that can be paired")
    if not metric and (default in names or len(names) == 1):
        return default if default in names else names[0]
    if metric not in names:
        listed = ", ".join(names[:8])
        raise ConfigError("--metric", repr(metric) if metric else f"nothing, for {path}", f"one of {listed}")
    return metric


def _is_binary(value: object) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def _lm_eval(path: Path, metric: str) -> Outcomes:
    rows = [row.fields for row in read_rows(path)]
    names = [
        name for name in rows[0] if name not in NOT_METRICS and not name.endswith("_hash") and _is_binary(rows[0][name])
    ]
    pairable = [name for name in names if all(_is_binary(row.get(name)) for row in rows)]
    filters = sorted({str(row.get("filter", "none")) for row in rows})
    known = {f"{name},{kept}" if len(filters) > 1 else name: (name, kept) for name in pairable for kept in filters}
    chosen = _chosen(path, metric, known)
    name, kept = known[chosen]
    outcomes = (
        (str(row.get("doc_hash") or row.get("doc_id")), bool(row[name]))
        for row in rows
        if str(row.get("filter", "none")) == kept
    )
    return Outcomes(name=path.name, format="lm-evaluation-harness", metric=chosen, by_task=_collected(path, outcomes))


def _evalplus(path: Path, tasks: dict[str, Any], metric: str) -> Outcomes:
    statuses = [(task, *pair) for task, entry in tasks.items() for pair in _statuses(path, task, entry)]
    has_plus = any(plus is not None for _, _, plus in statuses)
    chosen = _chosen(path, metric, ("base", "plus") if has_plus else ("base",), "plus")
    if chosen == "plus" and (bare := next((task for task, base, plus in statuses if base == "pass" and not plus), "")):
        raise DataError(f"{path}, task {bare[:60]!r}", "no plus status", "one per sample, or --metric base")
    outcomes = ((task, base == "pass" and (chosen == "base" or plus == "pass")) for task, base, plus in statuses)
    return Outcomes(name=path.name, format="evalplus", metric=chosen, by_task=_collected(path, outcomes))


def _statuses(path: Path, task: str, entry: Any) -> Iterator[tuple[object, object]]:
    """Base and plus status of each sample, from the form of either version."""
    if isinstance(entry, list) and all(isinstance(sample, dict) for sample in entry):
        if not all(isinstance(sample.get("base_status"), str) for sample in entry):
            raise DataError(f"{path}, task {task[:60]!r}", "a sample without `base_status`", "one per sample")
        yield from ((sample["base_status"], sample.get("plus_status")) for sample in entry)
        return
    base, plus = (entry.get(name) for name in ("base", "plus")) if isinstance(entry, dict) else (None, None)
    if not isinstance(base, list) or not all(isinstance(result, list) and result for result in base):
        raise DataError(f"{path}, task {task[:60]!r}", type(entry).__name__, "samples with a status")
    extra = plus if isinstance(plus, list) and len(plus) == len(base) else [[None]] * len(base)
    for first, second in zip(base, extra, strict=True):
        yield _passed(first[0]), _passed(second[0] if isinstance(second, list) and second else None)


def _passed(status: object) -> object:
    """The status in the words of the newer version."""
    return "pass" if status == "success" else status


def _inspect(path: Path, samples: Iterable[dict[str, Any]], metric: str) -> Outcomes:
    every = list(samples)
    if any(sample.get("id") is None for sample in every):
        raise DataError(path, "a sample without `id`", "one per sample, to find its pair")
    graded = [(sample, scores) for sample in every if isinstance(scores := sample.get("scores"), dict)]
    values = [(str(sample["id"]), sample.get("epoch", 1), _graded(scores)) for sample, scores in graded]
    chosen = _chosen(path, metric, (scorer for _, _, scores in values for scorer in scores))
    ordered = sorted(values, key=lambda value: value[1] if isinstance(value[1], int) else 0)
    outcomes = [(task, scores[chosen]) for task, _, scores in ordered if chosen in scores]
    left_out = len(every) - len(outcomes)
    by_task = _collected(path, outcomes)
    return Outcomes(name=path.name, format="inspect_ai", metric=chosen, by_task=by_task, ungraded=left_out)


def _graded(scores: dict[str, Any]) -> dict[str, bool]:
    """By scorer, its grade, where it can be paired."""
    values = {name: score.get("value") for name, score in scores.items() if isinstance(score, dict)}
    scalars = {name: value for name, value in values.items() if isinstance(value, str | int | float)}
    return {name: GRADES[value] for name, value in scalars.items() if value in GRADES}


def _trials(path: Path) -> Outcomes:
    trials, *others = read_trials([path])
    if others:
        raise DataError(path, f"{1 + len(others)} logs of trials", "one", f"name one, such as {trials.label}")
    return _by_trial(trials, trials.length)


def _logged(path: Path) -> Outcomes:
    from reflexion_lab.audit.samples import read_samples, run_samples

    is_run = path.is_dir()
    samples = run_samples(path, attempts=False) if is_run else read_samples(path)
    logged = ((sample.task_id, sample.logged) for sample in samples if sample.logged is not None)
    form, metric = ("run folder", "hidden tests") if is_run else ("samples", "logged verdict")
    return Outcomes(name=path.name, format=form, metric=metric, by_task=_collected(path, logged))


def _unzipped(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    """The samples of an archive: `summaries.json`, else every member of `samples/`.

    Raises DataError: it is damaged, encrypted, packed by a method that Python lacks, or expands beyond the limits of
    any text.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        names = archive.namelist()
        wanted = [name for name in names if name == "summaries.json"] or [
            name for name in names if name.startswith("samples/") and name.endswith(".json")
        ]
        size = sum(archive.getinfo(name).file_size for name in wanted)
        if size > min(LARGEST, max(SMALL, RATIO * len(data))):
            raise DataError(path, f"{len(data):,} bytes that unpack to {size:,}", "a log of inspect_ai")
        parsed = [json.loads(archive.read(name)) for name in wanted]
    except UNPACKABLE as problem:
        raise DataError(path, str(problem)[:120] or type(problem).__name__, "a log of inspect_ai in JSON") from None
    for part in parsed:
        yield from _objects(path, part if isinstance(part, list) else [part])


def _objects(path: Path, values: Iterable[object]) -> Iterator[dict[str, Any]]:
    for value in values:
        if not isinstance(value, dict):
            raise DataError(path, f"a sample that is a {type(value).__name__}", "an object per sample")
        yield value
