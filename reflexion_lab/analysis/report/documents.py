"""A report as a folder: the same sheets and figures as Markdown, HTML and LaTeX, and the numbers as a table."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.figures.drawing import Kind
from reflexion_lab.analysis.figures.saved import save_figures
from reflexion_lab.analysis.report.comparison import sheets, warnings
from reflexion_lab.analysis.report.latex import latex
from reflexion_lab.analysis.report.pieces import escaping
from reflexion_lab.analysis.report.sheets import Document, Drawn, Sheet, listed
from reflexion_lab.analysis.report.table import write_table
from reflexion_lab.io.terminal_text import plain

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def save_report(folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png") -> list[Path]:
    """Write `report.md`, `report.html`, `report.tex`, `table.csv` and the figures into `folder`; returns their paths.

    Parameters
    ----------
    comparison : Comparison
        Of these very arms.
    kind : Kind, default "png"
        Of the figures; PDF comes beside PNG. LaTeX includes both by itself, SVG has to be converted first.

    Raises
    ------
    OSError
        The folder cannot be written to.
    """
    figures = save_figures(folder, comparison, arms, kind)
    document = Document(
        title=f"{plain(comparison.benchmark)}: {listed((plain(row.arm) for row in comparison.rows), 6)}",
        warnings=tuple(warnings(comparison)),
        sheets=(*sheets(comparison), _folders(comparison)),
        figures=tuple(figures),
    )
    written = []
    for name, write in (("report.md", markdown), ("report.html", page), ("report.tex", latex)):
        written.append(folder / name)
        written[-1].write_text(write(document), encoding="utf-8", errors="backslashreplace")
    return [*written, write_table(folder / "table.csv", comparison), *(figure.path for figure in figures)]


def _folders(comparison: Comparison) -> Sheet:
    rows = tuple(
        (plain(row.arm), str(seed), plain(run_id))
        for row in comparison.rows
        for seed, run_id in zip(row.seeds, row.run_ids, strict=True)
    )
    return Sheet(title="Run folders", columns=("arm", "seed", "run"), rows=rows, names=3)


def page(document: Document) -> str:
    """Every text is escaped on its way in; a figure is an image, in which no script runs."""
    template = escaping(Path(__file__).parent).get_template("document.html.jinja")
    return str(template.render(document=document, source=_source))


def _source(path: Path) -> str:
    """The file itself, as an address."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


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
