"""Failing attempts of real models, executed once more: what they raised, and what there is to classify them by.

A program runs twice in the sandbox. Once under the lab's own evaluator, check by check. Once as a researcher's harness
runs it, program and tests in one text handed to `exec`: CPython itself then says what was raised, and what a full
traceback of it looks like. What was raised decides the class that is taken for true.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.audit.samples import Sample, read_samples
from reflexion_lab.audit.stored_programs import StoredPrograms, counter
from reflexion_lab.audit.transcripts import read_transcripts
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import UNKNOWN, Evaluation, Record, Task
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.cached import CachedSandbox

TABLE = {
    "syntax": ("SyntaxError", "IndentationError", "NameError", "UnboundLocalError"),
    "assertion": ("AssertionError",),
    "timeout": ("TimeoutError", "timeout"),
    "index": ("IndexError", "KeyError", "StopIteration"),
    "permission": ("PermissionError",),
    "import": ("ImportError", "ModuleNotFoundError"),
    "type": ("TypeError", "ValueError", "AttributeError", "ZeroDivisionError", "OverflowError"),
    "concurrency": ("BrokenPipeError",),
    "memory": ("MemoryError", "RecursionError", "memory"),
}
"""What is raised, or how a program ends, by class; the lab's specification, written down apart from its rules."""
LONGEST = 20_000
"""Characters that are kept of a traceback, from its beginning and its end."""
TIMED_OUT = "timed out"
"""All that a harness can show of a program that it had to stop; HumanEval's own words."""
HARNESS = """
import linecache, traceback
def cut(text, half={half}):
    return text if len(text) <= 2 * half else text[:half] + "\\n  ...\\n" + text[-half:]
def told(format=traceback.format_exception, lines=linecache.cache, text=str, cut=cut):
    try:
        exec(compile(SOURCE, "<string>", "exec"), {{"__name__": "__main__"}})
    except BaseException as problem:
        trace = problem.__traceback__.tb_next
        plain = cut("".join(format(type(problem), problem, trace)))
        lines["<string>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<string>")
        shown = cut("".join(format(type(problem), problem, trace)))
        return type(problem).__name__, cut(text(problem)), plain, shown
"""


class Failure(Record, frozen=True, kw_only=True):
    """A failing attempt of a log, executed again."""

    file: str
    sample: Sample
    model: str
    recorded: str
    """What the log says it raised."""
    raised: str = ""
    """The exception's type, or how the program ended: `timeout`, `memory`, `early_exit`; "" where it passed."""
    message: str = ""
    traceback: str = ""
    """As `exec` leaves it, without source lines."""
    source: str = ""
    """The same with source lines, as a program that was run from a file shows it."""
    evaluation: Evaluation | None = None
    """The lab's own; None before it was executed."""

    @property
    def id(self) -> tuple[str, str]:
        """The file, and in it run, task and number."""
        return self.file, self.sample.id

    @property
    def truth(self) -> str:
        """The class of what was raised; `unknown` for what the table does not name."""
        if self.raised in ("AttributeError", "TypeError") and "NoneType" in self.message:
            return "null"
        return next((name for name, kinds in TABLE.items() if self.raised in kinds), "unknown")


def read_failures(paths: Sequence[Path | str], limit: int | None = None) -> list[Failure]:
    """Every attempt that its log calls failed: `own_pass` is false, its own test does not hold in a clean namespace.

    `limit`: only the first so many of each file.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as transcripts, or none of them holds a failing attempt.
    """
    failures = [failure for path in map(Path, paths) for failure in _read(path, limit)]
    if not failures:
        names = ", ".join(map(str, paths)) or "no file"
        raise ConfigError(names, "no failing attempt", "transcripts whose `attempts` hold `own_pass`")
    return failures


def _read(path: Path, limit: int | None) -> list[Failure]:
    samples = read_samples(path, attempts=True)
    steps = [(row.text("model", ""), step.fields) for row in read_transcripts(path) for step in row.steps]
    every = [
        Failure(
            file=path.name,
            sample=sample,
            model=str(attempt.get("model") or model),
            recorded=str(attempt.get("err") or ""),
        )
        for (model, attempt), sample in zip(steps, samples, strict=True)
        if sample.logged is False
    ]
    return every[:limit]


def execute(failures: Sequence[Failure], workers: int | None = None, quiet: bool = False) -> list[Failure]:
    """Each with what came of it; equal programs with equal tests are executed once.

    A program whose time was over gets more of it, alone, before that is believed.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """
    with StoredPrograms(workers) as programs, counter("failures", "program", len(failures), quiet) as bar:
        executed = programs.map(_run, failures, key=_key, again=_timed_out, each=lambda _: bar.update())
    own = Failure.__struct_fields__[:4]
    return [
        replace(shared, **{name: getattr(failure, name) for name in own})
        for failure, shared in zip(failures, executed, strict=True)
    ]


def _timed_out(_: Failure, executed: Failure) -> bool:
    return executed.raised == "timeout"


def _run(sandbox: CachedSandbox, failure: Failure) -> Failure:
    sample = failure.sample
    task = Task(task_id=sample.task_id, prompt="", entry_point=sample.entry_point)
    evaluation = run_tests(sandbox, task, sample.program, sample.tests)
    raised = message = traceback = source = ""
    if not evaluation.passed and evaluation.outcome not in UNKNOWN:
        stopped = evaluation.outcome == "timeout"
        text = TIMED_OUT if stopped else evaluation.failures[0].message
        report = None if stopped else _told(sandbox, sample)
        raised, message, traceback, source = report or (evaluation.outcome, text, text, text)
    return replace(failure, raised=raised, message=message, traceback=traceback, source=source, evaluation=evaluation)


def _told(sandbox: CachedSandbox, sample: Sample) -> tuple[str, str, str, str] | None:
    """What CPython says of program and tests in one text; None where it did not come to say anything."""
    source = "\n".join([sample.program, f"candidate = {sample.entry_point}", *sample.tests])
    harness = HARNESS.format(half=LONGEST // 2)
    [literal] = sandbox.values(f"SOURCE = {source!r}\n{harness}", "told", ["told()"])
    value = ast.literal_eval(literal) if literal else None
    return value if isinstance(value, tuple) else None


def untyped(text: str, kind: str) -> str:
    """An error text without the type of the exception, wherever it stands."""
    return re.sub(rf"(?:\b[\w.]{{1,200}}\.)?\b{re.escape(kind)}\b(?:: ?)?", "", text) if kind else text


def _key(failure: Failure) -> tuple[object, ...]:
    return failure.sample.program, failure.sample.entry_point, failure.sample.tests
