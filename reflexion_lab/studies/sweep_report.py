"""What came of a sweep: a line a cell, and what sharing saved."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import Sheet, as_table, percents, said
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.records import Usage

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.runner.config.grid import Cell
    from reflexion_lab.studies.cell_states import CellState
    from reflexion_lab.studies.sweep import Sweep

ROWS = 40
"""Cells that are shown; of more, those that went well are left out first."""
STYLES = {
    "done": "green",
    "kept": "cyan",
    "failed": "bold red",
    "lost": "bold red",
    "stopped": "red",
    "elsewhere": "yellow",
    "running": "yellow",
}


def show(sweep: Sweep, console: Console, problems_only: bool = False) -> None:
    """Print how every cell stands, and why where it failed."""
    if not problems_only:
        console.print(as_table(sheet(sweep), STYLES))
        for line in repeated(sweep):
            console.print(cells.line(line), soft_wrap=True)
    for problem in problems(sweep):
        console.print(cells.line(problem, "red"), soft_wrap=True)
    if not problems_only:
        if problems(sweep):
            console.print("fix the problems above; the same command goes on with the sweep", soft_wrap=True)
        console.print(cells.line(headline(sweep)), soft_wrap=True)
        console.print(cells.line(f"sweep folder: {sweep.folder}"), soft_wrap=True)


def problems(sweep: Sweep) -> list[str]:
    """What went wrong, cell by cell."""
    return [f"cell {state.number}: {state.problem}" for state in sweep.states.values() if state.problem]


def repeated(sweep: Sweep) -> list[str]:
    """Why cells ran again, cell by cell."""
    return [f"cell {state.number} ran again: {state.again}" for state in sweep.states.values() if state.again]


def headline(sweep: Sweep) -> str:
    """Cells by status, calls made and saved, cost: over all that has been run of this sweep."""
    states = list(sweep.states.values())
    ended = [line for line in sweep.lines if line.status in ("done", "failed", "stopped")]  # a kept one paid before
    calls, stored = sum(state.made for state in ended), sum(state.stored for state in ended)
    cost = sum((state.spent for state in ended), Usage()).cost
    text = f"{len(states)} cells: {cells.counts(Counter(state.status for state in states))}; "
    text += f"model calls: {calls} made, {stored} saved by sharing"
    return text + (f"; cost {cost:.4f}" if cost else "")


def as_html(sweep: Sweep) -> str:
    """The same for a notebook, without the folder: outputs are read on other machines."""
    return said(problems(sweep), loud=True) + sheet(sweep)._repr_html_() + said([*repeated(sweep), headline(sweep)])


def sheet(sweep: Sweep) -> Sheet:
    """One row per cell. With more than `ROWS` cells, finished ones are left out first."""
    states = sweep.states
    keys, sources = swept(sweep), {state.feedback_source for state in states.values() if state.feedback_source}
    chosen = [cell for cell in sweep if states[cell.number].status not in ("done", "kept")][:ROWS]
    chosen += [cell for cell in sweep if cell not in chosen][: ROWS - len(chosen)]
    left_out = len(sweep) - len(chosen)
    return Sheet(
        title=f"Sweep {sweep.sweep_id}, feedback: {', '.join(sorted(sources)) or 'none yet'}",
        columns=("cell", *map(_short, keys), "status", "n", "pass@1, % [95 %]", "calls\nmade", "saved", "seconds"),
        rows=tuple(_row(cell, keys, states[cell.number]) for cell in sorted(chosen, key=lambda cell: cell.number)),
        caption=f"{left_out} more cells in cells.jsonl" if left_out else "",
        names=len(keys) + 2,
    )


def _row(cell: Cell, keys: list[str], state: CellState) -> tuple[str, ...]:
    values, rate = dict(override.partition("=")[::2] for override in cell.overrides), state.pass_at_1
    share = percents(Estimate(value=rate.share, low=rate.low, high=rate.high)) if rate and rate.n else ""
    share = f"{UPPER_BOUND} {share}" if state.feedback_source == "oracle" else share
    figures = (state.made, state.stored, round(state.seconds)) if state.seconds else ("", "", "")
    columns = map(str, (rate.n if rate else "", share, *figures))
    return (str(cell.number), *(values.get(key, "") for key in keys), state.status, *columns)


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def swept(sweep: Sweep) -> list[str]:
    """Config keys whose values differ between cells."""
    values: dict[str, set[str]] = {}
    for cell in sweep:
        for override in cell.overrides:
            key, _, value = override.partition("=")
            values.setdefault(key, set()).add(value)
    return [key for key, distinct in values.items() if len(distinct) > 1]
