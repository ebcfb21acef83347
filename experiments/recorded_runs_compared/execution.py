"""`python -m experiments.recorded_runs_compared.execution FILE... --out DIR`: recorded runs, executed here.

A recorded run is one system with one model over the tasks of a benchmark, read from transcripts: one object per problem
and run, with its attempts. The evidence holds verdicts, and no text.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from experiments._tools import output
from experiments.recorded_runs_compared.cases import CASES, COMPARED, RECORDED, RUNS, Run
from reflexion_lab.analysis.comparison.cases import COLUMNS
from reflexion_lab.audit.samples import IMPORTS, completed
from reflexion_lab.audit.stored_programs import StoredPrograms, counter, graded
from reflexion_lab.audit.transcripts import Row, Step, Transcript, human_eval_tasks, read_rows
from reflexion_lab.cli.main import Arguments
from reflexion_lab.cli.place import out_folder, positive
from reflexion_lab.errors import DataError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Evaluation, Grade, Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.rows import repeated
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.syntax import Parser

SPENDING = ("actor_calls", "actor_completion_tokens", "actor_prompt_tokens", "reflector_calls")


class Strategy(NamedTuple):
    """Known properties of a system's loop."""

    arm: str
    feedback_source: str
    """One of `records.FEEDBACK_SOURCES`."""
    calls: int
    """Model calls per attempt; 0 if not recorded."""


STRATEGIES = {
    "simple": Strategy("simple", "none", 1),
    "simple_repeat": Strategy("retry", "visible", 1),
    "simple_incr_temp": Strategy("warming", "visible", 1),
    "simple_boosting": Strategy("escalation", "visible", 1),
    "reflexion": Strategy("reflexion", "self_tests", 1),
    "reflexion-ucs": Strategy("reflexion-ucs", "self_tests", 1),
    "ldb": Strategy("ldb", "visible", 0),
}
"""By the name in a row, up to a bracket. LDB makes several calls per attempt."""


class Recording(NamedTuple):
    """One run of a system."""

    file: str
    source: str
    model: str
    """The actor's first model."""
    strategy: str
    run: str
    known: Strategy
    loops: list[Transcript]
    """In the order of the file, one per task."""
    excluded: list[str]
    """Rows that cannot be used, with the reason."""

    @property
    def variant(self) -> str:
        """Name of the run without its number."""
        return re.sub(r"/run\d+$", "", self.run)

    @property
    def seed(self) -> int:
        """Number of the run, by default 1. The system's sampling seed is unknown."""
        number = re.search(r"/run(\d+)$", self.run)
        return int(number[1]) if number else 1

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the attempts, in the order of their first call within the longest loop."""
        steps = max(self.loops, key=lambda loop: len(loop.steps)).steps
        return tuple(dict.fromkeys(step.text("model", self.model) for step in steps))

    @property
    def is_compared(self) -> bool:
        return self.source.startswith(COMPARED)

    @property
    def name(self) -> str:
        """Its arm: method, variant or model, and benchmark."""
        label = self.variant.rpartition("/")[2] if self.variant != self.run else self.model
        label = re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")
        return f"{self.known.arm}-{label}-{self.benchmark}"

    @property
    def benchmark(self) -> str:
        return "humaneval" if self.is_compared else self.file.partition(".")[0]

    @property
    def is_recomputed(self) -> bool:
        """Whether the feedback was computed from the tests afterwards."""
        return any(isinstance(step.fields.get("feedback"), dict) for loop in self.loops for step in loop.steps)

    def task(self, loop: Transcript) -> Task:
        """The task with its hidden tests: for compared runs those of HumanEval, else those of the row."""
        return human_eval_tasks()[loop.task_id] if self.is_compared else loop.task

    def verdict(self, step: Step) -> bool | None:
        """The recorded verdict of the same hidden tests."""
        return step.verdict("he_lenient" if self.is_compared and "he_lenient" in step.fields else "own_lenient")

    @property
    def digest(self) -> str:
        """Digest of the tasks: for compared runs those of HumanEval, else those of the run."""
        if self.is_compared:
            return humaneval().digest
        return Benchmark(self.benchmark, tuple(self.task(loop) for loop in self.loops)).digest


def read_recordings(path: Path) -> Iterator[Recording]:
    """Every run in a file of transcripts. Raises OSError, DataError: it cannot be read, or a strategy is unknown."""
    rows: dict[tuple[str, ...], list[Row]] = {}
    for row in read_rows(path):
        rows.setdefault(tuple(row.text(name, "") for name in ("source", "model", "strategy", "run")), []).append(row)
    for (source, model, strategy, run), of_run in rows.items():
        known = STRATEGIES.get(strategy.partition("(")[0])
        if known is None:
            raise DataError(path, f"strategy {strategy!r}", f"one of {', '.join(STRATEGIES)}")
        yield Recording(path.name, source, model, strategy, run, known, *_loops(of_run))


def _loops(rows: Sequence[Row]) -> tuple[list[Transcript], list[str]]:
    loops: dict[str, Transcript] = {}
    excluded = []
    for row in rows:
        try:
            loop = Transcript.of(row)
            if not loop.steps:
                raise row.wrong("attempts", "none", "at least one")
            if first := loops.get(loop.task_id):
                raise row.wrong("problem", f"a second row of {loop.task_id}", f"one a run; line {first.line} counts")
        except DataError as problem:
            excluded.append(str(problem))
        else:
            loops[loop.task_id] = loop
    return list(loops.values()), excluded


class Trial(NamedTuple):
    """A recorded attempt."""

    recording: Recording
    loop: Transcript
    step: Step
    task: Task
    tests: tuple[str, ...]
    """Feedback tests of its loop."""
    overlaps: bool
    """Whether one of these is a hidden test, too."""

    @property
    def program(self) -> str:
        """The program that the recording judged; "" without one.

        It is `code`, a whole program; without it, the reply, which completes the prompt if that is code.
        """
        code, raw = self.step.code, self.step.raw
        return code if code.strip() else self._behind(raw) if raw.strip() else ""

    @property
    def as_judged(self) -> str:
        """With the usual imports and the prompt, as for recorded lenient verdicts; a prompt in prose is left out."""
        return IMPORTS + self._behind(self.program) if self.program.strip() else ""

    @property
    def as_tried(self) -> str:
        """The program as its loop executed it.

        Loops with the task's tests had its prompt, loops with self-written tests only imports. Feedback computed
        afterwards was computed on the recorded program.
        """
        if self.recording.is_recomputed or not self.program.strip():
            return self.program
        return self.as_judged if self.recording.known.feedback_source == "visible" else IMPORTS + self.program

    def _behind(self, code: str) -> str:
        """`code` after the prompt; without the prompt if that would be a syntax error, as for prose."""
        whole, parser = completed(self.task.prompt, code), Parser()
        return code if parser.parse(whole) is None and parser.parse(code) is not None else whole


def trials_of(recording: Recording) -> Iterator[Trial]:
    for loop in recording.loops:
        task = recording.task(loop)
        tests = loop.tests if recording.known.feedback_source != "none" else ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a test
            overlaps = bool(repeated(loop.tests, task.hidden_tests, task.entry_point))
        yield from (Trial(recording, loop, step, task, tests, overlaps) for step in loop.steps)


def tried(sandbox: Sandbox, trial: Trial) -> Evaluation:
    """The verdict of the feedback tests; loops did not have the helpers of hidden tests."""
    return run_tests(sandbox, replace(trial.task, setup=""), trial.as_tried, trial.tests)


def judged(sandbox: Sandbox, trial: Trial) -> Grade:
    return graded(sandbox, trial.task, trial.step.number, trial.as_judged)


def submitted(loop: Transcript) -> int | None:
    """1-based number of the attempt that the source submitted; None if its solution is not an attempt.

    A row without a solution submitted its last attempt.
    """
    fields = loop.fields
    if "solution_is_attempt" not in fields and "solution" not in fields:
        return len(loop.steps)
    number = fields.get("solution_is_attempt")
    if isinstance(number, int) and 0 <= number < len(loop.steps):
        return number + 1
    if not isinstance(solution := fields.get("solution"), str):
        return None
    return next((step.number for step in loop.steps if step.code.strip() == solution.strip()), None)


def execute(recordings: Sequence[Recording], out: Path, workers: int | None = None) -> list[Path]:
    """Write a line per run and a line per attempt.

    Raises
    ------
    DataError
        Two runs have one name and number, or a row has no task.
    HarnessError
        The sandbox is broken.
    """
    recordings = sorted(recordings, key=lambda each: (each.is_compared, each.name, each.seed))
    repeated_names = [name for name, n in Counter((each.name, each.seed) for each in recordings).items() if n > 1]
    if repeated_names:
        raise DataError(repeated_names[0][0], f"two runs {repeated_names[0][1]}", "one")
    trials = [trial for recording in recordings for trial in trials_of(recording)]
    with StoredPrograms(workers) as programs, counter("recorded runs", "attempt", len(trials)) as bar:
        evaluations = programs.map(tried, trials)
        grades = programs.map(judged, trials, each=lambda _: bar.update())
    shared = {(recording.name, recording.seed): _of_run(recording) for recording in recordings}
    rows = [
        shared[trial.recording.name, trial.recording.seed] | _of_attempt(trial) | _of_verdicts(evaluation, grade)
        for trial, evaluation, grade in zip(trials, evaluations, grades, strict=True)
    ]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*COLUMNS, *SPENDING, *RECORDED], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (out / CASES).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return [
        output.write_csv(out / RUNS, [msgspec.structs.asdict(run) for run in _runs(recordings, trials)]),
        out / CASES,
    ]


def _runs(recordings: Sequence[Recording], trials: Sequence[Trial]) -> Iterator[Run]:
    longest: Counter[str] = Counter()
    for recording in recordings:
        longest[recording.name] = max(longest[recording.name], *(len(loop.steps) for loop in recording.loops))
    overlapping = Counter((t.recording.name, t.recording.seed) for t in trials if t.overlaps and t.step.number == 1)
    names: dict[str, str] = {}
    for recording in recordings:
        attempts = sorted((loop.task_id, [step.fields for step in loop.steps]) for loop in recording.loops)
        same_as = names.setdefault(repr(attempts), recording.run)
        yield Run(
            arm=recording.name,
            seed=recording.seed,
            method=recording.known.arm,
            variant=recording.variant,
            strategy=recording.strategy,
            source=recording.source,
            file=recording.file,
            excluded=len(recording.excluded),
            overlapping=overlapping[recording.name, recording.seed],
            max_attempts=longest[recording.name],
            same_as="" if same_as == recording.run else same_as,
        )


def _of_run(recording: Recording) -> dict[str, object]:
    source = recording.source.partition(" (")[0]  # without its remarks
    models = {"actor": f"recorded:{source}/{'+'.join(recording.models)}"}
    return {
        "arm": recording.name,
        "seed": recording.seed,
        "benchmark": recording.benchmark,
        "digest": recording.digest,
        "feedback_source": recording.known.feedback_source,
        "upper_bound": 0,
        "n_tasks": len(recording.loops),
        "models": json.dumps(models, separators=(",", ":")),
        "prices": "{}",
        "same_task": 0,
    }


def _of_attempt(trial: Trial) -> dict[str, object]:
    """What the record says. Memory is not recorded; the cost of a reflection is unknown but for one call."""
    step, known = trial.step, trial.recording.known
    has_words = bool(step.reflection.strip())
    recorded = (step.passed_feedback, trial.recording.verdict(step))
    verdicts = ["" if verdict is None else int(verdict) for verdict in recorded]
    by_source = 1 if submitted(trial.loop) == step.number else ""
    return {
        "task": trial.loop.task_id,
        "cluster": trial.loop.task_id,
        "attempt": step.number,
        "parent": step.number - 1 or "",
        "episodes": 0,
        "shown": 0,
        "blind": 0,
        "program": int(bool(trial.program.strip())),
        "words": "recorded" if has_words else "",
        "actor_calls": known.calls or "",
        "actor_completion_tokens": step.fields.get("completion_tokens") or "",
        "actor_prompt_tokens": step.fields.get("prompt_tokens") or "",
        "reflector_calls": 1 if has_words else "",
        **dict(zip(RECORDED, (*verdicts, by_source), strict=True)),
    }


def _of_verdicts(evaluation: Evaluation, grade: Grade) -> dict[str, object]:
    passes = [check.outcome == "pass" for check in evaluation.checks if check.kind == "test"]
    return {
        "feedback": int(evaluation.passed),
        "feedback_outcome": evaluation.outcome,
        "tests": len(passes),
        "tests_passed": sum(passes),
        "reward": evaluation.reward,
        "hidden": int(grade.passed),
        "hidden_outcome": grade.outcome,
    }


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), _main, argv)


def parser() -> argparse.ArgumentParser:
    text = "execute recorded runs with their feedback tests and hidden tests, and write the verdicts, without texts"
    top = Arguments(prog="python -m experiments.recorded_runs_compared.execution", description=text)
    top.add_argument("files", metavar="FILE", nargs="+", type=Path, help=output.TRANSCRIPTS)
    top.add_argument("--out", metavar="DIR", default=".", help=f"write {RUNS} and {CASES} there; default: .")
    top.add_argument("--workers", type=positive, metavar="N", help="programs at once (default: one per core)")
    return top


def _main(options: argparse.Namespace) -> int:
    recordings = [recording for path in options.files for recording in read_recordings(path)]
    for place in (place for recording in recordings for place in recording.excluded):
        print(f"left out: {place}")
    output.print_written(execute(recordings, out_folder(options.out), options.workers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
