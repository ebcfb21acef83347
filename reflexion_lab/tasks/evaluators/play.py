"""Heuristics on a play, without the success of its environment (Shinn et al., arXiv 2303.11366, section 4.1)."""

from __future__ import annotations

from reflexion_lab.records import WITHHELD, Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.unit_tests import evaluation_by

CONFIDENCE = 0.3
"""In a verdict that asked no environment."""


class PlayHeuristics:
    """Evaluator that fails a play which repeats itself, or has no end within the steps that it may take.

    An actor `play` stops where it takes the same action with the same observation three times. A play that ends counts
    as passed: whether it reached the goal is not asked.
    """

    kinds = ("actions", "answer")

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        if trajectory.strategy != "play" or trajectory.finish_reason in WITHHELD:
            outcome = trajectory.finish_reason if trajectory.finish_reason in WITHHELD else "no_tests"
            return Evaluation(passed=False, outcome=outcome, reward=0.0, verification_type="heuristics")
        turns = len(trajectory.steps)
        failing = {
            "no repeated action": ("repeated", "the same action gave the same observation three times"),
            "an end": ("max_steps", f"the play had no end after {turns} turns"),
        }
        broken = trajectory.ended == "world_failed"
        checks = tuple(
            Check(name=name, outcome="harness_error" if broken else "fail" if trajectory.ended == ended else "pass",
                  message=why * (trajectory.ended == ended))
            for name, (ended, why) in failing.items()
        )  # fmt: skip
        text = "; ".join(check.message for check in checks if check.outcome != "pass")
        return evaluation_by(checks, text, verification_type="heuristics", confidence=CONFIDENCE)
