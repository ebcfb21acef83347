"""A run's reflections as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.analysis.reflections import Group, ReflectionFigures
from reflexion_lab.analysis.report import cells

if TYPE_CHECKING:
    from rich.table import Table

FLAGS_SHOWN = 3
"""The most frequent flags of a source; `reflections.csv` has all."""


def reflection_table(figures: ReflectionFigures, feedback_source: str) -> Table:
    """One row a source: how many, how many were read, how retries fared that read one, and what is wrong with them."""
    columns = ("n", "read", "retries\npassed", "against\nbase", "95 %\ninterval", "hidden\npassed")
    table = cells.table("Reflections, and the retries that read them; shares in %", "by", *columns)
    rows = dict(figures.by_source)
    if len(rows) > 1:
        rows["all"] = figures.every
    for name, group in rows.items():
        table.add_row(name, *map(cells.line, _cells(group)))
    table.caption = "\n".join(_caption(figures, feedback_source))
    return table


def _cells(group: Group) -> list[str]:
    difference, interval = "-", "-"
    if found := group.effect:
        difference, interval = f"{100 * found.value:+.1f}", cells.interval(found.low, found.high)
    hidden = f"{group.hidden.k}/{group.hidden.n}" if group.hidden else "-"
    passed = f"{group.retries.k}/{group.retries.n}" if group.retries.n else "-"
    return [f"{group.n:,}", f"{group.read.k:,}", passed, difference, interval, hidden]


def _caption(figures: ReflectionFigures, feedback_source: str) -> Iterator[str]:
    base = figures.base
    rate = f"{100 * base.share:.1f} % of {base.n} passed" if base.n else "none with a verdict"
    yield f"base: {figures.base_of}, {rate}"
    if feedback_source == "oracle":
        yield "UPPER BOUND, not pass@1: the feedback tests are the hidden ones"
    else:
        yield f"read: by a later attempt; passed: {feedback_source} feedback; hidden: other tests, unseen"
    if any(group.effect for group in figures.by_source.values()):
        yield "readers differ in more than the reading; only other arms say what it does"
    if not figures.mentions_check or not figures.leaks:
        yield "no flag on any of them: not reviewed, or nothing found"
        return
    named = f"{100 * figures.mentions_check.share:.0f} % name a failing check"
    yield f"{named}, {100 * figures.leaks.share:.0f} % give away a value or code"
    for name, group in figures.by_source.items():
        shown = (f"{flag} {100 * rate.share:.0f} %" for flag, rate in list(group.flags.items())[:FLAGS_SHOWN])
        yield f"{name}: {', '.join(shown) or 'no flag'}"
