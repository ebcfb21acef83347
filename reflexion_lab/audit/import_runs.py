"""Recorded runs become run folders like any other: executed again by our evaluator and judge, in our sandbox.

What a recording cannot say stays empty, and `config.recorded.not_recorded` names it; `recorded.json` beside the run
says what was left out and how the record compares with what was executed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from reflexion_lab.audit.import_account import Account, account, overlaps
from reflexion_lab.audit.import_attempts import as_tried, attempts, lenient, result, trajectory
from reflexion_lab.audit.import_feedback import feedback_verdict
from reflexion_lab.audit.import_manifest import Terms, describe
from reflexion_lab.audit.importing import Loop, Recording
from reflexion_lab.errors import DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Evaluation, Grade, Manifest, SuiteVerdict, Task, WrittenTests
from reflexion_lab.runner.folder.checksums import seal
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.progress import Progress
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

T = TypeVar("T")
U = TypeVar("U")


class Imported(NamedTuple):
    folder: Path
    account: Account
    is_new: bool
    """False where it had been imported before."""


class Importer:
    """Executes recordings and writes their run folders below `out`.

    Args:
        executor: its pool bounds how many programs run at once.
        patient: has longer limits, for programs that the record saw pass and that time out here, maybe on a slower or
            busier machine.
        workers: tasks at once.
    """

    def __init__(self, out: Path, executor: Sandbox, patient: Sandbox, workers: int) -> None:
        self.out = out
        self.executor = executor
        self.patient = patient
        self.workers = workers
        self._seen: dict[str, str] = {}
        """Digest of a run's attempts to its name."""

    def take(self, recording: Recording, terms: Terms, longest: int, progress: Progress) -> Imported:
        """The run folder of `recording`; one that is there already is kept as it is.

        `longest`: the longest loop of all runs of its variant.

        Raises:
            DataError: the folder that is there holds something else.
            HarnessError: the sandbox is broken.
        """
        manifest = describe(recording, terms, longest, self.executor)
        folder = self.out / manifest.run_id
        same_as = self._seen.setdefault(_digest(recording), recording.run)
        if folder.exists():
            return Imported(folder, _kept(folder, manifest), False)
        draft = RunFolder(self.out / f".{manifest.run_id}.part")
        shutil.rmtree(draft.path, ignore_errors=True)
        draft.write_manifest(manifest)
        try:
            found = self._execute(recording, terms, longest, draft, progress)
        finally:
            draft.close()
        found = replace(found, same_as="" if same_as == recording.run else same_as)
        draft.write_json("recorded.json", msgspec.to_builtins(found))
        seal(draft)
        draft.path.replace(folder)
        return Imported(folder, found, True)

    def _execute(
        self, recording: Recording, terms: Terms, longest: int, folder: RunFolder, progress: Progress
    ) -> Account:
        known = {task.task_id: task for task in terms.benchmark}
        loops = [loop for loop in recording.loops if loop.task_id in known]
        strange = [
            (_place(loop), f"no task of {terms.benchmark.name}") for loop in recording.loops if loop not in loops
        ]
        executed = self._each(self._loop(recording, terms, longest, progress), loops)
        made = {loop.task_id: found for loop, found in zip(loops, executed, strict=True)}
        for attempt in (attempt for found in made.values() for attempt in found):
            folder.append("attempts.jsonl", attempt)
        for task_id, found in made.items():
            folder.append("results.jsonl", result(task_id, found, recording.known.feedback_source))
        passed = {
            (loop.task_id, number)
            for loop in loops
            for number, step in enumerate(loop.steps, 1)
            if step.verdict(terms.verdict(recording))
        }
        grades = self._judged(made, known, lenient if terms.lenient else _as_it_is, passed, progress)
        for grade in grades.values():
            folder.append("grades.jsonl", grade)
        if recording.known.feedback_source == "self_tests":
            self._suites([loop for loop in loops if loop.tests], known, folder)
        return account(
            recording,
            made,
            grades,
            tasks=list(known),
            overlapping=sum(overlaps(loop, known[loop.task_id]) for loop in loops),
            excluded=strange,
            verdict=terms.verdict(recording),
            same_as="",
        )

    def _loop(
        self, recording: Recording, terms: Terms, longest: int, progress: Progress
    ) -> Callable[[Loop], list[Attempt]]:
        shown = recording.known.feedback_source != "none"

        def execute(loop: Loop) -> list[Attempt]:
            task = replace(terms.benchmark[loop.task_id], setup="")  # helpers of hidden tests were unknown to loops
            made = [trajectory(recording, step, task, terms.prompts) for step in loop.steps]
            tried = [as_tried(recording, one.solution, task) if terms.lenient else one.solution for one in made]
            tests = loop.tests if shown else ()
            known = map(feedback_verdict, loop.steps)
            evaluated = [self._tried(task, one, tests, passed) for one, passed in zip(tried, known, strict=True)]
            found = attempts(recording, loop, made, evaluated, longest)
            for _ in found:
                progress.attempt()
            return found

        return execute

    def _tried(self, task: Task, program: str, tests: Sequence[str], passed: bool | None) -> Evaluation:
        found = run_tests(self.executor, task, program, tests)
        return run_tests(self.patient, task, program, tests) if passed and found.outcome == "timeout" else found

    def _judged(
        self,
        made: Mapping[str, Sequence[Attempt]],
        known: Mapping[str, Task],
        completed: Callable[[str, Task], str],
        passed: Collection[tuple[str, int]],
        progress: Progress,
    ) -> dict[tuple[str, int], Grade]:
        """What our rule submits first, and the rest behind the seal. `passed`: in the record."""
        judge, again = HiddenTests(self.executor), HiddenTests(self.patient)
        again.seal()
        submitted = [submitted_at(found) for found in made.values()]
        rest = [a for found in made.values() for a in found if a not in submitted]

        def grade(attempt: Attempt) -> Grade:
            task = known[attempt.task_id]
            program = completed(attempt.trajectory.solution, task)
            given = judge.grade(task, attempt.number, program)
            if given.outcome == "timeout" and (attempt.task_id, attempt.number) in passed:
                given = replace(again.grade(task, attempt.number, program), sealed=given.sealed)
            if not given.sealed:
                progress.task(given)
            return given

        grades = self._each(grade, submitted)
        judge.seal()
        grades += self._each(grade, rest)
        return {(given.task_id, given.number): given for given in grades}

    def _suites(self, loops: Sequence[Loop], known: Mapping[str, Task], folder: RunFolder) -> None:
        """The tests that the model wrote, and where there is a canonical solution, its verdict on each."""
        for loop in loops:
            folder.append("written_tests.jsonl", WrittenTests(task_id=loop.task_id, tests=loop.tests))

        def verdict(loop: Loop) -> SuiteVerdict:
            task = known[loop.task_id]
            runs = [run_tests(self.executor, task, task.canonical_program, (test,)) for test in loop.tests]
            return SuiteVerdict(task_id=loop.task_id, checks=tuple(check for run in runs for check in run.checks))

        for found in self._each(verdict, [o for o in loops if known[o.task_id].canonical_solution.strip()]):
            folder.append("suite_verdicts.jsonl", found)

    def _each(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="recorded")
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _as_it_is(program: str, task: Task) -> str:
    return program


def _kept(folder: Path, manifest: Manifest) -> Account:
    other = RunFolder.existing(folder).manifest
    if (other.config_digest, other.benchmark_digest) != (manifest.config_digest, manifest.benchmark_digest):
        raise DataError(folder, "another run", f"{manifest.run_id} or nothing", "name another --out")
    return msgspec.json.decode((folder / "recorded.json").read_bytes(), type=Account)


def _digest(recording: Recording) -> str:
    """Of all that was recorded of its attempts."""
    told = sorted((loop.task_id, [step.fields for step in loop.steps]) for loop in recording.loops)
    return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()


def _place(loop: Loop) -> str:
    return f"line {loop.row.line}, {loop.task_id}"
