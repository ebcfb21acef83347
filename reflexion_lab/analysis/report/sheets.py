"""A table as plain strings, the same in a terminal, in a notebook and in a document; and figures as words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from rich.table import Table

NONE = "-"
"""What stands where there is nothing to say."""
BREAK = re.compile(r"(?<=[ -])(?=\w{5,}$)")
"""Where the head of a figure may break, if it does not say so itself: before its last long word."""
TABLE = "border-collapse: collapse; margin: 0; font-size: 13px; font-variant-numeric: tabular-nums"
TITLE = "font-weight: bold; font-size: 14px; padding: 4px 0"
CAPTION = "opacity: 0.75; font-size: 12px; line-height: 1.45; padding: 4px 0; max-width: 880px"
LOUD = (
    "font-weight: bold; font-size: 13px; max-width: 880px; margin: 0 0 6px; padding: 5px 12px; "
    "border-left: 4px solid rgba(224, 108, 12, 0.9); background: rgba(224, 108, 12, 0.14)"
)
CELL = "text-align: {side}; vertical-align: {edge}; padding: 3px 14px 3px 0; white-space: {wrap}"
RULE = "; border-bottom: 1px solid rgba(128, 128, 128, {strength})"


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

    def __repr__(self) -> str:
        lines = [[visible(cell.replace("\n", " ")) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            [visible(self.title), *(self._line(row, widths) for row in lines), visible(self.caption)]
        ).rstrip()

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        sides = "<" * self.names + ">" * (len(row) - self.names)
        return " | ".join(f"{c:{side}{n}}" for c, side, n in zip(row, sides, widths, strict=False)).rstrip()

    def _repr_html_(self) -> str:
        head, *body = (_row(self, tag, row) for tag, row in (("th", self.columns), *(("td", row) for row in self.rows)))
        rows = f"<thead>{head}</thead><tbody>{''.join(body)}</tbody>"
        caption = f'<div style="{CAPTION}">{html(self.caption)}</div>' if self.caption else ""
        table = f'<div style="{TITLE}">{html(self.title)}</div><table style="{TABLE}">{rows}</table>{caption}'
        return f'<div style="overflow-x: auto; margin: 0 0 14px">{table}</div>'


class SavedFigure(Protocol):
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

    @property
    def in_print(self) -> Path:
        """What LaTeX includes."""


class Document(NamedTuple):
    """What a report says, in whatever language."""

    title: str
    warnings: tuple[str, ...]
    """What must not be overlooked; stands first."""
    sheets: tuple[Sheet, ...]
    figures: tuple[SavedFigure, ...]


def as_table(sheet: Sheet, styles: Mapping[str, str] | None = None) -> Table:
    """For a terminal of 100 columns. `styles`: how cells of these very words look."""
    columns = (c if "\n" in c or n < sheet.names else BREAK.sub("\n", c) for n, c in enumerate(sheet.columns))
    table = cells.table(sheet.title, *columns, names=sheet.names)
    for row in sheet.rows:
        table.add_row(*(cells.line(cell, (styles or {}).get(cell, "")) for cell in row))
    if sheet.caption:
        table.caption = cells.line(sheet.caption)
    return table


def said(lines: Iterable[str], loud: bool = False) -> str:
    """Sentences as HTML, one below the other; loud ones are seen first."""
    return "".join(f'<div style="{LOUD if loud else CAPTION}">{html(line)}</div>' for line in lines)


def html(text: str) -> str:
    """`text` as a browser shows it word for word."""
    return escape(visible(text))


def percent(share: float) -> str:
    """In per cent, without the sign: 34.2."""
    return cells.number(share)


def percents(value: Estimate) -> str:
    """With its interval: 34.2 [26.3, 43.0]."""
    return cells.estimate(value)


def points(value: Estimate) -> str:
    """A difference in points, signed: -7.5 [-12.4, -2.5]."""
    return cells.estimate(value, signed=True)


def share(rate: Rate) -> str:
    """With its counts: 5.0 (4/80); `NONE` without any case."""
    return f"{percent(rate.share)} ({rate.k}/{rate.n})" if rate.n else NONE


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
    items = list(names)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def _row(sheet: Sheet, tag: str, row: Iterable[str]) -> str:
    """Names wrap where they have to; figures never do, but for the breaks that they hold."""
    parts = []
    for place, cell in enumerate(row):
        side, wrap = ("left", "pre-wrap") if place < sheet.names else ("right", "pre")
        look = CELL.format(side=side, wrap=wrap, edge="bottom" if tag == "th" else "top")
        parts.append(f'<{tag} style="{look}{RULE.format(strength=0.5 if tag == "th" else 0.15)}">{html(cell)}</{tag}>')
    return f"<tr>{''.join(parts)}</tr>"
