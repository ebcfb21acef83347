"""What a run or a sweep is expected to take, and how it shows itself: a sheet, and what must be known beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.records import Record, Usage

if TYPE_CHECKING:
    from reflexion_lab.analysis.report.sheets import Sheet


class Range(Record, frozen=True):
    """Totals if every task costs as much as the cheapest probed one, the mean, the most expensive. A few tasks give no
    confidence interval.
    """

    low: float = 0.0
    mean: float = 0.0
    high: float = 0.0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.mean + other.mean, self.high + other.high)


class Part(Record, frozen=True, kw_only=True):
    """The cost of a group of calls."""

    calls: Range = Range()
    prompt_tokens: Range = Range()
    completion_tokens: Range = Range()
    tokens: Range = Range()
    cost: Range = Range()
    """Of calls whose price is known."""

    def __add__(self, other: Part) -> Part:
        return Part(**{field: getattr(self, field) + getattr(other, field) for field in self.__struct_fields__})


class Estimate(Record, frozen=True, kw_only=True):
    """Expected cost of all cells and seeds; equal calls count once."""

    cells: int
    tasks: int
    """Over all cells."""
    probed: int
    """Of each cell's tasks; those of cells with the same tasks are the same."""
    roles: dict[str, Part]
    first_attempts: Part
    """With the tests that a model writes, and without any reflection."""
    retries: Part
    """Reflections, and attempts after the first."""
    total: Part
    apart: Part
    """The total if every cell paid for all of its calls: the sum of the figures in the run folders."""
    paid: Usage
    """New spending of the probe."""
    to_pay: Part
    """`total` without the probed tasks."""
    at_most: Usage
    """Upper bound: no task passes and every reply has the maximal length; per cell, with the calls per attempt and
    the prompt lengths of the probe.
    """
    seconds: tuple[float, float]
    """Wall time that is left: every worker always busy; no more at once than in the probe."""
    prices: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def unpriced(self) -> bool:
        """Whether the price of some role is unknown."""
        return "unknown" in self.prices.values()

    def __repr__(self) -> str:
        return "\n".join((repr(sheet(self)), *lines(self)))

    def _repr_html_(self) -> str:
        from reflexion_lab.analysis.report.sheets import said

        return sheet(self)._repr_html_() + said(lines(self))


def sheet(estimate: Estimate) -> Sheet:
    """Calls, tokens and cost: of first attempts and retries, of each role, of all, and of what is left to pay."""
    from reflexion_lab.analysis.report.sheets import Sheet

    what = f"{estimate.cells} cells, " if estimate.cells > 1 else ""
    parts = {
        "first attempts": estimate.first_attempts,
        "retries": estimate.retries,
        **estimate.roles,
        "all": estimate.total,
    }
    if estimate.cells > 1:
        parts["without sharing"] = estimate.apart
    parts["still to pay"] = estimate.to_pay
    return Sheet(
        title=f"Estimate: {what}{estimate.tasks:,} tasks, from {estimate.probed} probed",
        columns=("", "calls", "tokens", "cost"),
        rows=tuple(
            (name, _counted(part.calls), _counted(part.tokens), _cost(part.cost, estimate.unpriced))
            for name, part in parts.items()
        ),
        caption="By the mean of the probed tasks, and in brackets by the cheapest and by the dearest; no confidence "
        "interval.",
    )


def lines(estimate: Estimate) -> Iterator[str]:
    """Lines below the sheet: spending of the probe, bounds, time, prices, notes."""
    low, high = estimate.seconds
    yield f"the probe newly spent {_spent(estimate.paid, estimate.unpriced)}; the run finds it in the cache"
    at_most = _spent(estimate.at_most, estimate.unpriced)
    yield f"at most, were no task to pass and every reply as long as allowed: {at_most}"
    yield f"wall time left: {_time(low)} with every worker busy, {_time(high)} with no more at once than in the probe"
    yield from (f"price of {role}: {price}" for role, price in estimate.prices.items())
    yield from (f"note: {note}" for note in estimate.notes)


def _counted(counts: Range, digits: int = 0) -> str:
    return f"{counts.mean:,.{digits}f} [{counts.low:,.{digits}f}, {counts.high:,.{digits}f}]"


def _cost(cost: Range, unpriced: bool) -> str:
    return "unknown" if unpriced else _counted(cost, 4)


def _spent(usage: Usage, unpriced: bool) -> str:
    cost = "unknown" if unpriced else f"{usage.cost:,.4f}"
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens, cost {cost}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
