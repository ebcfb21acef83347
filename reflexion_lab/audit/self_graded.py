"""Logs that grade themselves: the logged verdict follows from something else than the hidden tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.audit.samples import Sample
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from reflexion_lab.audit.verdicts import Verdict

FEWEST = 10
"""Minimum number of samples with one value."""
FEWEST_WRONG = 2
"""Minimum number of their verdicts that differ here without another cause. A log that is right in 95 % has two such
differences, both in its favour, with a probability below 1 in 400.
"""

SIGNS: dict[str, Callable[[Sample], object]] = {
    "visible tests": lambda sample: sample.visible_passed,
    "reflections": lambda sample: sample.reflections,
    "attempts": lambda sample: len(sample.attempts) or None,
}
"""By name, what a logged verdict may follow from; None if the log does not have it."""


class SelfGraded(Record, frozen=True, kw_only=True):
    """Samples of one run with one value of a sign: all have the same logged verdict, whatever the hidden tests say."""

    run: str
    sign: str
    """One of `SIGNS`."""
    value: str
    logged: bool
    n: int
    """Samples with this value."""
    wrong: tuple[str, ...]
    """Ids of those whose verdict differs here without another cause."""

    def __str__(self) -> str:
        return f"all {self.n} with {self.sign} {self.value} are logged as {'passed' if self.logged else 'failed'}"


def self_graded(verdicts: Sequence[Verdict]) -> list[SelfGraded]:
    """Every value of a sign from which the logged verdict follows, with the verdicts that it explains.

    A value counts if it has `FEWEST` samples or more, all logged alike, of which `FEWEST_WRONG` or more differ here
    without another cause.
    """
    return [rule for run in dict.fromkeys(verdict.sample.run for verdict in verdicts) for rule in _rules(run, verdicts)]


def _rules(run: str, verdicts: Sequence[Verdict]) -> Iterator[SelfGraded]:
    known = [v for v in verdicts if v.sample.run == run and v.is_judged and v.sample.logged is not None]
    for sign, read in SIGNS.items():
        groups: dict[object, list[Verdict]] = {}
        for verdict in known:
            if (value := read(verdict.sample)) is not None:
                groups.setdefault(value, []).append(verdict)
        for value, group in groups.items():
            logged = {verdict.sample.logged for verdict in group}
            wrong = tuple(verdict.sample.id for verdict in group if verdict.differs and not verdict.cause)
            if len(group) >= FEWEST and len(logged) == 1 and len(wrong) >= FEWEST_WRONG:
                text = (
                    {True: "passed", False: "failed"}.get(value, str(value)) if isinstance(value, bool) else str(value)
                )
                yield SelfGraded(run=run, sign=sign, value=text, logged=bool(logged.pop()), n=len(group), wrong=wrong)
