"""Figures on the reflections of a run: flags, readers, success after use, calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.learning.calibration import Calibration, Forecast, calibration
from reflexion_lab.analysis.learning.effect import Reading, Verdicts, Written, effect, readings, reward_change
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.clusters import Clusters
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.records import Attempt, Grade, Record, Reflection

MISSES = "misses_check"
"""Flag of a reflection that names no failing check."""
LEAKS = ("leaks_value", "holds_code")
"""Flags of a reflection that contains an expected value, or code."""


class Group(Record, frozen=True, kw_only=True):
    """Reflections of one kind, and the retries (attempts from the second on) that read at least one of them.

    Rates of flags and reading assume independent reflections. Success is the feedback verdict, where there is one.
    """

    n: int
    read: Rate
    """Reflections that a later attempt read."""
    flags: dict[str, Rate]
    """Reflections with each flag, most frequent first."""
    retries: Rate
    """Success rate of the retries that read one."""
    tasks: int
    """Tasks of these retries."""
    reward_change: float | None
    """Mean change of the feedback reward in these retries, in [-1, 1]; None without any."""
    effect: Estimate | None
    """Success rate of these retries minus the base rate; None without any, and if the base is these retries."""
    hidden: Rate | None
    """Hidden success rate of these retries; None until every attempt is graded."""


class ReflectionFigures(Record, frozen=True, kw_only=True):
    n: int
    tasks: int
    is_reviewed: bool
    """Whether a reflection has a flag. Without any, a run without review and a review without findings look alike."""
    mentions_check: Rate | None
    """Reflections that name a failing check; None unless reviewed, and where no check was run."""
    leaks: Rate | None
    """Reflections that contain an expected value, or code; None unless reviewed."""
    base: Rate
    """Success rate of the retries that effects are compared with."""
    base_of: str
    """`retries without a reflection`, which also read nothing of other runs; `all retries` if there are none."""
    every: Group
    by_source: dict[str, Group]
    """By `llm`, `rules`, `fallback`, `control:<name>`; most frequent first."""
    calibration: dict[str, Calibration]
    """By source: confidence compared with the feedback verdict on the next attempt, if that read the reflection."""


class _Retries(NamedTuple):
    """Retries that effects are measured on."""

    grades: dict[tuple[str, int], Grade]
    """Hidden verdicts; empty until every attempt is graded."""
    readings: list[Reading]
    """Retries with a verdict."""
    base: Verdicts
    read_keys: set[tuple[str, int]]
    """Task and attempt of every reflection that any attempt read."""
    clusters: Clusters
    seed: int


def reflections(log: Log, seed: int = 0) -> ReflectionFigures | None:
    """Figures on the reflections of a run; None if it has none. `seed` is that of the intervals."""
    written = [Written(attempt, attempt.reflection) for attempt in log.every if attempt.reflection]
    if not written:
        return None
    every = readings(log)
    retries = [reading for reading in every if reading.before and reading.passed is not None]
    unread = [reading for reading in retries if not reading.read and not reading.reads_others]
    base = _verdicts(unread or retries)
    read_keys = {_key(written.attempt) for reading in every for written in reading.read}
    about = _Retries(log.sealed_grades, retries, base, read_keys, log.clusters, seed)
    whole = _group(written, about)
    has_checks = any(each.attempt.evaluation.outcome != "no_tests" for each in written)
    return ReflectionFigures(
        n=len(written),
        tasks=len({reflection.attempt.task_id for reflection in written}),
        is_reviewed=bool(whole.flags),
        mentions_check=_rate(written, lambda words: MISSES not in words.flags) if whole.flags and has_checks else None,
        leaks=_rate(written, lambda words: any(flag in LEAKS for flag in words.flags)) if whole.flags else None,
        base=_of_retries(base, log.clusters),
        base_of="retries without a reflection" if unread else "all retries",
        every=whole,
        by_source=_groups(written, about),
        calibration={name: calibration(own, seed=seed) for name, own in forecasts(log).items()},
    )


def forecasts(log: Log) -> dict[str, list[Forecast]]:
    """By source of the confidence (`stated`, `class`, `measured`), one for each reflection that the next attempt at its
    task read. Attempts without a verdict and controls without a confidence (`none`) are excluded.
    """
    by_source: dict[str, list[Forecast]] = {}
    for reading in readings(log):
        for words in (written.words for written in reading.read if written.attempt is reading.before):
            if reading.passed is not None and words.confidence_source != "none":
                task_id = reading.attempt.task_id
                forecast = Forecast(task_id, words.confidence, reading.passed, log.clusters.get(task_id, ""))
                by_source.setdefault(words.confidence_source, []).append(forecast)
    return by_source


def source(words: Reflection) -> str:
    """Author of a reflection, without the class that rules append."""
    head, _, rest = words.source.partition(":")
    return words.source if head == "control" and rest else head


def _groups(written: Sequence[Written], about: _Retries) -> dict[str, Group]:
    by_name: dict[str, list[Written]] = {}
    for reflection in written:
        by_name.setdefault(source(reflection.words), []).append(reflection)
    ordered = sorted(by_name.items(), key=lambda item: -len(item[1]))
    return {kind: _group(members, about) for kind, members in ordered}


def _group(written: Sequence[Written], about: _Retries) -> Group:
    members = {_key(reflection.attempt) for reflection in written}
    after = [r for r in about.readings if any(_key(reflection.attempt) in members for reflection in r.read)]
    verdicts = _verdicts(after)
    changes = [change for reading in after if (change := reward_change(reading)) is not None]
    hidden = ((r.attempt.task_id, verdict(about.grades.get(_key(r.attempt)))) for r in after)
    flags = Counter(flag for reflection in written for flag in set(reflection.words.flags))
    return Group(
        n=len(written),
        read=Rate.of(len(members & about.read_keys), len(written)),
        flags={flag: Rate.of(count, len(written)) for flag, count in flags.most_common()},
        retries=_of_retries(verdicts, about.clusters),
        tasks=len({task_id for task_id, _ in verdicts}),
        reward_change=fmean(changes) if changes else None,
        effect=effect(verdicts, about.base, about.seed, about.clusters),
        hidden=rate(hidden, about.clusters) if about.grades else None,
    )


def _verdicts(read: Iterable[Reading]) -> dict[tuple[str, int], bool]:
    return {_key(reading.attempt): bool(reading.passed) for reading in read}


def _of_retries(verdicts: Verdicts, clusters: Clusters) -> Rate:
    return rate(((task_id, passed) for (task_id, _), passed in verdicts.items()), clusters)


def _key(attempt: Attempt) -> tuple[str, int]:
    return attempt.task_id, attempt.number


def _rate(written: Sequence[Written], condition: Callable[[Reflection], bool]) -> Rate:
    return Rate.over(condition(reflection.words) for reflection in written)
