"""The lab's metrics of whole arms. Tables have columns of their own for them, so that they have no label."""

from __future__ import annotations

from collections.abc import Callable

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.budgets import is_known, per_solved
from reflexion_lab.analysis.learning.transitions import ends
from reflexion_lab.analysis.metrics import metric
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.records import Usage

TOKENS = ("tokens", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
FEEDBACK = ("false_positive_rate", "false_negative_rate", "wrong_if_passed", "right_if_failed")
LEFT_OUT = ("own_", "prompt_estimate")
"""Beginnings of fields of usage that are shown only where they are not 0."""


@metric("arm", "share", label="", direction="higher")
def pass_at_1(arm: Arm) -> Rate:
    """Hidden verdicts on submissions."""
    return arm.share(arm.verdicts())


@metric("arm", "share", label="", direction="higher")
def pass_at_1_first(arm: Arm) -> Rate:
    """Hidden verdicts on attempt 1, the plain single attempt."""
    return arm.share(arm.verdicts(1))


@metric("arm", "count", label="")
def attempts(arm: Arm) -> int:
    return len(arm.graded)


@metric("arm", "share", label="", direction="higher", cases="cases wrong at attempt 1")
def repair(arm: Arm) -> Rate | None:
    """Right as submitted; None if none was wrong at attempt 1."""
    return ends(arm).repair


@metric("arm", "share", label="", direction="lower", cases="cases right at attempt 1")
def damage(arm: Arm) -> Rate | None:
    """Wrong as submitted; None if none was right at attempt 1."""
    return ends(arm).damage


for _name in ("wrong_to_right", "right_to_wrong", "unchanged"):
    metric("arm", "share", label="", name=_name, cases="cases with both verdicts")(
        lambda arm, name=_name: getattr(ends(arm), name)
    )
metric("arm", "number", label="", name="gain", direction="higher")(lambda arm: ends(arm).gain)


COUNTS: dict[str, Callable[[Arm], int]] = {
    "n": lambda arm: len(arm.judged),
    "tasks": lambda arm: len(arm.tasks),
    "clusters": lambda arm: arm.n_clusters,
    "n_expected": lambda arm: sum(log.manifest.n_expected for log in arm.logs),
    "n_logged": lambda arm: len(arm.attempts),
    "no_feedback": lambda arm: sum(own[0].evaluation.outcome == "no_tests" for own in arm.attempts.values()),
    "train": lambda arm: arm.train,
    "seeds": lambda arm: len(arm.seeds),
    "no_verdict": lambda arm: len(arm.no_verdict),
}
"""Of cases, but for tasks, their clusters, and seeds. `n`: with a hidden verdict; `no_feedback`: they show no test;
`train`: memory learnt from them."""
for _name, _of in COUNTS.items():
    metric("arm", "count", label="", name=_name)(_of)


def _spent(arm: Arm, name: str) -> float | None:
    """None where it was not recorded or priced: the 0 would be read as free."""
    unit, value = "tokens" if name in TOKENS else name, getattr(arm.usage, name)
    is_shown = value or not name.startswith(LEFT_OUT)
    return value if is_shown and (unit not in ("tokens", "calls", "cost") or is_known(arm, unit)) else None


def _per_case(arm: Arm, unit: str) -> float | None:
    value = _spent(arm, unit)
    return None if value is None else value / len(arm.attempts)


def _per_solved(arm: Arm, unit: str) -> Estimate | None:
    return per_solved(arm, unit) if is_known(arm, unit) else None


for _name in FEEDBACK:
    metric("arm", "share", label="", name=f"feedback_attempts_{_name}", direction="lower")(
        lambda arm, name=_name: getattr(arm.feedback, name)
    )
for _name in ("tokens", *Usage.__struct_fields__):
    metric("arm", "number", label="", name=_name, direction="lower")(lambda arm, name=_name: _spent(arm, name))
for _name in ("tokens", "cost"):
    metric("arm", "number", label="", name=f"{_name}_per_case", direction="lower")(
        lambda arm, unit=_name: _per_case(arm, unit)
    )
    metric("arm", "number", label="", name=f"{_name}_per_solved", direction="lower")(
        lambda arm, unit=_name: _per_solved(arm, unit)
    )
