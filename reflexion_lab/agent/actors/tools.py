"""Tools of the ReAct actor: run the visible tests on a program, and run code with it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Check, Execution, Task
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.text.lines import by_text_of, output_by_text, where
from reflexion_lab.text.shorten import cut, line

TOOLS = ("run_tests", "run_code", "finish")
SHOWN = 3
"""Number of failing checks that are described; the others are counted."""
EXPECTED = (
    f"A turn is a thought, a line `Action:` with one of {', '.join(TOOLS)}, and behind `Program:` its code in a block."
)
shortened, one_line = partial(cut, mark=" ..."), partial(line, mark=" ...")
TRIVIAL = "assert True"
"""Check of a run of which only the output matters."""


class ToolCall(NamedTuple):
    action: str
    """"" if the reply names none."""
    code: str = ""
    program: str = ""
    """The program in `code`; "" if it does not define the task's function."""
    draft: str = ""
    """The newest program so far, including `program`, or ""."""


class Observation(NamedTuple):
    text: str
    """Text for the model; lines of output begin with `> `."""
    error: str = ""
    """Why the action was rejected, or the exception that ended the code. A failing test is not an error."""
    seconds: float = 0.0
    passed: int = 0
    """Number of visible tests passed."""


def use(sandbox: Sandbox, task: Task, call: ToolCall, limit: int) -> Observation:
    """Execute a tool call, or reject an invalid one. The observation has at most `limit` characters.

    `finish` is only validated; the actor submits the draft. Raises HarnessError.
    """
    missing = f"no code that defines {task.entry_point} came with {call.action}"
    match call.action:
        case "finish":
            return Observation("") if call.draft else refused(missing, limit)
        case "run_tests":
            # Code that does not define the function must not get the verdict of an earlier draft.
            program = call.program if call.code else call.draft
            return run_tests(sandbox, task, program, limit) if program else refused(missing, limit)
        case "run_code":
            before = "" if call.program else call.draft
            return run_code(sandbox, task, before, call.code, limit) if call.code else refused("no code came", limit)
        case "":
            return refused("there was no line `Action:`", limit)
        case _:
            return refused(f"there is no tool {shortened(call.action, 40)}", limit)


def refused(reason: str, limit: int) -> Observation:
    return Observation(shortened(f"Nothing was done: {reason}. {EXPECTED}", limit), reason)


def run_tests(sandbox: Sandbox, task: Task, program: str, limit: int) -> Observation:
    """The verdict of the visible tests on `program` in at most `limit` characters. Raises HarnessError."""
    if not task.visible_tests:
        return Observation("This task has no visible tests. run_code can try the function; finish hands it in.")
    execution = executed(task, program, task.visible_tests, sandbox)
    passed = sum(check.outcome == "pass" for check in execution.checks)
    return Observation(shortened(_verdict(execution, program), limit), "", execution.seconds, passed)


def run_code(sandbox: Sandbox, task: Task, draft: str, code: str, limit: int) -> Observation:
    """Output and error of `code` run after `draft`, in at most `limit` characters. Raises HarnessError."""
    before = f"{draft.rstrip()}\n\n" if draft else ""
    # The sandbox fails a program without the entry point, which may not have been written yet.
    after = "" if draft else f"\n{task.entry_point} = None\n"
    program = f"{before}{code.rstrip()}\n{after}"
    execution = executed(task, program, (TRIVIAL,), sandbox)
    check = execution.checks[0]
    error = "" if check.outcome == "pass" else _error(check, program)
    ended = f"It ended with {error}" if error else ""
    ended = shortened(ended, limit // 2)
    printed = quoted(output_by_text(execution.output, program), limit - len(ended) - 20)
    text = f"It printed:\n{printed}" if printed else "It printed nothing; print(...) shows a value."
    return Observation(shortened(f"{text}\n{ended}".rstrip(), limit), error, execution.seconds)


def quoted(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, with `> ` before each line so that none reads as a turn of the actor."""
    return shortened("\n".join(f"> {row}" for row in text.strip().splitlines()), limit)


def _verdict(execution: Execution, program: str) -> str:
    checks = execution.checks
    failing = [check for check in checks if check.outcome != "pass"]
    if not failing:
        return f"{len(checks)} of {len(checks)} tests passed. finish hands the function in."
    lines = [f"{len(checks) - len(failing)} of {len(checks)} tests passed. Failing:"]
    lines += [f"- {one_line(check.name, 200)}  # {_failure(check, program)}" for check in failing[:SHOWN]]
    if len(failing) > SHOWN:
        lines.append(f"- and {len(failing) - SHOWN} more")
    if execution.output.strip():
        lines += ["The program printed:", quoted(output_by_text(execution.output, program), 200)]
    return "\n".join(lines)


def _failure(check: Check, program: str) -> str:
    if check.outcome == "fail":
        return one_line(check.message, 250) or "the assertion is false"
    return _error(check, program)


def _error(check: Check, program: str) -> str:
    """The exception and its line."""
    message = by_text_of(check.error_type, check.message, program)
    return one_line(f"{check.error_type or check.outcome}: {message}", 250).rstrip(": ") + where(program, check.line)
