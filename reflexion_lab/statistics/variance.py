"""Where outcomes differ: between tasks, between seeds, or from case to case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Variance(Record, frozen=True, kw_only=True):
    """The variance of single outcomes, split in three parts that add up to it."""

    tasks: int
    """Those with an outcome at every seed."""
    seeds: int
    left_out: int
    """Tasks that lack an outcome at some seed."""
    task: float
    """Some tasks are harder than others."""
    seed: float
    """Some seeds are luckier at all tasks at once."""
    residual: float
    """One task at one seed: luck of the single draw, and tasks that suit some seeds."""
    clipped: tuple[str, ...] = ()
    """Parts whose estimate was below 0 and stands as 0: too small to be told from none."""

    @property
    def total(self) -> float:
        return self.task + self.seed + self.residual

    @property
    def shares(self) -> dict[str, float]:
        """Of each part, in [0, 1]; all 0 where nothing varies."""
        parts = {"task": self.task, "seed": self.seed, "residual": self.residual}
        return {name: part / self.total if self.total else 0.0 for name, part in parts.items()}

    @property
    def of_the_mean(self) -> float:
        """What variance the mean over all cases has, were tasks and seeds drawn anew."""
        return self.task / self.tasks + self.seed / self.seeds + self.residual / (self.tasks * self.seeds)


def split(outcomes: ArrayLike) -> Variance | None:
    """The parts of the variance, by the method of moments: the two-way layout of random effects, one outcome a cell.

    Mean squares of tasks, seeds and residual are set equal to what they estimate (Searle, Casella and McCulloch 1992,
    Variance Components, chapter 4): residual = MS_r, task = (MS_t - MS_r) / seeds, seed = (MS_s - MS_r) / tasks.

    Args:
        outcomes: shape (tasks, seeds); tasks with an outcome that is not a number are left out.

    Returns:
        None where there is nothing to split: fewer than two whole tasks, or one seed.

    Raises:
        ValueError: another shape.
    """
    import numpy as np

    every = np.asarray(outcomes, float)
    if every.ndim != 2:
        raise ValueError(f"outcomes: shape {every.shape} found; expected (tasks, seeds)")
    whole = every[np.isfinite(every).all(axis=1)]
    tasks, seeds = whole.shape
    if tasks < 2 or seeds < 2:
        return None
    by_task, by_seed, mean = whole.mean(axis=1), whole.mean(axis=0), whole.mean()
    of_tasks = seeds * ((by_task - mean) ** 2).sum() / (tasks - 1)
    of_seeds = tasks * ((by_seed - mean) ** 2).sum() / (seeds - 1)
    left = whole - by_task[:, None] - by_seed[None, :] + mean
    residual = float((left**2).sum() / ((tasks - 1) * (seeds - 1)))
    parts = {"task": float(of_tasks - residual) / seeds, "seed": float(of_seeds - residual) / tasks}
    return Variance(
        tasks=tasks,
        seeds=seeds,
        left_out=len(every) - tasks,
        task=max(0.0, parts["task"]),
        seed=max(0.0, parts["seed"]),
        residual=residual,
        clipped=tuple(name for name, part in parts.items() if part < 0),
    )
