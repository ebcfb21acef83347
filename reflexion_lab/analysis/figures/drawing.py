"""Figures of comparisons: the registry, panels with caption and numbers, and the ways to a file or to an Axes."""

from __future__ import annotations

import csv
import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from reflexion_lab.analysis import figures
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.figures.style import INK, SMALL, UPPER_BOUND, Style
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.text.shorten import bounded

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
    bound = f", hence {UPPER_BOUND}, not pass@1"
    groups = _grouped((arm.feedback_source + bound * arm.is_upper_bound, arm.label) for arm in arms)
    return "; ".join(
        source if len(groups) == 1 else f"{source} ({_shared(who, groups)})" for source, who in groups.items()
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


ROOM = 0.97
"""Of its column of panels, what a caption may take."""


def on_axes(drawing: Drawing, ax: Axes | None = None, is_captioned: bool = True) -> Axes:
    """Draw the first panel of `drawing`; returns `ax`, or without one the Axes of a new figure of pyplot's.

    The figure is white, whatever the theme around it or matplotlib's style.
    """
    import matplotlib
    from matplotlib.style import context

    with context("default"):
        target = _new(drawing, is_captioned) if ax is None else ax
        target.figure.set_facecolor("white")
        target.set_facecolor("white")
        drawing.panels[0](target)
        rows = _head(drawing, target)
        if ax is None and (figure := target.get_figure(root=True)):
            width, height = figure.get_size_inches()
            figure.set_size_inches(width, height + LINE * rows)
        if is_captioned:
            _caption(drawing.caption, target)
        _plain(target)
        # The first figure of a notebook switches this on, which the end of a style would undo.
        is_interactive = matplotlib.is_interactive()
    matplotlib.interactive(is_interactive)
    return target


def _new(drawing: Drawing, is_captioned: bool) -> Axes:
    from matplotlib import pyplot

    width, height = max(NARROWEST, drawing.size[0]), drawing.size[1] + 0.5
    lines = _wrapped(drawing.caption, width * ROOM).count("\n") + 2 if is_captioned else 0
    figure = pyplot.figure(figsize=(width, height + LINE * lines), layout="constrained")
    ax: Axes = figure.add_subplot()
    return ax


def _wrapped(caption: str, inches: float) -> str:
    return "\n".join(textwrap.fill(line, max(20, int(inches * LETTERS))) for line in caption.splitlines())


def _head(drawing: Drawing, ax: Axes) -> int:
    """Title and legend above the Axes, clear of a title that the panel has written itself; returns legend rows."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    own = textwrap.fill(ax.get_title(loc="left"), max(20, int(inches * LETTERS)))
    if drawing.has_legend:
        ax.set_title(own, loc="left", fontsize=9, color=INK)
        return _legend(drawing.title, 6 + 14 * (1 + own.count("\n")) * bool(own), inches, ax)
    if drawing.title:
        above = 24 if ax.get_legend() else 8  # the panel's own stands just above it
        ax.set_title(drawing.title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=above)
    return 0


def _legend(title: str, points: float, inches: float, ax: Axes) -> int:
    """So many points above an Axes that is so many inches wide; returns its rows."""
    from matplotlib.transforms import ScaledTranslation

    known = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    columns = max(1, int(inches * LETTERS / (8 + max(map(len, known), default=0))))
    above = ax.transAxes + ScaledTranslation(0, points / 72, ax.figure.dpi_scale_trans)
    place: Style = {"loc": "lower left", "bbox_to_anchor": (0, 1), "bbox_transform": above, "ncols": columns}
    look: Style = {"frameon": False, "fontsize": 8.5, "title_fontproperties": {"size": 11, "weight": "bold"}}
    pads: Style = {"borderaxespad": 0, "borderpad": 0, "alignment": "left", "labelcolor": INK}
    ax.legend(known.values(), known, title=title, **look, **place, **pads)
    return -(-len(known) // columns)


def _caption(text: str, ax: Axes) -> None:
    """Below the axis label, from the left edge of all that belongs to the Axes; layouts make room for it."""
    box, inside = ax.get_tightbbox(), ax.get_window_extent()
    left = 0.0 if box is None else max(0.0, inside.x0 - box.x0)
    dpi = ax.figure.dpi
    inches = (inside.width + left) / dpi
    if ax.figure.get_layout_engine() and (spec := ax.get_subplotspec()):
        inches = ROOM * ax.figure.bbox.width / dpi * len(spec.colspan) / spec.get_gridspec().ncols
    where: Style = {"xycoords": (ax.transAxes, ax.xaxis.label), "textcoords": "offset points", "annotation_clip": False}
    look: Style = {"va": "top", "linespacing": 1.5, "gid": "caption", **SMALL}
    ax.annotate(_wrapped(text, inches), (0, 0), (-72 * left / dpi, -8), **where, **look)


def _plain(ax: Axes) -> None:
    """A dollar or a backslash in somebody's name is no formula, and nothing for LaTeX."""
    from matplotlib.text import Text

    for artist in ax.findobj(Text):
        artist.set_parse_math(False)
        artist.set_usetex(False)


def save_figures(folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png") -> list[Figure]:
    """Write the figures that make sense for these arms into `folder`; those that would be empty are left out.

    Parameters
    ----------
    comparison : Comparison
        Of these very arms.
    arms : Sequence[Arm]
        One at least.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named_arms = readable(arms)
    whole = {arm.label: plain(name) for name, arm in named_arms.items()}
    drawings = _drawings(renamed(comparison, named_arms), list(named_arms.values()))
    return [save(folder, _in_full(drawing, whole), kind) for drawing in drawings]


def _in_full(drawing: Drawing, whole: Mapping[str, str]) -> Drawing:
    """With whole names in the table beside the figure, where there is room for them."""
    place = drawing.columns.index("arm")
    return drawing._replace(
        rows=[(*row[:place], whole.get(str(row[place]), row[place]), *row[place + 1 :]) for row in drawing.rows]
    )


def _drawings(comparison: Comparison, arms: Sequence[Arm]) -> Iterator[Drawing]:
    for module in pkgutil.iter_modules(figures.__path__):  # a figure is registered by its module
        importlib.import_module(f"{figures.__name__}.{module.name}")
    for figure in sorted(REGISTRY, key=lambda entry: entry.place):
        if len(arms) <= figure.most:
            drawn = figure.of(comparison, arms) if figure.is_compared else figure.of(arms)
            yield from [drawn] if isinstance(drawn, Drawing) else drawn or ()


LONGEST = 72
"""Characters of a name in a figure: more would leave no room for what is drawn."""


def readable(arms: Sequence[Arm]) -> dict[str, Arm]:
    """By its whole name: every arm under a name on one line, cut in its middle where it is too long, and still like no
    other.
    """
    by_label: dict[str, Arm] = {}
    taken: set[str] = set()
    for arm in arms:
        whole = _visible(plain(arm.label))
        name, number = bounded(whole, LONGEST), 2
        while name in taken:
            name, number = f"{bounded(whole, LONGEST - 5)} ({number})", number + 1
        taken.add(name)
        by_label[arm.label] = Arm(name, arm.logs)
    return by_label


def renamed(comparison: Comparison, by_label: Mapping[str, Arm]) -> Comparison:
    """With the names that `shown` gives its arms."""
    rows = tuple(replace(row, arm=by_label[row.arm].label) for row in comparison.rows)
    baseline = by_label[comparison.baseline].label if comparison.baseline else None
    return replace(comparison, rows=rows, baseline=baseline)


def _visible(name: str) -> str:
    """Legends leave out what has no name, or one that begins with an underscore."""
    return f" {name}" if name.startswith("_") else name or "(no name)"
