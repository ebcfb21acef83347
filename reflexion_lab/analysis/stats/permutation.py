"""A p value for paired shares whose cases share tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


def sign_flip(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p of "the sides could change places at any task": exact, by all flips of the tasks' signs.

    Fisher's randomisation test for pairs (Fisher 1935, The Design of Experiments, section 21), the task as the pair: a
    task's cases flip together, however many seeds it has. With one seed it is McNemar's exact test
    (`intervals.mcnemar`). 1.0 where no task differs.

    Parameters
    ----------
    first, second : ArrayLike
        One shape (tasks, seeds), 0 or 1, not a number where a case is absent; rows and columns of the
        same tasks and seeds.

    Raises
    ------
    ConfigError
        Shapes that differ, or values other than 0 and 1.
    """
    import numpy as np

    first_outcomes, second_outcomes = np.asarray(first, float), np.asarray(second, float)
    if first_outcomes.ndim != 2 or first_outcomes.shape != second_outcomes.shape:
        raise ConfigError(
            "first and second", f"shapes {first_outcomes.shape} and {second_outcomes.shape}", "one, (tasks, seeds)"
        )
    if not np.isin([first_outcomes, second_outcomes], [0, 1]).__or__(np.isnan([first_outcomes, second_outcomes])).all():
        raise ConfigError("first and second", "a value other than 0 and 1", "verdicts")
    sums = np.nansum(second_outcomes - first_outcomes, axis=1).astype(int)
    sizes, often = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), often.tolist(), strict=True):
        chances = np.convolve(chances, _flips(size, count))
    centre = len(chances) // 2  # chances[centre + s] is that of a sum s
    extreme = abs(int(sums.sum()))
    if not extreme:
        return 1.0
    return min(1.0, float(2 * chances[centre + extreme :].sum()))


def _flips(size: int, count: int) -> NDArray[float64]:
    """Chances of the sums, from -size * count on, of `count` numbers that are size or -size, each with chance 1/2."""
    import numpy as np
    from scipy.special import gammaln

    ups = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(ups + 1) - gammaln(count - ups + 1) - count * np.log(2)
    sums = np.zeros(2 * size * count + 1)
    sums[:: 2 * size] = np.exp(logs)
    return sums
