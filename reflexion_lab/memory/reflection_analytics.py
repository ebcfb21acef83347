"""What the reflection files of many loops add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reflexion_lab.memory.reflection_schema import ReflectionFile
from reflexion_lab.records import Record


class Analytics(Record, frozen=True, kw_only=True):
    """Averages over loops and over reflections; 0 where there is nothing to average."""

    loops: int
    success_rate: float
    """Share of the loops whose last attempt passed its feedback tests."""
    average_attempts: float
    average_learning_rate: float
    """Mean over loops of (last reward - first reward) / attempts; 0 for a loop of one attempt."""
    average_confidence: float
    """Mean over reflections."""
    categories: dict[str, int]
    """Reflections by failure class, the commonest first."""


def analytics(loops: Iterable[Sequence[ReflectionFile]]) -> Analytics:
    """`loops`: each one's files, oldest first, as `ReflectionFiles.read` returns them; one without files is none."""
    begun = [loop for loop in loops if loop]
    reflections = [file.reflection for loop in begun for file in loop if file.reflection]
    return Analytics(
        loops=len(begun),
        success_rate=_mean([float(loop[-1].passed) for loop in begun]),
        average_attempts=_mean([float(len(loop)) for loop in begun]),
        average_learning_rate=_mean([(loop[-1].reward - loop[0].reward) / len(loop) for loop in begun]),
        average_confidence=_mean([reflection.confidence for reflection in reflections]),
        categories=dict(Counter(reflection.category for reflection in reflections).most_common()),
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
