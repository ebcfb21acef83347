"""Import of recorded runs as run folders, executed again by the lab's evaluator and judge in its sandbox.

Fields missing in a recording stay empty and are listed in `config.recorded.not_recorded`. `recorded.json` lists
excluded rows and compares recorded verdicts with ours.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.audit.import_account import Account, Imported, account, overlaps
from reflexion_lab.audit.import_records import (
    Prompts,
    Terms,
    as_tried,
    attempts,
    lenient,
    recording_manifest,
    result,
    trajectory,
)
from reflexion_lab.audit.importing import Recording, read_recordings
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.audit.transcripts import Transcript
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import UNREADABLE, content, gunzipped, writable
from reflexion_lab.io.terminal import Progress
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Grade, Message, SuiteVerdict, Task, Trajectory, WrittenTests
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
    """Create a run folder in `out` for each run of these transcripts.

    Parameters
    ----------
    hidden : str, default ""
        Hidden tests: `own` (of the rows), `humaneval`, or "" for own if the rows have them.
    lenient : bool, default True
        The judge adds the usual imports and the prompt to programs, and loops run as the source's did.
    cut : int, optional
        Maximum attempts of each loop.
    prompts : Path, optional
        JSON of the models' prompts, by the `prompt_key` of attempts.
    feedback_source : str, default ""
        Feedback source of loops with an unknown strategy.
    only : sequence of str, default ()
        Import runs whose strategy, model and name contain one of these texts.
    executions : Path, optional
        File of the execution cache.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as transcripts; no run is selected; a folder in `out` holds another run.
    HarnessError
        The sandbox is broken.
    """
    if hidden not in ("", *HIDDEN):
        raise ConfigError("hidden", repr(hidden), f"one of {', '.join(HIDDEN)}, or nothing")
    messages, out = _prompts(prompts), Path(out)
    load = functools.cache(_load_tasks)
    runs: list[tuple[Recording, Terms]] = []
    longest: Counter[tuple[str, ...]] = Counter()
    for path, recording in _selected(paths, feedback_source, only):
        if hidden == "own" and not recording.has_tests:
            raise ConfigError(path, "rows without `prompt` and `test`", "both, or --hidden humaneval")
        tests = hidden or ("own" if recording.has_tests else "humaneval")
        try:
            benchmark, loading = load(path, tests)
        except DataError:  # its runs word a prompt differently
            benchmark, loading = load(path, tests, recording.run, recording.model)
        runs.append((recording.cut(cut), Terms(benchmark, loading, tests, lenient, messages, cut)))
        longest[_variant(recording)] = max(longest[_variant(recording)], runs[-1][0].longest)
    with writable("--out", out, "a folder"):
        out.mkdir(parents=True, exist_ok=True)
    progress = Progress(sum(len(recording.loops) for recording, _ in runs), quiet=quiet)
    with StoredPrograms(workers, cache=executions) as programs, contextlib.closing(progress):
        importer = Importer(out, programs, progress)
        return [importer.take(run, terms._replace(longest=longest[_variant(run)])) for run, terms in runs]


def _selected(paths: Sequence[Path | str], feedback_source: str, only: Sequence[str]) -> list[tuple[Path, Recording]]:
    recordings = [(Path(path), recording) for path in paths for recording in read_recordings([path], feedback_source)]
    selected = [pair for pair in recordings if not only or any(text in _label(pair[1]) for text in only)]
    if not selected:
        names = "; ".join(_label(recording) for _, recording in recordings[:3])
        raise ConfigError("--only", f"no run of {', '.join(only)}", f"a part of a name, such as {names}")
    return selected


def _label(recording: Recording) -> str:
    return f"{recording.strategy} {recording.model} {recording.run}"


def _variant(recording: Recording) -> tuple[str, ...]:
    return recording.file, recording.source, recording.strategy, recording.variant


def _load_tasks(
    path: Path, hidden: str, run: str | None = None, model: str | None = None
) -> tuple[Benchmark, dict[str, object]]:
    """The tasks, and the config that loads them. Raises DataError: the file is not a benchmark."""
    if hidden == "humaneval":
        return humaneval(), {"_target_": "reflexion_lab.tasks.benchmarks.humaneval.humaneval"}
    # Not `disjoint`: the loops are over, and the account counts tasks with a hidden test as feedback.
    load = {"_target_": "reflexion_lab.tasks.benchmarks.recorded.recorded", "path": str(path), "disjoint": False}
    of_run = {} if run is None else {"run": run, "model": model}
    return recorded(str(path), disjoint=False, **of_run), {**load, **of_run}


def _prompts(path: Path | None) -> Prompts:
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


class Importer:
    """Executes recordings and writes their run folders below `out`."""

    def __init__(self, out: Path, programs: StoredPrograms, progress: Progress) -> None:
        self.out = out
        self.programs = programs
        self.progress = progress
        self._names: dict[str, str] = {}
        """Name of the first run with each digest of attempts."""

    def take(self, recording: Recording, terms: Terms) -> Imported:
        """The run folder of `recording`; an existing one is unchanged. Raises DataError: the existing folder holds
        another run; HarnessError: the sandbox is broken.
        """
        manifest = recording_manifest(recording, terms, self.programs.sandbox)
        folder = self.out / manifest.run_id
        steps = sorted((loop.task_id, [step.fields for step in loop.steps]) for loop in recording.loops)
        digest = hashlib.sha256(msgspec.json.encode(steps, order="deterministic")).hexdigest()
        same_as = self._names.setdefault(digest, recording.run)
        if folder.exists():
            other = RunFolder.existing(folder).manifest
            if (other.config_digest, other.benchmark_digest) != (manifest.config_digest, manifest.benchmark_digest):
                raise DataError(folder, "another run", f"{manifest.run_id} or nothing", "name another --out")
            text = (folder / "recorded.json").read_bytes()
            return Imported(folder, msgspec.json.decode(text, type=Account), False)
        draft = RunFolder(self.out / f".{manifest.run_id}.part")
        shutil.rmtree(draft.path, ignore_errors=True)
        draft.write_manifest(manifest)
        try:
            summary = self._execute(recording, terms, draft)
        finally:
            draft.close()
        summary = replace(summary, same_as="" if same_as == recording.run else same_as)
        draft.write_json("recorded.json", msgspec.to_builtins(summary))
        seal(draft)
        draft.path.replace(folder)
        return Imported(folder, summary, True)

    def _execute(self, recording: Recording, terms: Terms, folder: RunFolder) -> Account:
        known = {task.task_id: task for task in terms.benchmark}
        loops = [loop for loop in recording.loops if loop.task_id in known]
        unknown = [loop for loop in recording.loops if loop not in loops]
        excluded = [(f"line {loop.line}, {loop.task_id}", f"no task of {terms.benchmark.name}") for loop in unknown]
        attempts_by_task = self._attempts(recording, loops, terms)
        for attempt in itertools.chain.from_iterable(attempts_by_task.values()):
            folder.append("attempts.jsonl", attempt)
        for task_id, history in attempts_by_task.items():
            folder.append("results.jsonl", result(known[task_id], history, recording.known.feedback_source))
        grades = self._grades(attempts_by_task, known, lenient if terms.lenient else lambda program, _: program)
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
        )

    def _attempts(self, recording: Recording, loops: Sequence[Transcript], terms: Terms) -> dict[str, list[Attempt]]:
        """Attempts by task, executed on the feedback tests of their loop."""
        has_feedback = recording.known.feedback_source != "none"
        trials = []
        for loop in loops:
            task = replace(terms.benchmark[loop.task_id], setup="")  # loops did not have the helpers of hidden tests
            for step in loop.steps:
                actor_trajectory = trajectory(recording, step, task, terms.prompts)
                solution = actor_trajectory.solution
                program = as_tried(recording, solution, task) if terms.lenient else solution
                trials.append(_Trial(task, actor_trajectory, program, loop.tests if has_feedback else ()))
        evaluations = self.programs.map(
            lambda sandbox, trial: run_tests(sandbox, trial.task, trial.program, trial.tests),
            trials,
            each=lambda _: self.progress.attempt(),
        )
        executed = iter(zip(trials, evaluations, strict=True))
        by_task = {}
        for loop in loops:
            of_loop, verdicts = zip(*itertools.islice(executed, len(loop.steps)), strict=True)
            trajectories = [trial.trajectory for trial in of_loop]
            by_task[loop.task_id] = attempts(recording, loop, trajectories, verdicts, terms.longest)
        return by_task

    def _grades(
        self,
        attempts_by_task: Mapping[str, Sequence[Attempt]],
        known: Mapping[str, Task],
        completed: Callable[[str, Task], str],
    ) -> dict[tuple[str, int], Grade]:
        """Grades: submitted attempts first, then the rest, sealed."""
        submitted = [submitted_at(attempts) for attempts in attempts_by_task.values()]
        rest = [attempt for attempts in attempts_by_task.values() for attempt in attempts if attempt not in submitted]

        def grade(sandbox: Sandbox, attempt: Attempt, sealed: bool) -> Grade:
            task = known[attempt.task_id]
            return graded(sandbox, task, attempt.number, completed(attempt.trajectory.solution, task), sealed)

        grades = self.programs.map(functools.partial(grade, sealed=False), submitted, each=self.progress.task)
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
    """A recorded attempt, with the program and tests of its loop."""

    task: Task
    trajectory: Trajectory
    program: str
    tests: tuple[str, ...]
