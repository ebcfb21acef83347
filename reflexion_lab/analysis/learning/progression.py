"""How scores move from attempt to attempt: pure functions on plain numbers, oldest first.

A score may be a reward in [0, 1] or a quality out of 100; higher is better, and every rule is free of scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

TRENDS = ("improving", "steady", "declining", "insufficient")
FEWEST = 3
"""Scores that a trend needs."""
STEADY = 0.02
"""A rise or fall, over all attempts, below this share of the largest score is none."""


def deltas(scores: Sequence[float]) -> tuple[float, ...]:
    """d[0] = 0, d[i] = s[i] - s[i-1]; aligned with `scores`."""
    return (0.0, *(after - before for before, after in pairwise(scores)))[: len(scores)]


def learning_rate(scores: Sequence[float]) -> float:
    """(s[n] - s[1]) / n, over n scores; 0.0 for none."""
    return (scores[-1] - scores[0]) / len(scores) if scores else 0.0


def trend(scores: Sequence[float]) -> str:
    """By the rise of the least-squares line from the first score to the last; `insufficient` for fewer than 3.

    rise = (n - 1) * sum((i - mean i) * s[i]) / sum((i - mean i)^2). It is `steady` where
    |rise| < 0.02 * max |s|.
    """
    n = len(scores)
    if n < FEWEST:
        return "insufficient"
    offsets = [i - (n - 1) / 2 for i in range(n)]
    slope = sum(offset * score for offset, score in zip(offsets, scores, strict=True))
    rise = (n - 1) * slope / sum(offset * offset for offset in offsets)
    if rise == 0 or abs(rise) < STEADY * max(map(abs, scores)):
        return "steady"
    return "improving" if rise > 0 else "declining"


def errors_removed(errors: Sequence[int]) -> int:
    """e[1] - e[n], over counts of errors; 0 for none."""
    return errors[0] - errors[-1] if errors else 0


def diminishing_returns(scores: Sequence[float]) -> bool:
    """Whether the later steps gain, in the mean, at most half of what the earlier ones gained, and lose nothing.

    Steps are cut in two halves; the middle one of an odd number belongs to the later half. False for fewer than 3
    scores, and where the earlier steps gained nothing.
    """
    steps = deltas(scores)[1:]
    half = len(steps) // 2
    if not half:
        return False
    earlier, later = sum(steps[:half]) / half, sum(steps[half:]) / (len(steps) - half)
    return earlier > 0 and 0 <= later <= earlier / 2


def breakthroughs(scores: Sequence[float]) -> tuple[int, ...]:
    """Attempts, 1-based, whose score is above every earlier one; the first is none.

    (`Attempt.delta.is_improvement` is weaker: above the attempt just before, which may have been a relapse.)
    """
    return tuple(i + 1 for i in range(1, len(scores)) if scores[i] > max(scores[:i]))
