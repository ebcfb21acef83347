"""What memory gains, keeps and loses over a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import INK, dot, look, mark_bounds, marker_only, named, rows
from reflexion_lab.analysis.learning.checkpoints import Matrix
from reflexion_lab.analysis.learning.memory import EFFECTS, MEANING, Effect, counted
from reflexion_lab.analysis.report import cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("arm", "feedback_source", "orders", "rounds", "checkpoints", "measure", "n", "clusters", "value", "low",
           "high", "over")  # fmt: skip


def effects(matrix: Matrix) -> dict[str, Effect]:
    """The measures that have a value, by name."""
    every: dict[str, Effect | None] = {name: getattr(matrix.measures, name) for name in EFFECTS}
    return {name: effect for name, effect in every.items() if effect}


def of_memory(matrices: Mapping[Arm, Matrix], ax: Axes) -> Axes:
    """Draw a row per measure, with a value and its interval per arm."""
    from matplotlib.ticker import FuncFormatter

    names = [name for name in EFFECTS if any(name in effects(matrix) for matrix in matrices.values())]
    for place, (arm, matrix) in enumerate(matrices.items()):
        shift, style = (place - (len(matrices) - 1) / 2) * 0.7 / len(matrices), look(place)
        for name, effect in effects(matrix).items():
            dot(effect.value, effect, names.index(name) + shift, ax, **style)
        ax.plot([], [], **marker_only(style), markersize=7, label=named(arm.label, arm.is_upper_bound))
    ax.axvline(0, color=INK, linewidth=0.9, zorder=2)
    ax.set_xlabel("solved, percentage points")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: cells.number(x, 0, signed=True).replace("-", "−")))
    mark_bounds(ax, [arm.label for arm in matrices if arm.is_upper_bound])
    return rows([name.replace("_", " ") for name in names], ax, is_ruled=True)


@figure(16, FEW)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """None without runs on frozen memory, or where they give no measure."""
    matrices = {arm: arm.memory for arm in arms if arm.memory and effects(arm.memory)}
    if not matrices:
        return None
    lines = [
        (arm.label, arm.feedback_source, len(matrix.rounds), " ".join(map(str, dict.fromkeys(matrix.rounds))),
         " ".join(map(str, matrix.checkpoints)), name, effect.n, effect.clusters, effect.value, effect.low, effect.high,
         effect.over)
        for arm, matrix in matrices.items()
        for name, effect in effects(matrix).items()
    ]  # fmt: skip
    about = facts(list(matrices), lambda arm: counted(max(effects(matrices[arm]).values(), key=lambda each: each.n)))
    sizes = {effect.n for matrix in matrices.values() for effect in effects(matrix).values()}
    text = f"{about} 95 % intervals, paired by task and order, each by itself" + "; fewer for some." * (len(sizes) > 1)
    size, panels = (7.6, 1.4 + 0.9 * max(1, len(matrices) / 3) * 4), [lambda ax: of_memory(matrices, ax)]
    title = "Memory over the stream"
    method = f"From runs on frozen memory. {MEANING}"
    return Drawing("memory", title, panels, COLUMNS, lines, text, size, has_legend=True, method=method)
