"""A figure on its way to disk: panels, a caption, and the numbers that they show."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.style import INK, SMALL, UPPER_BOUND, Style
from reflexion_lab.io.terminal_text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Kind = Literal["png", "svg", "pdf"]

FEW, MANY = 14, 10_000
"""Arms that curves can tell apart, a sweep of more is drawn over its config keys and as differences; and no limit."""
LETTERS = 15.5
"""Of a caption or legend that fit into an inch."""
LINE = 0.19
"""Inches that a line of them takes."""
MOST_NAMED = 3
"""Arms of one kind that a caption names where there are others."""
NARROWEST = 6.5
"""Inches, so that a caption stays short."""


class Figure(NamedTuple):
    """A figure on disk."""

    name: str
    path: Path
    table: Path
    """The CSV with the very numbers that are drawn."""
    caption: str
    in_print: Path
    """What a paper includes: the PDF where there is one, else `path`."""


class Drawing(NamedTuple):
    """A figure before it is drawn."""

    name: str
    title: str
    panels: Sequence[Callable[[Axes], Axes]]
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Of the table beside the figure."""
    caption: str
    size: tuple[float, float] = (7.6, 4.8)
    """Of a panel, in inches."""
    across: int = 2
    """Panels in a row."""
    has_legend: bool = False
    """One legend above all panels."""


Drawings = Callable[..., Drawing | Iterable[Drawing] | None]
F = TypeVar("F", bound=Drawings)


class Registered(NamedTuple):
    """A figure of comparisons."""

    place: int
    """Among the others, lowest first."""
    of: Drawings
    most: int
    """Arms that it has room for."""
    is_compared: bool
    """Takes the comparison and the arms; else the arms alone."""


REGISTRY: list[Registered] = []


def figure(place: int, most: int = MANY, is_compared: bool = False) -> Callable[[F], F]:
    """Register the decorated function as a figure of every comparison: it gives one drawing or several, or None where
    there would be nothing to see.
    """

    def register(function: F) -> F:
        REGISTRY.append(Registered(place, function, most, is_compared))
        return function

    return register


def save(folder: Path, drawing: Drawing, kind: Kind = "png") -> Figure:
    """Write `<name>.png` and `<name>.csv` into `folder`. Needs no display, and works in any thread.

    Parameters
    ----------
    kind : Kind, default "png"
        `pdf` is written beside the PNG, which pages show.
    """
    from matplotlib import figure, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    width = max(NARROWEST, drawing.size[0] * _across(drawing))
    # ids of an SVG are random otherwise; a dollar in an arm's name is no formula
    with rc_context({"svg.hashsalt": drawing.name, "svg.fonttype": "none", "text.parse_math": False}):
        canvas = figure.Figure(figsize=(width, drawing.size[1]), facecolor="white")
        canvas.set_layout_engine("constrained", wspace=0.04, w_pad=0.08, h_pad=0.06)
        FigureCanvasAgg(canvas)
        down = _draw_panels(canvas, drawing)
        lines = _write_words(canvas, drawing, width)
        canvas.set_size_inches(width, drawing.size[1] * down + LINE * lines + 0.3)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # laid out once: savefig would do it again, at each of its passes
        path = folder / f"{drawing.name}.{'svg' if kind == 'svg' else 'png'}"
        canvas.savefig(path, dpi=150, metadata={"Date": None} if kind == "svg" else {})
        in_print = path if kind != "pdf" else folder / f"{drawing.name}.pdf"
        if in_print != path:
            canvas.savefig(in_print, metadata={"CreationDate": None})
    table = folder / f"{drawing.name}.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([drawing.columns, *(map(_cell, row) for row in drawing.rows)])
    return Figure(drawing.name, path, table, drawing.caption, in_print)


def _cell(value: object) -> object:
    return inert(value) if isinstance(value, str) else value


def _across(drawing: Drawing) -> int:
    return min(drawing.across, len(drawing.panels))


def _draw_panels(canvas: Canvas, drawing: Drawing) -> int:
    """Returns rows of panels."""
    across = _across(drawing)
    down = -(-len(drawing.panels) // across)
    axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for ax, panel in zip(axes, drawing.panels, strict=False):
        panel(ax)
        if name := ax.get_title(loc="left"):
            ax.set_title(textwrap.fill(name, int(drawing.size[0] * LETTERS * 0.7)), loc="left", fontsize=9)
    for ax in axes[len(drawing.panels) :]:
        ax.set_visible(False)
    return down


def _write_words(canvas: Canvas, drawing: Drawing, width: float) -> int:
    """Title, legend and caption; returns their lines."""
    wrapped = [textwrap.fill(line, int(width * LETTERS)) for line in drawing.caption.splitlines()]
    caption = "\n".join(wrapped)
    canvas.supxlabel(caption, x=0.01, ha="left", linespacing=1.5, gid="caption", **SMALL)
    lines = 2 + caption.count("\n")
    if not drawing.has_legend:
        canvas.suptitle(drawing.title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        return lines
    known = {name: line for ax in canvas.axes for line, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    columns = max(1, int(width * LETTERS / (8 + max(map(len, known)))))
    place: Style = {"loc": "outside upper left", "ncols": columns, "borderaxespad": 0.3, "alignment": "left"}
    look: Style = {"frameon": False, "fontsize": 8.5, "title_fontproperties": {"size": 11, "weight": "bold"}}
    canvas.legend(known.values(), known, title=drawing.title, labelcolor=INK, **look, **place)
    return lines - (-len(known) // columns)


def facts(arms: Sequence[Arm]) -> str:
    """What n, which seeds and which feedback are behind a figure, in a sentence or two."""
    return f"n = {_sizes(arms)}. Feedback: {_sources(arms)}."


def share_methods(arms: Sequence[Arm]) -> str:
    """How the intervals of `Arm.share` are made."""
    return " and ".join(dict.fromkeys(arm.share_method for arm in arms))


def _sizes(arms: Sequence[Arm]) -> str:
    groups = _grouped((_size(arm), arm.label) for arm in arms)
    return "; ".join(size if len(groups) == 1 else f"{size} ({_shared(who, groups)})" for size, who in groups.items())


def _size(arm: Arm) -> str:
    tasks = len(arm.tasks)
    size = f"{tasks} task{'s' * (tasks != 1)} x {_seeds(arm)}"
    size = size if len(arm.judged) == tasks * len(arm.seeds) else f"{len(arm.judged)} cases of {size}"
    return f"{size}, {len(arm.no_verdict)} cases without a hidden verdict left out" if arm.no_verdict else size


def _seeds(arm: Arm) -> str:
    return f"{len(arm.seeds)} seed{'s' * (len(arm.seeds) != 1)} ({', '.join(map(str, arm.seeds))})"


def _sources(arms: Sequence[Arm]) -> str:
    groups = _grouped((arm.feedback_source, arm.label) for arm in arms)
    names = {source: f"oracle, hence {UPPER_BOUND}, not pass@1" if source == "oracle" else source for source in groups}
    return "; ".join(
        names[source] if len(groups) == 1 else f"{names[source]} ({_shared(who, groups)})"
        for source, who in groups.items()
    )


def _shared(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> str:
    """Who they are; the largest group of several need not be named."""
    is_most = len(names) > MOST_NAMED and all(
        len(names) > len(other) for other in groups.values() if other is not names
    )
    return "all others" if is_most else ", ".join(names)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def inert(text: str) -> str:
    """On one line, and never a formula: a spreadsheet obeys what begins with one of these."""
    safe = plain(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
