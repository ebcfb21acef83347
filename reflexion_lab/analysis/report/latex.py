"""Tables as LaTeX, with the package booktabs. Special characters are escaped; those without a glyph are spelt out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.analysis.report.sheets import Sheet
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
TEXT = "36mm"
"""Width of a last column of text."""
OURS = r". Needs \usepackage{booktabs}."
"""End of a table's first line."""
TABLES = "tables"
"""Folder of the tables, beside the document."""


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
    for sheet in sheets:
        paths.append(folder / f"{sheet.file}.tex")
        caption = f"{escaped(sheet.title)}. {escaped(sheet.caption)}".rstrip()
        head = f"% {escaped(sheet.title)}{OURS}\n% \\caption{{{caption}}}"
        paths[-1].write_text(f"{head}\n{tabular(sheet)}\n", encoding="utf-8")
    return paths


def tabular(sheet: Sheet) -> str:
    """The table alone, for a paper."""
    places = sheet.paper or range(len(sheet.columns))
    sides = "".join("l" if place < sheet.names else "r" for place in places)
    sides = sides[:-1] + f"p{{{TEXT}}}" if sheet.paper else sides
    lines_of = ([row[place] for place in places] for row in (sheet.columns, *sheet.rows))
    head, *rows = (" & ".join(map(_cell, cells)) + r" \\" for cells in lines_of)
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
