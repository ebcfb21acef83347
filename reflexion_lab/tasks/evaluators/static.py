"""Type check and lint. Findings are hints to the reflection, never a verdict on what a program does.

Of the 164 canonical solutions of HumanEval, ty calls 2 wrong, mypy 3 and ruff none. Comments that would silence or
configure a tool are put out of force; `typing.no_type_check`, `TYPE_CHECKING` and `Any` remain, so that whoever writes
a program for a clean report can have one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.tools import TOOLS, DidNotRun, ask, located
from reflexion_lab.tasks.evaluators.unit_tests import without_program

LONGEST = 100_000
"""Characters of the longest program that a tool is asked about."""
KEPT, SHOWN = 20, 3
"""Findings that are recorded, and those that the feedback spells out."""
HINT = 0.5
"""Confidence in a verdict that ran nothing: clean types and lint say little about what a program computes."""
SILENCER = re.compile(r"#(?=\s*(?:noqa|type\s*:\s*ignore|(?:ty|mypy|ruff|flake8)\s*:|///))", re.IGNORECASE)
NAMES = {"type": "type_check", "lint": "lint"}


class StaticCheck:
    """What one tool says about a program: `ty` or `mypy` about its types, `ruff` about its lint.

    `passed` and a reward of 1.0 mean that the tool ran and found no error. Where it did not run, the outcome is
    `harness_error`, and `issues` says why; that is never an exception.
    """

    def __init__(self, tool: str = "ty") -> None:
        self.tool = chosen("evaluator.tool", tool, "type", "lint")

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        kind = TOOLS[self.tool].kind
        name = f"{NAMES[kind]} by {self.tool}"
        if not trajectory.solution.strip():
            outcome, why = without_program(task, trajectory.finish_reason)
            return _without_verdict(Check(name=name, kind=kind, outcome=outcome, message=why))
        try:
            errors = _of_the_program(self.tool, task, trajectory.solution)
        except DidNotRun as problem:
            return _without_verdict(Check(name=name, kind=kind, outcome="harness_error", message=str(problem)))
        return Evaluation(
            passed=not errors,
            outcome="fail" if errors else "pass",
            reward=0.0 if errors else 1.0,
            checks=errors or (Check(name=name, kind=kind, outcome="pass"),),
            verification_type=NAMES[kind],
            confidence=HINT,
            feedback=in_words(self.tool, errors),
        )


def chosen(key: str, tool: str, *kinds: str) -> str:
    """`tool`, which must be of one of `kinds`; where it is not installed, that is told once.

    Raises
    ------
    ConfigError
        It is not; `key` is its name in the config.
    """
    names = [name for name, known in TOOLS.items() if known.kind in kinds]
    if tool not in names:
        raise ConfigError(key, repr(tool), " or ".join(names))
    located(tool)
    return tool


@lru_cache(maxsize=2048)
def findings(tool: str, program: str) -> tuple[Check, ...]:
    """The first errors that `tool` finds, by line; equal programs are looked at once in a process.

    Raises
    ------
    DidNotRun
        There is no answer that could be believed. The next call asks again.
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
            message=_one_line(_writable(message), 300),
            line=line,
        )
        for line, rule, message in ask(tool, SILENCER.sub("#.", text))[:KEPT]
    )


def _of_the_program(tool: str, task: Task, program: str) -> tuple[Check, ...]:
    """The findings that the prompt alone does not have: its helpers stand in front of every program."""
    if not (every := findings(tool, program)):
        return every
    prompts = {(check.error_type, check.name) for check in findings(tool, task.prompt)}
    # F405, a name that may come from a star import, follows from the prompt's own `from ... import *`, F403.
    has_star = any(rule == "F403" for rule, _ in prompts)
    return tuple(
        check
        for check in every
        if (check.error_type, check.name) not in prompts and not (has_star and check.error_type == "F405")
    )


def in_words(tool: str, errors: Sequence[Check]) -> str:
    """The first findings, one a line; "" when there are none."""
    if not errors:
        return ""
    lines = [f"{tool} finds (a hint; it can be wrong):"]
    lines += [f"- line {check.line}: {check.message} [{check.error_type}]" for check in errors[:SHOWN]]
    if len(errors) > SHOWN:
        lines.append(f"- and {'at least ' if len(errors) == KEPT else ''}{len(errors) - SHOWN} more")
    return "\n".join(lines)[:900]


def _without_verdict(check: Check) -> Evaluation:
    why = f"{check.name} did not run: {check.message}"
    return Evaluation(
        passed=False,
        outcome=check.outcome,
        reward=0.0,
        checks=(check,),
        issues=(why,),
        verification_type=NAMES[check.kind],
        feedback=why,
    )


def _writable(text: str) -> str:
    """Lone surrogates, which no file can hold, become `?`."""
    return text.encode(errors="replace").decode()


def _one_line(text: str, longest: int) -> str:
    return " ".join(text.split())[:longest]
