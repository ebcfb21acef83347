"""Feedback with errors put in, for studying what wrong feedback does to a loop."""

from __future__ import annotations

import hashlib
import random

from msgspec.structs import replace

from reflexion_lab.evaluators.feedback import feedback
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import UNKNOWN, Evaluation, Task, Trajectory

FALSE_NEGATIVE, FALSE_POSITIVE = "injected_false_negative", "injected_false_positive"
"""The `verification_type` of a verdict that was turned round. It is not in `issues`, which an actor may read."""


class Noisy:
    """`evaluator`, whose verdict is turned round for some programs: equal programs of a task fare alike, as with a
    wrong test; a higher rate turns those of a lower one too.

    A passing program then fails one of its tests, a failing one passes all; the reward is the share of tests passed.
    Where there was no test, no program or a broken harness, nothing is turned.

    Args:
        false_negative: share of passing programs that are said to fail, in [0, 1].
        false_positive: share of failing programs that are said to pass, in [0, 1].
        seed: draws which.
    """

    def __init__(
        self, evaluator: Evaluator, false_negative: float = 0.0, false_positive: float = 0.0, seed: int = 0
    ) -> None:
        for name, rate in (("false_negative", false_negative), ("false_positive", false_positive)):
            if not 0 <= rate <= 1:
                raise ValueError(f"evaluator.{name}: {rate} found; expected a share in [0, 1]")
        self.evaluator = evaluator
        self.false_negative = false_negative
        self.false_positive = false_positive
        self.seed = seed

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        found = self.evaluator.evaluate(task, trajectory)
        if found.outcome in UNKNOWN or not trajectory.solution.strip():
            return found
        digest = hashlib.sha256(trajectory.solution.encode(errors="replace")).hexdigest()
        draw = random.Random(f"{self.seed}:{task.task_id}:{digest}")
        if draw.random() >= (self.false_negative if found.passed else self.false_positive):
            return found
        return _failing(found, draw) if found.passed else _passing(found)


def _failing(found: Evaluation, draw: random.Random) -> Evaluation:
    """One test says what a wrong test would say."""
    tests = [number for number, check in enumerate(found.checks) if check.kind == "test"]
    chosen = draw.choice(tests)
    checks = tuple(
        replace(check, outcome="fail", message="the assertion is false", error_type="AssertionError")
        if number == chosen
        else check
        for number, check in enumerate(found.checks)
    )
    return replace(
        found,
        passed=False,
        outcome="fail",
        reward=(len(tests) - 1) / len(tests),
        checks=checks,
        feedback=feedback(checks, found.output),
        verification_type=FALSE_NEGATIVE,
    )


def _passing(found: Evaluation) -> Evaluation:
    checks = tuple(
        replace(check, outcome="pass", message="", error_type="", expected="", actual="", line=0)
        for check in found.checks
    )
    return replace(
        found, passed=True, outcome="pass", reward=1.0, checks=checks, feedback="", verification_type=FALSE_POSITIVE
    )
