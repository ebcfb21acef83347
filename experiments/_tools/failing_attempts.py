"""Failing attempts of real models, executed again: exception, traceback, and the class that is taken as the truth.

A program runs twice in the sandbox: once under the lab's own evaluator, check by check, and once as a plain harness
would run it, program and tests in one `exec`, for CPython's own exception and full traceback. The exception's type
decides the class.
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
"""Exception types and program ends by class: the lab's specification, independent of its rules."""
LONGEST = 20_000
"""Maximum length of a traceback, in characters; the middle of a longer one is cut."""
TIMED_OUT = "timed out"
"""Text of a program that a harness had to stop, as in HumanEval."""
HARNESS = """
import linecache, traceback
def cut(text, half={half}):
    return text if len(text) <= 2 * half else text[:half] + "\\n  ...\\n" + text[-half:]
def report(format=traceback.format_exception, lines=linecache.cache, text=str, cut=cut):
    try:
        exec(compile(SOURCE, "<string>", "exec"), {{"__name__": "__main__"}})
    except BaseException as problem:
        trace = problem.__traceback__.tb_next
        plain = cut("".join(format(type(problem), problem, trace)))
        lines["<string>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<string>")
        with_source = cut("".join(format(type(problem), problem, trace)))
        return type(problem).__name__, cut(text(problem)), plain, with_source
"""


class Failure(Record, frozen=True, kw_only=True):
    """A failing attempt of a log, executed again."""

    file: str
    sample: Sample
    model: str
    recorded: str
    """Exception type in the log."""
    raised: str = ""
    """The exception's type, or how the program ended: `timeout`, `memory`, `early_exit`; "" if it passed."""
    message: str = ""
    traceback: str = ""
    """As `exec` leaves it, without source lines."""
    source: str = ""
    """The same with source lines, as for a program in a file."""
    evaluation: Evaluation | None = None
    """The lab's evaluation; None before execution."""

    @property
    def id(self) -> tuple[str, str]:
        """File; run, task and attempt number."""
        return self.file, self.sample.id

    @property
    def truth(self) -> str:
        """The class of the exception; `unknown` if it is not in `TABLE`."""
        if self.raised in ("AttributeError", "TypeError") and "NoneType" in self.message:
            return "null"
        return next((name for name, kinds in TABLE.items() if self.raised in kinds), "unknown")


def read_failures(paths: Sequence[Path | str], limit: int | None = None) -> list[Failure]:
    """Attempts logged as failed (`own_pass` is false: the log's own test fails in a clean namespace).

    Parameters
    ----------
    limit : int, optional
        Maximum number per file.

    Raises OSError, ValueError: a file cannot be read as transcripts, or no file has a failing attempt.
    """
    failures = [failure for path in map(Path, paths) for failure in _read(path, limit)]
    if not failures:
        names = ", ".join(map(str, paths)) or "no file"
        raise ConfigError(names, "no failing attempt", "transcripts whose `attempts` hold `own_pass`")
    return failures


def _read(path: Path, limit: int | None) -> list[Failure]:
    samples = read_samples(path, attempts=True)
    steps = [(row.text("model", ""), step.fields) for row in read_transcripts(path) for step in row.steps]
    failures = [
        Failure(
            file=path.name,
            sample=sample,
            model=str(attempt.get("model") or model),
            recorded=str(attempt.get("err") or ""),
        )
        for (model, attempt), sample in zip(steps, samples, strict=True)
        if sample.logged is False
    ]
    return failures[:limit]


def execute(failures: Sequence[Failure], workers: int | None = None, quiet: bool = False) -> list[Failure]:
    """The failures with the results of their execution; equal programs with equal tests are executed once.

    A program that timed out is executed again, alone and with more time.

    Raises HarnessError: the sandbox is broken.
    """
    with StoredPrograms(workers) as programs, counter("failures", "program", len(failures), quiet) as bar:
        executed = programs.map(_run, failures, key=_key, again=_timed_out, each=lambda _: bar.update())
    results = ("raised", "message", "traceback", "source", "evaluation")
    return [
        replace(failure, **{name: getattr(shared, name) for name in results})
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
        report = None if stopped else _report(sandbox, sample)
        raised, message, traceback, source = report or (evaluation.outcome, text, text, text)
    return replace(failure, raised=raised, message=message, traceback=traceback, source=source, evaluation=evaluation)


def _report(sandbox: CachedSandbox, sample: Sample) -> tuple[str, str, str, str] | None:
    """CPython's exception type, message and tracebacks of program and tests in one text; None if there is none."""
    source = "\n".join([sample.program, f"candidate = {sample.entry_point}", *sample.tests])
    harness = HARNESS.format(half=LONGEST // 2)
    [literal] = sandbox.values(f"SOURCE = {source!r}\n{harness}", "report", ["report()"])
    value = ast.literal_eval(literal) if literal else None
    return value if isinstance(value, tuple) else None


def untyped(text: str, kind: str) -> str:
    """`text` without any mention of the exception type `kind`."""
    return re.sub(rf"(?:\b[\w.]{{1,200}}\.)?\b{re.escape(kind)}\b(?:: ?)?", "", text) if kind else text


def _key(failure: Failure) -> tuple[object, ...]:
    return failure.sample.program, failure.sample.entry_point, failure.sample.tests
