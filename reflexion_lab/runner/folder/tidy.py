"""What a resumption takes out of a run folder: lines that a kill left are moved to its subfolder `dropped`.

These are torn lines, lines that a later one replaces, and those of a loop without a result, which restarts.

Of the curator's calls (operations.jsonl), each is made with the memory that the calls before it left, so one that
cannot be used takes all later ones with it. Calls of a round with a loop that starts again would hold what was learnt
from the lost loop. A resumed run makes all of them again, from the call cache where it has their replies.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from reflexion_lab.errors import FolderError
from reflexion_lab.io import files
from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.loop.selection import unscored
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.records import (
    Attempt,
    Grade,
    Record,
    Resumption,
    SetAside,
    SuiteVerdict,
    TaskResult,
    Update,
    WrittenTests,
)
from reflexion_lab.runner.folder.folder import BY_HAND, DIGESTS, RunFolder
from reflexion_lab.text.shorten import number_of

R = TypeVar("R", bound=Record)

DROPPED = "dropped"
OPERATIONS = "operations.jsonl"
NO_JSON = "no valid JSON"
RESTARTED = "of a loop that was restarted"
NO_RESULT = "of a loop without a result, which starts again"
REPEATED = "repeated by another line"
OF_ROUND = "of a round with a loop without a result, or a later one"
AFTER = "after a call that cannot be used"
EXPECTED = (NO_JSON, RESTARTED, NO_RESULT, REPEATED, OF_ROUND, AFTER)
"""Reasons that follow from a kill; lines of any other reason were damaged later."""
NOTES: Mapping[str, type[Record]] = {"set_aside.jsonl": SetAside, "resumptions.jsonl": Resumption}
"""Files whose lines may be equal: two events of one second."""


def tidy(folder: RunFolder, first_round: int | None = None) -> None:
    """Move the lines that a kill left, before a run goes on, and warn of torn ones.

    Raises FolderError: other lines are damaged. `first_round`: from this round on, calls of the curator are moved, too;
    None: only where their own tasks have no result.
    """
    lines = _lines(folder, first_round)
    for name, reasons in lines.items():
        for number, reason in reasons.items():
            if reason not in EXPECTED:
                raise FolderError(f"{folder.path / name}, line {number}: {reason}", hint=BY_HAND)
    _move(folder, lines)
    torn = [name for name, reasons in lines.items() if NO_JSON in reasons.values()]
    if torn:
        text = f"torn lines of {', '.join(torn)} are moved to {folder.path / DROPPED}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def unanswered(folder: RunFolder) -> set[str]:
    """Tasks without a result that had no answer of the model, and those whose loops sandbox or server spoilt."""
    without = {loop.task_id for loop in folder.set_aside if loop.outcome != "reflector_error"}
    return unscored(folder.each_attempt(), ()) | without - folder.results.keys()


def take_out(folder: RunFolder, tasks: Collection[str]) -> None:
    """Move results of `tasks`, and verdicts that the sandbox spoilt, so that a finished run makes them again."""
    for name in (DIGESTS, "summary.json"):
        (folder.path / name).unlink(missing_ok=True)

    def lines(name: str, kind: type[R], is_spoilt: Callable[[R], bool]) -> dict[str, dict[int, str]]:
        records = _records(folder.path / name, kind, {})
        return {name: {number: NO_RESULT for number, record in records if is_spoilt(record)}}

    suites = lines(
        "suite_verdicts.jsonl",
        SuiteVerdict,
        lambda suite: any(check.outcome == "harness_error" for check in suite.checks),
    )
    grades = lines("grades.jsonl", Grade, lambda grade: grade.outcome == "harness_error")
    _move(folder, lines("results.jsonl", TaskResult, lambda result: result.task_id in tasks) | grades | suites)


def misfit(result: TaskResult, numbers: Collection[int]) -> str:
    """How a result differs from the `numbers` of its attempts; "" if it fits."""
    n = len(numbers)
    if not numbers:
        return f"no attempt at {result.task_id}, which has a result"
    is_whole = sorted(numbers) == list(range(1, result.attempts + 1))
    if is_whole and all(1 <= number <= n for number in (result.submitted, result.best, result.last)):
        return ""
    return f"a result of {result.task_id} that does not fit its {number_of(n, 'attempt')}"


def _lines(folder: RunFolder, first_round: int | None = None) -> dict[str, dict[int, str]]:
    """By file, the numbers of the lines to drop, with the reason of each; `first_round` as of `tidy`."""
    is_self_tested = folder.manifest.feedback_source == "self_tests"
    beginning = folder.beginning
    reasons: dict[str, dict[int, str]] = defaultdict(dict)
    attempts = _attempts(folder.path, reasons)

    def newest(name: str, kind: type[R], key: Callable[[R], Hashable]) -> dict[Hashable, tuple[int, R]]:
        """The last record of each key, with its line number; earlier ones are dropped."""
        records: dict[Hashable, tuple[int, R]] = {}
        for number, record in _records(folder.path / name, kind, reasons[name]):
            if earlier := records.get(key(record)):
                reasons[name][earlier[0]] = REPEATED
            records[key(record)] = number, record
        return records

    written = newest("written_tests.jsonl", WrittenTests, lambda record: record.task_id)
    results = newest("results.jsonl", TaskResult, lambda record: record.task_id)
    for task_id, (number, result) in list(results.items()):
        problem = misfit(result, attempts.get(result.task_id, ()))
        if is_self_tested and task_id not in written:
            problem = problem or f"a result of {task_id}, whose written tests are not there"
        if problem:
            reasons["results.jsonl"][number] = problem
            del results[task_id]
    for task_id, by_number in attempts.items():
        if task_id not in results:
            reasons["attempts.jsonl"] |= dict.fromkeys(by_number.values(), NO_RESULT)
    for number, grade in newest("grades.jsonl", Grade, lambda record: (record.task_id, record.number)).values():
        if grade.task_id not in results or grade.number not in attempts[grade.task_id]:
            reasons["grades.jsonl"][number] = NO_RESULT
    for task_id, (number, _) in newest("suite_verdicts.jsonl", SuiteVerdict, lambda record: record.task_id).items():
        if task_id not in written:
            reasons["suite_verdicts.jsonl"][number] = "of tests that are not there"
    _calls(folder.path, ItemMemory(beginning.items if beginning else ()), results, first_round, reasons[OPERATIONS])
    for name, kind in NOTES.items():
        for _ in _records(folder.path / name, kind, reasons[name]):
            pass
    return reasons


def _calls(
    folder: Path, memory: ItemMemory, results: Collection[Hashable], first_round: int | None, dropped: dict[int, str]
) -> None:
    """Add the calls of the curator that cannot be used to `dropped`; `memory` is that of the start of the run."""
    updates = list(_records(folder / OPERATIONS, Update, dropped))
    lost = [update.round for _, update in updates if not all(task in results for task in update.task_ids)]
    lost += [] if first_round is None else [first_round]
    damaged = min(dropped, default=None)
    for number, update in updates:
        if lost and update.round >= min(lost):
            dropped[number] = OF_ROUND
        elif damaged is not None and number > damaged:
            dropped[number] = AFTER
        elif (got := memory.redo(update)) != update.digest:
            damaged, dropped[number] = number, f"got {got}, expected memory of digest {update.digest}"


def _attempts(folder: Path, reasons: dict[str, dict[int, str]]) -> dict[str, dict[int, int]]:
    """Line numbers of the attempts that readers count (`RunFolder.attempts`), by task and number."""
    by_task: dict[str, dict[int, int]] = {}
    dropped, known = reasons["attempts.jsonl"], set()
    for line, attempt in _records(folder / "attempts.jsonl", Attempt, dropped):
        digest = hashlib.blake2b(msgspec.json.encode(attempt), digest_size=16).digest()
        if digest in known:
            dropped[line] = REPEATED
            continue
        known.add(digest)
        if attempt.number == 1:
            dropped |= dict.fromkeys(by_task.pop(attempt.task_id, {}).values(), RESTARTED)
        by_number = by_task.setdefault(attempt.task_id, {})
        if attempt.number in by_number:
            dropped[by_number[attempt.number]] = REPEATED
        by_number[attempt.number] = line
    return by_task


def _records(path: Path, kind: type[R], unreadable: dict[int, str]) -> Iterator[tuple[int, R]]:
    """Records of a file with their line numbers; lines that are none are added to `unreadable`."""
    if not path.exists():
        return
    files.check(path, "the records of a run")
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line == b"\n":
                continue
            try:
                yield number, decoder.decode(line)
            except msgspec.ValidationError as problem:
                unreadable[number] = f"no {kind.__name__} of this version: {problem}"
            except UNREADABLE:
                unreadable[number] = NO_JSON


def _move(folder: RunFolder, lines: Mapping[str, Mapping[int, str]]) -> None:
    """Append lines to the files of the same names in `dropped`, then remove them from their own."""
    folder.close()
    for name, numbers in lines.items():
        if not numbers:
            continue
        path, copy = folder.path / name, folder.path / DROPPED / name
        copy.parent.mkdir(exist_ok=True)
        with path.open("rb") as file, copy.open("ab") as kept:
            kept.writelines(line.rstrip(b"\n") + b"\n" for number, line in enumerate(file, 1) if number in numbers)
            kept.flush()
            os.fsync(kept.fileno())
        with path.open("rb") as file:
            files.replace(path, (line for number, line in enumerate(file, 1) if number not in numbers))
