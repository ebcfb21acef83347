"""Checks of a benchmark: of the text of its tasks, and by executing its programs in the sandbox.

A benchmark does not measure what it claims if canonical solutions fail, wrong programs pass, or loops see hidden tests.
"""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

from msgspec.structs import replace

from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Check, Execution, Task
from reflexion_lab.tasks.benchmarks.mutants import Mutant, mutants
from reflexion_lab.tasks.benchmarks.similar import near_duplicates
from reflexion_lab.tasks.benchmarks.vacuous import flaws, vacuous
from reflexion_lab.tasks.evaluators.executed import EXECUTED, executed
from reflexion_lab.tasks.evaluators.unit_tests import describe
from reflexion_lab.tasks.sandbox.packages import packages
from reflexion_lab.tasks.sandbox.programs import case
from reflexion_lab.text.replies.extract import preamble
from reflexion_lab.text.replies.syntax import Parser, bound_names, tree_of
from reflexion_lab.text.shorten import line

DETAIL_CHARS = 80
"""Maximum length of a test in a finding, in characters."""
MISTAKES = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, SystemError)
"""Raised by `ast` for a program that is not Python, or is too deep or too large."""
ACTS = (ast.Assert, ast.Call, ast.Raise)
"""Nodes of which a test needs at least one, or it cannot fail."""
Severity = Literal["error", "warning", "not checked"]


class Finding(NamedTuple):
    """A defect of a task, or a check that is not possible."""

    check: str
    severity: Severity
    task_id: str
    detail: str


Row = tuple[Severity, str, str]
"""Severity, task id and detail."""


class Trial(NamedTuple):
    """Results of executing the programs of one task."""

    findings: tuple[Finding, ...] = ()
    mutants: int = 0
    """Number of executed mutants."""
    survivors: tuple[Mutant, ...] = ()
    """Mutants that pass every hidden test; some may be equivalent to the canonical solution."""
    has_visible_tests: bool = False
    visible_survivors: int = 0
    """Number of mutants that pass every visible test."""


class Linted(NamedTuple):
    """Findings and mutation results of a benchmark."""

    benchmark: str
    tasks: int
    findings: tuple[Finding, ...]
    """In the order of `CHECKS`, then of the tasks."""
    trials: tuple[Trial, ...]
    """One per task."""
    near_duplicates: tuple[tuple[str, ...], ...] = ()
    """Ids of each group of `near_duplicates`."""

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    def score(self, side: Literal["hidden", "visible"]) -> Rate:
        """Share of mutants that fail the tests of this side, with tasks as clusters.

        For the visible side, only mutants of tasks with visible tests count.
        """
        counted = [trial for trial in self.trials if trial.mutants and (side == "hidden" or trial.has_visible_tests)]
        survivors = [len(trial.survivors) if side == "hidden" else trial.visible_survivors for trial in counted]
        return rate(
            (place, number >= survived)
            for place, (trial, survived) in enumerate(zip(counted, survivors, strict=True))
            for number in range(trial.mutants)
        )


def lint(
    tasks: Sequence[Task],
    executor: Sandbox,
    *,
    benchmark: str = "",
    mutants: int = 30,
    seed: int = 0,
    workers: int = 1,
    strict: bool = False,
    each: Callable[[], None] = lambda: None,
) -> Linted:
    """Check `tasks`.

    Raises HarnessError: the sandbox is broken. `mutants`: maximum number of mutants per task, sampled by `seed`.
    `strict`: warnings are errors. `each`: called after each task, for progress.
    """

    def trial_of(task: Task) -> Trial:
        trial = run_programs(task, executor, mutants, seed)
        each()
        return trial

    with ThreadPoolExecutor(workers) as pool:
        trials = tuple(pool.map(trial_of, tasks))
    findings = [Finding(check, *row) for check, read in READERS.items() for row in read(tasks)]
    findings += [finding for trial in trials for finding in trial.findings]
    if strict:
        findings = [f._replace(severity="error") if f.severity == "warning" else f for f in findings]
    findings.sort(key=lambda finding: CHECKS.index(finding.check))
    return Linted(benchmark, len(tasks), tuple(findings), trials, near_duplicates(tasks))


def parses(tasks: Sequence[Task]) -> Iterator[Row]:
    for task in tasks:
        named = [("the canonical solution", task.canonical_program)] if task.kind in EXECUTED else []
        if task.kind == "function":
            named += [("the setup", task.setup)]
            named += [(f"visible test {i}", test) for i, test in enumerate(task.visible_tests, 1)]
            named += [(f"hidden test {i}", test) for i, test in enumerate(task.hidden_tests, 1)]
        for name, code in named:
            if Parser().parse(code) is None:
                yield "error", task.task_id, f"{name} is not Python: {line(code, DETAIL_CHARS)}"


def suites(tasks: Sequence[Task]) -> Iterator[Row]:
    for task in tasks:
        if not task.hidden_tests:
            yield "error", task.task_id, "no hidden test: nothing can be judged"
        if not task.visible_tests:
            yield "warning", task.task_id, "no visible test: the loop gets no feedback"
        for test in (*task.visible_tests, *task.hidden_tests) if task.kind == "function" else ():
            if not test.strip():
                yield "error", task.task_id, "an empty test passes every program"
            elif wrong := [*flaws(test)]:
                yield from (("warning", task.task_id, line(flaw, DETAIL_CHARS)) for flaw in wrong)
            elif (tree := Parser().parse(test)) and not any(isinstance(node, ACTS) for node in ast.walk(tree)):
                yield "warning", task.task_id, f"nothing is asserted or called by {line(test, DETAIL_CHARS)}"


def entry_points(tasks: Sequence[Task]) -> Iterator[Row]:
    for task in (task for task in tasks if task.kind == "function"):
        name = task.entry_point
        if not name.isidentifier():
            yield "error", task.task_id, f"{name!r} is not a function name"
            continue
        solution = Parser().parse(task.canonical_program)
        if task.canonical_solution.strip() and solution and name not in bound_names(solution):
            yield "error", task.task_id, f"the canonical solution does not define {name}"
        for side, tests in (("visible", task.visible_tests), ("hidden", task.hidden_tests)):
            silent = [test for test in tests if not re.search(rf"\b(?:candidate|{re.escape(name)})\b", test)]
            if silent and len(silent) == len(tests):
                yield "error", task.task_id, f"no {side} test mentions {name}"
            elif silent:
                count = f"{len(silent)} of {len(tests)} {side} tests"
                yield "warning", task.task_id, f"{count} without {name}, such as {line(silent[0], DETAIL_CHARS)}"


def disjoint(tasks: Sequence[Task]) -> Iterator[Row]:
    """Hidden tests shown by a visible one: equal text, an equal assert in another layout, or the same call."""
    for task in tasks:
        visible = [_claims(test, task) for test in task.visible_tests]
        overlaps = dict[int, str]()
        for i, test in enumerate(task.hidden_tests):
            own = _claims(test, task)
            for kind, claims in own.items():
                if any(claims & other[kind] for other in visible):
                    overlaps.setdefault(i, f"the {kind} of a visible test: {line(test, DETAIL_CHARS)}")
        if not overlaps:
            continue
        example = f"such as {next(iter(overlaps.values()))}"
        if len(overlaps) == len(task.hidden_tests):
            yield "error", task.task_id, f"every hidden test is shown, {example}"
        else:
            yield "warning", task.task_id, f"{len(overlaps)} of {len(task.hidden_tests)} hidden tests, {example}"


READERS: dict[str, Callable[[Sequence[Task]], Iterator[Row]]] = {
    "ids unique": lambda tasks: _twice(tasks, lambda task: task.task_id, "error", "the id"),
    "prompts unique": lambda tasks: _twice(tasks, lambda task: " ".join(task.prompt.split()), "warning", "the prompt"),
    "code parses": parses,
    "tests there": suites,
    "entry point tested": entry_points,
    "hidden not shown": disjoint,
}
"""Checks that execute nothing."""
CHECKS = (*READERS, "canonical passes", "stub fails", "mutants fail")
"""In the order of the table."""


def _twice(
    tasks: Sequence[Task], key: Callable[[Task], str], severity: Literal["error", "warning"], name: str
) -> Iterator[Row]:
    groups = defaultdict[str, list[str]](list)
    for task in tasks:
        groups[key(task)].append(task.task_id)
    for first, *others in groups.values():
        for other in others:
            yield severity, other, f"has {name} of {first}"


def _claims(test: str, task: Task) -> dict[str, set[str]]:
    """Canonical forms of a test's text, asserts, and calls of the entry point; or a program's input."""
    entry_point = task.entry_point
    if task.kind == "actions":
        return {}  # a world shows whether its goal is reached
    if task.kind != "function":
        return {"text": {test}, "input": {" ".join(case(test).input.split())} if task.kind == "program" else set()}
    tree = Parser().parse(test)
    nodes = list(ast.walk(tree)) if tree else []
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "candidate":
            node.id = entry_point
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry_point
    ]
    return {
        "text": {" ".join(test.split())},
        "assert": {ast.dump(node.test) for node in nodes if isinstance(node, ast.Assert)},
        "call (compared otherwise)": {
            ", ".join(ast.dump(argument) for argument in (*call.args, *call.keywords))
            for call in calls
            if call.args or call.keywords
        },
    }


def run_programs(task: Task, executor: Sandbox, limit: int, seed: int) -> Trial:
    """Execute stubs, the canonical solution and the mutants of `task`. Raises HarnessError."""
    findings = list[Finding]()

    def add(check: str, severity: Severity, detail: str) -> None:
        findings.append(Finding(check, severity, task.task_id, detail))

    if why := packages(task.requires).why:
        add("canonical passes", "not checked", why)
        return Trial(tuple(findings))
    if not task.hidden_tests:
        add("stub fails", "not checked", "no hidden tests")
    if why := vacuous(task, task.hidden_tests, executor):
        add("stub fails", "error", f"the hidden tests check nothing: {why}")
    if why := vacuous(task, task.visible_tests, executor):
        add("stub fails", "warning", f"the visible tests check nothing: {why}")
    tests = (*task.visible_tests, *task.hidden_tests)
    reason = "no canonical solution" if not task.canonical_solution.strip() else "" if tests else "no tests"
    if reason:
        add("canonical passes", "not checked", reason)
        add("mutants fail", "not checked", reason)
        return Trial(tuple(findings))
    execution = _run(executor, task, task.canonical_program, tests)
    failing = [check for check in execution.checks if check.outcome != "pass"]
    if failing:
        detail = f"{len(failing)} of {len(tests)} tests, such as {failing[0].name}: {describe(failing[0], '')}"
        add("canonical passes", "error", f"the canonical solution fails {detail}")
        add("mutants fail", "not checked", "the canonical solution fails")
        return Trial(tuple(findings))
    sample, n_visible = sampled_mutants(task, limit, seed), len(task.visible_tests)
    survivors, visible_survivors = list[Mutant](), 0
    for mutant in sample:
        checks = _run(executor, task, mutant.program, tests, execution.cpu_seconds).checks
        visible_survivors += bool(n_visible) and _passes(checks[:n_visible])
        if task.hidden_tests and _passes(checks[n_visible:]):
            survivors.append(mutant)
            add("mutants fail", "warning", f"{mutant.kind}, {difference(task.canonical_program, mutant)}")
    if not sample:
        add("mutants fail", "not checked", "the canonical solution has no mutants")
    return Trial(tuple(findings), len(sample), tuple(survivors), bool(n_visible), visible_survivors)


def sampled_mutants(task: Task, limit: int, seed: int) -> list[Mutant]:
    """At most `limit` mutants of the canonical solution, in the order of their places; the prompt is not mutated."""
    program = task.canonical_program
    if Parser().parse(program) is None:
        return []
    before = next((code for code in (task.prompt, preamble(task)) if program.startswith(code)), "")
    try:
        return list(mutants(program, 1 + before.count("\n"), limit, random.Random(f"{seed}:{task.task_id}")))
    except MISTAKES:
        return []


def difference(program: str, mutant: Mutant) -> str:
    """The first line in which `mutant` differs from `program`, as `line 3: old -> new`."""
    old, new = ast.unparse(tree_of(program)).splitlines(), mutant.program.splitlines()
    i = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)) - 1)
    added = " (added)" if len(new) > len(old) else ""
    return f"line {mutant.line}: {old[i].strip()} -> {new[i].strip()}{added}"


def _run(executor: Sandbox, task: Task, program: str, tests: Sequence[str], cpu_seconds: float = 0.0) -> Execution:
    execution = executed(replace(task, cpu_seconds=cpu_seconds), program, tests, executor)
    if broken := [check for check in execution.checks if check.outcome == "harness_error"]:
        raise HarnessError(f"{task.task_id}: no verdict, {broken[0].message}; see `reflexion-lab doctor`")
    return execution


def _passes(checks: Sequence[Check]) -> bool:
    return all(check.outcome == "pass" for check in checks)
