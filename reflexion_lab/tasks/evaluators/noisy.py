"""Feedback with injected errors, to study the effect of wrong verdicts on a loop."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import random
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import UNKNOWN, Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.combined import FEEDBACK_CHARS, Combined, weighted_mean
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import feedback

FALSE_NEGATIVE, FALSE_POSITIVE = "false_negative", "false_positive"
"""`Evaluation.injected` of a flipped verdict."""


class Noisy:
    """Wrapper of an evaluator that flips the verdict on a random sample of programs.

    Equal programs of a task get equal verdicts, as with a wrong test; a higher rate flips a superset of the programs.
    A flipped pass fails one test, with an invented value; a flipped failure passes all tests. Components and reward
    follow; types, lint and `verification_type` do not change. Without a program or a test nothing is flipped.

    Parameters
    ----------
    false_negative : float, default 0.0
        Share of passing programs reported as failing, in [0, 1].
    false_positive : float, default 0.0
        Share of failing programs reported as passing, in [0, 1].
    seed : int, default 0
        Seed of the sample.
    """

    is_noisy = True

    @validated
    def __init__(
        self, evaluator: Evaluator, false_negative: Share = 0.0, false_positive: Share = 0.0, seed: int = 0
    ) -> None:
        if isinstance(evaluator, StaticCheck | TrajectoryHeuristics):
            kind = type(evaluator).__name__
            raise ConfigError("evaluator.evaluator", f"{kind}, which runs no tests", "UnitTests or Combined")
        self.evaluator = evaluator
        self.false_negative = false_negative
        self.false_positive = false_positive
        self.seed = seed

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        evaluation = self.evaluator.evaluate(task, trajectory)
        tests = [number for number, check in enumerate(evaluation.checks) if check.kind == "test"]
        if evaluation.outcome in UNKNOWN or not trajectory.solution.strip() or not tests:
            return evaluation
        digest = hashlib.sha256(trajectory.solution.encode(errors="replace")).hexdigest()
        draw = random.Random(f"{self.seed}:{task.task_id}:{digest}")
        if draw.random() >= (self.false_negative if evaluation.passed else self.false_positive):
            return evaluation
        checks = _failing(evaluation, tests, draw) if evaluation.passed else _passing(evaluation)
        return self._flipped(evaluation, checks)

    def _flipped(self, evaluation: Evaluation, checks: tuple[Check, ...]) -> Evaluation:
        """`evaluation` with the opposite verdict and other `checks`; the feedback of types and lint does not change."""
        before, after = ([check for check in every if check.kind == "test"] for every in (evaluation.checks, checks))
        rest = evaluation.feedback.removeprefix(feedback(before, evaluation.output)).strip("\n")
        text = "\n".join(filter(None, (feedback(after, evaluation.output), rest)))[:FEEDBACK_CHARS]
        flipped = replace(
            evaluation,
            passed=not evaluation.passed,
            outcome="fail" if evaluation.passed else "pass",
            checks=checks,
            feedback=text,
            injected=FALSE_NEGATIVE if evaluation.passed else FALSE_POSITIVE,
        )
        components = evaluation.components
        if "tests" in components:
            components = components | {"tests": flipped.pass_rate}
        weights = self.evaluator.weights if isinstance(self.evaluator, Combined) else {}
        reward = weighted_mean(weights, components) if weights else flipped.pass_rate
        return replace(flipped, components=components, reward=reward)


def _failing(evaluation: Evaluation, tests: Sequence[int], draw: random.Random) -> tuple[Check, ...]:
    """The checks with one random test failing, as if the program had returned another value."""
    number = draw.choice(tests)
    expected, actual = _values(evaluation.checks[number].name)
    message = f"expected {expected}, got {actual}" if expected else ""
    checks = list(evaluation.checks)
    checks[number] = replace(checks[number], outcome="fail", expected=expected, actual=actual, message=message)
    return tuple(checks)


def _passing(evaluation: Evaluation) -> tuple[Check, ...]:
    blank = {"message": "", "error_type": "", "expected": "", "actual": "", "line": 0}
    return tuple(
        replace(check, outcome="pass", **blank) if check.kind == "test" else check for check in evaluation.checks
    )


def _values(name: str) -> tuple[str, str]:
    """A test's expected value and an invented other value, as texts of a failure; ("", "") if it names no value."""
    try:
        (node,) = ast.parse(name).body
    except (ValueError, SyntaxError):
        return "", ""
    match node:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right])):
            for side in (right, left):
                with contextlib.suppress(ValueError, TypeError):
                    value = ast.literal_eval(side)
                    return _shown(value), _shown(_other(value))
        case ast.Assert(test=ast.UnaryOp(op=ast.Not())):
            return "a false value", "True"
        case ast.Assert(test=ast.Call()):
            return "a true value", "False"
    return "", ""


def _shown(value: object) -> str:
    """`repr`, with the items of a set in the same order in every process."""
    return f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, set) and value else repr(value)


def _other(value: object) -> object:
    """A different value of the same type, close to `value`."""
    match value:
        case bool():
            return not value
        case int() | float() | complex():
            return value + 1 if value + 1 != value else 0
        case str() | bytes() | list() | tuple() if value:
            return value[:-1]
        case set() if value:
            return set(sorted(value, key=repr)[1:])
        case dict() if value:
            return dict(list(value.items())[1:])
    return None if value is not None else 0
