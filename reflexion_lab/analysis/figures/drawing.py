"""Figures of comparisons: their registry, and a `Drawing` with caption and numbers, for a file or for an Axes."""

from __future__ import annotations

import csv
import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from reflexion_lab.analysis import figures
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.grouping import shared_words, short_names
from reflexion_lab.analysis.figures.style import INK, SMALL, UPPER_BOUND, Axes, Style
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.text.shorten import bounded, number_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Kind = Literal["png", "svg", "pdf"]

FEW, MANY = 14, 10_000
"""Maximum number of arms: of figures with a curve per arm, and no limit. A sweep of more is drawn over its keys."""
CROWDED = 6
"""Maximum number of arms with all curves in one panel, or with all budgets."""
LETTERS = 15.5
"""Characters of a caption or legend per inch."""
LINE = 0.19
"""Inches per line of a caption or legend."""
MOST_NAMED = 3
"""Arms of one kind that a caption names where there are others."""
MOST_LINES = 2
"""Lines of a caption in a file."""
NARROWEST = 6.5
"""Minimum width in inches, so that a caption stays short."""
LONGEST = 72
"""Maximum characters of an arm's name in a figure."""
ROOM = 0.97
"""Share of the width of its column of panels that a caption may take."""
LEGEND: Style = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "alignment": "left",
                 "title_fontproperties": {"size": 11, "weight": "bold"}}  # fmt: skip


class Drawing(NamedTuple):
    """A figure before it is drawn."""

    name: str
    title: str
    panels: Sequence[Callable[[Axes], Axes]]
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Rows of the CSV beside the figure; a column `arm` is needed for `save_figures`."""
    caption: str
    """n, seeds, feedback and kind of interval, in two lines at most: a file's is cut there."""
    size: tuple[float, float] = (7.6, 4.8)
    """Size of a panel in inches."""
    across: int = 2
    """Maximum number of panels per row."""
    has_legend: bool = False
    """One legend above all panels."""


class Figure(NamedTuple):
    """A figure on disk."""

    drawing: Drawing
    path: Path
    table: Path
    """The CSV with the numbers drawn."""
    in_print: Path
    """For LaTeX: the PDF if there is one, else `path`."""
    is_captioned: bool
    """Title and caption are in the figure."""

    @property
    def files(self) -> list[Path]:
        return list(dict.fromkeys((self.path, self.in_print, self.table)))


Drawings = Callable[..., Drawing | Iterable[Drawing] | None]
F = TypeVar("F", bound=Drawings)


class Registered(NamedTuple):
    """A figure of every comparison, and a function of `notebook.plot`."""

    place: int
    """Order among the figures, lowest first."""
    of: Drawings
    most: int
    """Maximum number of arms."""
    is_compared: bool
    """Whether the function takes the comparison and the arms; else only the arms."""
    is_single: bool
    """Whether an Axes has room for one arm alone."""
    alone: Mapping[str, Any]
    """Options of the function where there is a single Axes."""
    missing: tuple[str, str]
    """What runs lack for which there is no drawing, and what is needed."""


REGISTRY: dict[str, Registered] = {}
"""By the name of the function, or of the module of one that is called `drawing`."""


def figure(
    place: int,
    most: int = MANY,
    is_compared: bool = False,
    *,
    is_single: bool = False,
    alone: Mapping[str, Any] = MappingProxyType({}),
    missing: tuple[str, str] = ("nothing to draw", "other runs"),
) -> Callable[[F], F]:
    """Register the decorated function as a figure of every comparison, and under its name in `notebook.plot`.

    It returns one drawing or several, or None where there would be nothing to see. Parameters: see `Registered`.
    """

    def register(function: F) -> F:
        name = function.__module__.rpartition(".")[2] if function.__name__ == "drawing" else function.__name__
        REGISTRY[name] = Registered(place, function, most, is_compared, is_single, alone, missing)
        return function

    return register


def registered() -> dict[str, Registered]:
    """Every figure by its name, in their order; those of the lab are registered by their modules."""
    for module in pkgutil.iter_modules(figures.__path__):
        importlib.import_module(f"{figures.__name__}.{module.name}")
    return dict(sorted(REGISTRY.items(), key=lambda entry: entry[1].place))


def save(folder: Path, drawing: Drawing, kind: Kind = "png", is_captioned: bool = True) -> Figure:
    """Write `<name>.png` and `<name>.csv` into `folder`, without a display and in any thread.

    `pdf` writes a PDF beside the PNG, which pages show; `is_captioned` writes title and caption into the figure.
    """
    from matplotlib import figure, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    # ids of an SVG are random otherwise; a dollar in an arm's name is no formula
    with rc_context({"svg.hashsalt": drawing.name, "svg.fonttype": "none", "text.parse_math": False}):
        canvas = figure.Figure()
        FigureCanvasAgg(canvas)
        _draw_panels(canvas, drawing, is_captioned)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # laid out once: savefig would do it again, at each of its passes
        path = folder / f"{drawing.name}.{'svg' if kind == 'svg' else 'png'}"
        canvas.savefig(path, dpi=150, metadata={"Date": None} if kind == "svg" else {})
        in_print = path if kind != "pdf" else folder / f"{drawing.name}.pdf"
        if in_print != path:
            canvas.savefig(in_print, metadata={"CreationDate": None})
    table = folder / f"{drawing.name}.csv"
    with table.open("w", newline="") as file:
        rows = ([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in drawing.rows)
        csv.writer(file).writerows([drawing.columns, *rows])
    return Figure(drawing, path, table, in_print, is_captioned)


def _draw_panels(canvas: Canvas, drawing: Drawing, is_captioned: bool) -> None:
    across = min(drawing.across, len(drawing.panels))
    width, down = max(NARROWEST, drawing.size[0] * across), -(-len(drawing.panels) // across)
    canvas.set_size_inches(width, drawing.size[1])
    canvas.set_facecolor("white")
    canvas.set_layout_engine("constrained", wspace=0.04, w_pad=0.08, h_pad=0.06)
    axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for ax, panel in zip(axes, drawing.panels, strict=False):
        panel(ax)
        if name := ax.get_title(loc="left"):
            ax.set_title(textwrap.fill(name, int(drawing.size[0] * LETTERS * 0.7)), loc="left", fontsize=9)
    for ax in axes[len(drawing.panels) :]:
        ax.set_visible(False)
    lines = _write_words(canvas, drawing, width, is_captioned)
    canvas.set_size_inches(width, drawing.size[1] * down + LINE * lines + 0.3 * is_captioned)


def _write_words(canvas: Canvas, drawing: Drawing, width: float, is_captioned: bool) -> int:
    """Write the legend, and title and caption if `is_captioned`; returns their number of lines."""
    lines = 0
    if is_captioned:
        caption = _wrapped(drawing.caption, width, MOST_LINES)
        canvas.supxlabel(caption, x=0.01, ha="left", linespacing=1.5, gid="caption", **SMALL)
        lines = 2 + caption.count("\n")
    if drawing.has_legend:
        place: Style = {"loc": "outside upper left", "borderaxespad": 0.3}
        return lines + _legend(canvas, canvas.axes, drawing.title if is_captioned else "", width, place)
    if is_captioned:
        canvas.suptitle(drawing.title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    return lines


def facts(arms: Sequence[Arm], size: Callable[[Arm], str] | None = None) -> str:
    """Caption sentences on n, seeds and feedback sources, and on what all names of arms leave out. `size` gives the n
    of an arm, to which its seeds are added; by default it is that of its rates.
    """
    bound = f", hence {UPPER_BOUND}, not pass@1"
    sizes = _by_arm((f"{size(arm)} over {_seeds(arm)}" if size else _size(arm), arm.label) for arm in arms)
    sources = _by_arm((arm.feedback_source + bound * arm.is_upper_bound, arm.label) for arm in arms)
    return f"n = {sizes}. Feedback: {sources}. {arms[0].shared}".rstrip()


def share_methods(arms: Sequence[Arm]) -> str:
    return " and ".join(dict.fromkeys(arm.share_method for arm in arms))


def _size(arm: Arm) -> str:
    tasks = len(arm.tasks)
    units = f" in {arm.n_clusters} clusters, the units of intervals," if arm.n_clusters < tasks else ""
    size = f"{number_of(tasks, 'task')}{units} x {_seeds(arm)}"
    size = size if len(arm.judged) == tasks * len(arm.seeds) else f"{len(arm.judged)} cases of {size}"
    return f"{size}, {len(arm.no_verdict)} cases without a hidden verdict left out" if arm.no_verdict else size


def _seeds(arm: Arm) -> str:
    return f"{number_of(len(arm.seeds), 'seed')} ({', '.join(map(str, arm.seeds))})"


def _by_arm(pairs: Iterable[tuple[str, str]]) -> str:
    """Facts, each with its arms where there are several; the largest group is called "all others"."""
    groups: dict[str, list[str]] = {}
    for fact, name in pairs:
        groups.setdefault(fact, []).append(name)
    if len(groups) == 1:
        return next(iter(groups))
    *_, second, largest = sorted(map(len, groups.values()))
    parts = []
    for fact, names in groups.items():
        is_most = len(names) == largest > max(second, MOST_NAMED)
        several = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} arms"
        parts.append(f"{fact} ({'all others' if is_most else several})")
    return "; ".join(parts)


def inert(text: str) -> str:
    """`text` on one line, quoted where a spreadsheet would take it for a formula."""
    safe = plain(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe


def on_axes(drawing: Drawing, ax: Axes | None = None, is_captioned: bool = True) -> Axes:
    """Draw the only panel of `drawing` on `ax`, or all on a new figure of pyplot; returns the first Axes.

    The figure is white, whatever the theme or style of matplotlib.
    """
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.style import context
    from matplotlib.text import Text

    with context("default"):
        if ax is None:
            _draw_panels(canvas := pyplot.figure(), drawing, is_captioned)
            target = canvas.axes[0]
        else:
            _draw_panel(drawing, target := ax, is_captioned)
        # dollars and backslashes in names are no formulas, and nothing for LaTeX
        for artist in (ax or target.figure).findobj(Text):
            artist.set_parse_math(False)
            artist.set_usetex(False)
        # The first figure of a notebook switches this on, which the end of a style would undo.
        is_interactive = matplotlib.is_interactive()
    matplotlib.interactive(is_interactive)
    return target


def _draw_panel(drawing: Drawing, ax: Axes, is_captioned: bool) -> None:
    ax.figure.set_facecolor("white")
    ax.set_facecolor("white")
    drawing.panels[0](ax)
    if drawing.has_legend:
        ax.legend(**LEGEND)
    if is_captioned:
        title = "\n".join(filter(None, (drawing.title, ax.get_title(loc="left"))))
        ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=12)
        _caption(drawing.caption, ax)


def _wrapped(caption: str, inches: float, most: int | None = None) -> str:
    return textwrap.fill(caption, max(20, int(inches * LETTERS)), max_lines=most, placeholder=" …")


def _legend(target: Axes | Canvas, axes: Sequence[Axes], title: str, inches: float, place: Style) -> int:
    """One legend of all `axes`; returns its rows."""
    entries = {name: line for ax in axes for line, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    columns = max(1, int(inches * LETTERS / (8 + max(map(len, entries), default=0))))
    target.legend(entries.values(), entries, title=title, ncols=columns, **LEGEND, **place)
    return -(-len(entries) // columns)


def _caption(text: str, ax: Axes) -> None:
    """Write the caption below the axis label, from the left edge of the Axes; layouts make room for it."""
    box, inside = ax.get_tightbbox(), ax.get_window_extent()
    left = 0.0 if box is None else max(0.0, inside.x0 - box.x0)
    dpi = ax.figure.dpi
    inches = (inside.width + left) / dpi
    if ax.figure.get_layout_engine() and (spec := ax.get_subplotspec()):
        inches = ROOM * ax.figure.bbox.width / dpi * len(spec.colspan) / spec.get_gridspec().ncols
    where: Style = {"xycoords": (ax.transAxes, ax.xaxis.label), "textcoords": "offset points", "annotation_clip": False}
    look: Style = {"va": "top", "linespacing": 1.5, "gid": "caption", **SMALL}
    ax.annotate(_wrapped(text, inches), (0, 0), (-72 * left / dpi, -8), **where, **look)


def save_figures(
    folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png", are_captioned: bool = True
) -> list[Figure]:
    """Write the figures of these arms and their comparison (`save`); empty ones are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    named_arms = readable(arms)
    whole = {arm.label: plain(name) for name, arm in named_arms.items()}
    renamed = comparison.renamed({name: arm.label for name, arm in named_arms.items()})
    saved, short = [], list(named_arms.values())
    for figure in registered().values():
        if len(arms) <= figure.most:
            drawn = figure.of(renamed, short) if figure.is_compared else figure.of(short)
            for each in [drawn] if isinstance(drawn, Drawing) else drawn or ():
                place = each.columns.index("arm")
                rows = [(*row[:place], whole.get(str(row[place]), row[place]), *row[place + 1 :]) for row in each.rows]
                saved.append(save(folder, each._replace(rows=rows), kind, are_captioned))  # uncut names in the CSV
    return saved


def readable(arms: Sequence[Arm]) -> dict[str, Arm]:
    """Arms with short names for figures, by their labels: on one line, cut in the middle to `LONGEST`, and unique."""
    by_label: dict[str, Arm] = {}
    used: set[str] = set()
    labels = [arm.label for arm in arms]
    short, shared = short_names(labels), plain(shared_words(labels))
    for arm in arms:
        text = plain(short[arm.label])  # legends leave out names that are empty or begin with an underscore
        whole = f" {text}" if text.startswith("_") else text or "(no name)"
        name, number = bounded(whole, LONGEST), 2
        while name in used:
            name, number = f"{bounded(whole, LONGEST - 5)} ({number})", number + 1
        used.add(name)
        by_label[arm.label] = Arm(name, arm.whole, shared, arm.frozen)
    return by_label
