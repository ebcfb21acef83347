"""Every arm's difference to the baseline, with the minimum detectable effect."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.lines import EQUAL_ATTEMPTS, Difference, methods_of
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures import style as styles
from reflexion_lab.analysis.figures.drawing import CROWDED, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import INK, UPPER_BOUND, Axes, Style, frame
from reflexion_lab.analysis.report import cells

COLUMNS = ("arm", "budget", "n", "tasks", "clusters", "seeds", "difference", "low", "high", "won", "lost", "p",
           "p_tasks", "p_holm", "minimum", "detected")  # fmt: skip
MARKS = {"as_run": "o", "equal_attempts": "D", "equal_completion_tokens": "^", "equal_tokens": "s", "equal_calls": "v",
         "equal_cost": "P"}  # fmt: skip
"""Marker by budget."""
ASIDE = 36
"""Characters per line of an arm's name beside the axis."""


def differences(comparison: Comparison, ax: Axes) -> Axes:
    """Draw a line for each budget of every arm with a difference, the first arm on top (`Comparison.shown`).

    Grey bars reach to the minimum detectable effect at 80 % power.
    """
    arm_rows = _drawn(comparison)
    for place, (_, lines) in enumerate(arm_rows):
        for number, difference in enumerate(lines):
            y = place + (number - (len(lines) - 1) / 2) * 0.8 / max(len(lines), 2)
            if (minimum := difference.minimum) is not None:
                grey: Style = {"color": styles.FAINT, "alpha": 0.75, "zorder": 1, "gid": "minimum"}
                ax.barh(y, 2 * minimum, left=-minimum, height=0.6 / max(len(lines), 2), **grey)
            style = _style(difference.budget)
            line: Style = {"linewidth": 2.2, "zorder": 3, **styles.weighed(style["color"], styles.LINES)}
            ax.hlines(y, difference.low, difference.high, **line)
            ax.plot(difference.value, y, **style, zorder=4, gid=difference.words)
            points = cells.estimate(difference, signed=True).replace("-", "−")
            beside: Style = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
            text = f"{points}  {_p_value(difference)}"
            ax.annotate(text, (1, y), (8, 0), **beside, annotation_clip=False, **styles.SMALL)
    ax.axvline(0, color=INK, linewidth=0.9, zorder=2)
    every = [difference for _, lines in arm_rows for difference in lines]
    ends = [(abs(each.low), abs(each.high), each.minimum or 0) for each in every]
    widest = max(map(max, ends))
    ax.set_xlim(-1.08 * widest, 1.08 * widest)
    ax.set_xlabel(f"solved, percentage points above {comparison.baseline}")
    ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:+g}".replace("-", "−") if abs(x) > 1e-9 else "0")
    for place, (row, _) in enumerate(arm_rows):
        if row.of.is_upper_bound:
            styles.watermark(ax, height=1 - (place + 0.5) / len(arm_rows))
    _legend(every, ax)
    ax.set_yticks(range(len(arm_rows)), [_name(row) for row, _ in arm_rows])
    ax.set_ylim(len(arm_rows) - 0.5, -0.5)
    for place in range(len(arm_rows) - 1):
        ax.axhline(place + 0.5, color=styles.FAINT, linewidth=0.7)
    return frame(ax, "x")


MISSING = "no difference to a baseline", "two arms or more on the same tasks and seeds"


@figure(30, is_compared=True, missing=MISSING)
def drawing(comparison: Comparison, arms: Sequence[Arm]) -> Drawing | None:
    """None without any difference: one arm, or all refused."""
    arm_rows = [row for row in comparison.rows if row.differences]
    if not arm_rows:
        return None
    known = {comparison.baseline, *(row.arm for row in arm_rows)}
    lines = [(row.arm, *_cells(each)) for row in arm_rows for each in comparison.shown(row).values()]
    drawn = _drawn(comparison)
    listed = [difference for _, shown in drawn for difference in shown]
    methods = methods_of(difference for row in arm_rows for difference in comparison.shown(row).values())
    units = " or ".join(unit for unit in ("tasks", "clusters") if unit in methods)
    unmatched = [f"{row.arm} ({', '.join(dict.fromkeys(row.unmatched.values()))})" for row in arm_rows if row.unmatched]
    refused = [f"{row.arm} ({row.refused})" for row in comparison.rows if row.refused]
    text = (
        f"{facts([arm for arm in arms if arm.label in known])} 95 % intervals, paired, {units} as units. p: Holm."
        + f" Without a difference: {', '.join(refused)}." * bool(refused)
        + f" Not at equal spending: {', '.join(unmatched)}." * bool(unmatched)
    )
    baseline = comparison.baseline
    longest, most = max(len(row.arm) for row in arm_rows), max(len(shown) for _, shown in drawn)
    height = max(2 if len(drawn) <= CROWDED else 1.3, most) * len(drawn)
    size = 6.4 + 0.08 * max(0, min(ASIDE, longest) - 16), 1.6 + 0.31 * height
    title = f"Difference to {baseline}" + f", {listed[0].words}; others in the CSV" * (len(listed) < len(lines))
    panels = [lambda ax: differences(comparison, ax)]
    return Drawing("differences", title, panels, COLUMNS, lines, text, size)


def _cells(difference: Difference) -> Iterator[object]:
    fields = {"budget": "words", "difference": "value"}
    for value in (getattr(difference, fields.get(name, name)) for name in COLUMNS[1:]):
        yield " ".join(map(str, value)) if isinstance(value, tuple) else value


def _drawn(comparison: Comparison) -> list[tuple[Row, list[Difference]]]:
    """Differences to draw by arm; of more than `CROWDED` arms at one budget, a registered one first, then that of equal
    attempts, by size.
    """
    every = [(row, list(comparison.shown(row).values())) for row in comparison.rows if row.differences]
    if len(every) <= CROWDED:
        return every
    choices = ((each.exploratory, each.budget != EQUAL_ATTEMPTS, each.budget) for _, own in every for each in own)
    budget = min(choices)[2]
    lines = [(row, [each]) for row, own in every for each in own if each.budget == budget]
    return sorted(lines, key=lambda line: -line[1][0].value)


def _style(budget: str) -> Style:
    """A colour and a marker of its own; hollow where all tokens or money are equal."""
    colour = styles.COLOURS[list(MARKS).index(budget) % len(styles.COLOURS)]
    inside = {"markerfacecolor": "white", "markeredgecolor": colour} if budget in ("equal_tokens", "equal_cost") else {}
    mark = {"color": colour, "marker": MARKS[budget], "linestyle": "", "markersize": 6}
    return mark | {"markeredgecolor": "white"} | inside


def _legend(every: Sequence[Difference], ax: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = dict.fromkeys(difference.budget for difference in every)
    marks = [Line2D([], [], **_style(name), label=name.replace("_", " ")) for name in names]
    place: Style = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": 2, "borderaxespad": 0.2}
    has_minimum = any(difference.minimum is not None for difference in every)
    handles = [*marks, *[Patch(color=styles.FAINT, label="below the minimum detectable effect")] * has_minimum]
    ax.legend(handles=handles, **place, frameon=False, fontsize=8.5, labelcolor=INK)


def _p_value(difference: Difference) -> str:
    if difference.p_holm is None:
        return UPPER_BOUND
    return f"p = {cells.p_value(difference.p_holm)}" if difference.p_holm >= 1e-4 else "p < 0.0001"


def _name(row: Row) -> str:
    name = textwrap.fill(row.arm, ASIDE)
    return f"{name}\n{UPPER_BOUND}" if row.of.is_upper_bound else name
