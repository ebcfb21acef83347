"""Logs of inspect_ai (`.eval`, `.json`) as cases: a task and a seed per sample, its id and epoch, by one score.

`C`, `yes`, `true` and 1 passed; `I`, `N` (no answer), `no`, `false` and 0 did not, nor did `P` (partial credit), which
is counted. NaN, a missing score and an invalidated sample are no verdict, as in inspect_ai's own metrics; an error is
none, unless the sample was scored all the same. Any other value is refused. Of a score with several values each is
one, `NAME.PART`.
"""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.cases import COLUMNS, arms_of
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import check, content
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.records import UNKNOWN

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

OWN, JUDGE = "reflexion_lab", "judge"
"""Key in the metadata of a log that `reflexion-lab export` wrote, and its score."""
VALUES = {"c": 1, "yes": 1, "true": 1, "i": 0, "n": 0, "no": 0, "false": 0}
UNREAD = {"events", "events_data", "attachments", "store", "timelines"}
NO_CELLS = ("parent", "feedback", "reward", "tests", "tests_passed", "episodes", "shown", "same_task")


def is_inspect_log(path: Path | str) -> bool:
    """Whether the file has the name or the first fields of such a log. Raises DataError: there is no such file."""
    if Path(path).suffix != ".json":
        return Path(path).suffix == ".eval"
    return bool(re.match(rb'\s*\{\s*"version":\s*\d+,\s*"status"', content(path, "a log")))


def checked_import() -> None:
    """Raises ConfigError: inspect_ai is not installed."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError:
        hint = "pip install 'reflexion_lab[inspect]'"
        raise ConfigError("logs of inspect_ai: needs the package inspect-ai", hint=hint) from None


def read_log(path: Path | str) -> EvalLog:
    """The log with its samples, without their events. Raises ConfigError: inspect_ai is not installed; DataError: it
    cannot read the file, or there is no sample.
    """
    checked_import()
    from inspect_ai.log import read_eval_log

    expected = "a log of inspect_ai with its samples (.eval, .json)"
    check(path, expected)
    try:
        log = read_eval_log(str(path), exclude_fields=UNREAD)
    except Exception as problem:
        reason = plain(f"{type(problem).__name__}: {str(problem).partition('. ')[0]:.200}")
        raise DataError(path, reason, expected) from None
    if not log.samples:
        raise DataError(path, "no sample", expected)
    return log


def _values(sample: EvalSample) -> dict[str, Any]:
    """Values by name of the score, those of its parts behind it."""
    values: dict[str, Any] = {name: score.value for name, score in (sample.scores or {}).items()}
    parts = [(name, value) for name, value in values.items() if isinstance(value, dict)]
    return values | {f"{name}.{part}": each for name, value in parts for part, each in value.items()}


def score_names(log: EvalLog) -> list[str]:
    values = chain.from_iterable(_values(sample).items() for sample in log.samples or ())
    return list(dict.fromkeys(name for name, value in values if not isinstance(value, dict)))


def verdict(path: Path | str, sample: EvalSample, name: str) -> tuple[bool | None, bool]:
    """Whether the sample passed, None without a verdict; whether it has partial credit. Raises DataError: neither."""
    value = math.nan if sample.invalidation else _values(sample).get(name, math.nan)
    text = str(value).lower() if isinstance(value, str | int | float) else "a list"
    try:
        number = 0.5 if value == "P" else float(VALUES.get(text, text))
    except ValueError:
        number = -1.0
    if number in (0, 1) or math.isnan(number) or value == "P":
        return (None if math.isnan(number) else number == 1), value == "P"
    where = f"{path}, sample {sample.id}, epoch {sample.epoch}, score {name}"
    raise DataError(where, f"{value!r:.60}", "C, I, P, N, yes, no, true, false, 0, 1 or NaN")


def load_logs(paths: Sequence[str], score: str = "") -> list[Arm]:
    """The logs as arms: those that the lab exported by arm and settings, with all attempts; others one each, named by
    model, or by file.

    Raises ConfigError, DataError: as `read_log` and `verdict`; several scores, none of which is `score`; samples are
    missing; two logs of an arm have a seed.
    """
    logs = [read_log(path) for path in paths]
    models = [log.eval.model for log in logs]
    labels = models if len({*models}) == len(logs) else paths
    lines, known = list[dict[str, str]](), dict[tuple[str, str, str, str], str]()
    for path, log, label in zip(paths, logs, _labels(paths, logs, labels), strict=True):
        for row in _lines(path, log, label, score):
            case = row["arm"], row["seed"], row["task"], row["attempt"]
            if case in known:
                got = f"task {row['task']} at seed {row['seed']} of {row['arm']} in both"
                raise DataError(f"{known[case]} and {path}", got, "one log for each arm and seed")
            known[case] = path
            lines.append(row)
    columns = dict.fromkeys(chain.from_iterable(lines), "")
    return arms_of(", ".join(paths), [columns | row for row in lines])


def _own(log: EvalLog) -> dict[str, Any]:
    """What the lab's export says of its run; {} of other logs."""
    of_lab = (log.eval.metadata or {}).get(OWN)
    return of_lab if isinstance(of_lab, dict) else {}


def _labels(paths: Sequence[str], logs: Sequence[EvalLog], others: Sequence[str]) -> list[str]:
    """Names of the arms of exported runs, where those of one name differ in settings or model with the model, or the
    file; `others`: names of other logs.
    """
    owns = map(_own, logs)
    kinds = [(own.get("arm"), own.get("settings"), log.eval.model) for own, log in zip(owns, logs, strict=True)]
    labels = list[str]()
    for kind, other in zip(kinds, others, strict=True):
        alike = {each for each in kinds if each[0] == kind[0]}
        is_by_model = len({each[2] for each in alike}) == len(alike)
        path = paths[kinds.index(kind)]
        file = Path(path).stem if len({Path(each).stem for each in paths}) == len({*paths}) else path
        end = "" if len(alike) == 1 else kind[2] if is_by_model else file
        labels.append(plain(f"{kind[0]} {end}".rstrip()) if kind[0] else other)
    return labels


def _input(sample: EvalSample) -> str:
    """A text for the prompt of a sample, without the ids of its messages, which are drawn anew for each log."""
    given = sample.input
    return repr(given if isinstance(given, str) else [message.model_dump(exclude={"id"}) for message in given])


def _rows(path: str, sample: EvalSample) -> list[dict[str, str]]:
    """The attempts of a task that the lab exported. Raises DataError: they have another verdict than its score."""
    rows: list[dict[str, Any]] = sample.metadata.get("cases") or []
    passed, _ = verdict(path, sample, JUDGE)
    number = str(sample.metadata.get("submitted"))
    judged = [(row.get("hidden"), row.get("hidden_outcome")) for row in rows if row.get("attempt") == number]
    if not judged:
        hint = "export it again, after its run has finished"
        raise DataError(f"{path}, sample {sample.id}", "no attempts in its metadata", "those of a run", hint)
    if len(judged) != 1 or (passed is not None and judged[0][0] != str(int(passed))):
        got = f"score {passed}, attempt {number} with {judged}"
        raise DataError(f"{path}, sample {sample.id}", got, "equal verdicts, as `reflexion-lab export` writes them")
    is_void = passed is None and sample.metadata.get("split") != "train" and judged[0][1] not in UNKNOWN
    end = {"hidden": "0", "hidden_outcome": "harness_error"} if is_void else {}  # invalidated since the export
    blank = dict.fromkeys(COLUMNS, "")
    return [blank | {name: visible(str(value), kept="") for name, value in row.items()} | end for row in rows]


def _lines(path: str, log: EvalLog, label: str, wanted: str) -> Iterator[dict[str, str]]:
    """Rows of a file of cases."""
    own = _own(log)
    of, names, samples = log.eval, score_names(log), log.samples or []
    name = wanted or (JUDGE if own or len(names) != 1 else names[0])
    if name not in names:
        got = f"scores {', '.join(names)}" if names else f"no score, status {log.status}"
        raise DataError(path, got, "one score per sample", "--score NAME takes one of several" if names else "")
    tasks = len(of.dataset.sample_ids or ()) or of.dataset.samples or 0
    n = (log.results.total_samples if log.results else 0) or tasks * (of.config.epochs or 1)
    if (known := len({(sample.id, sample.epoch) for sample in samples})) < max(n, len(samples)):
        raise DataError(path, f"{known} of {n} samples, status {log.status}", "each of them once", "finish it first")
    if own and name == JUDGE:
        yield from (row | {"arm": label} for sample in samples for row in _rows(path, sample))
        return
    samples = [sample for sample in samples if not own or sample.metadata.get("split") != "train"]
    inputs = repr(sorted({(str(sample.id), _input(sample)) for sample in samples})).encode(errors="replace")
    digest, counts = hashlib.sha256(inputs).hexdigest(), Counter(sample.epoch for sample in samples)
    run = dict.fromkeys(COLUMNS, "") | dict.fromkeys(NO_CELLS, "0") | {
        "arm": plain(label), "benchmark": plain(of.dataset.name or of.task), "max_attempts": "1",
        "digest": str(own.get("benchmark_digest", digest)), "tasks_digest": str(own.get("tasks_digest", digest)),
        "feedback_source": plain(str(own.get("feedback_source", "none"))), "feedback_outcome": "no_tests",
        "upper_bound": str(int(own.get("is_upper_bound") is True)), "prices": "{}", "attempt": "1", "program": "1",
        "models": msgspec.json.encode({"actor": plain(of.model)}).decode(),
    }  # fmt: skip
    partial = 0
    for sample in samples:
        passed, is_partial = verdict(path, sample, name)
        partial += is_partial
        unknown, spent = "harness_error" if sample.error else "no_tests", list(sample.model_usage.values())
        task = visible(str(sample.id), kept="")
        written, cluster = sum(usage.output_tokens for usage in spent), sample.metadata.get("cluster")
        yield run | {
            "task": task if not own or sample.epoch == 1 else f"{task}@pass{sample.epoch}",
            "cluster": task if cluster is None else visible(str(cluster), kept=""),
            "seed": str(own.get("seed", sample.epoch)),
            "n_tasks": str(len(samples) if own else counts[sample.epoch]), "hidden": str(int(bool(passed))),
            "hidden_outcome": unknown if passed is None else "pass" if passed else "fail",
            "actor_completion_tokens": str(written),
            "actor_prompt_tokens": str(sum(usage.total_tokens for usage in spent) - written),
        }  # fmt: skip
    if partial:
        warnings.warn(f"{path}: partial credit of {partial} samples counts as not passed", stacklevel=2)
