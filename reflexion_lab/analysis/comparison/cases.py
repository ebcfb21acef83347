"""Attempts of a comparison as one CSV file, `cases.csv`, from which its tables can be computed again without the runs.

One row per attempt, those of train tasks and of runs on frozen memory, too. It holds verdicts, tests and spending by
role, but no time, and no text of prompts, replies or programs.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.beginnings import facts
from reflexion_lab.analysis.learning.checkpoints import end, round_size, rounds_before, shows_own
from reflexion_lab.analysis.learning.curation import has_curator
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import DataError
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Beginning, Grade, Item, Manifest, TaskResult, Update, Usage, WrittenTests

T = TypeVar("T")
FILE = "cases.csv"
COLUMNS = (
    "arm", "seed", "task", "cluster", "attempt", "parent", "feedback", "feedback_outcome", "tests", "tests_passed",
    "timeouts", "harness_errors", "reward", "hidden", "hidden_outcome", "omega", "episodes", "shown", "blind",
    "program", "words", "benchmark", "digest", "tasks_digest", "file_digest", "feedback_source", "upper_bound", "study",
    "study_digest", "n_tasks", "shards", "max_attempts", "began", "items_before", "models", "prices", "split",
    "round_size", "same_task", "updates", "checkpoint",
)  # fmt: skip
"""Columns (meaning: docs/guides/sweep.md); those of spending follow, `ROLE_KIND`, such as `actor_prompt_tokens`."""
RUN = {
    "benchmark": "benchmark", "digest": "benchmark_digest", "tasks_digest": "tasks_digest",
    "file_digest": "provenance.benchmark_file_digest", "feedback_source": "feedback_source", "study": "study",
    "study_digest": "study_digest", "n_tasks": "n_expected",
}  # fmt: skip
"""By column, the field of the manifest that it holds."""
ATTEMPT = {
    "attempt": "number", "feedback": "evaluation.passed", "feedback_outcome": "evaluation.outcome",
    "reward": "evaluation.reward", "omega": "memory.omega", "episodes": "memory.total", "shown": "memory.own",
}  # fmt: skip
GRADE = {"hidden": "passed", "hidden_outcome": "outcome"}
KINDS = tuple(kind for kind in Usage.__struct_fields__ if kind != "seconds")
"""Kinds of spending of a role. The tests that a model wrote count at the first attempt, a reflection at its own."""
FORMULA = ("=", "+", "-", "@", "\t", "\n", "'")
"""A text that begins with one of these is written behind a `'`, else a spreadsheet could take it for a formula."""
WRITER = "suite_writer"
CURATION = "curation"
NOT_KEPT = "(not kept)"
"""Stands for the words of a reflection, for a curator, and for the kinds of checks that broke."""


class _Key(NamedTuple):
    arm: str
    seed: int
    checkpoint: int | None

    @property
    def stream(self) -> str:
        """Id of its run, or of the run whose memory it has."""
        return f"{self.arm}-s{self.seed}"


def save_cases(path: Path, arms: Sequence[Arm]) -> Path:
    """Write the attempts of `arms` to `path`; returns it. Raises OSError."""
    lines = [line for arm in arms for key, log in _runs(arm) for line in _lines(key, log, arm.whole[0])]
    spent = list(dict.fromkeys(key for line in lines for key in line if key not in COLUMNS))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*COLUMNS, *sorted(spent)], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _inert(value) for name, value in line.items()} for line in lines)
    return path


def rows_of(log: Log) -> dict[str, list[dict[str, str]]]:
    """By task, the rows of a graded run's attempts, as `arms_of` takes them."""
    rows: dict[str, list[dict[str, str]]] = {}
    for line in _lines(_Key(log.arm, log.manifest.seed, None), log, log):
        rows.setdefault(str(line["task"]), []).append({name: str(value) for name, value in line.items()})
    return rows


def load_cases(path: Path | str) -> list[Arm]:
    """The arms of a `cases.csv`, or `cases.csv.gz`, in order of appearance, as `compare` takes them.

    Their records hold what the columns hold. Raises DataError: a column is missing, or a value is not of its kind.
    """
    is_packed = Path(path).suffix == ".gz"
    try:
        with gzip.open(path, "rt", newline="") if is_packed else Path(path).open(newline="") as file:
            lines = [{name: _bare(value) for name, value in line.items()} for line in csv.DictReader(file)]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(path, getattr(problem, "strerror", None) or str(problem), f"a {FILE}") from None
    if missing := [name for name in COLUMNS if not lines or name not in lines[0]]:
        raise DataError(path, f"no column {missing[0]}", f"a {FILE} as `reflexion-lab report` writes it")
    return arms_of(path, lines)


def arms_of(path: Path | str, lines: Sequence[Mapping[str, str]]) -> list[Arm]:
    """The arms of rows with all columns, at least one, as of `load_cases`; `path`: for messages."""
    runs: dict[_Key, list[Mapping[str, str]]] = defaultdict(list)
    for number, line in enumerate(lines, start=2):
        if None in line or None in line.values():
            raise DataError(f"{path}, line {number}", "too few or too many cells", "one for each column")
        try:
            checkpoint = line["checkpoint"]
            runs[_Key(line["arm"], int(line["seed"]), int(checkpoint) if checkpoint else None)].append(line)
        except ValueError:
            got = f"seed {line['seed']}, checkpoint {line['checkpoint'] or 'none'}"
            raise DataError(f"{path}, line {number}", got, "whole numbers") from None
    roles, logs = _roles(filter(None, lines[0])), defaultdict[str, list[Log]](list)
    frozen: dict[str, dict[str, list[Log]]] = defaultdict(lambda: defaultdict(list))
    for key, own in runs.items():
        try:
            (logs[key.arm] if key.checkpoint is None else frozen[key.arm][key.stream]).append(_log(key, own, roles))
        except (ValueError, TypeError, msgspec.ValidationError) as problem:
            raise DataError(f"{path}, arm {key.arm}, seed {key.seed}", str(problem), "numbers in its columns") from None
    return [Arm(name, own, frozen=frozen[name]) for name, own in logs.items()]


def _inert(value: object) -> object:
    text = visible(value, kept="\n\t") if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(FORMULA) else text or value


def _bare(value: str) -> str:
    """The text that `_inert` wrote."""
    return value[1:] if value and value[:1] == "'" and value[1:].startswith(FORMULA) else value


def _runs(arm: Arm) -> Iterator[tuple[_Key, Log]]:
    """The arm's own runs, and those on their frozen memory."""
    for log in arm.whole:
        yield _Key(arm.label, log.manifest.seed, None), log
        for frozen in arm.frozen.get(log.manifest.run_id, ()):
            after = rounds_before(frozen)
            yield _Key(arm.label, log.manifest.seed, end(log) if after is None else after), frozen


def _lines(key: _Key, log: Log, first: Log) -> Iterator[dict[str, object]]:
    manifest = log.manifest
    models = {"actor": manifest.model_fingerprint, **manifest.role_fingerprints}
    run = {
        "arm": key.arm,
        "seed": key.seed,
        **_cells(manifest, RUN),
        "upper_bound": int(log.is_upper_bound),
        "study": log.study,
        "study_digest": manifest.study_digest if log.study else "",
        "shards": log.shards.removesuffix(" shards") if log.lacks_shards else "",
        "max_attempts": "" if log.max_attempts is None else log.max_attempts,
        "began": _encoded(log.began or tuple(facts(log, first))) if key.checkpoint is None else "",
        "items_before": (len(log.beginning.items) if log.beginning else 0) or "",
        "models": _encoded(models),
        "prices": _encoded(manifest.prices),
        "round_size": round_size(log) or "",
        "same_task": int(shows_own(log)),
        "checkpoint": "" if key.checkpoint is None else key.checkpoint,
    }
    for task_id, attempts in log.attempts.items():
        for attempt in attempts:
            grade = log.grades[task_id, attempt.number]
            is_first = attempt.number == 1
            written = log.written.get(task_id) if is_first else None
            curated = [update.usage for update in log.updates if is_first and update.task_ids[-1] == task_id]
            yield {
                **run,
                "task": task_id,
                "cluster": log.clusters.get(task_id, task_id),
                "split": log.results[task_id].split,
                "updates": len(curated) if is_first and has_curator(log) else "",
                **_of(attempt),
                **_cells(grade, GRADE),
                **_spending(attempt, written, curated),
            }


def _encoded(texts: object) -> str:
    return msgspec.json.encode(texts).decode()


def _cells(record: Attempt | Grade | Manifest, columns: Mapping[str, str]) -> dict[str, object]:
    """The fields of a record by column: 1 and 0 for verdicts, "" for None."""
    values = ((column, attrgetter(path)(record)) for column, path in columns.items())
    return {column: "" if of is None else int(of) if isinstance(of, bool) else of for column, of in values}


def _of(attempt: Attempt) -> dict[str, object]:
    tests = [check.outcome == "pass" for check in attempt.evaluation.checks if check.kind == "test"]
    outcomes = [check.outcome for check in attempt.evaluation.checks]
    return _cells(attempt, ATTEMPT) | {
        "parent": attempt.parent or "",
        "tests": len(tests),
        "tests_passed": sum(tests),
        "timeouts": outcomes.count("timeout"),
        "harness_errors": outcomes.count("harness_error"),
        "blind": int(attempt.memory.is_blind),
        "program": int(bool(attempt.trajectory.solution.strip())),
        "words": reflection.source if (reflection := attempt.reflection) and reflection.is_told else "",
    }


def _spending(attempt: Attempt, written: WrittenTests | None, curated: Sequence[Usage]) -> dict[str, object]:
    usages = attempt.usage | ({WRITER: written.usage} if written else {})
    usages |= {CURATION: sum(curated, Usage())} if curated else {}
    return {f"{role}_{kind}": n for role, usage in usages.items() for kind in KINDS if (n := getattr(usage, kind))}


def _record(kind: type[T], line: Mapping[str, str], columns: Mapping[str, str], **fields: Any) -> T:
    """What `_cells` wrote, beside other fields; an empty cell is the field's default, in `RUN` an empty text.

    Raises ValidationError: a text is not of the field's kind, or there is none.
    """
    for column, path in columns.items():
        *outer, name = path.split(".")
        if (text := line[column]) or column in RUN:
            reduce(lambda at, part: at.setdefault(part, {}), outer, fields)[name] = text
    return msgspec.convert(fields, kind, strict=False)


def _log(key: _Key, lines: Sequence[Mapping[str, str]], roles: Mapping[str, Mapping[str, str]]) -> Log:
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    grades: dict[tuple[str, int], Grade] = {}
    written: dict[str, WrittenTests] = {}
    updates: list[Update] = []
    for line in lines:
        spent = ((role, _record(Usage, line, columns)) for role, columns in roles.items())
        usages = {role: usage for role, usage in spent if usage != Usage()}
        attempt = _attempt(line, usages)
        attempts[attempt.task_id].append(attempt)
        case = {"task_id": attempt.task_id, "number": attempt.number, "checks_passed": 0, "checks_total": 0}
        grades[attempt.task_id, attempt.number] = _record(Grade, line, GRADE, sealed=True, **case)
        if WRITER in usages:
            written[attempt.task_id] = WrittenTests(task_id=attempt.task_id, tests=(), usage=usages[WRITER])
        if line["updates"] not in ("", "0") or CURATION in usages:
            usage = usages.get(CURATION, Usage())
            updates.append(Update(round=0, call=len(updates), task_ids=(attempt.task_id,), usage=usage))
    shards, _, n_shards = lines[0]["shards"].partition(" of ")
    began, items = lines[0]["began"] or "[]", (Item(item_id="", text=""),) * int(lines[0]["items_before"] or 0)
    last = {line["task"]: line for line in lines}
    return Log(
        manifest=_manifest(key, lines[0]),
        results={task_id: _result(own, last[task_id]) for task_id, own in attempts.items()},
        attempts=dict(attempts),
        grades=grades,
        written=written,
        updates=tuple(updates),
        beginning=Beginning(items=items) if items else None,
        began=msgspec.json.decode(began, type=tuple[tuple[str, str], ...]),
        suite_verdicts={},
        clusters={task_id: line["cluster"] for task_id, line in last.items() if line["cluster"] != task_id},
        torn=0,
        shard_ids=(key.stream,) * int(shards or 0),
        n_shards=int(n_shards or 0),
    )


def _roles(columns: Iterable[str]) -> dict[str, dict[str, str]]:
    """By role, its kinds of spending by column."""
    roles: dict[str, dict[str, str]] = {}
    for column, kind in ((column, kind) for column in sorted(columns) for kind in KINDS if column.endswith(f"_{kind}")):
        roles.setdefault(column.removesuffix(f"_{kind}"), {})[column] = kind
    return roles


def _attempt(line: Mapping[str, str], usages: Mapping[str, Usage]) -> Attempt:
    total, passed = int(line["tests"]), int(line["tests_passed"])
    counts = {("test", "pass"): passed, ("test", "fail"): total - passed}
    counts |= {(NOT_KEPT, outcome): int(line[f"{outcome}s"] or 0) for outcome in ("timeout", "harness_error")}
    spent = {role: usages.get(role, Usage()) for role in ("actor", "reflector", "curator")}
    checks = [{"name": "", "outcome": of, "kind": kind} for (kind, of), n in counts.items() for _ in range(n)]
    words = line["words"]
    reflection = {
        "reflection_id": "", "about_attempt": line["attempt"], "what_went_wrong": "", "what_to_change": "",
        "root_cause": NOT_KEPT if words and words != "failed" else "", "confidence": 0.0, "source": words,
        "usage": spent["reflector"],
    }  # fmt: skip
    return _record(
        Attempt,
        line,
        ATTEMPT,
        task_id=line["task"],
        parent=line["parent"] or 0,
        recalled=(),
        selection_usage=spent["curator"],
        trajectory={
            "solution": "pass" * int(line["program"]), "strategy": "", "usage": spent["actor"],
            "others": {role: usage for role, usage in usages.items() if role not in {*spent, WRITER, CURATION}},
        },
        evaluation={"checks": checks},
        reflection=reflection if words or spent["reflector"] != Usage() else None,
        memory={"capacity": 0, "size": line["episodes"], "in_context": line["shown"]},
    )  # fmt: skip


def _result(attempts: Sequence[Attempt], line: Mapping[str, str]) -> TaskResult:
    submitted, last = submitted_at(attempts).number, attempts[-1].number
    ends = {"submitted": submitted, "best": submitted, "last": last, "stop_reason": "", "duration": 0.0}
    columns = {name: name for name in ("feedback_source", "split")}
    return _record(TaskResult, line, columns, task_id=attempts[0].task_id, attempts=len(attempts), **ends)


def _manifest(key: _Key, line: Mapping[str, str]) -> Manifest:
    allowed, size = line["max_attempts"], line["round_size"]
    loop = {"loop": {"max_attempts": int(allowed)}} if allowed else {}
    items = {} if key.checkpoint is None else {"frozen": True, "after": key.checkpoint}
    curator = {"curator": {"_target_": NOT_KEPT}} if line["updates"] else {}
    shared = {"same_task": line["same_task"] == "1", "items": items}
    shared |= {"round_size": int(size)} if size else {}
    models, prices = (msgspec.json.decode(line[name], type=dict[str, str]) for name in ("models", "prices"))
    return _record(
        Manifest,
        line,
        RUN,
        run_id=key.stream if key.checkpoint is None else f"{key.stream} after {key.checkpoint}",
        created_at="",
        seed=key.seed,
        config={"arm": key.arm, "seed": key.seed, **loop, **curator, "memory": {"shared": shared}},
        config_digest="",
        git_commit="",
        dirty=False,
        package_versions={},
        prompt_digests={},
        model_fingerprint=models.pop("actor", ""),
        role_fingerprints=models,
        slots=1,
        shows_solutions=line["upper_bound"] == "1" and line["feedback_source"] != "oracle",
        isolation=(),
        prices=prices,
    )
