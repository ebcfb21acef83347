"""Policies: which attempt the next one continues. The attempts of a loop are a tree, whose simplest form is a chain."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Again, NotNegative, Positive, validated
from reflexion_lab.records import DIGITS, Attempt

FRESH = 0
"""The parent of an attempt that continues none."""


class Chain:
    """Each attempt continues the one before it (Shinn et al., arXiv 2303.11366)."""

    is_chain = True

    def parent(self, history: Sequence[Attempt]) -> int:
        return history[-1].number if history else FRESH

    def continues(self, attempt: Attempt) -> bool:
        return True


class Independent:
    """Every attempt is a fresh draw."""

    def parent(self, history: Sequence[Attempt]) -> int:
        return FRESH

    def continues(self, attempt: Attempt) -> bool:
        return False


class RepairTree:
    """`programs` fresh draws (1 or more), then `repairs` (0 or more) of each that failed, program by program.

    The tree of Olausson et al. (arXiv 2306.09896): all of it is made, and every subtree is read from it afterwards. The
    repairs of a program read the same reflection, theirs are independent feedback and repair pairs.
    """

    is_complete_tree = True

    @validated
    def __init__(self, programs: Positive = 5, repairs: Again = 3) -> None:
        self.programs = programs
        self.repairs = repairs

    @property
    def size(self) -> int:
        """The largest number of attempts."""
        return self.programs * (1 + self.repairs)

    def parent(self, history: Sequence[Attempt]) -> int | None:
        if len(history) < self.programs:
            return FRESH
        repairs = Counter(attempt.parent for attempt in history)
        verdicts = [(each, each.evaluation) for each in history if self.continues(each)]
        failed = (each.number for each, verdict in verdicts if verdict.has_verdict and not verdict.passed)
        return next((number for number in failed if repairs[number] < self.repairs), None)

    def continues(self, attempt: Attempt) -> bool:
        return attempt.parent == FRESH and self.repairs > 0


class BestFirst:
    """`programs` fresh draws (1 or more); then each attempt continues the best so far, by the rank of its feedback, the
    earlier on a tie, that fewer than `children` attempts continue.
    """

    @validated
    def __init__(self, programs: Positive = 2, children: Positive = 2) -> None:
        self.programs = programs
        self.children = children

    def parent(self, history: Sequence[Attempt]) -> int:
        if len(history) < self.programs:
            return FRESH
        children = Counter(attempt.parent for attempt in history)
        free = [attempt for attempt in history if children[attempt.number] < self.children]
        return max(free, key=lambda attempt: (attempt.evaluation.rank, -attempt.number)).number

    def continues(self, attempt: Attempt) -> bool:
        return True


class TreeSearch:
    """Upper confidence bounds over feedback rewards (UCT: Kocsis and Szepesvari 2006; LATS, arXiv 2310.04406).

    From the root, of which fresh draws are the children, the search goes to the child of the highest
    Q / n + `exploration` * sqrt(ln N / n) until one has fewer than `children` (1 or more) of its own: Q is the sum of
    the rewards of a child and of all below it, n their number, N that of its parent. The reward is the visible
    tests', never a hidden verdict as in LATS' code.
    """

    @validated
    def __init__(self, children: Positive = 3, exploration: NotNegative = 1.0) -> None:
        self.children = children
        self.exploration = exploration

    def parent(self, history: Sequence[Attempt]) -> int:
        children: dict[int, list[int]] = defaultdict(list)
        visits, rewards = Counter[int](), defaultdict[int, float](float)
        for attempt in reversed(history):  # children come after their parents
            children[attempt.parent].append(attempt.number)
            visits[attempt.number] += 1
            rewards[attempt.number] += attempt.evaluation.reward
            visits[attempt.parent] += visits[attempt.number]
            rewards[attempt.parent] += rewards[attempt.number]

        node = FRESH
        while len(children[node]) >= self.children:
            log = math.log(visits[node])
            bounds = {
                child: rewards[child] / visits[child] + self.exploration * math.sqrt(log / visits[child])
                for child in sorted(children[node])
            }
            node = max(bounds, key=lambda child, bounds=bounds: round(bounds[child], DIGITS))  # type: ignore[misc]
        return node

    def continues(self, attempt: Attempt) -> bool:
        return True


def with_parents(attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt | None, Attempt]]:
    """Each attempt of a loop behind the one that it continues; None for a fresh draw."""
    by_number = {attempt.number: attempt for attempt in attempts}
    return ((by_number.get(attempt.parent), attempt) for attempt in attempts)


def is_tree(attempts: Iterable[Attempt]) -> bool:
    """Whether an attempt of the loop continues another one than the last before it."""
    return any(attempt.parent != attempt.number - 1 for attempt in attempts)


def path_to(number: int, attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts from a fresh draw to that of this `number`, each the parent of the next; [] for 0."""
    by_number = {attempt.number: attempt for attempt in attempts}
    path: list[Attempt] = []
    while number != FRESH:
        if number not in by_number or by_number[number].parent >= number:  # a damaged record could lead in a circle
            raise ConfigError("policy", f"attempt {number} as a parent", "the number of an earlier attempt, or 0")
        path.append(by_number[number])
        number = path[-1].parent
    return path[::-1]
