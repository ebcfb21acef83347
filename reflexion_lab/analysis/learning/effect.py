"""Did those that read reflections pass more often than the base? A difference of two shares whose cases share tasks.

Who read differs from who did not in more than the reading: harder tasks are retried more often. Within one run this
describes and explains nothing; what reflections are worth is said by arms on the same tasks, with and without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, clustered, resampled, unpaired_difference
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import UNKNOWN, Attempt, Grade, Record, Reflection

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FEWEST = 10
"""Tasks on each side that the bootstrap needs: with 30 tasks, 6 of them on one side, its 95 % hold 77."""

Verdicts = Mapping[tuple[str, int], bool]
"""By task and number of the attempt, whether it passed."""


def effect(after: Verdicts, base: Verdicts, seed: int = 0) -> Estimate | None:
    """share(after) - share(base), in [-1, 1].

    The interval is the bootstrap over tasks (percentiles of 2,000 draws; both shares from the same drawn tasks). Where
    a side, `after` or the rest of the base, has fewer than `FEWEST` tasks, or never varied, there is too little to draw
    from, and Newcombe's interval for separate shares takes its place, each with as many cases as its clusters are worth
    at least (`intervals.effective`).

    Parameters
    ----------
    after : Verdicts
        Part of `base`, or none of it.

    Returns
    -------
    Estimate | None
        None where there is nothing to compare: no case after, or no other case in the base.

    Raises
    ------
    ConfigError
        Some of `after` is in `base` and some is not.
    """
    rest = {case: passed for case, passed in base.items() if case not in after}
    inside = len(base) - len(rest)
    if inside not in (0, len(after)):
        raise ConfigError("base", f"{inside} of {len(after)} cases", "all or none")
    if not after or not rest:
        return None
    value = _share(after) - _share(base)
    if min(len(_tasks(after)), len(_tasks(rest))) < FEWEST or len({*after.values()}) < 2 or len({*rest.values()}) < 2:
        low, high = (end * len(rest) / len(base) for end in unpaired_difference(_wilson(after), _wilson(rest)))
    else:
        low, high = _bootstrap(after, base, seed)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _share(verdicts: Verdicts) -> float:
    return sum(verdicts.values()) / len(verdicts)


def _tasks(verdicts: Verdicts) -> dict[str, list[bool]]:
    by_task: dict[str, list[bool]] = {}
    for (task_id, _), passed in verdicts.items():
        by_task.setdefault(task_id, []).append(passed)
    return by_task


def _wilson(verdicts: Verdicts) -> tuple[float, float, float]:
    share = _share(verdicts)
    return share, *clustered(share, [len(outcomes) for outcomes in _tasks(verdicts).values()])


def _bootstrap(after: Verdicts, base: Verdicts, seed: int) -> tuple[float, float]:
    import numpy as np

    tasks = sorted({task_id for task_id, _ in (*after, *base)})
    columns = [column for verdicts in (after, base) for column in _columns(verdicts, tasks)]
    passed, cases, base_passed, base_cases = resampled(columns, f"{seed}:effect")
    with np.errstate(invalid="ignore"):  # not a number where a draw has no case
        differences = passed / cases - base_passed / base_cases
    low, high = np.nanquantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _columns(verdicts: Verdicts, tasks: Collection[str]) -> list[NDArray[float64]]:
    """By task, how many passed, of how many."""
    import numpy as np

    by_task = _tasks(verdicts)
    return [np.array([float(of(by_task.get(task_id, []))) for task_id in tasks]) for of in (sum, len)]


class Use(Record, frozen=True, kw_only=True):
    """One reflection, and one attempt whose actor read it."""

    reflection_id: str
    about_task: str
    about_attempt: int
    task_id: str
    number: int
    """Of the attempt that read it; with `task_id`, its place in the run."""
    passed: bool | None
    """Its feedback verdict; None where nobody could tell, which is no failure."""
    reward_change: float | None
    """Its feedback reward against that of the attempt before it, in [-1, 1]; None at a loop's first attempt."""
    hidden_passed: bool | None
    """Its hidden verdict, which no loop ever saw; None until the run is sealed and all of it graded."""


class Written(NamedTuple):
    """A reflection and the attempt that it is about."""

    attempt: Attempt
    words: Reflection


class Reading(NamedTuple):
    """An attempt and what its actor read."""

    attempt: Attempt
    before: Attempt | None
    """The attempt before it at the same task."""
    read: tuple[Written, ...]
    """Reflections of this run, in the order in which they were read."""
    reads_others: bool
    """It read wisdom, mistakes, or episodes of other runs: whether these hold a reflection, its run cannot say."""

    @property
    def passed(self) -> bool | None:
        evaluation = self.attempt.evaluation
        return None if evaluation.outcome in UNKNOWN else evaluation.passed


def readings(log: Log) -> list[Reading]:
    """One for every attempt of the run, in its order."""
    known = {name: attempt for attempt in log.every for name in _names(log.manifest.run_id, attempt)}
    readings = []
    for attempts in log.attempts.values():
        for before, attempt in zip((None, *attempts), attempts, strict=False):
            recalled = [known.get(name) for name in attempt.recalled]
            read = (
                Written(source, source.reflection)
                for source in recalled
                if source and source.reflection and _has_text(source.reflection)
            )
            others = None in recalled or attempt.recalled_wisdom or attempt.recalled_mistakes
            readings.append(Reading(attempt, before, tuple(read), bool(others)))
    return readings


def uses(log: Log) -> list[Use]:
    """Every use of a reflection of this run, by the attempt that read it.

    What did not fit into the prompt was not read, nor was a reflection whose words were kept back. A session's history
    in words, where a recall policy shows one, is not known here: attempts record the episodes that they read.
    """
    grades = log.sealed_grades
    return [_use(grades, reading, words) for reading in readings(log) for words in reading.read]


def hidden(grades: Mapping[tuple[str, int], Grade], attempt: Attempt) -> Grade | None:
    """The verdict among `Log.sealed_grades`; None where there is none, and where the harness broke."""
    grade = grades.get((attempt.task_id, attempt.number))
    return None if grade and grade.outcome in UNKNOWN else grade


def reward_change(reading: Reading) -> float | None:
    """Feedback reward against the attempt before; None at a first attempt, and without a verdict on one of the two."""
    if reading.before is None:
        return None
    after, before = reading.attempt.evaluation, reading.before.evaluation
    return None if {after.outcome, before.outcome} & set(UNKNOWN) else after.reward - before.reward


def _use(grades: Mapping[tuple[str, int], Grade], reading: Reading, written: Written) -> Use:
    attempt, grade = reading.attempt, hidden(grades, reading.attempt)
    return Use(
        reflection_id=written.words.reflection_id,
        about_task=written.attempt.task_id,
        about_attempt=written.attempt.number,
        task_id=attempt.task_id,
        number=attempt.number,
        passed=reading.passed,
        reward_change=reward_change(reading),
        hidden_passed=grade.passed if grade else None,
    )


def _has_text(words: Reflection) -> bool:
    """Whether it has any of the words that prompts show."""
    return bool(words.root_cause or words.what_went_wrong or words.what_to_change)


def _names(run_id: str, attempt: Attempt) -> tuple[str, str]:
    """Ids of the attempt's episode: with its run where tasks learn from each other, without it where they do not."""
    return f"ep-{run_id}/{attempt.task_id}-{attempt.number}", f"ep-{attempt.task_id}-{attempt.number}"
