"""Ω, the number of the newest episodes that the actor reads: fixed, or by a rule.

The paper shows 1 to 3 (Reflexion, arXiv 2303.11366, section 3); on HumanEval 1 did best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reflexion_lab.limits import Count
from reflexion_lab.records import UNKNOWN, Episode, Task

DEFAULT, LEAST, MOST = 3, 1, 10
BY_COMPLEXITY = {"simple": 1, "moderate": 3, "complex": 5, "maximum": 10}
BY_VERIFICATION_TYPE = {
    "unit_tests": 1,
    "type_check": 1,
    "lint": 1,
    "integration": 3,
    "combined": 3,
    "manual_review": 5,
}
Rule = Literal[
    "all", "by_complexity", "by_verification_type", "dynamic", "adaptive", "simple", "moderate", "complex", "maximum"
]
Omega = Count | Rule


def capacity(omega: int | str, own: Sequence[Episode], task: Task, adapted_so_far: int = DEFAULT) -> int:
    """How many of `own`, the task's episodes so far, are shown; `all` means as many as there are.

    `adapted_so_far`: where `adaptive` stood when the loop began.
    """
    if isinstance(omega, int):
        return omega
    rules = {
        "all": lambda: len(own),
        "by_complexity": lambda: next((BY_COMPLEXITY[tag] for tag in task.tags if tag in BY_COMPLEXITY), 1),
        "by_verification_type": lambda: by_verification_type(own),
        "dynamic": lambda: dynamic(own),
        "adaptive": lambda: adapted(adapted_so_far, own),
    }
    return rules[omega]() if omega in rules else BY_COMPLEXITY[omega]


def by_verification_type(own: Sequence[Episode]) -> int:
    """Unit tests fail for clear reasons; what several tools or people say needs more history."""
    kind = own[-1].metadata.get("verification_type", "") if own else ""
    return BY_VERIFICATION_TYPE.get(kind, DEFAULT)


def dynamic(own: Sequence[Episode]) -> int:
    """The more kinds of failure, the wider: 5 distinct categories show 5, 3 show 3, fewer 1."""
    kinds = len({episode.category for episode in own if episode.category})
    return 5 if kinds >= 5 else 3 if kinds >= 3 else 1


def adapted(omega: int, episodes: Sequence[Episode]) -> int:
    """Ω after one loop's `episodes`: one more for each failure that is the third in a row or later, or whose reward is
    below 0.5; one less for a success at the first or second attempt. An unknown verdict changes nothing. Kept in 1..10.
    """
    in_a_row = 0
    for episode in episodes:
        if episode.metadata.get("outcome") in UNKNOWN:
            continue
        in_a_row = 0 if episode.passed else in_a_row + 1
        harder = not episode.passed and (in_a_row >= 3 or episode.reward < 0.5)
        easy = episode.passed and episode.attempt_number <= 2
        omega = max(LEAST, min(MOST, omega + harder - easy))
    return omega
