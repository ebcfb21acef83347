"""Positive control for reflections: how the results of the program differ from the expected ones, in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from experiments.own_words_api.relations import UNKNOWN, Case, Sentence, condition, requirement, sentences
from reflexion_lab.agent.reflectors.evidence import classify_evaluation, describe, reflection_on
from reflexion_lab.agent.reflectors.quoted import solved
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Check, Episode, Reflection, Task
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.syntax import UNPARSABLE

FALLBACK = "my result is not what the task asks for"
SOURCE = "control:behaviour"


class Words(NamedTuple):
    kind: str
    """Of the cause; `fallback` if no rule holds."""
    cause: str
    change: str
    goal: str
    """What the result is of the input; "" if no rule says it."""

    @property
    def is_specific(self) -> bool:
        return self.kind != "fallback" or bool(self.goal)


class Behaviour:
    """Says how the results of the failing program differ from the expected ones, and on which inputs. No model call.

    The program runs on the calls of the feedback tests and of the hidden tests, so that each sentence is true of all of
    them and not of one example. `what_went_wrong` is the failing feedback check; the words quote no value of another
    check, no line of the solution and no line number. An upper bound, since they know the hidden tests: no figure of
    such a run is a pass@1, and no other run may read its reflections.

    Parameters
    ----------
    tasks
        Tasks with their hidden tests, which the loop's own copies lack.

    Raises
    ------
    ConfigError
        A task has no canonical solution.
    """

    reads_solutions = True

    def __init__(self, tasks: Sequence[Task], sandbox: Sandbox) -> None:
        self._tasks = solved("behaviour", tasks)
        self._sandbox = sandbox

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises HarnessError: the sandbox failed."""
        words = words_on(self._sandbox, self._tasks[task.task_id], attempt.trajectory.solution)
        evidence = describe(attempt, classify_evaluation(attempt.evaluation)[1])
        return reflection_on(
            attempt,
            SOURCE,
            root_cause=words.cause,
            what_went_wrong=f"This check failed: {evidence}",
            what_to_change=words.change,
            action_items=(words.goal,) if words.goal else (),
            confidence=1.0,
        )


def words_on(sandbox: Sandbox, task: Task, program: str) -> Words:
    """Words on a failing `program` of a task with its hidden tests."""
    if not program.strip():
        return Words("no program", "My reply holds no program.", "I will write the whole function.", "")
    cases, output = cases_of(sandbox, task, program)
    every = [*sentences(cases, bool(output.strip()))]
    cause = next((sentence for sentence in every if sentence.cause), None)
    goal = next((sentence for sentence in every if not sentence.cause), None)
    where = condition(cases)
    if cause is None:
        kind = "condition" if where else "fallback"
        cause = Sentence(kind, FALLBACK, requirement(cases))
    change = cause.change if cause.cause == FALLBACK else f"I will {cause.change}"
    return Words(
        cause.kind, _sentence(f"{cause.cause} {where}"), _sentence(change), _sentence(goal.change) if goal else ""
    )


def _sentence(words: str) -> str:
    words = words.strip()
    return f"{words[0].upper()}{words[1:]}."


def cases_of(sandbox: Sandbox, task: Task, program: str) -> tuple[list[Case], str]:
    """Cases of the feedback and hidden tests without repetitions, and what the program prints."""
    tests = [*dict.fromkeys((*task.visible_tests, *task.hidden_tests))]
    evaluation = run_tests(sandbox, task, program, tests)
    cases = {repr(case): case for case in map(case_of, tests, evaluation.checks, [task.entry_point] * len(tests))}
    return list(cases.values()), evaluation.output


def case_of(test: str, check: Check, entry_point: str) -> Case:
    """The case of a check, from its source and from what the sandbox recorded."""
    passed = check.outcome == "pass"
    arguments, expected = _call_of(test, entry_point)
    if not passed and check.expected:
        expected = _value(check.expected)
    error = "" if check.outcome in ("pass", "fail") else check.error_type or check.outcome
    return Case(arguments, expected, expected if passed else _value(check.actual), passed, error)


def _call_of(test: str, entry_point: str) -> tuple[tuple[Any, ...] | None, Any]:
    """Arguments and expected value of `assert f(...) == value`; None and UNKNOWN for other tests."""
    names = ("candidate", entry_point)
    try:
        nodes = [*ast.walk(tree := ast.parse(test))]
    except UNPARSABLE:
        return None, UNKNOWN
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names]
    if len(calls) != 1 or calls[0].keywords:
        return None, UNKNOWN
    values = [_literal(value) for value in calls[0].args]
    arguments = None if UNKNOWN in values or not values else tuple(values)
    return arguments, next(_compared(tree, calls[0]), UNKNOWN)


def _compared(tree: ast.Module, call: ast.Call) -> Iterator[Any]:
    """Literals that a statement `assert` of the module compares `call` with."""
    for node in tree.body:
        if isinstance(node, ast.Assert):
            test = node.test
            if test is call:
                yield True
            elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and test.operand is call:
                yield False
            elif isinstance(test, ast.Compare) and test.left is call and isinstance(test.ops[0], ast.Eq | ast.Is):
                yield _literal(test.comparators[0])


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except UNPARSABLE:
        return UNKNOWN


def _value(text: str) -> Any:
    """The value of a recorded `repr`; UNKNOWN if it was cut or is no literal."""
    try:
        return ast.literal_eval(text) if text else UNKNOWN
    except UNPARSABLE:
        return UNKNOWN
