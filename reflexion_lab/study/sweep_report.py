"""What came of a sweep: a line a cell, and what sharing saved."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING

from reflexion_lab.records import Usage
from reflexion_lab.reports import cells

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from reflexion_lab.grid import Cell
    from reflexion_lab.study.cell_states import CellState
    from reflexion_lab.study.sweep import Sweep

PRE = "<pre style='line-height: 1.3; font-family: monospace; white-space: pre; overflow-x: auto'>{code}</pre>"
ROWS = 40
"""Cells that are shown; of more, those that went well are left out first."""
STYLES = {
    "done": "green",
    "kept": "cyan",
    "failed": "bold red",
    "stopped": "red",
    "elsewhere": "yellow",
    "running": "yellow",
}


def show(sweep: Sweep, console: Console, problems_only: bool = False) -> None:
    """Print how every cell stands, and why where it failed."""
    if problems_only:
        _problems(sweep, console)
        return
    _cells(sweep, console)
    console.print(cells.line(f"sweep folder: {sweep.folder}"), soft_wrap=True)


def _cells(sweep: Sweep, console: Console) -> None:
    console.print(_table(sweep, sweep.states))
    _problems(sweep, console)
    console.print(cells.line(headline(sweep)), soft_wrap=True)


def _problems(sweep: Sweep, console: Console) -> None:
    for state in sweep.states.values():
        if state.problem:
            console.print(cells.line(f"cell {state.number}: {state.problem}", "red"), soft_wrap=True)


def headline(sweep: Sweep) -> str:
    """Cells by status, calls made and saved, cost: over all that has been run of this sweep."""
    states = list(sweep.states.values())
    ended = [line for line in sweep.lines if line.status in ("done", "failed", "stopped")]  # a kept one paid before
    made, stored = sum(state.made for state in ended), sum(state.stored for state in ended)
    cost = sum((state.spent for state in ended), Usage()).cost
    said = f"{len(states)} cells: {cells.counts(Counter(state.status for state in states))}; "
    said += f"model calls: {made} made, {stored} saved by sharing"
    return said + (f"; cost {cost:.4f}" if cost else "")


def as_html(sweep: Sweep) -> str:
    """The same for a notebook, without the folder: outputs are read on other machines."""
    from rich.console import Console

    console = Console(file=StringIO(), record=True, width=110, force_jupyter=False)  # else it shows itself, too
    _cells(sweep, console)
    return console.export_html(inline_styles=True, code_format=PRE)


def _table(sweep: Sweep, states: dict[int, CellState]) -> Table:
    keys, sources = swept(sweep), {state.feedback_source for state in states.values() if state.feedback_source}
    columns = ("cell", *map(_short, keys), "status", "n", "pass@1 [95 %]", "calls made", "saved", "seconds")
    title = f"Sweep {sweep.sweep_id}, feedback: {', '.join(sorted(sources)) or 'none yet'}"
    table = cells.table(title, *columns, names=0)
    chosen = [cell for cell in sweep if states[cell.number].status not in ("done", "kept")][:ROWS]
    chosen += [cell for cell in sweep if cell not in chosen][: ROWS - len(chosen)]
    for cell in sorted(chosen, key=lambda cell: cell.number):
        table.add_row(*_row(cell, keys, states[cell.number]))
    if left_out := len(sweep) - len(chosen):
        table.caption = f"{left_out} more cells in cells.jsonl"
    return table


def _row(cell: Cell, keys: list[str], state: CellState) -> list[Text]:
    values, rate = dict(one.partition("=")[::2] for one in cell.overrides), state.pass_at_1
    share = f"{100 * rate.share:.1f} {cells.interval(rate.low, rate.high)}" if rate else ""
    share += " UPPER BOUND" if state.feedback_source == "oracle" else ""
    figures = (state.made, state.stored, round(state.seconds)) if state.seconds else ("", "", "")
    return [
        cells.line(str(cell.number)),
        *(cells.line(values[key]) for key in keys),
        cells.line(state.status, STYLES.get(state.status, "")),
        *(cells.line(str(text)) for text in (rate.n if rate else "", share, *figures)),
    ]


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def swept(sweep: Sweep) -> list[str]:
    """The keys in whose values the cells differ."""
    values: dict[str, set[str]] = {}
    for cell in sweep:
        for one in cell.overrides:
            key, _, value = one.partition("=")
            values.setdefault(key, set()).add(value)
    return [key for key, found in values.items() if len(found) > 1]
