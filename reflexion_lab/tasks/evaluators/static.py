"""Type check and lint. Findings are hints for the reflection, not a verdict on what a program computes.

Of HumanEval's 164 canonical solutions, ty flags 2, mypy 3 and ruff none. Comments that would silence or configure a
tool are disabled; `typing.no_type_check`, `TYPE_CHECKING` and `Any` are not, so a program can still evade the checks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from reflexion_lab.limits import validated
from reflexion_lab.records import Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.tools import TOOLS, DidNotRun, ask, located
from reflexion_lab.tasks.evaluators.unit_tests import evaluation_by, without_program
from reflexion_lab.text.lines import by_text

LONGEST = 100_000
"""Maximum length of a checked program, in characters."""
KEPT, SHOWN = 20, 3
"""Maximum number of findings in the record, and in the feedback."""
HINT = 0.5
"""Confidence of the verdict: clean types and lint say little about what a program computes."""
SILENCER = re.compile(r"#(?=\s*(?:noqa|type\s*:\s*ignore|(?:ty|mypy|ruff|flake8)\s*:|///))", re.IGNORECASE)
NAMES = {"type": "type_check", "lint": "lint"}


class StaticCheck:
    """Evaluator that runs one tool: `ty` or `mypy` for types, `ruff` for lint.

    `passed` and a reward of 1.0 mean that the tool ran and found no error. If it did not run, the outcome is
    `harness_error` and `issues` has the reason; no exception is raised.
    """

    kinds = ("function", "program")

    @validated
    def __init__(self, tool: Literal["ty", "mypy", "ruff"] = "ty") -> None:
        self.tool = tool
        located(tool)  # warn about a missing tool before the run starts

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        kind = TOOLS[self.tool].kind
        name = f"{NAMES[kind]} by {self.tool}"
        if not trajectory.solution.strip():
            outcome, why = without_program(task, trajectory.finish_reason)
            return _without_verdict(Check(name=name, kind=kind, outcome=outcome, message=why))
        try:
            errors = _own_findings(self.tool, task, trajectory.solution)
        except DidNotRun as problem:
            return _without_verdict(Check(name=name, kind=kind, outcome="harness_error", message=str(problem)))
        checks = errors or (Check(name=name, kind=kind, outcome="pass"),)
        return evaluation_by(checks, _feedback(self.tool, errors), verification_type=NAMES[kind], confidence=HINT)


@lru_cache(maxsize=2048)
def findings(tool: str, program: str) -> tuple[Check, ...]:
    """The first `KEPT` errors that `tool` reports, by line. Cached by program.

    Raises DidNotRun: the tool gave no valid answer; this is not cached.
    """
    if len(program) > LONGEST:
        raise DidNotRun(f"the program has {len(program)} characters; at most {LONGEST} are checked")
    text = _writable(program)
    lines = re.split(r"\r\n|\r|\n", text)
    return tuple(
        Check(
            name=_one_line(lines[line - 1], 200) if 0 < line <= len(lines) else "",
            kind=TOOLS[tool].kind,
            outcome="fail",
            error_type=rule,
            message=_one_line(by_text(_writable(message), text), 300),
            line=line,
        )
        for line, rule, message in ask(tool, SILENCER.sub("#.", text))[:KEPT]
    )


def _own_findings(tool: str, task: Task, program: str) -> tuple[Check, ...]:
    """Findings in the program without those in the prompt, whose helpers precede every program."""
    if not (every := findings(tool, program)):
        return ()
    prompts = {(check.error_type, check.name) for check in findings(tool, task.prompt)}
    # F405, a name that may come from a star import, follows from the prompt's own `from ... import *`, F403.
    has_star = any(rule == "F403" for rule, _ in prompts)
    return tuple(
        check
        for check in every
        if (check.error_type, check.name) not in prompts and not (has_star and check.error_type == "F405")
    )


def _feedback(tool: str, errors: Sequence[Check]) -> str:
    """The first findings, one per line; "" for none."""
    if not errors:
        return ""
    lines = [f"{tool} finds (a hint; it can be wrong):"]
    lines += [
        f"- {f'`{check.name}`: ' if check.name else ''}{check.message} [{check.error_type}]" for check in errors[:SHOWN]
    ]
    if len(errors) > SHOWN:
        lines.append(f"- and {'at least ' if len(errors) == KEPT else ''}{len(errors) - SHOWN} more")
    return "\n".join(lines)[:900]


def _without_verdict(check: Check) -> Evaluation:
    why = f"{check.name} did not run: {check.message}"
    return evaluation_by((check,), why, issues=(why,), verification_type=NAMES[check.kind])


def _writable(text: str) -> str:
    """`text` with `?` for lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _one_line(text: str, longest: int) -> str:
    return " ".join(text.split())[:longest]
