"""A report as a folder: tables and figures as Markdown, HTML and LaTeX, and the numbers as CSV."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.cases import FILE, save_cases
from reflexion_lab.analysis.comparison.lines import COLUMNS
from reflexion_lab.analysis.figures.drawing import Figure, Kind, inert, save_figures
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.comparison import answers, sheets, warnings
from reflexion_lab.analysis.report.latex import TABLES, save_tables
from reflexion_lab.analysis.report.pieces import escaping, markup
from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.io.terminal_text import plain

FIGURE = re.compile(r"^!\[.*\]\((.+)\)\n\nData: \[", re.MULTILINE)
"""A figure in `report.md`."""
MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def save_report(
    folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png", are_captioned: bool = True
) -> list[Path]:
    """Write `report.md`, `report.html`, `table.csv`, `cases.csv`, the figures, and `tables/*.tex` into
    `folder`, and remove figures and tables of an earlier report there; returns the paths of all files.

    `kind`: format of the figures; PDF comes beside PNG. `are_captioned`: write titles and captions into the figures;
    off for papers. Raises OSError: the folder cannot be written to.
    """
    former = _figures_in(folder)
    figures, short = save_figures(folder, comparison, arms, kind, are_captioned), comparison.short
    document = Document(
        title=f"{plain(comparison.benchmark)}: {cells.listed((plain(row.arm) for row in short.rows), 6)}",
        answers=tuple(answers(short)),
        warnings=tuple(warnings(short)),
        sheets=(*sheets(comparison), _folders(short)),
        figures=tuple(figures),
    )
    written = []
    for name, write in (("report.md", markdown), ("report.html", page)):
        written.append(folder / name)
        written[-1].write_text(write(document), encoding="utf-8", errors="backslashreplace")
    written += [write_table(folder / "table.csv", comparison), save_cases(folder / FILE, arms)]
    written += [path for figure in figures for path in figure.files]
    for path in former.difference(written):
        path.unlink(missing_ok=True)
    return written + save_tables(folder / TABLES, document.sheets)


def _figures_in(folder: Path) -> set[Path]:
    """Files of the figures that the report in `folder` shows, whether they exist or not."""
    try:
        text = (folder / "report.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    figures = [folder / Path(match[1]).name for match in FIGURE.finditer(text)]
    in_print = {path.with_suffix(".pdf") for path in figures if path.suffix == ".png"}  # beside an SVG it is a user's
    return {*figures, *(path.with_suffix(".csv") for path in figures), *in_print}


def _folders(comparison: Comparison) -> Sheet:
    rows = tuple(
        (plain(row.arm), str(seed), plain(run_id))
        for row in comparison.rows
        for seed, run_id in zip(row.of.seeds, row.of.run_ids, strict=True)
    )
    return Sheet(title="Run folders", columns=("arm", "seed", "run"), rows=rows, names=3)


def page(document: Document) -> str:
    """The report as one HTML file. Texts are escaped; figures are images, in which no script runs."""
    template = escaping(Path(__file__).parent).get_template("document.html.jinja")
    tables = [(sheet, markup(sheet.html_table())) for sheet in document.sheets]
    return str(template.render(document=document, tables=tables, source=_source))


def _source(path: Path) -> str:
    """The file as a data URL."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(document: Document) -> str:
    return "\n\n".join([f"# {escaped(document.title)}", *_parts(document)]) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, escaped for Markdown and its tables."""
    safe = re.sub(r"([\\`*_{}\[\]|#!~$@])", r"\\\1", plain(text))
    return re.sub(r"[&<>]", lambda match: ENTITIES[match[0]], safe)


def _parts(document: Document) -> Iterator[str]:
    yield from map(escaped, document.answers)
    for warning in document.warnings:
        yield f"> **{escaped(warning)}**"
    for sheet in document.sheets:
        yield from (f"## {escaped(sheet.title)}", _table(sheet), escaped(sheet.caption))
    if document.figures:
        yield "## Figures"
    yield from map(_figure, document.figures)


def _table(sheet: Sheet) -> str:
    head, *body = [[escaped(cell) for cell in row] for row in (sheet.columns, *sheet.rows)]
    sides = ["---" if place < sheet.names else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *body))


def _figure(figure: Figure) -> str:
    """The figure with its caption as alternative text, and a link to its data."""
    picture, table = f"![{escaped(figure.drawing.caption)}]({figure.path.name})", figure.table.name
    return f"{picture}\n\nData: [{table}]({table})"


DIGITS = 6
"""Significant digits."""


def write_table(path: Path, comparison: Comparison) -> Path:
    """Write the lines of the comparison as CSV; returns `path`. Raises OSError."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows(comparison))
    return path


def rows(comparison: Comparison) -> list[dict[str, object]]:
    """The lines of a comparison as cells by column."""
    return [{name: _cell(getattr(line, name, None)) for name in COLUMNS} for line in comparison.lines]


def _cell(value: str | float | None) -> object:
    if isinstance(value, str):
        return inert(value)
    return value if value is None or isinstance(value, int) else float(f"{value:.{DIGITS}g}")
