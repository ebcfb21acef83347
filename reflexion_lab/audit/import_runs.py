"""Recorded runs become run folders like any other: executed again by our evaluator and judge, in our sandbox.

What a recording cannot say stays empty, and `config.recorded.not_recorded` names it; `recorded.json` beside the run
says what was left out and how the record compares with what was executed.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.audit.import_account import Account, account, overlaps
from reflexion_lab.audit.import_attempts import as_tried, attempts, lenient, result, trajectory
from reflexion_lab.audit.import_manifest import Terms, describe
from reflexion_lab.audit.importing import Recording
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.audit.transcripts import Transcript
from reflexion_lab.errors import DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Evaluation, Grade, Manifest, SuiteVerdict, Task, Trajectory, WrittenTests
from reflexion_lab.runner.folder.folder import RunFolder, seal
from reflexion_lab.runner.progress import Progress
from reflexion_lab.tasks.evaluators.unit_tests import run_tests


class Imported(NamedTuple):
    folder: Path
    account: Account
    is_new: bool
    """False where it had been imported before."""


class Importer:
    """Executes recordings and writes their run folders below `out`."""

    def __init__(self, out: Path, programs: StoredPrograms) -> None:
        self.out = out
        self.programs = programs
        self._seen: dict[str, str] = {}
        """Digest of a run's attempts to its name."""

    def take(self, recording: Recording, terms: Terms, longest: int, progress: Progress) -> Imported:
        """The run folder of `recording`; one that is there already is kept as it is.

        `longest`: the longest loop of all runs of its variant.

        Raises
        ------
        DataError
            The folder that is there holds something else.
        HarnessError
            The sandbox is broken.
        """
        manifest = describe(recording, terms, longest, self.programs.sandbox)
        folder = self.out / manifest.run_id
        same_as = self._seen.setdefault(_digest(recording), recording.run)
        if folder.exists():
            return Imported(folder, _kept(folder, manifest), False)
        draft = RunFolder(self.out / f".{manifest.run_id}.part")
        shutil.rmtree(draft.path, ignore_errors=True)
        draft.write_manifest(manifest)
        try:
            summary = self._execute(recording, terms, longest, draft, progress)
        finally:
            draft.close()
        summary = replace(summary, same_as="" if same_as == recording.run else same_as)
        draft.write_json("recorded.json", msgspec.to_builtins(summary))
        seal(draft)
        draft.path.replace(folder)
        return Imported(folder, summary, True)

    def _execute(
        self, recording: Recording, terms: Terms, longest: int, folder: RunFolder, progress: Progress
    ) -> Account:
        known = {task.task_id: task for task in terms.benchmark}
        loops = [loop for loop in recording.loops if loop.task_id in known]
        strange = [
            (_place(loop), f"no task of {terms.benchmark.name}") for loop in recording.loops if loop not in loops
        ]
        attempts_by_task = self._attempts(recording, loops, terms, longest, progress)
        for attempt in itertools.chain.from_iterable(attempts_by_task.values()):
            folder.append("attempts.jsonl", attempt)
        for task_id, history in attempts_by_task.items():
            folder.append("results.jsonl", result(task_id, history, recording.known.feedback_source))
        grades = self._grades(attempts_by_task, known, lenient if terms.lenient else _as_it_is, progress)
        for grade in grades.values():
            folder.append("grades.jsonl", grade)
        if recording.known.feedback_source == "self_tests":
            self._suites([loop for loop in loops if loop.tests], known, folder)
        return account(
            recording,
            attempts_by_task,
            grades,
            tasks=list(known),
            overlapping=sum(overlaps(loop, known[loop.task_id]) for loop in loops),
            excluded=strange,
            verdict=terms.verdict(recording),
            same_as="",
        )

    def _attempts(
        self, recording: Recording, loops: Sequence[Transcript], terms: Terms, longest: int, progress: Progress
    ) -> dict[str, list[Attempt]]:
        """By task, its attempts, executed on the tests that their loop saw."""
        has_feedback = recording.known.feedback_source != "none"
        trials = []
        for loop in loops:
            task = replace(terms.benchmark[loop.task_id], setup="")  # helpers of hidden tests were unknown to loops
            for step in loop.steps:
                actor_trajectory = trajectory(recording, step, task, terms.prompts)
                solution = actor_trajectory.solution
                program = as_tried(recording, solution, task) if terms.lenient else solution
                trials.append(_Trial(task, actor_trajectory, program, loop.tests if has_feedback else ()))
        evaluations = self.programs.map(_evaluation, trials, each=lambda _: progress.attempt())
        executed = iter(zip(trials, evaluations, strict=True))
        by_task = {}
        for loop in loops:
            tried, verdicts = zip(*itertools.islice(executed, len(loop.steps)), strict=True)
            by_task[loop.task_id] = attempts(recording, loop, [trial.made for trial in tried], verdicts, longest)
        return by_task

    def _grades(
        self,
        attempts_by_task: Mapping[str, Sequence[Attempt]],
        known: Mapping[str, Task],
        completed: Callable[[str, Task], str],
        progress: Progress,
    ) -> dict[tuple[str, int], Grade]:
        """First what our rule submits, then the rest behind the seal."""
        submitted = [submitted_at(attempts) for attempts in attempts_by_task.values()]
        rest = [attempt for attempts in attempts_by_task.values() for attempt in attempts if attempt not in submitted]

        def grade(sandbox: Sandbox, attempt: Attempt, sealed: bool) -> Grade:
            task = known[attempt.task_id]
            return graded(sandbox, task, attempt.number, completed(attempt.trajectory.solution, task), sealed)

        grades = self.programs.map(functools.partial(grade, sealed=False), submitted, each=progress.task)
        grades += self.programs.map(functools.partial(grade, sealed=True), rest)
        return {(grade.task_id, grade.number): grade for grade in grades}

    def _suites(self, loops: Sequence[Transcript], known: Mapping[str, Task], folder: RunFolder) -> None:
        """The tests that the model wrote, and where there is a canonical solution, its verdict on each."""
        for loop in loops:
            folder.append("written_tests.jsonl", WrittenTests(task_id=loop.task_id, tests=loop.tests))

        def verdict(sandbox: Sandbox, loop: Transcript) -> SuiteVerdict:
            task = known[loop.task_id]
            runs = [run_tests(sandbox, task, task.canonical_program, (test,)) for test in loop.tests]
            return SuiteVerdict(task_id=loop.task_id, checks=tuple(check for run in runs for check in run.checks))

        def timed_out(_: Transcript, verdict: SuiteVerdict) -> bool:
            return any(check.outcome == "timeout" for check in verdict.checks)

        solved = [loop for loop in loops if known[loop.task_id].canonical_solution.strip()]
        for suite in self.programs.map(verdict, solved, again=timed_out):
            folder.append("suite_verdicts.jsonl", suite)


class _Trial(NamedTuple):
    """A recorded attempt, and what its loop executed of it."""

    task: Task
    made: Trajectory
    program: str
    tests: tuple[str, ...]


def _evaluation(sandbox: Sandbox, trial: _Trial) -> Evaluation:
    return run_tests(sandbox, trial.task, trial.program, trial.tests)


def _as_it_is(program: str, task: Task) -> str:
    return program


def _kept(folder: Path, manifest: Manifest) -> Account:
    other = RunFolder.existing(folder).manifest
    if (other.config_digest, other.benchmark_digest) != (manifest.config_digest, manifest.benchmark_digest):
        raise DataError(folder, "another run", f"{manifest.run_id} or nothing", "name another --out")
    return msgspec.json.decode((folder / "recorded.json").read_bytes(), type=Account)


def _digest(recording: Recording) -> str:
    """Of all that was recorded of its attempts."""
    recorded = sorted((loop.task_id, [step.fields for step in loop.steps]) for loop in recording.loops)
    return hashlib.sha256(msgspec.json.encode(recorded, order="deterministic")).hexdigest()


def _place(loop: Transcript) -> str:
    return f"line {loop.line}, {loop.task_id}"
