"""Logs that grade themselves: the logged verdict follows from something else than the hidden tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from scipy.stats import binom

from reflexion_lab.audit.samples import Sample
from reflexion_lab.audit.verdicts import Verdict
from reflexion_lab.records import Record

FEWEST = 10
"""Minimum number of samples with one value."""
FEWEST_WRONG = 2
"""Minimum number of their verdicts that differ here without another cause."""
HONEST = 0.01
"""Share of such verdicts, in [0, 1], up to which no log is accused: its harness may differ in ways not known here."""
CHANCE = 1 / 400
"""Probability of as many of them or more at the share `HONEST` (binomial, one-sided) below which it is."""

SIGNS: dict[str, Callable[[Sample], object]] = {
    "visible tests": lambda sample: sample.visible_passed,
    "reflections": lambda sample: sample.reflections,
    "attempts": lambda sample: len(sample.attempts) or None,
}
"""Values from which a logged verdict may follow, by name; None if the log does not have it."""


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

    A value counts if it has `FEWEST` samples or more, all logged alike, of which `FEWEST_WRONG` or more, and more than
    `HONEST` explains, differ here without another cause; where the search for one did not end, a difference does not
    count. In a loop that ends at the first pass of the hidden tests, the number of attempts gives the verdict, too:
    only the differences tell it from a log that grades itself.
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
            wrong = [v for v in group if v.differs and not v.cause and v.is_searched]
            if len(group) < FEWEST or len(logged) > 1 or len(wrong) < FEWEST_WRONG:
                continue
            if binom.sf(len(wrong) - 1, len(group), HONEST) < CHANCE:
                ids = tuple(verdict.sample.id for verdict in wrong)
                text = ("passed" if value else "failed") if isinstance(value, bool) else str(value)
                yield SelfGraded(run=run, sign=sign, value=text, logged=bool(logged.pop()), n=len(group), wrong=ids)
