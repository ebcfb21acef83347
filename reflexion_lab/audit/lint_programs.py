"""What can be said of tasks by running programs: the canonical solution, a stub, and programs with a small mistake."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

from reflexion_lab.audit.lint_tasks import parsed
from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Check, Execution, Task
from reflexion_lab.tasks.benchmarks.mutants import Mutant, mutants
from reflexion_lab.text.replies.syntax import tree_of

Said = tuple[str, Literal["error", "warning", "not checked"], str, str]
"""Check, severity, task id, detail."""
MISTAKES = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, SystemError)
"""What parsing and writing raise on a program that is no Python, or too deep or too large for it."""


class Trial(NamedTuple):
    """What the programs of one task did."""

    said: tuple[Said, ...] = ()
    mutants: int = 0
    """That were run."""
    survivors: tuple[Mutant, ...] = ()
    """Those that passed every hidden test; some may mean the same as the canonical solution."""
    sees: bool = False
    """Whether there are visible tests."""
    unseen: int = 0
    """Mutants that passed every visible test."""


def tried(task: Task, executor: Sandbox, most: int, seed: int) -> Trial:
    """Run all programs of `task`. Raises HarnessError."""
    findings = list[Said]()
    if task.hidden_tests:
        stub = f"def {task.entry_point}(*arguments, **named):\n    return None\n"
        if _passes(_run(executor, task, stub, task.hidden_tests).checks):
            findings.append(("stub fails", "error", task.task_id, "returning None passes every hidden test"))
    else:
        findings.append(("stub fails", "not checked", task.task_id, "no hidden tests"))
    tests = (*task.visible_tests, *task.hidden_tests)
    why_not = "no canonical solution" if not task.canonical_solution.strip() else "" if tests else "no tests"
    if why_not:
        findings += [(check, "not checked", task.task_id, why_not) for check in ("canonical passes", "mutants fail")]
        return Trial(tuple(findings))
    execution = _run(executor, task, task.canonical_program, tests)
    failing = [check for check in execution.checks if check.outcome != "pass"]
    if failing:
        detail = f"{len(failing)} of {len(tests)} tests, such as {failing[0].name}: {failing[0].outcome}"
        findings.append(("canonical passes", "error", task.task_id, f"the canonical solution fails {detail}"))
        findings.append(("mutants fail", "not checked", task.task_id, "the canonical solution fails"))
        return Trial(tuple(findings))
    return _mutated(task, executor, drawn(task, most, seed), execution.cpu_seconds, findings)


def drawn(task: Task, most: int, seed: int) -> list[Mutant]:
    """At most `most` mutants of the canonical solution, in the order of their places; the prompt's part stays."""
    program = task.canonical_program
    if parsed(program) is None:
        return []
    is_body = program != task.canonical_solution
    first_line = 1 + task.prompt.count("\n") if is_body else 1
    try:
        return list(mutants(program, first_line, most, random.Random(f"{seed}:{task.task_id}")))
    except MISTAKES:
        return []


def difference(program: str, mutant: Mutant) -> str:
    """The first line in which `mutant` differs from `program`, as `line 3: old -> new`."""
    old, new = ast.unparse(tree_of(program)).splitlines(), mutant.program.splitlines()
    i = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)) - 1)
    added = " (added)" if len(new) > len(old) else ""
    return f"line {mutant.line}: {old[i].strip()} -> {new[i].strip()}{added}"


def _mutated(task: Task, executor: Sandbox, chosen: list[Mutant], cpu_seconds: float, findings: list[Said]) -> Trial:
    survivors, unseen = list[Mutant](), 0
    n_visible = len(task.visible_tests)
    tests = (*task.visible_tests, *task.hidden_tests)
    for mutant in chosen:
        checks = _run(executor, task, mutant.program, tests, cpu_seconds).checks
        unseen += bool(n_visible) and _passes(checks[:n_visible])
        if task.hidden_tests and _passes(checks[n_visible:]):
            survivors.append(mutant)
            detail = f"{mutant.kind}, {difference(task.canonical_program, mutant)}"
            findings.append(("mutants fail", "warning", task.task_id, detail))
    if not chosen:
        findings.append(("mutants fail", "not checked", task.task_id, "no mutants were made of the canonical solution"))
    return Trial(tuple(findings), len(chosen), tuple(survivors), bool(n_visible), unseen)


def _run(executor: Sandbox, task: Task, program: str, tests: Sequence[str], cpu_seconds: float = 0.0) -> Execution:
    execution = executor.run(program, task.entry_point, tests, task.setup, cpu_seconds)
    if any(check.outcome == "harness_error" for check in execution.checks):
        raise HarnessError(f"{task.task_id}: the sandbox has no verdict; run `reflexion-lab doctor`")
    return execution


def _passes(checks: Sequence[Check]) -> bool:
    return all(check.outcome == "pass" for check in checks)
