"""Feedback verdicts against the checks that they are made of: passed, outcome and reward, computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reflexion_lab.records import OUTCOMES, Attempt, Evaluation
from reflexion_lab.studies.replay.verify.finding import Disagreement, Finding, unlike
from reflexion_lab.tasks.evaluators.combined import WEIGHTS, weighted_mean

BY_TESTS = ("unit_tests", "combined", "injected_false_negative", "injected_false_positive")
"""Verdicts that the tests alone give; the last two are in runs from before `Evaluation.injected`."""


def verdicts(made: Mapping[str, Sequence[Attempt]], config: Mapping[str, Any]) -> Finding:
    """Of an evaluator of the reader's own only what holds for any: nobody knows here what its reward is made of."""
    evaluator = config.get("evaluator")
    named = str(evaluator.get("_target_", "")) if isinstance(evaluator, dict) else ""
    is_ours = named.startswith("reflexion_lab.") or "recorded" in config
    every = [attempt for found in made.values() for attempt in found]
    wrong = [
        one
        for attempt in every
        for one in _wrong(f"{attempt.task_id}, attempt {attempt.number}", attempt.evaluation, evaluator, is_ours)
    ]
    return Finding(name="feedback verdicts", told=str(len(every)), disagreements=tuple(wrong))


def _wrong(where: str, found: Evaluation, evaluator: object, is_ours: bool) -> Iterator[Disagreement]:
    for field in ("reward", "confidence"):
        if not 0 <= (value := getattr(found, field)) <= 1:
            yield unlike(f"{where}, {field}", value, "0 to 1")
    for outcome in (found.outcome, *(check.outcome for check in found.checks)):
        if outcome not in OUTCOMES:
            yield unlike(f"{where}, outcome", outcome, "one of records.OUTCOMES")
    expected = _expected(found, evaluator) if is_ours else {}
    for field, value in expected.items():
        if getattr(found, field) != value:
            yield unlike(f"{where}, {field}", getattr(found, field), f"{value!r}, by its checks")


def _expected(found: Evaluation, evaluator: object) -> dict[str, object]:
    """What the checks say; {} where the kind of verdict is none of ours."""
    if found.verification_type in ("type_check", "lint"):
        failing = [check.outcome for check in found.checks if check.outcome != "pass"]
        outcome = failing[0] if failing else "pass"
        return {"passed": not failing, "outcome": outcome, "reward": float(not failing)}
    if found.verification_type == "trajectory":
        return {"passed": False, "outcome": "no_tests"}
    tests = [check.outcome for check in found.checks if check.kind == "test"]
    if found.verification_type not in BY_TESTS or (not tests and found.verification_type in BY_TESTS[2:]):
        return {}
    failing = [outcome for outcome in tests if outcome != "pass"]
    outcome = (failing[0] if failing else "pass") if tests else "no_tests"
    reward = _mean(found, evaluator) if found.verification_type == "combined" else found.pass_rate
    return {"passed": outcome == "pass", "outcome": outcome, "reward": reward}


def _mean(found: Evaluation, evaluator: object) -> float:
    """The weighted mean of the components, that of the tests being the share that passed."""
    parts = {name: found.pass_rate if name == "tests" else share for name, share in found.components.items()}
    weights = _weights(evaluator)
    return weighted_mean(weights, {name: share for name, share in parts.items() if name in weights})


def _weights(evaluator: object) -> dict[str, float]:
    """As the config says, maybe of an evaluator within another."""
    if not isinstance(evaluator, dict):
        return WEIGHTS
    if "evaluator" in evaluator:
        return _weights(evaluator["evaluator"])
    return {name: float(evaluator.get(f"{name}_weight", weight)) for name, weight in WEIGHTS.items()}
