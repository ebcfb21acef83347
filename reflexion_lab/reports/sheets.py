"""A table as plain strings, before it becomes rich, Markdown, HTML or LaTeX; and figures as words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reflexion_lab.records import Record
from reflexion_lab.reports import cells
from reflexion_lab.statistics.intervals import Estimate, Rate

if TYPE_CHECKING:
    from rich.table import Table

NONE = "-"
"""What stands where there is nothing to say."""


class Sheet(Record, frozen=True, kw_only=True):
    """One table. Its texts may be hostile: whoever writes them into a document escapes them."""

    title: str
    columns: tuple[str, ...]
    """A line break in one is a hint for narrow pages."""
    rows: tuple[tuple[str, ...], ...]
    """As many cells as columns each; a line break in one is a hint likewise."""
    caption: str = ""
    names: int = 1
    """So many columns, the first ones, are text; the others are figures, and stand to the right."""


class Drawn(Protocol):
    """A figure on the disk."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def table(self) -> Path:
        """The numbers that it shows (.csv)."""

    @property
    def caption(self) -> str: ...


class Document(NamedTuple):
    """What a report says, in whatever language."""

    title: str
    warnings: tuple[str, ...]
    """What must not be overlooked; stands first."""
    sheets: tuple[Sheet, ...]
    figures: tuple[Drawn, ...]


def as_table(sheet: Sheet) -> Table:
    """For a terminal of 100 columns."""
    made = cells.table("", *sheet.columns, names=sheet.names)
    made.title = cells.line(sheet.title, "bold")
    for row in sheet.rows:
        made.add_row(*map(cells.line, row))
    if sheet.caption:
        made.caption = cells.line(sheet.caption)
    return made


def percent(share: float) -> str:
    """In per cent, without the sign: 34.2."""
    return f"{100 * share:.1f}"


def percents(found: Estimate) -> str:
    """With its interval: 34.2 [26.3, 43.0]."""
    return f"{percent(found.value)} {cells.interval(found.low, found.high)}"


def points(found: Estimate) -> str:
    """A difference in points, signed: -7.5 [-12.4, -2.5]."""
    return f"{_signed(found.value)} [{_signed(found.low)}, {_signed(found.high)}]"


def share(found: Rate) -> str:
    """With its counts: 5.0 (4/80); `NONE` without any case."""
    return f"{percent(found.share)} ({found.k}/{found.n})" if found.n else NONE


def p_value(p: float) -> str:
    """With as many digits as it takes to tell it from 0.05."""
    if p < 1e-4:
        return "<.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}" if p < 0.995 else "1"


def amount(value: float) -> str:
    """Counts with commas; small sums of money with three digits that say something."""
    if value == 0 or value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """The first so many of them, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _signed(value: float) -> str:
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text
