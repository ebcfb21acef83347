"""Recorded runs become run folders: executed again by the lab's evaluator and judge, in its sandbox.

What a recording does not contain stays empty; `config.recorded.not_recorded` lists it. `recorded.json` beside the run
lists what was left out and compares the record with what was executed.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.audit.import_account import Account, account, overlaps
from reflexion_lab.audit.import_records import Prompts, Terms, as_tried, attempts, describe, lenient, result, trajectory
from reflexion_lab.audit.importing import Recording, read_recordings
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.audit.transcripts import Transcript
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import UNREADABLE, content, gunzipped
from reflexion_lab.io.terminal import Progress
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import (
    Attempt,
    Evaluation,
    Grade,
    Manifest,
    Message,
    SuiteVerdict,
    Task,
    Trajectory,
    WrittenTests,
)
from reflexion_lab.runner.folder.folder import RunFolder, seal
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.recorded import recorded
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

HIDDEN = ("own", "humaneval")


def import_files(
    paths: Sequence[Path | str],
    out: Path,
    *,
    hidden: str = "",
    lenient: bool = True,
    cut: int | None = None,
    prompts: Path | None = None,
    feedback_source: str = "",
    only: Sequence[str] = (),
    workers: int | None = None,
    executions: Path | None = None,
    quiet: bool = False,
) -> list[Imported]:
    """A run folder in `out` for each run of these transcripts.

    Parameters
    ----------
    hidden : str, default ""
        `own`, the rows' tests, or `humaneval`, the original ones; "" takes the rows' where they have them.
    lenient : bool, default True
        The judge puts the usual imports and the prompt in front of programs, and loops run as theirs did.
    cut : int, optional
        Keep the first so many attempts of each loop.
    prompts : Path, optional
        JSON of what models read, by the `prompt_key` of attempts.
    feedback_source : str, default ""
        What drove loops of strategies that are not known.
    only : sequence of str, default ()
        Keep runs whose strategy, model and name, put together, hold one of these texts.
    executions : Path, optional
        The execution cache; None keeps nothing.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as transcripts; no run is left; a folder in `out` holds another run.
    HarnessError
        The sandbox is broken.
    """
    if hidden not in ("", *HIDDEN):
        raise ConfigError("hidden", repr(hidden), f"one of {', '.join(HIDDEN)}, or nothing")
    messages, out = _prompts(prompts), Path(out)
    chosen = _chosen(paths, feedback_source, only)
    load = functools.cache(_load_tasks)
    runs = []
    for path, recording in chosen:
        tests = _hidden_tests(path, recording, hidden)
        runs.append((recording.cut(cut), Terms(*load(path, tests), tests, lenient, messages, cut)))
    longest = _longest(recording for recording, _ in runs)
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress(sum(len(recording.loops) for recording, _ in runs), quiet=quiet)
    with StoredPrograms(workers, cache=executions) as programs:
        importer = Importer(out, programs)
        try:
            return [importer.take(run, terms, longest[_variant(run)], progress) for run, terms in runs]
        finally:
            progress.close()


def _chosen(paths: Sequence[Path | str], feedback_source: str, only: Sequence[str]) -> list[tuple[Path, Recording]]:
    """Raises ConfigError: no run is left."""
    recordings = [(Path(path), recording) for path in paths for recording in read_recordings([path], feedback_source)]
    chosen = [pair for pair in recordings if not only or any(text in _label(pair[1]) for text in only)]
    if not chosen:
        names = "; ".join(_label(recording) for _, recording in recordings[:3])
        raise ConfigError("--only", f"no run of {', '.join(only)}", f"a part of a name, such as {names}")
    return chosen


def _label(recording: Recording) -> str:
    return f"{recording.strategy} {recording.model} {recording.run}"


def _longest(recordings: Iterable[Recording]) -> dict[tuple[str, ...], int]:
    """By variant, attempts of its longest loop."""
    longest: dict[tuple[str, ...], int] = {}
    for recording in recordings:
        key = _variant(recording)
        longest[key] = max(longest.get(key, 0), recording.longest)
    return longest


def _variant(recording: Recording) -> tuple[str, ...]:
    return recording.file, recording.source, recording.strategy, recording.variant


def _hidden_tests(path: Path, recording: Recording, hidden: str) -> str:
    """Raises ConfigError: rows without tests of their own."""
    if hidden == "own" and not recording.has_tests:
        raise ConfigError(path, "rows without `prompt` and `test`", "both, or --hidden humaneval")
    return hidden or ("own" if recording.has_tests else "humaneval")


def _load_tasks(path: Path, hidden: str) -> tuple[Benchmark, dict[str, object]]:
    """The tasks, and the config that loads them. Raises ConfigError: the file is no benchmark."""
    if hidden == "humaneval":
        return humaneval(), {"_target_": "reflexion_lab.tasks.benchmarks.humaneval.humaneval"}
    # Not `disjoint`: the loops saw what they saw, and how many saw a hidden test is said.
    load = {"_target_": "reflexion_lab.tasks.benchmarks.recorded.recorded", "path": str(path), "disjoint": False}
    return recorded(str(path), disjoint=False), load


def _prompts(path: Path | None) -> Prompts:
    """Raises OSError, ConfigError: the file cannot be read as prompts."""
    if path is None:
        return {}
    data = content(path, "prompts (.json, .json.gz)")
    try:
        text = gunzipped(data) if path.suffix == ".gz" else data
        texts = msgspec.json.decode(text, type=dict[str, str | tuple[Message, ...]])
    except (ValueError, *UNREADABLE) as problem:
        raise ConfigError(f"{path}: {problem}", expected="JSON, by prompt_key a list of messages or a text") from None
    return {
        key: (Message(role="user", content=prompt),) if isinstance(prompt, str) else prompt
        for key, prompt in texts.items()
    }


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
            return Imported(folder, _existing_account(folder, manifest), False)
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
        unknown = [loop for loop in recording.loops if loop not in loops]
        excluded = [(f"line {loop.line}, {loop.task_id}", f"no task of {terms.benchmark.name}") for loop in unknown]
        attempts_by_task = self._attempts(recording, loops, terms, longest, progress)
        for attempt in itertools.chain.from_iterable(attempts_by_task.values()):
            folder.append("attempts.jsonl", attempt)
        for task_id, history in attempts_by_task.items():
            folder.append("results.jsonl", result(task_id, history, recording.known.feedback_source))
        grades = self._grades(
            attempts_by_task, known, lenient if terms.lenient else lambda program, _: program, progress
        )
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
            excluded=excluded,
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
            by_task[loop.task_id] = attempts(recording, loop, [trial.trajectory for trial in tried], verdicts, longest)
        return by_task

    def _grades(
        self,
        attempts_by_task: Mapping[str, Sequence[Attempt]],
        known: Mapping[str, Task],
        completed: Callable[[str, Task], str],
        progress: Progress,
    ) -> dict[tuple[str, int], Grade]:
        """Grades: submitted attempts first, then the rest, sealed."""
        submitted = [submitted_at(attempts) for attempts in attempts_by_task.values()]
        rest = [attempt for attempts in attempts_by_task.values() for attempt in attempts if attempt not in submitted]

        def grade(sandbox: Sandbox, attempt: Attempt, sealed: bool) -> Grade:
            task = known[attempt.task_id]
            return graded(sandbox, task, attempt.number, completed(attempt.trajectory.solution, task), sealed)

        grades = self.programs.map(functools.partial(grade, sealed=False), submitted, each=progress.task)
        grades += self.programs.map(functools.partial(grade, sealed=True), rest)
        return {(grade.task_id, grade.number): grade for grade in grades}

    def _suites(self, loops: Sequence[Transcript], known: Mapping[str, Task], folder: RunFolder) -> None:
        """Record the tests written by the model, and the canonical solution's verdict on each."""
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
    """A recorded attempt and the program that its loop executed."""

    task: Task
    trajectory: Trajectory
    program: str
    tests: tuple[str, ...]


def _evaluation(sandbox: Sandbox, trial: _Trial) -> Evaluation:
    return run_tests(sandbox, trial.task, trial.program, trial.tests)


def _existing_account(folder: Path, manifest: Manifest) -> Account:
    other = RunFolder.existing(folder).manifest
    if (other.config_digest, other.benchmark_digest) != (manifest.config_digest, manifest.benchmark_digest):
        raise DataError(folder, "another run", f"{manifest.run_id} or nothing", "name another --out")
    return msgspec.json.decode((folder / "recorded.json").read_bytes(), type=Account)


def _digest(recording: Recording) -> str:
    """Digest of the recorded attempts."""
    recorded = sorted((loop.task_id, [step.fields for step in loop.steps]) for loop in recording.loops)
    return hashlib.sha256(msgspec.json.encode(recorded, order="deterministic")).hexdigest()
