"""A report as LaTeX, with the package booktabs. Special characters are escaped; those without a glyph are spelt out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.io.terminal_text import plain

if TYPE_CHECKING:
    from reflexion_lab.analysis.figures.drawing import Figure

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "{-}",
    "Δ": r"$\Delta$",
    "Ω": r"$\Omega$",
    "×": r"$\times$",
    "−": r"$-$",
    "±": r"$\pm$",
}
SIZE = r"width=0.8\linewidth,height=0.7\textheight,keepaspectratio"
DRAWABLE = (".png", ".pdf")
"""Formats that LaTeX can include."""
HEAD = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}"""


TEXT = "36mm"
"""Width of a last column of text."""
OURS = r". Needs \usepackage{booktabs}."
"""End of a table's first line."""
TABLES = "tables"
"""Folder of the tables, beside the document."""


def latex(document: Document) -> str:
    """The report, which inputs the tables of `save_tables`; methods are in an appendix."""
    return "\n\n".join([HEAD, rf"\section*{{{escaped(document.title)}}}", *_parts(document), r"\end{document}"]) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, escaped for LaTeX."""
    return "".join(_escaped(character) for character in plain(text))


def save_tables(folder: Path, sheets: Sequence[Sheet]) -> list[Path]:
    """Write each table as `<name>.tex`, a bare tabular to input into a paper; returns the paths."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.tex"):  # of an earlier report, whose tables a paper must not mix with these
        if path.read_bytes().partition(b"\n")[0].endswith(OURS.encode()):
            path.unlink()
    paths = []
    for sheet in _halves(sheets):
        paths.append(folder / f"{sheet.file}.tex")
        head = f"% {escaped(sheet.title)}{OURS}\n% \\caption{{{_caption(sheet)}}}"
        paths[-1].write_text(f"{head}\n{tabular(sheet)}\n", encoding="utf-8")
    return paths


def _halves(sheets: Iterable[Sheet]) -> Iterator[Sheet]:
    """Tables as they fit into a column of text: the rest of one is a second."""
    for sheet in sheets:
        rest = [n for n in range(len(sheet.columns)) if n < sheet.names or n not in sheet.paper]
        for end, places in (("", sheet.paper), ("_more", rest)) if sheet.paper else ():
            columns, *rows = (tuple(row[n] for n in places) for row in (sheet.columns, *sheet.rows))
            paper = sheet.paper if not end else ()
            yield replace(sheet, columns=columns, rows=tuple(rows), key=sheet.file + end, paper=paper)
        if not sheet.paper:
            yield sheet


def _caption(sheet: Sheet) -> str:
    return f"{escaped(sheet.title)}. {escaped(sheet.caption)}".rstrip()


def tabular(sheet: Sheet) -> str:
    """The table alone, for a paper."""
    sides = "".join("l" if place < sheet.names else "r" for place in range(len(sheet.columns)))
    sides = sides[:-1] + f"p{{{TEXT}}}" if sheet.paper else sides
    head, *rows = (" & ".join(map(_cell, cells)) + r" \\" for cells in (sheet.columns, *sheet.rows))
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    is_known = character.isascii() or "À" <= character <= "ÿ"
    return character if is_known and character != "÷" else f"[U+{ord(character):04X}]"


def _cell(text: str) -> str:
    """An escaped cell, with real minus signs. LaTeX would take a leading bracket for an argument of the line before."""
    text = re.sub(r"(?<!\w)-(?=\d)", "−", text)
    return f"{{{escaped(text)}}}" if text.lstrip()[:1] in ("[", "*") else escaped(text)


def _parts(document: Document) -> Iterator[str]:
    yield from (rf"\noindent {escaped(text)}" for text in document.answers)
    for warning in document.warnings:
        yield rf"\noindent\textbf{{{escaped(warning)}}}"
    for sheet in _halves(document.sheets):
        yield "\n".join(
            [
                r"\begin{table}[!ht]",
                r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
                rf"\caption{{{_caption(sheet)}}}",
                rf"\input{{{TABLES}/{sheet.file}.tex}}",
                r"\end{table}",
            ]
        )
    for figure in document.figures:
        if figure.path.suffix not in DRAWABLE:
            yield f"% {figure.path.name}: convert it to PDF to include it"
            continue
        yield "\n".join(
            [
                r"\begin{figure}[!ht]",
                rf"\centering\includegraphics[{SIZE}]{{{figure.in_print.name}}}",
                rf"\caption{{{escaped(figure.drawing.title)}.{_unless_drawn(figure)}}}",
                r"\end{figure}",
            ]
        )
    yield r"\clearpage\section*{Columns and method}"
    methods = {sheet.title: sheet.method for sheet in document.sheets}
    methods |= {each.title: f"{each.caption} {each.method}" for each, *_ in document.figures}
    for title, method in methods.items():
        if method:
            yield rf"\paragraph{{{escaped(title)}}} {escaped(method)}"


def _unless_drawn(figure: Figure) -> str:
    return "" if figure.is_captioned else f" {escaped(figure.drawing.caption)}"
