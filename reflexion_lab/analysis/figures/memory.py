"""Tasks solved along a stream, each tested before memory learns from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import Axes, bars, frame, look, mark_bounds, named, share_axis
from reflexion_lab.analysis.learning.checkpoints import stream_of
from reflexion_lab.analysis.learning.curation import has_curator
from reflexion_lab.analysis.learning.memory import Window, counted, prequential
from reflexion_lab.io.arrays import np

COLUMNS = ("arm", "feedback_source", "tasks_from", "tasks_to", "n", "solved", "low", "high", "so_far", "so_far_low",
           "so_far_high")  # fmt: skip


def orders(arms: Sequence[Arm]) -> dict[int, Sequence[str]]:
    """By seed, the tasks in the order of the stream, as runs with a curator show it; not where they differ.

    Without rounds, tasks end in any order.
    """
    shown: dict[int, set[tuple[str, ...]]] = {}
    for log in (log for arm in arms for log in arm.whole if has_curator(log)):
        shown.setdefault(log.manifest.seed, set()).add(tuple(stream_of(log).tasks))
    return {seed: next(iter(of_seed)) for seed, of_seed in shown.items() if len(of_seed) == 1}


def windows(arm: Arm, by_seed: Mapping[int, Sequence[str]]) -> list[Window]:
    """The prequential curve of an arm, over its seeds; [] where the order of its tasks is not known."""
    streams = []
    for log in arm.whole:
        stream = stream_of(log)
        order = stream.tasks if has_curator(log) else by_seed.get(log.manifest.seed, ())
        if set(order) != set(stream.tasks):
            return []
        verdicts = dict(zip(stream.tasks, np.asarray(stream.online, float).tolist(), strict=True))
        streams.append(stream._replace(tasks=order, online=[verdicts[task] for task in order]))
    return prequential(streams, arm.clusters)


def along_the_stream(curves: Mapping[Arm, Sequence[Window]], ax: Axes) -> Axes:
    """Draw the share solved in each part of the stream, with its interval, an arm a line."""
    width = max(curve[-1].end for curve in curves.values())
    for place, (arm, curve) in enumerate(curves.items()):
        style, shift = look(place), (place - (len(curves) - 1) / 2) * 0.02 * width
        starts = [0, *(window.end for window in curve)]
        at = [(start + window.end) / 2 + shift for start, window in zip(starts, curve, strict=False)]
        bars(at, [window.solved for window in curve], style["color"], ax)
        label = named(arm)
        ax.plot(at, [window.solved.value for window in curve], **style, markersize=6, linewidth=1.2, label=label)
    drawn = [window.solved for curve in curves.values() for window in curve]
    share_axis(ax, [end for effect in drawn for end in (effect.low, effect.high)], "share solved in its part")
    ax.set(xlim=(0, width), xlabel="tasks of the stream")
    mark_bounds(ax, curves)
    return frame(ax, "y")


MISSING = "no run whose curator shows the order of the stream", "runs with curator="


@figure(15, FEW, missing=MISSING)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """None where no arm has a curator, whose rounds show the order of the stream."""
    by_seed = orders(arms)
    curves = {arm: curve for arm in arms if (curve := windows(arm, by_seed))}
    if not curves:
        return None
    rows = [
        (arm.label, arm.feedback_source, start + 1, window.end, window.solved.n, window.solved.value, window.solved.low,
         window.solved.high, window.so_far.value, window.so_far.low, window.so_far.high)
        for arm, curve in curves.items()
        for start, window in zip([0, *(window.end for window in curve)], curve, strict=False)
    ]  # fmt: skip
    about = facts(list(curves), lambda arm: counted(curves[arm][-1].so_far))
    text = f"{about} Each task is tested, then learnt from. 95 % intervals, each for its own part."
    panels, size = [lambda ax: along_the_stream(curves, ax)], (7.6, 4.2)
    return Drawing("memory", "Memory over the stream", panels, COLUMNS, rows, text, size, has_legend=True)
