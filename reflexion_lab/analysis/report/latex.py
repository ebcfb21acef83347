"""A report as LaTeX, with the package booktabs. Special characters are escaped; those without a glyph are spelt out."""

from __future__ import annotations

from collections.abc import Iterator

from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.io.terminal_text import plain

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
    '"': r"\textquotedbl{}",
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


def latex(document: Document) -> str:
    return "\n\n".join([HEAD, rf"\section*{{{escaped(document.title)}}}", *_parts(document), r"\end{document}"]) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, escaped for LaTeX."""
    return "".join(_escaped(character) for character in plain(text))


def tabular(sheet: Sheet) -> str:
    """The table alone, for a paper."""
    sides = "".join("l" if place < sheet.names else "r" for place in range(len(sheet.columns)))
    head, *rows = (" & ".join(map(_cell, cells)) + r" \\" for cells in (sheet.columns, *sheet.rows))
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    is_known = character.isascii() or "À" <= character <= "ÿ"
    return character if is_known and character != "÷" else f"[U+{ord(character):04X}]"


def _cell(text: str) -> str:
    """An escaped cell. LaTeX would take a leading bracket for an argument of the line before."""
    return f"{{{escaped(text)}}}" if text.lstrip()[:1] in ("[", "*") else escaped(text)


def _parts(document: Document) -> Iterator[str]:
    for warning in document.warnings:
        yield rf"\noindent\textbf{{{escaped(warning)}}}"
    for sheet in document.sheets:
        yield "\n".join(
            [
                r"\begin{table}[!ht]",
                r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
                rf"\caption{{{escaped(sheet.title)}. {escaped(sheet.caption)}}}",
                tabular(sheet),
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
                rf"\caption{{{escaped(figure.caption)}}}",
                r"\end{figure}",
            ]
        )
