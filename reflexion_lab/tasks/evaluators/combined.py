"""The combined reward: unit tests, types and lint, weighed. Whether a program passed is for the tests alone to say."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import NotNegative, validated
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.static import StaticCheck, chosen
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

FEEDBACK_CHARS = 900
WEIGHTS = {"tests": 0.5, "types": 0.3, "lint": 0.2}
"""Where a config leaves them out."""
HEAD_START = 0.02
"""Seconds that the tests have for themselves: most end within, and the tools would double the time of a short one."""
UNTESTED = {"no_tests": "the task shows none", "harness_error": "the harness broke"}


class Combined:
    """reward = weighted mean of: share of the tests passed; 1 for no type error, else 0; 1 for no lint error, else 0.

    A part that did not run is left out, the other weights make up for it, and `issues` says so. The reward is 0.0 where
    no part that has a weight ran. `confidence` is the share of the weights whose parts ran. `passed`, `outcome`,
    `output` and `seconds` are those of the tests.
    """

    @validated
    def __init__(
        self,
        sandbox: Sandbox,
        tests_weight: NotNegative = WEIGHTS["tests"],
        types_weight: NotNegative = WEIGHTS["types"],
        lint_weight: NotNegative = WEIGHTS["lint"],
        type_tool: str = "ty",
        lint_tool: str = "ruff",
    ) -> None:
        self.sandbox = sandbox
        self.weights = {"tests": tests_weight, "types": types_weight, "lint": lint_weight}
        check_weights({f"{name}_weight": weight for name, weight in self.weights.items()})
        self.types = StaticCheck(chosen("evaluator.type_tool", type_tool, "type"))
        self.lint = StaticCheck(chosen("evaluator.lint_tool", lint_tool, "lint"))

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        with ThreadPoolExecutor(3) as pool:
            arguments = (task, trajectory.solution, task.visible_tests, trajectory.finish_reason)
            tests = pool.submit(run_tests, self.sandbox, *arguments)
            wait([tests], HEAD_START)
            types = pool.submit(self.types.evaluate, task, trajectory)
            lint = pool.submit(self.lint.evaluate, task, trajectory)
        return weigh(self.weights, tests.result(), types.result(), lint.result())


def weigh(weights: Mapping[str, float], tests: Evaluation, types: Evaluation, lint: Evaluation) -> Evaluation:
    """One evaluation of three. `weights` are for `tests`, `types` and `lint`; a tool's reward is 1 or 0."""
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
    """The mean of `components`, 0.0 where none has a weight."""
    total = sum(weights[name] for name in components)
    return sum(weights[name] * share for name, share in components.items()) / total if total else 0.0


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights that make no mean.

    Raises
    ------
    ConfigError
        A weight is negative or no finite number, or all of them are 0.
    """
    if not any(weights.values()):
        keys = ", ".join(f"evaluator.{name}" for name in weights)
        raise ConfigError(keys, "0 in each", "one above 0 at least")
