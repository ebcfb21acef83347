"""Name, metrics, tags, parameters and note of a run in a tracker; independent of MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.analysis import metrics as registry
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.documents import escaped
from reflexion_lab.analysis.report.page import metric
from reflexion_lab.analysis.report.run_tables import warnings
from reflexion_lab.analysis.stats.estimators import Point
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.summary import Log, Summary, cost_is_known
from reflexion_lab.io.secrets import without_login
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.memory.curators.history import rounds
from reflexion_lab.records import Manifest, Usage
from reflexion_lab.runner.folder.manifest import EXECUTION_KEYS, is_seeded, value_at

NAME_LENGTH = 28
"""Characters of a run's name. Tables cut at about 20, so distinguishing parts come first."""
LONGEST_VALUE = 500
"""Characters of a parameter."""

SECRET = re.compile(r"key|secret|passw|credential|auth|token(?!s)", re.IGNORECASE)
"""Names whose values are not shown; `max_tokens` is not among them."""
PATH = re.compile(r"(^|[._])(path|files?|dir|folder|root|place)$", re.IGNORECASE)
"""Names whose values are shown without folders, which describe the machine."""
MOST_ROUNDS = 100
"""Maximum number of steps of memory: MLflow takes 1,000 values at once. Longer runs have several rounds a step."""
UNFIT = re.compile(r"[^\w. -]")


class Metric(NamedTuple):
    name: str
    value: float
    step: int = 0
    """The attempt, 1-based, for curves; the number of rounds for memory; else 0."""


def run_name(manifest: Manifest) -> str:
    """Seed, arm, attempts, Ω, benchmark, as in `s0 reflexion a3 Ω1 humaneval`; at most `NAME_LENGTH` long."""
    attempts, omega = (value_at(manifest.config, key) for key in ("loop.max_attempts", "recall.omega"))
    parts = [
        "oracle" if manifest.feedback_source == "oracle" else "solutions" * manifest.shows_solutions,
        f"a{attempts}" if attempts is not None else "",
        f"Ω{omega}" if omega is not None and attempts != 1 else "",  # a single attempt recalls nothing
    ]
    seed, arm = f"s{manifest.seed}", str(manifest.config.get("arm", "run"))
    tail = " ".join(part for part in parts if part and part != arm)
    room = NAME_LENGTH - 2 - len(seed) - len(tail)
    return plain(f"{seed} {arm[:room]} {tail} {manifest.benchmark}"[:NAME_LENGTH])


def metrics(log: Log, summary: Summary) -> list[Metric]:
    """Registered metrics, counts, usage, and curves with the attempt as step.

    Figures of a run with a leak are called `upper_bound`: no table shall rank them as a pass@1.
    """
    figures: dict[str, float] = {}
    for each, value in registry.in_run(log):
        figures |= registry.numbers(f"final/{each.key(summary.is_upper_bound)}", value)
    figures["final/n"] = summary.pass_at_1.n
    figures["final/no_verdict"] = len(summary.no_verdict)
    figures["final/n_feedback"] = summary.visible_pass.n
    figures["usage/task_seconds"] = sum(result.duration for result in log.results.values())
    figures |= _usage(summary) | _reflections(summary)
    if not cost_is_known(log):  # 0 would be read as free
        figures = {name: value for name, value in figures.items() if not re.fullmatch(r"(final|usage/.*)/cost", name)}
    headline = "upper_bound" if summary.is_upper_bound else "pass_at_1"
    fields = {
        f"curve/{headline}": "pass_at_1",
        "curve/visible_pass": "visible_pass",
        "curve/reward": "reward",
        "usage/tokens_cum": "tokens_cum",
    }
    return [Metric(name, value) for name, value in figures.items()] + curves(points(log), fields) + _memory(log)


def _memory(log: Log) -> list[Metric]:
    """Memory across tasks, and what the curator did and took, with the number of rounds as step."""
    every = rounds(log.updates)
    stride = max(1, ceil(len(every) / MOST_ROUNDS))
    return [
        Metric(name, value, part[-1].number + 1)
        for part in (every[start : start + stride] for start in range(0, len(every), stride))
        for name, value in {
            "memory/items": float(part[-1].items),
            "memory/tokens": float(part[-1].tokens),
            "memory/operations": float(sum(each.kinds.total() for each in part)),
            "memory/refused": float(sum(each.refused for each in part)),
            "memory/unreadable": float(sum(each.unreadable for each in part)),
            "memory/curator_tokens": float(sum(each.usage.tokens for each in part)),
        }.items()
    ]


def curves(points: Iterable[Any], fields: Mapping[str, str]) -> list[Metric]:
    """Metrics with the attempt as step. `fields`: the field of a point by the metric's name."""
    return [
        Metric(name, value, point.attempt)
        for point in points
        for name, field in fields.items()
        if (value := getattr(point, field)) is not None
    ]


def _usage(summary: Summary) -> dict[str, float]:
    total = sum(summary.usage.values(), Usage())
    values = {f"final/{name}": float(getattr(total, name)) for name in ("tokens", "calls", "cost", "seconds")}
    for role, usage in summary.usage.items():
        counts = {name: float(getattr(usage, name)) for name in ("tokens", *Usage.__struct_fields__)}
        counts = {name: count for name, count in counts.items() if count}
        if summary.solved and not usage.uncounted:
            counts["tokens_per_solved"] = usage.tokens / summary.solved
        values |= {f"usage/{UNFIT.sub('_', role)}/{name}": value for name, value in counts.items()}
    return values


def _reflections(summary: Summary) -> dict[str, float]:
    """Metrics of reflections; success is that of the feedback tests."""
    figures = summary.reflection_figures
    if not figures:
        return {}
    every, rates = figures.every, {"passed_after": figures.every.retries, "base": figures.base}
    values = {"n": float(figures.n), "read_share": every.read.share}
    values |= {name: rate.share for name, rate in rates.items() if rate.n}
    if every.effect:
        values |= {"effect": every.effect.value, "effect_low": every.effect.low, "effect_high": every.effect.high}
    if figures.mentions_check and figures.leaks:
        values |= {"mentions_check_share": figures.mentions_check.share, "leaks_share": figures.leaks.share}
    values |= {f"flag_{flag}": rate.share for flag, rate in every.flags.items()}
    for source, calibration in figures.calibration.items():
        values |= {f"brier_{source}": calibration.brier.value, f"calibration_error_{source}": calibration.error}
    return {f"reflections/{UNFIT.sub('_', name)}": value for name, value in values.items()}


def points(log: Log) -> list[Point]:
    """The curve up to the allowed attempts, so that a mean over runs has every run at every step."""
    if not log.attempts or not log.is_graded:
        return []
    longest = max(len(attempts) for attempts in log.attempts.values())
    return log.curve(max(longest, log.max_attempts or 0))


def is_complete(log: Log) -> bool:
    """Whether every loop has ended and every attempt is graded."""
    return len(log.results) == log.manifest.n_expected and log.is_graded


def tags(log: Log, summary: Summary) -> dict[str, str]:
    """Tags that tell whether two runs may be compared."""
    manifest = log.manifest
    values = {
        "kind": "job",
        "run_id": manifest.run_id,
        "sweep_id": manifest.config.get("sweep_id"),
        "study": manifest.study,
        "deviations": "; ".join(log.deviations),
        "feedback_source": manifest.feedback_source,
        "benchmark_digest": manifest.benchmark_digest,
        "config_digest": manifest.config_digest,
        "model_fingerprint": manifest.model_fingerprint,
        **{f"model_fingerprint.{role}": name for role, name in manifest.role_fingerprints.items()},
        "slots": manifest.slots,
        "isolation": ", ".join(manifest.isolation),
        "git_commit": manifest.git_commit,
        "dirty": manifest.dirty,
        "n_expected": summary.n_expected,
        "n_logged": summary.n_logged,
        "interval": interval(summary.pass_at_1) if summary.pass_at_1.n else None,
    }
    return {name: text(value) for name, value in values.items() if value not in (None, "")}


def interval(estimate: Estimate | Rate) -> str:
    """An interval as text, such as `[0.625, 0.877]`: one column instead of two."""
    return cells.interval(estimate.low, estimate.high, digits=3, scale=1)


def note(log: Log, summary: Summary, folder: Path) -> str:
    """Markdown: what ran, the result with its interval and n, the warnings, and the run folder."""
    arm, benchmark = (escaped(str(name)) for name in (log.arm, log.manifest.benchmark))
    lines = (
        f"**{arm}** on {benchmark}, {log.manifest.feedback_source} feedback, seed {log.manifest.seed}",
        escaped(f"{metric(summary)} {cells.rate(summary.pass_at_1)}"),
        *(f"**{escaped(text)}**" for text in warnings(log, summary)),
        f"Run folder: `{folder}`",
    )
    return "\n\n".join(lines)


def params(manifest: Manifest) -> dict[str, str]:
    """Flattened config parameters: dotted keys; a group's value is its class name. Left out: execution settings, seeds
    that follow the run's, secrets, unset values.
    """
    config = {key: value for key, value in manifest.config.items() if key not in EXECUTION_KEYS}
    keys = {UNFIT.sub("_", key)[:250]: value for key, value in _flat(config, ()) if not SECRET.search(key)}
    kept = {key: v for key, v in keys.items() if key == "seed" or key.startswith("benchmark") or not is_seeded(key)}
    classes = ((group, value_at(config, f"{group}._target_")) for group in config)
    parts = {UNFIT.sub("_", group): str(target).rpartition(".")[2] for group, target in classes if target}
    return {key: value[:LONGEST_VALUE] for key, value in (kept | parts).items()}


def text(value: object) -> str:
    """Texts as they are, other values as JSON."""
    plain_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return visible(without_login(plain_text))


def _flat(node: object, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Dotted keys and values of everything set below `node`. A leading `_` marks keys of the config system."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not str(key).startswith("_"):
                yield from _flat(value, (*keys, str(key)))
    elif isinstance(node, list) and any(isinstance(item, Mapping | list) for item in node):
        for number, item in enumerate(node):
            yield from _flat(item, (*keys, str(number)))
    elif node is not None:
        name = ".".join(keys)
        yield name, Path(node).name if isinstance(node, str) and PATH.search(name) else text(node)
