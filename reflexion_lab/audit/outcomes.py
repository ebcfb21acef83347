"""Outcomes by task in logs of other evaluation tools. Nothing is executed here.

Formats, recognised by their content:

- lm-evaluation-harness, `--log_samples`: `samples_TASK_TIME.jsonl`, one object per document and filter, with `doc_id`,
  `doc_hash`, `filter`, `filtered_resps` and one field per metric, of which those of 0 and 1 are read. A document is
  identified by its hash, as other tasks have the same numbers.
- evalplus: `*_eval_results.json`, by task a list of samples with `base_status` and `plus_status`, or the older form
  with lists `base` and `plus` of `[status, details]`.
- inspect_ai: logs (`.eval`, `.json`), with one outcome per sample, epoch and score (`comparison.inspect_logs`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.analysis.comparison.inspect_logs import is_inspect_log, read_log, score_names, verdict
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.audit.transcripts import read_rows
from reflexion_lab.errors import DataError
from reflexion_lab.io.files import content, unpacked
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

SHORTEST_TARGET = 12
"""Characters from which a target in a prompt is no coincidence, as a letter or a number is."""
ROUNDING = 1e-6
NOT_METRICS = frozenset({"doc_id", "filter", "resps", "filtered_resps", "target", "arguments", "doc", "metrics"})


class Outcomes(Record, frozen=True, kw_only=True):
    """Outcomes of one run of one system by one metric."""

    name: str
    format: str
    metric: str
    by_task: dict[str, tuple[bool, ...]]
    """By task, the outcome of each sample, in the order of the log."""
    notes: tuple[str, ...] = ()
    """Findings besides the share, one sentence each."""

    @property
    def n(self) -> int:
        return sum(map(len, self.by_task.values()))

    @property
    def share(self) -> Estimate:
        """Share of passed samples, with an interval over tasks."""
        return interval(by_cluster(((task, passed) for task, own in self.by_task.items() for passed in own), ALONE))


def read_outcomes(path: Path | str) -> list[Outcomes]:
    """Outcomes of a log, by metric; none of another format. Raises DataError: no readable file, or none of 0 and 1."""
    path = Path(path)
    if path.is_dir():
        return []
    if is_inspect_log(path):
        return _inspect(path)
    if (tasks := evalplus_of(path)) is not None:
        return _evalplus(path, tasks)
    first = next(read_rows(path), None)
    is_lm_eval = first is not None and "doc_id" in first.fields and "filtered_resps" in first.fields
    return _lm_eval(path) if is_lm_eval else []


def evalplus_of(path: Path) -> dict[str, Any] | None:
    """The samples in results of evalplus, by task; None for a file of another form. Raises DataError."""
    text = unpacked(path, content(path, "rows of a log (.jsonl, .jsonl.gz)"))
    with contextlib.suppress(ValueError, RecursionError):  # of another form, such as one object a line
        whole = json.loads(text) if text.lstrip()[:1] == b"{" else None
        if isinstance(whole, dict) and "status" not in whole and isinstance(tasks := whole.get("eval"), dict):
            return tasks
    return None


def _of(path: Path, form: str, metric: str, outcomes: Iterable[tuple[str, bool]]) -> Outcomes:
    by_task: dict[str, list[bool]] = {}
    for task, passed in outcomes:
        by_task.setdefault(task, []).append(passed)
    if not by_task:
        raise DataError(path, "no outcome", "one of 0 or 1 per sample")
    tasks = {task: tuple(passed) for task, passed in by_task.items()}
    return Outcomes(name=path.name, format=form, metric=metric, by_task=tasks)


def _is_binary(value: object) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def binary(fields: dict[str, Any]) -> dict[str, bool]:
    """The metrics of 0 and 1 of a sample of lm-evaluation-harness."""
    names = (name for name in fields if name not in NOT_METRICS and not name.endswith("_hash"))
    return {name: bool(fields[name]) for name in names if _is_binary(fields[name])}


def _lm_eval(path: Path) -> list[Outcomes]:
    rows = [row.fields for row in read_rows(path)]
    metrics = [name for name in binary(rows[0]) if all(_is_binary(row.get(name)) for row in rows)]
    if not metrics:
        raise DataError(path, "no metric of 0 and 1", "one per sample")
    filters = sorted({str(row.get("filter", "none")) for row in rows})

    def outcomes(metric: str, kept: str) -> Iterator[tuple[str, bool]]:
        for row in rows:
            if str(row.get("filter", "none")) == kept:
                yield str(row.get("doc_hash") or row.get("doc_id")), bool(row[metric])

    return [
        _of(path, "lm-evaluation-harness", f"{name},{kept}" if len(filters) > 1 else name, outcomes(name, kept))
        for name in metrics
        for kept in filters
    ]


def _evalplus(path: Path, tasks: dict[str, Any]) -> list[Outcomes]:
    pairs = [(task, *pair) for task, entry in tasks.items() for pair in statuses(path, task, entry)]
    base = _of(path, "evalplus", "base", ((task, base == "pass") for task, base, _ in pairs))
    if all(plus is None for _, _, plus in pairs):
        return [base]
    if bare := next((task for task, base, plus in pairs if base == "pass" and not plus), ""):
        raise DataError(f"{path}, task {bare[:60]!r}", "no plus status", "one per sample")
    return [_of(path, "evalplus", "plus", ((task, base == plus == "pass") for task, base, plus in pairs)), base]


def _inspect(path: Path) -> list[Outcomes]:
    """Outcomes by score, without the scores whose values are no verdicts. Raises DataError: there is no other."""
    log, logs = read_log(path), list[Outcomes]()
    problem = DataError(path, f"no score, status {log.status}", "one per sample")
    for name in score_names(log):
        try:
            judged = [(sample, *verdict(path, sample, name)) for sample in log.samples or ()]
            known = [(str(sample.id), passed) for sample, passed, _ in judged if passed is not None]
            outcomes = _of(path, "inspect_ai", name, known)
        except DataError as no_verdicts:
            problem = no_verdicts
        else:
            logs.append(replace(outcomes, notes=tuple(_notes(log, judged, outcomes))))
    if not logs:
        raise problem
    return logs


def _notes(log: EvalLog, judged: list[tuple[EvalSample, bool | None, bool]], outcomes: Outcomes) -> Iterator[str]:
    lacking = [sample for sample, passed, _ in judged if passed is None]
    errors, partial = sum(bool(sample.error) for sample in lacking), sum(is_partial for *_, is_partial in judged)
    leaks = [sample.id for sample, *_ in judged if _shows_target(sample)]
    share = sum(sum(own) / len(own) for own in outcomes.by_task.values()) / len(outcomes.by_task)
    scores = [score for score in (log.results.scores if log.results else ()) if score.reducer in (None, "mean")]
    stated = [score.metrics["accuracy"].value for score in scores
              if score.name == outcomes.metric and "accuracy" in score.metrics]  # fmt: skip
    if log.status != "success":
        yield f"status {log.status}"
    if lacking:
        yield f"{len(lacking)} of {len(judged)} samples have no verdict, {errors} after an error"
    if partial:
        yield f"partial credit of {partial} samples counts as not passed"
    if not partial and any(abs(accuracy - share) > ROUNDING for accuracy in stated):
        yield f"states an accuracy of {stated[0]:.4f}, its samples have {share:.4f}"
    if leaks:
        yield f"the target is in the prompt of {len(leaks)} samples, such as {leaks[0]}"


def _shows_target(sample: EvalSample) -> bool:
    prompt = "\n".join(message.text for message in sample.messages if message.role in ("system", "user"))
    targets = [sample.target] if isinstance(sample.target, str) else sample.target
    return any(len(target) >= SHORTEST_TARGET and target in prompt for target in targets)


def statuses(path: Path, task: str, entry: Any) -> Iterator[tuple[object, object]]:
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
