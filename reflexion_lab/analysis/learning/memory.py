"""Memory across tasks: what it gains, keeps and loses over a stream, and what it consists of and costs.

Notation of continual learning: a(i, j) is the hidden verdict on task j with memory as it stood after i rounds of the
stream, a(0, j) without memory, T the number of tasks of the stream. Rows of a matrix are checkpoints c_0 < ... < c_K.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from reflexion_lab.analysis.stats.bootstrap import interval, linearised
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, by_cluster, count
from reflexion_lab.analysis.stats.estimators import Paired, paired
from reflexion_lab.analysis.stats.intervals import Estimate, agreement, over_tasks
from reflexion_lab.analysis.stats.seeds import SEEDS, by_seed, widened
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, np
from reflexion_lab.records import Record, base_id

WINDOWS = 4
EFFECTS = ("online_utility", "stability", "forgetting", "backward_transfer", "generalisation")
"""Fields of `Measures`."""
Case = tuple[str, int, float]
"""Task without the number of its pass, number of the order, and value."""


class Stream(NamedTuple):
    """Verdicts of one order of a stream: online, and at checkpoints with frozen memory.

    Without memory, a later pass is its first one; later checkpoints know it as that alone.
    """

    tasks: Sequence[str]
    """Ids in the order of the stream, then held-out ones."""
    learnt: ArrayLike
    """Shape (tasks,): the number of rounds after which memory has learnt from the task; NaN for a held-out task."""
    online: ArrayLike
    """Shape (tasks,): verdict at the task's turn, a(j - 1, j); 0 or 1, NaN without one. Not read of held-out tasks."""
    checkpoints: Sequence[int]
    """Rounds, increasing."""
    verdicts: ArrayLike
    """Shape (checkpoints, tasks): a(c_k, j); NaN without one."""


class Effect(Estimate, frozen=True, kw_only=True):
    """A mean over cases, with its 95 % interval. A case is a task in one order of the stream."""

    n: int
    clusters: int
    over: str
    """Units to which the interval generalises: `tasks`, at these orders, or `tasks and orders`."""


def counted(effect: Effect) -> str:
    """The n of an effect, for a caption."""
    units = f" in {effect.clusters} clusters, the units of intervals," if effect.clusters < effect.n else ""
    return f"{effect.n} cases (a task in an order){units}"


class Window(Record, frozen=True, kw_only=True):
    """A part of the prequential curve."""

    end: int
    """Number of tasks of the stream up to its end."""
    solved: Effect
    """Share of its tasks that were solved in their turn."""
    so_far: Effect
    """Share of all tasks up to its end."""


class Measures(Record, frozen=True, kw_only=True):
    """Effects of memory over a stream: differences of shares, in [-1, 1]; None where checkpoints are missing."""

    orders: int
    online_utility: Effect | None
    """Mean over T of a(j - 1, j) - a(0, j): the gain by memory during the stream."""
    stability: Effect | None
    """Mean over T of a(K, j) - a(j, j): what later tasks do to the value of memory for earlier ones."""
    forgetting: Effect | None
    """Mean over tasks learnt by c_(K-1) of max over 1 <= k < K of a(k, j), minus a(K, j) (Chaudhry et al. 2018, ECCV,
    eq. 3). The maximum of noisy verdicts is above 0 even where memory has no effect."""
    backward_transfer: Effect | None
    """Mean over tasks learnt before c_K of a(K, j) - a(j, j) (Lopez-Paz and Ranzato 2017, NeurIPS, eq. 3)."""
    generalisation: Effect | None
    """Mean over held-out tasks of a(K, j) - a(0, j)."""
    against: Paired | None
    """Online verdicts against those without memory; `damaged` tasks are solved without memory and lost with it."""
    lost: tuple[str, ...]
    """Damaged in any order."""
    gained: tuple[str, ...]
    """Solved with memory and not without it, in any order."""


def changes(stream: Stream) -> dict[str, Floats]:
    """Differences of each task by measure, shape (tasks,); NaN where a task has none.

    a(j, j) is the verdict at the first checkpoint that has learnt from j; with a checkpoint after every round it is
    exact, and with fewer it includes what later tasks of that part of the stream did. Raises ConfigError: shapes do not
    fit, or checkpoints do not increase.
    """
    learnt, online, verdicts = (np.asarray(x, float) for x in stream[1:3] + stream[4:])
    at, n = np.asarray(stream.checkpoints, float), len(stream.tasks)
    verdicts = verdicts if len(at) else verdicts.reshape(0, n)
    if learnt.shape != (n,) or online.shape != (n,) or verdicts.shape != (len(at), n):
        got = f"learnt {learnt.shape}, online {online.shape}, verdicts {verdicts.shape}"
        raise ConfigError("stream", got, f"({n},), ({n},), ({len(at)}, {n}): a column per task, a row per checkpoint")
    if (np.diff(at) <= 0).any():
        raise ConfigError("stream.checkpoints", stream.checkpoints, "increasing numbers of rounds")
    none = np.full(n, np.nan)
    zero = verdicts[0] if len(at) and at[0] == 0 else none
    last = verdicts[-1] if len(at) > 1 else none
    first = (at[:, None] < learnt).sum(axis=0)  # the first checkpoint that has learnt from each task
    is_learnt = np.isfinite(learnt) & (first < len(at))
    after = np.where(is_learnt, verdicts[np.minimum(first, len(at) - 1), np.arange(n)], np.nan) if len(at) else none
    is_early = is_learnt & (first < len(at) - 1)
    between = verdicts[1:-1] if len(at) and at[0] == 0 else verdicts[:-1]
    best = np.where(np.isnan(between).all(axis=0), np.nan, np.nan_to_num(between, nan=-1).max(axis=0, initial=-1))
    return {
        "online_utility": np.where(np.isfinite(learnt), online - zero, np.nan),
        "stability": last - after if is_early.any() else none,
        "forgetting": np.where(is_early, best - last, np.nan),
        "backward_transfer": np.where(is_early, last - after, np.nan),
        "generalisation": np.where(np.isnan(learnt), last - zero, np.nan),
    }


def measures(streams: Sequence[Stream], clusters: Clusters = ALONE) -> Measures:
    """The measures over one or several orders of a stream, paired by task and order.

    `clusters`: cluster by task: the units of intervals.
    """
    by_order = [changes(stream) for stream in streams]
    effects = {
        name: effect(_cases([change[name] for change in by_order], [stream.tasks for stream in streams]), clusters)
        for name in (by_order[0] if by_order else ())
    }
    without, online = _against(streams)
    units = {case: clusters.get(base_id(case[0]), base_id(case[0])) for case in online}
    return Measures(
        orders=len(streams),
        **{name: effects.get(name) for name in EFFECTS},
        against=paired(without, online, units) if online else None,
        lost=_names(case for case in online if without[case] and not online[case]),
        gained=_names(case for case in online if online[case] and not without[case]),
    )


def prequential(streams: Sequence[Stream], clusters: Clusters = ALONE, windows: int = WINDOWS) -> list[Window]:
    """Share of solved tasks along the stream: first tested, then learnt from (Dawid 1984, JRSS A 147:278-292).

    A slope mixes learning with the difficulty of the tasks at each place: several orders separate them. Intervals are
    over tasks (`stats.bootstrap.interval`), each for its own window. `streams`: their tasks in the order of the stream.
    `windows`: parts of the stream of about equal size.
    """
    online = [_cases([_online(stream)], [stream.tasks], order) for order, stream in enumerate(streams)]
    longest = max(map(len, online), default=0)
    ends = sorted({round(longest * (number + 1) / windows) for number in range(windows)} - {0})
    parts = []
    for start, end in zip([0, *ends], ends, strict=False):
        window = [case for cases in online for case in cases[start:end]]
        so_far = [case for cases in online for case in cases[:end]]
        parts.append(Window(end=end, solved=_share(window, clusters), so_far=_share(so_far, clusters)))
    return parts


def effect(cases: Sequence[Case], clusters: Clusters = ALONE) -> Effect | None:
    """Mean of paired differences with an interval over clusters of tasks; with `SEEDS` orders or more, over orders too.

    Intervals: `stats.intervals.over_tasks`, widened for orders (`stats.seeds.widened`). None without a case.
    """
    if not cases:
        return None
    differences = by_cluster(((task, value) for task, _, value in cases), clusters)
    value, linear = linearised(differences)
    low, high = over_tasks(linear, agreement(differences))
    numbers = {order: number for number, order in enumerate(dict.fromkeys(order for _, order, _ in cases))}
    by_order = by_seed(((task, numbers[order], change) for task, order, change in cases), clusters)
    is_crossed = len(numbers) >= SEEDS and bool(np.isfinite(by_order).all()) and len(by_order) > 1
    if is_crossed:
        low, high = widened((low, high), differences, seeds_of=by_order)
    over = "tasks and orders" if is_crossed else "tasks"
    return Effect(**asdict(Estimate.of(value, low, high)), n=len(cases), clusters=len(differences), over=over)


def _share(cases: Sequence[Case], clusters: Clusters) -> Effect:
    estimate = interval(by_cluster(((task, value) for task, _, value in cases), clusters))
    n_clusters = count((task for task, _, _ in cases), clusters)
    return Effect(**asdict(estimate), n=len(cases), clusters=n_clusters, over="tasks")


def _online(stream: Stream) -> Floats:
    """Online verdicts of the tasks of the stream; NaN for held-out tasks."""
    return np.where(np.isfinite(np.asarray(stream.learnt, float)), np.asarray(stream.online, float), np.nan)


def _cases(values: Sequence[Floats], tasks: Sequence[Sequence[str]], first: int = 0) -> list[Case]:
    """Finite values of each order, numbered from `first`."""
    return [
        (base_id(task), order, float(value))
        for order, (row, names) in enumerate(zip(values, tasks, strict=True), first)
        for task, value in zip(names, row, strict=True)
        if not math.isnan(value)
    ]


def _against(streams: Sequence[Stream]) -> tuple[dict[tuple[str, int], bool], dict[tuple[str, int], bool]]:
    """Verdicts without memory and online, by task and order."""
    without, online = {}, {}
    for order, stream in enumerate(streams):
        if not len(stream.checkpoints) or stream.checkpoints[0] != 0:
            continue
        rows = zip(stream.tasks, np.asarray(stream.verdicts, float)[0], _online(stream), strict=True)
        for task, before, after in rows:
            if not math.isnan(before + after):
                without[task, order], online[task, order] = bool(before), bool(after)
    return without, online


def _names(cases: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(task for task, _ in cases))
