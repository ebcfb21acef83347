"""What an arm's attempts cost, and how many of them broke; a rate of breaking stands beside every result."""

from __future__ import annotations

from collections.abc import Iterable

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import Record, Usage


class Tallies(Record, frozen=True, kw_only=True):
    """Counts over all attempts of an arm. The intervals of its rates take attempts as independent."""

    usage: Usage
    """Of all roles, written tests included; a cached reply counts what it took when first drawn."""
    extraction_failures: Rate
    """Attempts in whose reply no program was found."""
    timeouts: Rate
    """Attempts of which a feedback check timed out, or whose first failing hidden check did: grades name no other."""
    harness_errors: Rate
    """Attempts of which the harness itself spoilt a verdict, feedback or hidden: these say nothing of a program."""


def tallies(arm: Arm) -> Tallies:
    judged = [(one, arm.grades[case][one.number]) for case, made in arm.attempts.items() for one in made]
    n = len(judged)
    written = (suite.usage for log in arm.logs for suite in log.written.values())
    own = (usage for attempt, _ in judged for usage in attempt.usage.values())
    return Tallies(
        usage=total([*written, *own]),
        extraction_failures=Rate.of(sum(metrics.extraction_failures(*pair) for pair in judged), n),
        timeouts=Rate.of(sum(metrics.timeouts(*pair) for pair in judged), n),
        harness_errors=Rate.of(sum(metrics.harness_error(*pair) for pair in judged), n),
    )


def total(usages: Iterable[Usage]) -> Usage:
    """Their sum, field by field."""
    amounts = [
        (one.calls, one.prompt_tokens, one.completion_tokens, one.seconds, one.cost, one.retries, one.refused)
        for one in usages
    ]
    return Usage(**dict(zip(Usage.__struct_fields__, map(sum, zip(*amounts, strict=True)), strict=False)))
