"""What every study writes: wide tables on a terminal, rows as CSV, a figure as SVG."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.figures.style import INK
from reflexion_lab.analysis.report.sheets import Sheet, as_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

WIDEST = 1000
"""Characters for any sheet of figures."""


def show_sheet(sheet: Sheet, console: Console) -> None:
    """As wide as its figures are: a narrow terminal breaks its lines, where rich would cut figures and names off."""
    table = as_table(sheet)
    table.width = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.print(table, crop=False)


def save(
    rows: Sequence[dict[str, Any]],
    draw: Callable[[Figure], object] | None,
    folder: Path,
    *,
    salt: str,
    names: tuple[str, str] = ("table.csv", "figure.svg"),
    line_end: str = "\r\n",
    **saved: Any,
) -> list[Path]:
    """Write a table and, with `draw`, a figure into `folder`, and name the files.

    Parameters
    ----------
    rows : sequence of dict
        At least one; its keys are the columns.
    draw : callable, optional
        Fills an empty figure.
    salt : str
        Of the ids in the SVG: equal numbers give equal bytes.
    **saved
        For `Figure.savefig`.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    table, picture = (folder / name for name in names)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator=line_end)
        writer.writeheader()
        writer.writerows(rows)
    if draw is None:
        return [table]
    figure = Figure(facecolor="white")
    FigureCanvasSVG(figure)
    draw(figure)
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(picture, bbox_inches="tight", metadata={"Date": None}, **saved)
    return [table, picture]


def legend_above(ax: Axes) -> None:
    """One entry a series, above the panel."""
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1, 0, 0), "ncols": 6, "borderaxespad": 2.2}
    ax.legend(handles.values(), handles, **place, frameon=False, labelcolor=INK, fontsize=9)
