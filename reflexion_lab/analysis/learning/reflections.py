"""What a run's reflections were like, who read them, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.learning.calibration import Calibration, Forecast, calibration
from reflexion_lab.analysis.learning.effect import Reading, Verdicts, Written, effect, hidden, readings, reward_change
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.records import Grade, Record, Reflection

MISSES = "misses_check"
"""The flag of a reflection that names no failing check."""
LEAKS = ("leaks_value", "holds_code")
"""The flags of one that gives away an expected value, or code."""


class Group(Record, frozen=True, kw_only=True):
    """Reflections of one kind, and the retries (attempts from the second on) whose actors read one at least.

    Rates of flags and of reading take reflections as independent; those on one task are not. Success is that of the
    feedback tests; a retry without a verdict counts in no rate.
    """

    n: int
    read: Rate
    """Those that a later attempt read."""
    flags: dict[str, Rate]
    """Those that carry a flag, most frequent first."""
    retries: Rate
    """Of the retries that read one, those that passed."""
    tasks: int
    """Of these retries."""
    reward_change: float | None
    """Mean change of the feedback reward in them, in [-1, 1]; None without any."""
    effect: Estimate | None
    """Success after use less the base rate; None without a use, and where the base is these very retries."""
    hidden: Rate | None
    """Of these retries, those that pass the hidden tests; None until the run is sealed and all of it graded."""


class ReflectionFigures(Record, frozen=True, kw_only=True):
    """Every figure on reflections; one that read them all and one that read none are both in it."""

    n: int
    tasks: int
    is_reviewed: bool
    """Some reflection carries a flag. Without any, nobody looked (older runs), or nothing was found: records do not say
    which, and `flags` is empty."""
    mentions_check: Rate | None
    """Those that name a failing check; None unless reviewed."""
    leaks: Rate | None
    """Those that give away an expected value, or code; None unless reviewed."""
    base: Rate
    """Success of the retries that effects are set against."""
    base_of: str
    """`retries without a reflection`, whose actors read nothing of other runs either; `all retries` where there are
    none of these."""
    every: Group
    by_source: dict[str, Group]
    """By `llm`, `rules`, `fallback`, `control:<name>`; the most frequent first."""
    by_category: dict[str, Group]
    calibration: dict[str, Calibration]
    """By where the confidence comes from, of the reflections that the next attempt at their task read: confidence
    against whether it passed its feedback tests."""


class _Retries(NamedTuple):
    """What effects are measured on."""

    grades: dict[tuple[str, int], Grade]
    """Hidden verdicts; empty until every attempt has one."""
    readings: list[Reading]
    """Retries with a verdict."""
    base: Verdicts
    seen: set[tuple[str, int]]
    """Task and attempt of every reflection that was read, retry or not."""
    seed: int


def reflections(log: Log, seed: int = 0) -> ReflectionFigures | None:
    """All figures on a run's reflections; None where it has none. `seed` is that of the intervals."""
    written = [Written(attempt, attempt.reflection) for attempt in log.every if attempt.reflection]
    if not written:
        return None
    every = readings(log)
    retries = [reading for reading in every if reading.before and reading.passed is not None]
    unread = [reading for reading in retries if not reading.read and not reading.reads_others]
    base = _verdicts(unread or retries)
    seen = {_about(words) for reading in every for words in reading.read}
    about = _Retries(log.sealed_grades, retries, base, seen, seed)
    whole = _group(written, about)
    return ReflectionFigures(
        n=len(written),
        tasks=len({reflection.attempt.task_id for reflection in written}),
        is_reviewed=bool(whole.flags),
        mentions_check=_rate(written, lambda words: MISSES not in words.flags) if whole.flags else None,
        leaks=_rate(written, _leaks) if whole.flags else None,
        base=Rate.of(sum(base.values()), len(base)),
        base_of="retries without a reflection" if unread else "all retries",
        every=whole,
        by_source=_groups(written, about, source),
        by_category=_groups(written, about, lambda words: words.category),
        calibration={
            name: calibration(source_forecasts, seed=seed) for name, source_forecasts in forecasts(log).items()
        },
    )


def forecasts(log: Log) -> dict[str, list[Forecast]]:
    """By where confidence comes from (`stated`, `class`, `measured`): one for each reflection that the next attempt at
    its task read. Left out: attempts without a verdict, and controls that judge nothing (`none`).
    """
    by_source: dict[str, list[Forecast]] = {}
    for reading in readings(log):
        for words in (written.words for written in reading.read if written.attempt is reading.before):
            if reading.passed is not None and words.confidence_source != "none":
                forecast = Forecast(reading.attempt.task_id, words.confidence, reading.passed)
                by_source.setdefault(_confidence_source(words), []).append(forecast)
    return by_source


def source(words: Reflection) -> str:
    """Who wrote it, without the class that rules name."""
    head, _, rest = words.source.partition(":")
    return words.source if head == "control" and rest else head


def _confidence_source(words: Reflection) -> str:
    """Rules state nothing: in older runs, which did not say, theirs is the class's."""
    by_rules = source(words) in ("rules", "fallback")
    return "class" if by_rules and words.confidence_source == "stated" else words.confidence_source


def _groups(written: Sequence[Written], about: _Retries, name: Callable[[Reflection], str]) -> dict[str, Group]:
    by_name: dict[str, list[Written]] = {}
    for reflection in written:
        by_name.setdefault(name(reflection.words), []).append(reflection)
    ordered = sorted(by_name.items(), key=lambda item: -len(item[1]))
    return {kind: _group(members, about) for kind, members in ordered}


def _group(written: Sequence[Written], about: _Retries) -> Group:
    members = {_about(reflection) for reflection in written}
    after = [reading for reading in about.readings if any(_about(words) in members for words in reading.read)]
    verdicts = _verdicts(after)
    changes = [change for reading in after if (change := reward_change(reading)) is not None]
    grades = [grade.passed for reading in after if (grade := hidden(about.grades, reading.attempt))]
    flags = Counter(flag for reflection in written for flag in set(reflection.words.flags))
    return Group(
        n=len(written),
        read=Rate.of(len(members & about.seen), len(written)),
        flags={flag: Rate.of(count, len(written)) for flag, count in flags.most_common()},
        retries=Rate.of(sum(verdicts.values()), len(verdicts)),
        tasks=len({task_id for task_id, _ in verdicts}),
        reward_change=fmean(changes) if changes else None,
        effect=effect(verdicts, about.base, about.seed),
        hidden=Rate.of(sum(grades), len(grades)) if about.grades else None,
    )


def _verdicts(read: Iterable[Reading]) -> dict[tuple[str, int], bool]:
    return {(reading.attempt.task_id, reading.attempt.number): bool(reading.passed) for reading in read}


def _about(written: Written) -> tuple[str, int]:
    return written.attempt.task_id, written.attempt.number


def _rate(written: Sequence[Written], holds: Callable[[Reflection], bool]) -> Rate:
    return Rate.of(sum(holds(reflection.words) for reflection in written), len(written))


def _leaks(words: Reflection) -> bool:
    return any(flag in LEAKS for flag in words.flags)
