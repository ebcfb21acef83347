"""Feedback by wrong and weak tests, to study what a loop makes of them: a part of one's own, from the project's folder.

reflexion-lab run -m 'hydra.searchpath=[file://experiments/noise_of_feedback/conf]' model=simulated actor=single_shot
        evaluator=noisy evaluator.wrong_tests=0,0.1,0.2,0.3,0.4 loop.stuck_after=null
"""

from __future__ import annotations

import ast
import contextlib
import random

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.text.replies.syntax import UNPARSABLE, parse

WEAK = "assert True"


class Noisy:
    """Wrapper of an evaluator that replaces some of a task's feedback tests by wrong or weak ones.

    Each test is drawn once and independently, and all programs of a task and run meet the same tests. A *wrong* test
    demands another value (`assert f(2) == 5` for `assert f(2) == 4`) or, if it compares with no literal value, the
    opposite: correct programs fail it, and an incorrect one may pass. A *weak* test passes every program that defines
    the function. The programs really run on these tests, so verdict, reward and feedback agree, and none of them
    reveals the truth (but for `run_tests` of actor=react). A test without `assert` stays as it is. A higher probability
    replaces a superset of the tests.

    Parameters
    ----------
    wrong_tests : float, default 0.0
        Probability that a test is wrong, in [0, 1].
    weak_tests : float, default 0.0
        Probability that a test is weak, in [0, 1]; both together at most 1.
    seed : int, default 0
        Seed of the draws.

    Raises
    ------
    ConfigError
        The evaluator runs no tests, or the two shares exceed 1.
    """

    @validated
    def __init__(self, evaluator: Evaluator, wrong_tests: Share = 0.0, weak_tests: Share = 0.0, seed: int = 0) -> None:
        if isinstance(evaluator, StaticCheck | TrajectoryHeuristics):
            kind = type(evaluator).__name__
            raise ConfigError("evaluator.evaluator", f"{kind}, which runs no tests", "UnitTests or Combined")
        if wrong_tests + weak_tests > 1:
            raise ConfigError("evaluator.weak_tests", weak_tests, f"at most 1 with wrong_tests={wrong_tests}")
        self.evaluator = evaluator
        self.wrong_tests = wrong_tests
        self.weak_tests = weak_tests
        self.seed = seed

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return self.evaluator.evaluate(replace(task, visible_tests=self.tests(task)), trajectory)

    def tests(self, task: Task) -> tuple[str, ...]:
        """The task's feedback tests in this run."""
        return tuple(self._drawn(test, f"{task.task_id}:{number}") for number, test in enumerate(task.visible_tests))

    def _drawn(self, test: str, name: str) -> str:
        draw = random.Random(f"{self.seed}:{name}").random()
        if draw < self.wrong_tests:
            return wrong_test(test)
        return WEAK if draw >= 1 - self.weak_tests else test


def wrong_test(test: str) -> str:
    """`test` with another demand in its last assertion; unchanged without one.

    `assert f(2) == 4` becomes `assert f(2) == 5`; without a literal value, the assertion is negated.
    """
    with contextlib.suppress(*UNPARSABLE):
        tree = parse(test)
        for last in [node for node in ast.walk(tree) if isinstance(node, ast.Assert)][-1:]:
            last.test = _other_value(last.test) or ast.UnaryOp(ast.Not(), last.test)
            return ast.unparse(ast.fix_missing_locations(tree))
    return test


def _other_value(condition: ast.expr) -> ast.expr | None:
    """A comparison with another literal value; None if `condition` compares with none."""
    match condition:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            for side in (right, left):
                with contextlib.suppress(ValueError, TypeError):
                    other = parse(_shown(_other(ast.literal_eval(side))), "eval").body
                    sides = (left, other) if side is right else (other, right)
                    return ast.Compare(sides[0], condition.ops, [sides[1]])
    return None


def _shown(value: object) -> str:
    """`repr`, with the items of sets in the same order in every process."""
    match value:
        case set() if value:
            return f"{{{', '.join(sorted(map(_shown, value)))}}}"
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case tuple():
            return f"({', '.join(map(_shown, value))}{',' * (len(value) == 1)})"
        case dict():
            return f"{{{', '.join(f'{_shown(key)}: {_shown(item)}' for key, item in value.items())}}}"
    return repr(value)


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
