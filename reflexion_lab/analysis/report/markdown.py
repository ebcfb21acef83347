"""A report as Markdown. Names are hostile: what Markdown or HTML would obey is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.report.sheets import Document, Drawn, Sheet
from reflexion_lab.io.terminal_text import plain

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(document: Document) -> str:
    return "\n\n".join([f"# {escaped(document.title)}", *_parts(document)]) + "\n"


def escaped(text: str) -> str:
    """One line of text that Markdown shows as it is, in a table, too."""
    safe = re.sub(r"([\\`*_{}\[\]|#!~$@])", r"\\\1", plain(text))
    return re.sub(r"[&<>]", lambda match: ENTITIES[match[0]], safe)


def _parts(document: Document) -> Iterator[str]:
    for warning in document.warnings:
        yield f"> **{escaped(warning)}**"
    for sheet in document.sheets:
        yield from (f"## {escaped(sheet.title)}", _table(sheet), escaped(sheet.caption))
    if document.figures:
        yield "## Figures"
    for figure in document.figures:
        yield _figure(figure)


def _table(sheet: Sheet) -> str:
    sides = ["---" if place < sheet.names else "---:" for place in range(len(sheet.columns))]
    return "\n".join(_line(cells) for cells in ([escaped(c) for c in sheet.columns], sides, *_cells(sheet)))


def _cells(sheet: Sheet) -> Iterator[list[str]]:
    for row in sheet.rows:
        yield [escaped(cell) for cell in row]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(figure: Drawn) -> str:
    """Its caption stands in the picture, and here for those who cannot see it."""
    return f"![{escaped(figure.caption)}]({figure.path.name})\n\nData: [{figure.table.name}]({figure.table.name})"
