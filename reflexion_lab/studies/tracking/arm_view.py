"""What a tracker shows of an arm, all its seeds together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from reflexion_lab.analysis import metrics as registry
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.row import Difference, Row
from reflexion_lab.analysis.estimators import Confusion
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.documents import escaped
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Usage
from reflexion_lab.studies.tracking.parameters import LONGEST_VALUE, UNFIT
from reflexion_lab.studies.tracking.parameters import params as params_of
from reflexion_lab.studies.tracking.run_view import Metric, interval

SUMMARY_OF = "summary_of"
"""The parameter that holds the arm's label. It is not called `arm`: to group by `arm` takes single runs alone."""


def name(arm: Arm) -> str:
    """As in `reflexion Ω=3, 3 seeds`; what distinguishes arms stands first."""
    oracle = " oracle" if arm.is_upper_bound and "oracle" not in arm.label else ""
    seeds = f"{len(arm.seeds)} seed{'s' * (len(arm.seeds) != 1)}"
    return plain(f"{arm.label.replace('recall.omega=', 'Ω=')}{oracle}, {seeds}")


def params(arm: Arm) -> dict[str, str]:
    """Which arm, and of it what is the same in all of its runs."""
    params_by_run = [params_of(log.manifest) for log in arm.logs]
    same = {
        key: value for key, value in params_by_run[0].items() if all(other.get(key) == value for other in params_by_run)
    }
    same.pop("arm", None)
    return {SUMMARY_OF: arm.label[:LONGEST_VALUE], **same}


def group_keys(arms: Sequence[Arm]) -> tuple[str, ...]:
    """The parameters of single runs that distinguish these arms: `arm`, and the keys in their labels."""
    named = [key for arm in arms for key in re.findall(r" ([^\s=]+)=", arm.label)]
    return ("arm", *dict.fromkeys(UNFIT.sub("_", key.removesuffix("._target_")) for key in named))


def summary_id(arm: Arm, sweep_id: str) -> str:
    """Equal for the same arm of the same study, sweep, benchmark, feedback source and models."""
    manifest = arm.logs[0].manifest
    models = [
        manifest.model_fingerprint,
        *(f"{role}={name}" for role, name in sorted(manifest.role_fingerprints.items())),
    ]
    parts = (manifest.study, sweep_id, arm.label, manifest.benchmark_digest, manifest.feedback_source, *models)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def tags(arm: Arm, row: Row, comparison: Comparison, sweep_id: str) -> dict[str, str]:
    """What it is made of, and what it was compared with."""
    manifest = arm.logs[0].manifest
    values = {
        "kind": "arm",
        "summary_id": summary_id(arm, sweep_id),
        "sweep_id": sweep_id,
        "study": row.study,
        "feedback_source": arm.feedback_source,
        "benchmark_digest": manifest.benchmark_digest,
        "model_fingerprint": manifest.model_fingerprint,
        "seeds": ", ".join(map(str, arm.seeds)),
        "run_ids": ", ".join(row.run_ids),
        "baseline": comparison.baseline or "",
        "interval": interval(row.final),
        "difference": "baseline" if row.arm == comparison.baseline else row.refused or _said(row.as_run, row),
        "p_holm": f"{row.as_run.p_holm:.2g}" if row.as_run and not row.is_upper_bound else "",
        f"at_equal_{comparison.unit}": _said(_matched(row), row),
    }
    return {key: value for key, value in values.items() if value}


def metrics(row: Row, comparison: Comparison, curve: Curve) -> list[Metric]:
    """Curve with its intervals, final figures with theirs, differences to the baseline, and what was used.

    Figures of an upper bound are called so, their differences too.
    """
    headline, prefix = ("upper_bound", "upper_bound_") if row.is_upper_bound else ("pass_at_1", "")
    figures = {
        **registry.numbers(f"final/{headline}", row.final),
        "final/n": float(row.n),
        "final/no_verdict": float(len(row.no_verdict)),
        "final/seeds": float(len(row.seeds)),
        "final/tasks": float(row.tasks),
        **_difference(f"final/{prefix}difference", row.as_run, not row.is_upper_bound),
        **_difference(f"final/{prefix}difference_at_equal_{comparison.unit}", _matched(row), not row.is_upper_bound),
        **registry.numbers(f"final/attempt_1_{headline}", row.first),
        f"final/{prefix}auc": row.area,
        **registry.numbers("final/repair", row.moves.repair),
        **registry.numbers("final/damage", row.moves.damage),
        **(_feedback(row.feedback) if not row.is_upper_bound else {}),
        **_spent(row),
        **{k: v for key, value in row.metrics.items() for k, v in registry.numbers(f"final/{key}", value).items()},
    }
    curves = [
        Metric(f"curve/{key}", value, point.attempt)
        for point in curve.points
        for key, value in (
            (headline, point.pass_at_1),
            (f"{headline}_low", point.low),
            (f"{headline}_high", point.high),
            ("any_solved", point.any_solved),
            ("reward", point.reward),
            ("visible_pass", point.visible_pass),
        )
        if value is not None
    ]
    return [Metric(*item) for item in figures.items()] + curves


def note(row: Row, comparison: Comparison) -> str:
    """A few lines of Markdown: what came out, against what, and how far it can be told."""
    headline = "upper bound, no pass@1:" if row.is_upper_bound else "pass@1"
    seeds = ", ".join(map(str, row.seeds))
    lines = [
        f"**{escaped(row.arm)}** on {escaped(comparison.benchmark)}, {row.feedback_source} feedback, seeds {seeds}",
        f"{headline} **{row.final.value:.3f}** (95 % interval {row.final.low:.3f} to {row.final.high:.3f}, "
        f"{row.method}); {row.first.value:.3f} at attempt 1",
        f"n = {row.n} cases of {row.tasks} tasks",
        f"**NO VERDICT: {len(row.no_verdict)} cases**, left out of n" if row.no_verdict else "",
        *(_sentence(difference, comparison) for difference in (row.as_run, _matched(row)) if difference),
        f"No difference: {escaped(row.refused)}" if row.refused else "",
        f"Registered study: {escaped(row.study)}" if row.study else "Exploratory: no registered study",
    ]
    return "\n\n".join(line for line in lines if line)


def _said(difference: Difference | None, row: Row) -> str:
    """As in `+0.312 [+0.188, +0.425]`; "" for none."""
    if difference is None:
        return ""
    return "bound " * row.is_upper_bound + cells.estimate(difference.estimate, digits=3, scale=1, signed=True)


def _sentence(difference: Difference, comparison: Comparison) -> str:
    estimate, detected = difference.estimate, "detected" if difference.is_detected else "**not detected**"
    interval = f"95 % interval {estimate.low:+.3f} to {estimate.high:+.3f}"
    p = f"p = {difference.p_tasks:.3g}, after Holm {difference.p_holm:.3g}"
    against = f"Against {escaped(str(comparison.baseline))}, {difference.budget}"
    return f"{against}: {estimate.value:+.3f} ({interval}), {p}: {detected}"


def _matched(row: Row) -> Difference | None:
    """The comparison at equal budget; None also where the budgets could not be matched."""
    matched = row.matched
    return None if matched is None or (matched.cut and not matched.cut.is_matched) else matched


def _difference(key: str, difference: Difference | None, is_claim: bool) -> dict[str, float]:
    """Without p-values where the difference is not a claim."""
    if difference is None or not is_claim:
        return registry.numbers(key, difference.estimate if difference else None)
    p_values = {f"{key}_p": difference.p_tasks, f"{key}_p_mcnemar": difference.p, f"{key}_p_holm": difference.p_holm}
    return {**registry.numbers(key, difference.estimate), **p_values, f"{key}_n": float(difference.n)}


def _feedback(confusion: Confusion) -> dict[str, float]:
    """Of the feedback tests against the hidden ones."""
    rates = {
        "feedback_false_positive_rate": confusion.false_positive_rate,
        "feedback_false_negative_rate": confusion.false_negative_rate,
        "feedback_wrong_if_passed": confusion.wrong_if_passed,
        "feedback_right_if_failed": confusion.right_if_failed,
    }
    return {f"final/{key}": rate.share for key, rate in rates.items() if rate.n}


def _spent(row: Row) -> dict[str, float]:
    """Over all of the arm's runs."""
    values = {f"usage/{key}": float(getattr(row.spent.usage, key)) for key in ("tokens", *Usage.__struct_fields__)}
    return values | registry.numbers("usage/tokens_per_solved", row.tokens_per_solved)
