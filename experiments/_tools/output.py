"""What the studies share: the command line, numbers with intervals, wide tables, CSV files and figures."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, Rate
from reflexion_lab.cli.main import Arguments, guarded
from reflexion_lab.cli.place import add_json, out_folder, positive
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy import float64
    from numpy.typing import NDArray
    from rich.console import Console

    from reflexion_lab.analysis.comparison.lines import Difference

WIDEST = 1000
"""Maximum width of a table, in characters."""
TRANSCRIPTS = "transcripts (.jsonl, .jsonl.gz)"


def script_parser(script: str, description: str, folder: str = "_tools") -> argparse.ArgumentParser:
    return Arguments(prog=f"python -m experiments.{folder}.{script}", description=description)


def transcripts_parser(script: str, description: str, limit: str) -> argparse.ArgumentParser:
    """The arguments of every study of transcripts; `limit` describes `--limit`."""
    parser = script_parser(script, description)
    parser.add_argument("files", metavar="FILE", nargs="+", help=TRANSCRIPTS)
    parser.add_argument("--limit", type=positive, metavar="N", help=limit)
    parser.add_argument("--out", metavar="DIR", help="write the evidence of the study there")
    add_json(parser)
    return parser


def run(parser: argparse.ArgumentParser, study: Callable[[argparse.Namespace], int], argv: Sequence[str] | None) -> int:
    """Exit code of a script."""
    options = parser.parse_args(argv)
    return guarded(lambda: study(options))


def check_places(files: Iterable[str], out: str | None) -> None:
    """Raises ConfigError: one of `files` is not a file, or `out` cannot be a folder."""
    for file in files:
        if Path(file).is_dir() or not Path(file).exists():
            raise ConfigError(file, "no file", TRANSCRIPTS)
    if out:
        out_folder(out)


def percentile_estimate(value: float, resampled: NDArray[float64]) -> Estimate:
    """`value` with its percentile bootstrap interval (Efron and Tibshirani 1993, ch. 13), which includes `value`."""
    import numpy as np

    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))


def value_of(estimate: Rate | Estimate | Difference) -> float:
    return estimate.value


def percent(estimate: Rate | Estimate, sign: str = "") -> str:
    """For example 34.2 [26.3, 43.0]."""
    return f"{100 * value_of(estimate):{sign}.1f} {interval(estimate.low, estimate.high)}"


def columns(estimate: Rate | Estimate, value: str, prefix: str = "") -> dict[str, float]:
    """The columns `value`, `<prefix>low` and `<prefix>high` of a table."""
    ends = {value: value_of(estimate), f"{prefix}low": estimate.low, f"{prefix}high": estimate.high}
    return {name: round(end, 4) for name, end in ends.items()}


def show_sheet(sheet: Sheet, console: Console) -> None:
    """Print `sheet` at its full width: a narrow terminal wraps lines, where rich would cut numbers and names."""
    table = as_table(sheet)
    table.width = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    console.print(table, crop=False)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], line_end: str = "\n") -> Path:
    """Write at least one row, creating the folder; the keys of the first row are the columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator=line_end)
        writer.writeheader()
        writer.writerows(rows)
    return path


def save(
    rows: Sequence[Mapping[str, Any]],
    draw: Callable[[Figure], object],
    folder: Path,
    *,
    salt: str,
    name: str = "figure.svg",
    table: str = "table.csv",
    line_end: str = "\r\n",
    **savefig: Any,
) -> list[Path]:
    """Write the table and the figure of a study, and return their paths.

    Parameters
    ----------
    draw : callable
        Draws into an empty figure.
    salt : str
        Seed of the ids in the SVG: equal figures have equal bytes.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    written = [write_csv(folder / table, rows, line_end), folder / name]
    figure = Figure(facecolor="white")
    FigureCanvasSVG(figure)
    draw(figure)
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(written[1], bbox_inches="tight", metadata={"Date": None}, **savefig)
    return written


def print_written(paths: Collection[Path]) -> None:
    if paths:
        print("\n".join(f"written: {path}" for path in paths))


def plain_axes(ax: Axes, grid: str = "") -> None:
    """No ticks and no frame but the bottom; `grid`: the axis with a grid, if any."""
    if grid:
        ax.grid(axis=grid, color=FAINT, linewidth=0.7)  # type: ignore[arg-type]
        ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)


def legend(ax: Axes, **place: Any) -> None:
    """A legend with one entry per series."""
    if handles := dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)):
        ax.legend(handles.values(), handles, frameon=False, **place)


def legend_above(ax: Axes) -> None:
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1, 0, 0), "ncols": 6, "borderaxespad": 2.2}
    legend(ax, **place, labelcolor=INK, fontsize=9)


def forest(rows: Mapping[str, Mapping[str, Rate | Estimate]], ax: Axes, label: str) -> Axes:
    """Draw one line per row, the first on top, with a dot and an interval for each of its series.

    Parameters
    ----------
    rows : mapping
        Estimates in [0, 1] by row, then by series.
    label : str
        Name of the measure.
    """
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    step = 0.76 / max(1, len(series))
    for number, name in enumerate(series):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        dot = {**look, "marker": MARKERS[number % len(MARKERS)], "markersize": 6, "markeredgecolor": "white"}
        offset = (number - (len(series) - 1) / 2) * step
        for place, estimate in ((place, row[name]) for place, row in enumerate(rows.values()) if name in row):
            ax.hlines(place + offset, estimate.low, estimate.high, **look, linewidth=2.4, alpha=0.45)
            ax.plot(value_of(estimate), place + offset, **dot, linestyle="", zorder=4, label=name)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(label, color=INK)
    ax.hlines([place + 0.5 for place in range(len(rows) - 1)], -0.02, 1.02, color=FAINT, linewidth=0.7)
    plain_axes(ax, grid="x")
    return ax
