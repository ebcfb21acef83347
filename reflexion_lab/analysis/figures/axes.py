"""A figure on an Axes of its reader's, with title, legend and caption of its own: what notebooks compose."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from reflexion_lab.analysis.figures.drawing import LETTERS, LINE, NARROWEST, Drawing
from reflexion_lab.analysis.figures.style import INK, SMALL, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
