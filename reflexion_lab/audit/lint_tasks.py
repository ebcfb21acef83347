"""What can be said of tasks by reading them alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from reflexion_lab.records import Task
from reflexion_lab.text.replies.syntax import Parser, bound_names
from reflexion_lab.text.shorten import line

SHOWN = 80
"""Characters of a test in a finding."""
Said = tuple[Literal["error", "warning", "not checked"], str, str]
"""Severity, task id, detail."""


def ids(tasks: Sequence[Task]) -> Iterator[Said]:
    yield from _twice(tasks, lambda task: task.task_id, "error", "the id")


def prompts(tasks: Sequence[Task]) -> Iterator[Said]:
    yield from _twice(tasks, lambda task: " ".join(task.prompt.split()), "warning", "the prompt")


def parses(tasks: Sequence[Task]) -> Iterator[Said]:
    for task in tasks:
        named = [("the canonical solution", task.canonical_program), ("the setup", task.setup)]
        named += [(f"visible test {i}", test) for i, test in enumerate(task.visible_tests, 1)]
        named += [(f"hidden test {i}", test) for i, test in enumerate(task.hidden_tests, 1)]
        for name, code in named:
            if parsed(code) is None:
                yield "error", task.task_id, f"{name} is no Python: {line(code, SHOWN)}"


def suites(tasks: Sequence[Task]) -> Iterator[Said]:
    for task in tasks:
        if not task.hidden_tests:
            yield "error", task.task_id, "no hidden test: nothing can be judged"
        if not task.visible_tests:
            yield "warning", task.task_id, "no visible test: the loop gets no feedback"
        for test in (*task.visible_tests, *task.hidden_tests):
            if not test.strip():
                yield "error", task.task_id, "an empty test passes every program"
            elif (tree := parsed(test)) and not _can_fail(tree):
                yield "warning", task.task_id, f"nothing is asserted or called by {line(test, SHOWN)}"


def entry_points(tasks: Sequence[Task]) -> Iterator[Said]:
    for task in tasks:
        name = task.entry_point
        if not name.isidentifier():
            yield "error", task.task_id, f"{name!r} is no name of a function"
            continue
        solution = parsed(task.canonical_program)
        if task.canonical_solution.strip() and solution and name not in bound_names(solution):
            yield "error", task.task_id, f"the canonical solution does not define {name}"
        for side, tests in (("visible", task.visible_tests), ("hidden", task.hidden_tests)):
            silent = [test for test in tests if not _mentions(test, name)]
            if silent and len(silent) == len(tests):
                yield "error", task.task_id, f"no {side} test speaks of {name}"
            elif silent:
                count = f"{len(silent)} of {len(tests)} {side} tests"
                yield "warning", task.task_id, f"{count} without {name}, such as {line(silent[0], SHOWN)}"


def disjoint(tasks: Sequence[Task]) -> Iterator[Said]:
    """Equal text, spaces aside; an equal assert, however it is laid out and quoted; the same call, however compared."""
    for task in tasks:
        visible = [_claims(test, task.entry_point) for test in task.visible_tests]
        again = dict[int, str]()
        for i, test in enumerate(task.hidden_tests):
            own = _claims(test, task.entry_point)
            for kind, claims in own.items():
                if any(claims & other[kind] for other in visible):
                    again.setdefault(i, f"the {kind} of a visible test: {line(test, SHOWN)}")
        if again and len(again) == len(task.hidden_tests):
            yield "error", task.task_id, f"every hidden test is shown, such as {next(iter(again.values()))}"
        elif again:
            count = f"{len(again)} of {len(task.hidden_tests)} hidden tests"
            yield "warning", task.task_id, f"{count}, such as {next(iter(again.values()))}"


def parsed(code: str) -> ast.Module | None:
    """The tree of `code`, within bounds."""
    return Parser().parse(code)


def _twice(
    tasks: Sequence[Task], key: Callable[[Task], str], severity: Literal["error", "warning"], what: str
) -> Iterator[Said]:
    groups = defaultdict[str, list[str]](list)
    for task in tasks:
        groups[key(task)].append(task.task_id)
    for first, *others in groups.values():
        for other in others:
            yield severity, other, f"has {what} of {first}"


def _claims(test: str, entry_point: str) -> dict[str, set[str]]:
    tree = parsed(test)
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
        "call (compared otherwise)": {_arguments(node) for node in calls if node.args or node.keywords},
    }


def _arguments(call: ast.Call) -> str:
    """Literal arguments by value, so that `[1,2]` and `[1, 2]`, `"a"` and `'a'`, `1_000` and `1000` are the same."""
    return ", ".join(ast.dump(node) for node in (*call.args, *call.keywords))


def _can_fail(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Assert | ast.Call | ast.Raise) for node in ast.walk(tree))


def _mentions(test: str, name: str) -> bool:
    return bool(re.search(rf"\b(?:candidate|{re.escape(name)})\b", test))
