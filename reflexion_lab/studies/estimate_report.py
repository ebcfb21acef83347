"""An estimate as a sheet, and what must be known beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report.sheets import Sheet

if TYPE_CHECKING:
    from reflexion_lab.records import Usage
    from reflexion_lab.studies.expected import Estimate, Range


def sheet(found: Estimate) -> Sheet:
    """Calls, tokens and cost: of first attempts and retries, of each role, of all, and of what is left to pay."""
    what = f"{found.cells} cells, " if found.cells > 1 else ""
    parts = {"first attempts": found.first_attempts, "retries": found.retries, **found.roles, "all": found.total}
    if found.cells > 1:
        parts["without sharing"] = found.apart
    parts["still to pay"] = found.to_pay
    return Sheet(
        title=f"Estimate: {what}{found.tasks:,} tasks, from {found.probed} probed",
        columns=("", "calls", "tokens", "cost"),
        rows=tuple(
            (name, _counted(part.calls), _counted(part.tokens), _cost(part.cost, found.unpriced))
            for name, part in parts.items()
        ),
        caption="By the mean of the probed tasks, and in brackets by the cheapest and by the dearest; no confidence "
        "interval.",
    )


def lines(found: Estimate) -> Iterator[str]:
    """What stands below the sheet: what is paid already, bounds, time, prices, notes."""
    low, high = found.seconds
    yield f"the probe newly spent {_spent(found.paid, found.unpriced)}; the run finds it in the cache"
    yield f"at most, were no task to pass and every reply as long as allowed: {_spent(found.at_most, found.unpriced)}"
    yield f"wall time left: {_time(low)} with every worker busy, {_time(high)} with no more at once than in the probe"
    yield from (f"price of {role}: {price}" for role, price in found.prices.items())
    yield from (f"note: {note}" for note in found.notes)


def _counted(found: Range, digits: int = 0) -> str:
    return f"{found.mean:,.{digits}f} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"


def _cost(found: Range, unpriced: bool) -> str:
    return "unknown" if unpriced else _counted(found, 4)


def _spent(usage: Usage, unpriced: bool) -> str:
    cost = "unknown" if unpriced else f"{usage.cost:,.4f}"
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens, cost {cost}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
