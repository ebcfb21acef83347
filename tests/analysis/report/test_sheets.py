"""A sheet reads the same as text, in a terminal and in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from io import StringIO

from rich.console import Console

from reflexion_lab.analysis.report.sheets import Sheet, as_table, said

EVIL = "<b>[red]\x1b[31m\u202e</b>"


class Cells(HTMLParser):
    """The text of every cell, row by row."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_text_terminal_and_notebook_hold_the_same_cells():
    sheet = Sheet(title="T", columns=("arm", "pass@1\n[95 %]"), rows=(("a", "7"), ("long", "12.5")), caption="C")
    assert repr(sheet) == "T\narm  | pass@1 [95 %]\na    |             7\nlong |          12.5\nC"
    assert Cells(sheet._repr_html_()).rows == [list(sheet.columns), *map(list, sheet.rows)]
    table = as_table(sheet)
    assert table.row_count == 2
    assert [str(column.header) for column in table.columns] == list(sheet.columns)


def test_a_strangers_text_is_shown_and_not_obeyed():
    sheet = Sheet(title=EVIL, columns=(EVIL,), rows=((EVIL,),), caption=EVIL)
    console = Console(file=StringIO(), width=100, record=True)
    console.print(as_table(sheet))
    for text in (repr(sheet), console.export_text()):
        assert "[red]\\x1b[31m\\u202e" in text
        assert "\x1b" not in text
    for html in (sheet._repr_html_(), said([EVIL]), said([EVIL], loud=True)):
        assert "<b>" not in html
        assert "&lt;b&gt;[red]\\x1b[31m\\u202e&lt;/b&gt;" in html
