"""Weighted reward of unit tests, type check and lint. Only the tests decide whether a program passed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import NotNegative, validated
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

FEEDBACK_CHARS = 900
WEIGHTS = {"tests": 0.5, "types": 0.3, "lint": 0.2}
"""Default weights."""
HEAD_START = 0.02
"""Seconds before the tools start: most tests finish within, and the tools would double their time."""
UNTESTED = {"no_tests": "the task shows none", "harness_error": "the harness broke"}


class Combined:
    """Evaluator: weighted mean of the share of tests passed, 1 for no type error, and 1 for no lint error.

    A part that did not run is left out of the mean and named in `issues`; without any weighted part the reward is 0.0.
    `confidence`: share of the weights whose parts ran. `passed`, `outcome`, `output` and `seconds` are the tests'.
    """

    kinds = ("function", "program")

    @validated
    def __init__(
        self,
        sandbox: Sandbox,
        tests_weight: NotNegative = WEIGHTS["tests"],
        types_weight: NotNegative = WEIGHTS["types"],
        lint_weight: NotNegative = WEIGHTS["lint"],
        type_tool: Literal["ty", "mypy"] = "ty",
        lint_tool: Literal["ruff"] = "ruff",
    ) -> None:
        self.sandbox = sandbox
        self.weights = {"tests": tests_weight, "types": types_weight, "lint": lint_weight}
        check_weights({f"{name}_weight": weight for name, weight in self.weights.items()})
        self.types = StaticCheck(type_tool)
        self.lint = StaticCheck(lint_tool)

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        with ThreadPoolExecutor(3) as pool:
            arguments = (task, trajectory.solution, task.visible_tests, trajectory.finish_reason)
            tests = pool.submit(run_tests, self.sandbox, *arguments)
            wait([tests], HEAD_START)
            types = pool.submit(self.types.evaluate, task, trajectory)
            lint = pool.submit(self.lint.evaluate, task, trajectory)
        return weigh(self.weights, tests.result(), types.result(), lint.result())


def weigh(weights: Mapping[str, float], tests: Evaluation, types: Evaluation, lint: Evaluation) -> Evaluation:
    """Merge three evaluations; `weights` has the keys `tests`, `types` and `lint`."""
    static = {"types": types, "lint": lint}
    components = {} if tests.outcome in UNTESTED else {"tests": tests.pass_rate}
    components |= {name: part.reward for name, part in static.items() if part.outcome in ("pass", "fail")}
    ran = [tests, *(part for name, part in static.items() if name in components)]
    total = sum(weights[name] for name in components)
    untested = () if "tests" in components else (f"tests did not run: {UNTESTED[tests.outcome]}",)
    return replace(
        tests,
        reward=weighted_mean(weights, components),
        checks=tuple(check for part in ran for check in part.checks),
        components=components,
        confidence=total / sum(weights.values()) if total else 0.0,
        issues=untested + types.issues + lint.issues,
        verification_type="combined",
        feedback="\n".join(part.feedback for part in ran if part.feedback)[:FEEDBACK_CHARS],
    )


def weighted_mean(weights: Mapping[str, float], components: Mapping[str, float]) -> float:
    """Weighted mean of `components`; 0.0 if their weights are all 0."""
    total = sum(weights[name] for name in components)
    return sum(weights[name] * share for name, share in components.items()) / total if total else 0.0


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise ConfigError if all weights are 0."""
    if not any(weights.values()):
        keys = ", ".join(f"evaluator.{name}" for name in weights)
        raise ConfigError(keys, "0 in each", "at least one above 0")
