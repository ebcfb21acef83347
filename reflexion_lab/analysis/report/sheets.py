"""The one table: plain strings, with renderers for text, terminal and HTML; Markdown and LaTeX are beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reflexion_lab.analysis.report import cells
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from rich.table import Table

    from reflexion_lab.analysis.figures.drawing import Figure

T = TypeVar("T")
BREAK = re.compile(r"(?<=[ -])(?=\w{5,}$)")
"""Line break in the heading of a figure without one: before its last long word."""
TABLE = "border-collapse: collapse; margin: 0; font-size: 13px; font-variant-numeric: tabular-nums"
TITLE = "font-weight: bold; font-size: 14px; padding: 4px 0"
CAPTION = "opacity: 0.75; font-size: 12px; line-height: 1.45; padding: 4px 0; max-width: 880px"
LOUD = (
    "font-weight: bold; font-size: 13px; max-width: 880px; margin: 0 0 6px; padding: 5px 12px; "
    "border-left: 4px solid rgba(224, 108, 12, 0.9); background: rgba(224, 108, 12, 0.14)"
)
CELL = (
    "text-align: {side}; vertical-align: {edge}; padding: 3px 14px 3px 0; white-space: {wrap}; "
    "border-bottom: 1px solid rgba(128, 128, 128, {strength})"
)


class Sheet(Record, frozen=True, kw_only=True):
    """A table. Its texts are untrusted: every renderer escapes them."""

    title: str
    columns: tuple[str, ...]
    """A line break in a heading is a hint for narrow pages."""
    rows: tuple[tuple[str, ...], ...]
    """One cell per column; a line break in a cell is a hint likewise."""
    caption: str = ""
    names: int = 1
    """Number of columns with text, which come first; the others are right-aligned figures."""
    key: str = ""
    """Name of its file, by default from the title."""
    paper: tuple[int, ...] = ()
    """Columns of its LaTeX table that fit into a column of text, of which the last is text; () for all."""

    @property
    def file(self) -> str:
        """The name of its file, without an ending."""
        return self.key or "_".join(re.findall(r"[a-z0-9]+", self.title.lower())) or "table"

    @classmethod
    def of(
        cls,
        title: str,
        items: Iterable[T],
        columns: Mapping[str, Callable[[T], str]],
        caption: str = "",
        names: int = 1,
        key: str = "",
    ) -> Sheet:
        """One row per item; `columns` maps each heading to the function that gives its cell."""
        rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return cls(title=title, columns=tuple(columns), rows=rows, caption=caption, names=names, key=key)

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
        caption = f'<div style="{CAPTION}">{html(self.caption)}</div>' if self.caption else ""
        table = f'<div style="{TITLE}">{html(self.title)}</div>{self.html_table()}{caption}'
        return f'<div style="overflow-x: auto; margin: 0 0 14px">{table}</div>'

    def html_table(self) -> str:
        """The table as HTML, without title and caption."""
        body = "".join(self._html_row("td", row) for row in self.rows)
        head = self._html_row("th", self.columns)
        return f'<table style="{TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'

    def _html_row(self, tag: str, row: Iterable[str]) -> str:
        """Text wraps where it has to; figures only at their line breaks."""
        edge, strength = ("bottom", 0.5) if tag == "th" else ("top", 0.15)
        parts = []
        for place, cell in enumerate(row):
            is_last_text = bool(self.paper) and place == self.paper[-1]
            side, wrap = ("left", "pre-wrap") if place < self.names or is_last_text else ("right", "pre")
            style = CELL.format(side=side, edge=edge, wrap=wrap, strength=strength)
            parts.append(f'<{tag} style="{style}">{html(" ".join(cell.split()) if is_last_text else cell)}</{tag}>')
        return f"<tr>{''.join(parts)}</tr>"


class Document(NamedTuple):
    """A report before it is rendered as Markdown, HTML or LaTeX."""

    title: str
    answers: tuple[str, ...]
    """Sentences, shown first."""
    warnings: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    figures: tuple[Figure, ...]


def as_table(sheet: Sheet, styles: Mapping[str, str] | None = None) -> Table:
    """The table for a terminal of 100 columns. `styles` maps whole cells to styles of rich."""
    columns = (c if "\n" in c or n < sheet.names else BREAK.sub("\n", c) for n, c in enumerate(sheet.columns))
    table = cells.table(sheet.title, *columns, names=sheet.names)
    for row in sheet.rows:
        table.add_row(*(cells.line(cell, (styles or {}).get(cell, "")) for cell in row))
    if sheet.caption:
        table.caption = cells.line(sheet.caption)
    return table


def paragraphs(lines: Iterable[str], loud: bool = False) -> str:
    """Sentences as HTML, one below the other; `loud` for warnings."""
    return "".join(f'<div style="{LOUD if loud else CAPTION}">{html(line)}</div>' for line in lines)


def html(text: str) -> str:
    """`text` escaped for HTML."""
    return escape(visible(text))
