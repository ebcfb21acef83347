"""Outcomes of logs without programs, and their paired comparisons, as lines, tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.permutation import holm
from reflexion_lab.audit.outcomes import Outcomes, PairedOutcomes


def outcome_lines(log: Outcomes) -> Iterator[str]:
    """Lines on a log: its pass rate, and whether it is a control that cannot change."""
    share = log.share
    rate = f"{100 * share.value:.1f} % {interval(share.low, share.high)}"
    yield f"{rate}, n = {log.n}: {log.metric}, {log.name} ({log.format})"
    if log.ungraded:
        yield f"   left out: {log.ungraded} samples of {log.name} without a grade of pass or fail"
    if log.trials and log.trials.repeats.is_fixed:
        yield f"Control that cannot change: {log.trials.repeats} retries repeat the attempt before"


def outcome_json(log: Outcomes) -> dict[str, Any]:
    share = log.share
    repeats = log.trials.repeats if log.trials and log.trials.retries else None
    return {
        "name": log.name,
        "format": log.format,
        "metric": log.metric,
        "tasks": len(log.by_task),
        "n": log.n,
        "ungraded": log.ungraded,
        "share": share.value,
        "low": share.low,
        "high": share.high,
        "identical_retries": [repeats.identical, repeats.n] if repeats else None,
    }


def paired_sheet(pairs: Sequence[PairedOutcomes]) -> Sheet:
    """One row per log that is compared with the first, numbered from 2."""
    columns = ("log", "tasks", "pairs", "gained", "lost", "points", "95 % interval", "p", "p, Holm")
    adjusted = holm([pair.p for pair in pairs])
    rows = tuple(
        (
            str(number),
            str(pair.tasks),
            str(pair.cases),
            str(pair.gained),
            str(pair.lost),
            f"{100 * pair.difference.value:+.1f}",
            interval(pair.difference.low, pair.difference.high, signed=True),
            f"{pair.p:.2g}",
            f"{p:.2g}",
        )
        for number, (pair, p) in enumerate(zip(pairs, adjusted, strict=True), 2)
    )
    caption = (
        "Difference to log 1; tasks are clusters. Interval: t over tasks with added discordant pairs; p: sign-flip "
    )
    caption += "test over tasks (one sample a task: McNemar, exact)."
    return Sheet(title="Paired outcomes", columns=columns, rows=rows, caption=caption)


def paired_lines(logs: Sequence[Outcomes], pairs: Sequence[PairedOutcomes]) -> Iterator[str]:
    """The numbered logs, with what was compared and left out."""
    for number, log in enumerate(logs, 1):
        text, *others = outcome_lines(log)
        yield f"{number}: {text}"
        yield from others
        if number > 1:
            pair = pairs[number - 2]
            alone = f"; {pair.alone} tasks of one log alone, left out" if pair.alone else ""
            yield f"   compared: {pair.metric}{alone}"


def paired_json(pair: PairedOutcomes) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "metric": pair.metric,
        "tasks": pair.tasks,
        "pairs": pair.cases,
        "gained": pair.gained,
        "lost": pair.lost,
        "difference": pair.difference.value,
        "low": pair.difference.low,
        "high": pair.difference.high,
        "p": pair.p,
        "left_out": pair.alone,
    }
