"""Key insights: the few sentences that outlast the attempts they came from."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.records import Reflection

MOST = 20
"""Insights that are kept; the oldest leaves."""
ALIKE = 20
"""Two insights are one where so many first characters agree."""


def with_insight(insights: Sequence[str], text: str) -> tuple[str, ...]:
    """`insights`, oldest first, and `text` behind them, unless it says nothing or one of them begins alike.

    Beginnings are compared casefolded and with white space folded; of a shorter insight, that is the whole.
    """
    new = " ".join(text.split())
    if not says_something(new) or any(_beginning(new) == _beginning(known) for known in insights):
        return tuple(insights)
    return (*insights, new)[-MOST:]


def insight_of(reflection: Reflection) -> str:
    """Its key insight, else its first lesson, else what it wants changed; "" where none of them says anything."""
    candidates = (reflection.key_insight, *reflection.lessons, reflection.what_to_change)
    return next((text.strip() for text in candidates if says_something(text)), "")


def says_something(text: str) -> bool:
    """Whether a text is neither blank nor `N/A`, in any case."""
    return text.strip().casefold() not in ("", "n/a")


def _beginning(insight: str) -> str:
    return " ".join(insight.casefold().split())[:ALIKE]
