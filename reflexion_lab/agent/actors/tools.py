"""Tools of an actor that works in turns: run the visible tests on a program, and run a few lines with it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Check, Execution, Task
from reflexion_lab.text.shorten import cut, line

TOOLS = ("run_tests", "run_code", "finish")
SHOWN = 3
"""Failing checks that are spelled out; the rest is counted."""
EXPECTED = (
    f"A turn is a thought, a line `Action:` with one of {', '.join(TOOLS)}, and behind `Program:` its code in a block."
)
shortened, one_line = partial(cut, mark=" ..."), partial(line, mark=" ...")
TRIVIAL = "assert True"
"""The check of a run whose output alone is of interest."""


class ToolCall(NamedTuple):
    """An action and the code that came with it."""

    action: str
    """"" where the reply named none."""
    code: str = ""
    """As it came."""
    program: str = ""
    """The program in `code`; "" where that defines no function of the task."""
    draft: str = ""
    """The newest program, `program` included; "" where there was none yet."""


class Observation(NamedTuple):
    """The result of an action."""

    text: str
    """For the model; each line that the program printed begins with `> `."""
    error: str = ""
    """Why the action was refused, or the exception that ended the code; a failing test is no error."""
    seconds: float = 0.0
    passed: int = 0
    """Visible tests that passed."""


def use(sandbox: Sandbox, task: Task, call: ToolCall, limit: int) -> Observation:
    """Execute a tool call; an invalid one is refused with what was expected. At most `limit` characters.

    `finish` is only checked: the actor hands the draft in. Raises HarnessError.
    """
    missing = f"no code that defines {task.entry_point} came with {call.action}"
    match call.action:
        case "finish":
            return Observation("") if call.draft else refused(missing, limit)
        case "run_tests":
            # Code that is not the function must not have the verdict of the draft before it.
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
    execution = sandbox.run(program, task.entry_point, task.visible_tests, task.setup, task.cpu_seconds)
    passed = sum(check.outcome == "pass" for check in execution.checks)
    return Observation(shortened(_verdict(execution), limit), "", execution.seconds, passed)


def run_code(sandbox: Sandbox, task: Task, draft: str, code: str, limit: int) -> Observation:
    """Output and error of `code` run after `draft`, in at most `limit` characters. Raises HarnessError."""
    before = f"{draft.rstrip()}\n\n" if draft else ""
    # The sandbox takes a program without its entry point for a failure; here it may be still to come.
    behind = "" if draft else f"\n{task.entry_point} = None\n"
    program = f"{before}{code.rstrip()}\n{behind}"
    execution = sandbox.run(program, task.entry_point, (TRIVIAL,), task.setup, task.cpu_seconds)
    check = execution.checks[0]
    error = "" if check.outcome == "pass" else _error(check, before.count("\n"))
    ended = f"It ended with {error}" if error else ""
    ended = shortened(ended, limit // 2)
    printed = quoted(execution.output, limit - len(ended) - 20)
    text = f"It printed:\n{printed}" if printed else "It printed nothing; print(...) shows a value."
    return Observation(shortened(f"{text}\n{ended}".rstrip(), limit), error, execution.seconds)


def quoted(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, each line after `> `, so that none reads as a turn of the actor."""
    return shortened("\n".join(f"> {row}" for row in text.strip().splitlines()), limit)


def _verdict(execution: Execution) -> str:
    checks = execution.checks
    failing = [check for check in checks if check.outcome != "pass"]
    if not failing:
        return f"{len(checks)} of {len(checks)} tests passed. finish hands the function in."
    lines = [f"{len(checks) - len(failing)} of {len(checks)} tests passed. Failing:"]
    lines += [f"- {one_line(check.name, 200)}  # {_failure(check)}" for check in failing[:SHOWN]]
    if len(failing) > SHOWN:
        lines.append(f"- and {len(failing) - SHOWN} more")
    if execution.output.strip():
        lines += ["The program printed:", quoted(execution.output, 200)]
    return "\n".join(lines)


def _failure(check: Check) -> str:
    if check.outcome == "fail":
        return one_line(check.message, 250) or "the assertion is false"
    return _error(check)


def _error(check: Check, draft_lines: int = 0) -> str:
    """The exception and its place; lines up to `draft_lines` are the draft's, later ones the snippet's."""
    what = one_line(f"{check.error_type or check.outcome}: {check.message}", 250).rstrip(": ")
    if not check.line:
        return what
    if draft_lines and check.line > draft_lines:
        return f"{what} (line {check.line - draft_lines} of the code)"
    return f"{what} (line {check.line} of the program)"
