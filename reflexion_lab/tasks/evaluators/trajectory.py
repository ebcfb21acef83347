"""Heuristic score of an actor's trajectory. Calls no model and runs no code; used alone or combined with tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from msgspec.structs import replace

from reflexion_lab.limits import Count, NotNegative, Share, validated
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.combined import check_weights
from reflexion_lab.text.replies.syntax import Parser

PASSABLE = 50
"""A lower score suggests an escalation."""
MANY_TURNS = 10
HEURISTIC = 0.3
"""Confidence in a score that ran no code."""
NO_OUTPUT = "No tangible output produced"


class TrajectoryHeuristics:
    """Evaluator that scores turns, errors and outcome: 50 % task completion, 30 % code quality, 20 % efficiency.

    `max_turns`: number of turns that halves the efficiency. `task_completion`, `code_quality`, `efficiency`: weights, 0
    or more, not all 0; only their ratios count.

    Notes
    -----
    Each part and the score range from 0 to 100; `components` and `reward` are divided by 100, `feedback` explains
    them. Task completion: 100 complete, 20 stuck, else 60 if a tool or file was used, else 30. Code quality by errors
    per turn, or by the share of the checks that ended in an error, the lower of the two: none 100, below 0.2 80, below
    0.4 60, else 40; 40 also for a program that is not Python. Efficiency: 100 - 50 * turns / max_turns - 10 * errors,
    clipped to 20..100; 20 if max_turns is 0. Halves are rounded up.

    A single reply is one turn; a stuck turn counts as an error even if it reports none. A trajectory without turns and
    without output scores 0. `passed` is always False and the outcome `no_tests`, because no test ran.
    """

    kinds = ("function", "program")

    @validated
    def __init__(
        self,
        max_turns: Count = 10,
        task_completion: NotNegative = 0.5,
        code_quality: NotNegative = 0.3,
        efficiency: NotNegative = 0.2,
    ) -> None:
        self.max_turns = max_turns
        self.weights = {"task_completion": task_completion, "code_quality": code_quality, "efficiency": efficiency}
        check_weights(self.weights)

    def evaluate(self, task: Task, trajectory: Trajectory, checks: Sequence[Check] = ()) -> Evaluation:
        """The score. `checks`: of the program, if it was tested."""
        raised = sum(check.kind == "test" and check.outcome not in ("pass", "fail") for check in checks)
        quality = min(code_quality(errors_of(trajectory), turns_of(trajectory)), code_quality(raised, len(checks)))
        parts = {
            "task_completion": Fraction(task_completion(trajectory)),
            "code_quality": Fraction(quality if is_python(trajectory) else code_quality(1, 1)),
            "efficiency": efficiency(errors_of(trajectory), turns_of(trajectory), self.max_turns),
        }
        if not turns_of(trajectory):
            parts = dict.fromkeys(parts, Fraction(0))
        weights = {name: Fraction(str(weight)) for name, weight in self.weights.items()}
        total = sum((weights[name] * part for name, part in parts.items()), Fraction(0))
        score = half_up(total / sum(weights.values()))
        scores = ", ".join(f"{name.replace('_', ' ')} {half_up(part)} %" for name, part in parts.items())
        return Evaluation(
            passed=False,
            outcome="no_tests",
            reward=score / 100,
            components={name: float(part / 100) for name, part in parts.items()},
            issues=issues_of(trajectory),
            suggestions=suggestions_for(trajectory, score),
            verification_type="trajectory",
            confidence=HEURISTIC,
            feedback=f"Score {score} of 100: {scores}. {summary_of(trajectory)}",
        )


class WithTrajectory:
    """Evaluator that adds the parts, issues and suggestions of the heuristics to those of another evaluator.

    `passed`, `outcome`, `checks` and `feedback` are those of `evaluator`. `verdict_weight`: weight of the reward of
    `evaluator`, in [0, 1]; the trajectory's score has the rest.
    """

    @validated
    def __init__(self, evaluator: Evaluator, trajectory: TrajectoryHeuristics, verdict_weight: Share = 0.5) -> None:
        self.evaluator = evaluator
        self.trajectory = trajectory
        self.verdict_weight = verdict_weight

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        tests = self.evaluator.evaluate(task, trajectory)
        score = self.trajectory.evaluate(task, trajectory, tests.checks)
        own = tests.components or ({"tests": tests.pass_rate} if tests.has_verdict else {})
        weight = self.verdict_weight if own else 0.0
        return replace(
            tests,
            reward=weight * tests.reward + (1 - weight) * score.reward,
            components=own | score.components,
            issues=(*tests.issues, *score.issues),
            suggestions=(*tests.suggestions, *score.suggestions),
        )


def task_completion(trajectory: Trajectory) -> int:
    known = {"complete": 100, "stuck": 20}
    return known.get(trajectory.status, 60 if tools_of(trajectory) or trajectory.files_modified else 30)


def code_quality(errors: int, turns: int) -> int:
    if not errors:
        return 100
    return 80 if 5 * errors < turns else 60 if 5 * errors < 2 * turns else 40


def is_python(trajectory: Trajectory) -> bool:
    """Whether the program can be parsed; True without one."""
    return not trajectory.solution.strip() or Parser().parse(trajectory.solution) is not None


def efficiency(errors: int, turns: int, max_turns: int) -> Fraction:
    left = 100 - Fraction(50 * turns, max_turns) - 10 * errors if max_turns else Fraction(0)
    return min(max(left, Fraction(20)), Fraction(100))


def half_up(number: Fraction) -> int:
    """Round to the nearest integer, halves up. (`round(84.5)` is 84.)"""
    return math.floor(number + Fraction(1, 2))


def turns_of(trajectory: Trajectory) -> int:
    return len(trajectory.steps) or int(bool(trajectory.solution.strip() or trajectory.files_modified))


def errors_of(trajectory: Trajectory) -> int:
    errors = sum(bool(step.error) for step in trajectory.steps)
    has_error = bool(trajectory.steps and trajectory.steps[-1].error)
    return errors + (trajectory.status == "stuck" and not has_error)


def tools_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Distinct tools in order of first use."""
    return tuple(dict.fromkeys(step.action for step in trajectory.steps if step.action))


def summary_of(trajectory: Trajectory) -> str:
    """One line, such as `Turns: 8, Tools: write_file, execute_command, Status: complete`."""
    tools = ", ".join(tools_of(trajectory)) or "none"
    return f"Turns: {turns_of(trajectory)}, Tools: {tools}, Status: {trajectory.status}"


def issues_of(trajectory: Trajectory) -> tuple[str, ...]:
    turns, errors = turns_of(trajectory), errors_of(trajectory)
    output = trajectory.solution.strip() or tools_of(trajectory) or trajectory.files_modified
    issues = {
        NO_OUTPUT: not output,
        "The attempt failed: the actor got stuck": trajectory.status == "stuck",
        f"{errors} errors in {turns} turns": errors > 0,
        "The program is not valid Python": not is_python(trajectory),
        f"High turn count: {turns}": turns > MANY_TURNS,
    }
    return tuple(issue for issue, holds in issues.items() if holds)


def suggestions_for(trajectory: Trajectory, score: int) -> tuple[str, ...]:
    suggestions = {
        "Escalate: another approach, a stronger model, or a human": score < PASSABLE,
        "Read each error before the next action": errors_of(trajectory) > 0,
        "Plan first, then act in fewer turns": turns_of(trajectory) > MANY_TURNS,
        "Bring the task to its end before stopping": trajectory.status == "unfinished",
    }
    return tuple(suggestion for suggestion, holds in suggestions.items() if holds)
