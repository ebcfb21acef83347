"""The area under a convergence curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


def area(curves: ArrayLike) -> NDArray[float64]:
    """Area by trapezoids from attempt 1 to the last, over its width: the mean height, in [0, 1] where the curve is.

    The area under the learning curve of Guyon et al. 2011 (JMLR W&CP 16:19-45), on a linear axis of attempts and
    without their rescaling to chance and perfection. It is linear in the curve: the area of each case's own curve, put
    into `bootstrap.interval`, has an interval, and the areas of two arms, into `bootstrap.difference`, have a
    difference. A curve of one attempt is its own area.

    Parameters
    ----------
    curves : ArrayLike
        Shape (attempts, ...), such as (attempts, tasks, seeds); not a number stays so.

    Returns
    -------
    NDArray[float64]
        Shape (...), such as (tasks, seeds).

    Raises
    ------
    ConfigError
        No attempt.
    """
    import numpy as np

    heights = np.asarray(curves, float)
    if not heights.ndim or not len(heights):
        raise ConfigError("curves", f"shape {heights.shape}", "(attempts, ...), one attempt at least")
    if len(heights) == 1:
        return np.asarray(heights[0])
    return np.asarray(np.trapezoid(heights, axis=0) / (len(heights) - 1))
