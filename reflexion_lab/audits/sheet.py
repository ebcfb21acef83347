"""A table that reads the same in a terminal and in a notebook. What logs hold is escaped in both."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from reflexion_lab.records import Record
from reflexion_lab.reports.cells import line, table

if TYPE_CHECKING:
    from rich.table import Table

TITLE = "text-align: left; font-weight: bold; font-size: 14px; padding: 4px 0"
NOTE = "text-align: left; opacity: 0.75; font-size: 12px; padding: 4px 0"
CELL = "text-align: {side}; vertical-align: top; padding: 2px 12px 2px 0; white-space: pre-wrap"
RULE = "; border-bottom: 1px solid rgba(128, 128, 128, 0.4)"


class Sheet(Record, frozen=True, kw_only=True):
    """Rows of text under columns; all rows are as long as `columns`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    """So many columns are text, to the left; the others are figures, to the right."""
    note: str = ""

    def __repr__(self) -> str:
        lines = [" | ".join(map(visible, row)) for row in (self.columns, *self.rows)]
        return "\n".join([visible(self.title), *lines, *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        head, *body = (self._row(tag, row) for tag, row in (("th", self.columns), *(("td", row) for row in self.rows)))
        note = f'<tr><td colspan="{len(self.columns)}" style="{NOTE}">{_html(self.note)}</td></tr>' if self.note else ""
        caption = f'<caption style="{TITLE}">{_html(self.title)}</caption>'
        return f'<table style="font-size: 13px">{caption}{head}{"".join(body)}{note}</table>'

    def _row(self, tag: str, row: tuple[str, ...]) -> str:
        sides = ["left"] * self.names + ["right"] * (len(row) - self.names)
        styles = [CELL.format(side=side) + RULE * (tag == "th") for side in sides]
        cells = (f'<{tag} style="{style}">{_html(cell)}</{tag}>' for style, cell in zip(styles, row, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    def table(self) -> Table:
        """For a terminal, which is narrow: heads of figures break before their last long word."""
        heads = (re.sub(r"(?<=[ -])(?=\w{5,}$)", "\n", column) for column in self.columns[self.names :])
        made = table(visible(self.title), *self.columns[: self.names], *heads, names=self.names)
        for row in self.rows:
            made.add_row(*(line(visible(cell)) for cell in row))
        if self.note:
            made.caption = line(self.note)
        return made


def visible(text: str) -> str:
    """What no eye can see, or no terminal can bear, spelt out."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _html(text: str) -> str:
    return escape(visible(text))
