"""Convergence of a critique-revise loop: rules on drafts and their critiques."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.records import DIGITS, Critique, Step

LONGEST = 20_000
"""Characters, without common ends, of the longest texts whose distance is computed."""


class Convergence:
    """Rules by which drafts need no further revision.

    Parameters
    ----------
    convergence_threshold : float
        Smallest change of text or score that counts, in [0, 1]; 0 never converges.
    severity_threshold : float
        Critiques of a lower severity leave nothing to fix, in [0, 1].
    """

    @validated
    def __init__(self, convergence_threshold: Share = 0.1, severity_threshold: Share = 0.3) -> None:
        self.convergence_threshold = convergence_threshold
        self.severity_threshold = severity_threshold

    def reached(self, drafts: Sequence[Step], given: str = "") -> str | None:
        """The first rule that the newest draft meets, or None.

        `low_severity`; compared with the draft before: `minimal_change` of the text, `score_plateau`, `regression` (the
        score fell by less than the threshold), `severity_plateau` (the same issues, none milder). A deeper fall ends
        nothing.

        Parameters
        ----------
        drafts : sequence of Step
            Oldest first, each with its critique.
        given : str
            The task's own code, which drafts may begin with and which is no part of a change.
        """
        newest = _critique(drafts[-1])
        if round(newest.severity, DIGITS) < self.severity_threshold:
            return "low_severity"
        if len(drafts) == 1:
            return None
        before = _critique(drafts[-2])
        own = [draft.program.removeprefix(given) for draft in drafts[-2:]]
        if edit_distance(*own) < self.convergence_threshold:
            return "minimal_change"
        if newest.score is not None and before.score is not None:
            change = round(newest.score - before.score, DIGITS)
            if abs(change) < self.convergence_threshold:
                return "regression" if change < 0 else "score_plateau"
        if newest.issues and _issues(newest) == _issues(before) and newest.severity >= before.severity:
            return "severity_plateau"
        return None


def best(drafts: Sequence[Step]) -> int:
    """Index of the best draft: highest `Critique.rank`, then highest score times confidence; each counts only where all
    critiques have it. Without scores, lowest severity. The earlier on a tie; drafts without a critique come last.
    """
    critiques = [draft.critique for draft in drafts if draft.critique]
    by_tests = all(critique.rank for critique in critiques)

    def order(number: int) -> tuple[bool, tuple[float, ...], float]:
        critique = drafts[number].critique
        if critique is None:
            return False, (), 0.0
        scores = None if any(other.score is None for other in critiques) else critique.score
        opinion = -critique.severity if scores is None else scores * critique.confidence
        return True, (critique.rank or ()) if by_tests else (), opinion

    return max(range(len(drafts)), key=order)


def improvement_score(before: Critique, after: Critique) -> float:
    """Improvement of a later draft, in [-1, 1]: of the score where both have one, else of 1 - severity."""
    if before.score is not None and after.score is not None:
        return after.score - before.score
    return before.severity - after.severity


def edit_distance(before: str, after: str) -> float:
    """Levenshtein distance over the length of the longer text, in [0, 1]; 0 for two empty ones.

    Bit-parallel: Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances" (Nordic Journal
    of Computing 10, 2003), figure 8, after Myers (J. ACM 46, 1999); one step a character of the shorter text. Where
    more than `LONGEST` characters lie between the common ends, these count as wholly different, so that no loop
    converges by mistake.
    """
    longest = max(len(before), len(after))
    short, long = sorted(_without_common_ends(before, after), key=len)
    if not short or len(long) > LONGEST:
        return len(long) / longest if longest else 0.0
    places: dict[str, int] = {}
    for number, character in enumerate(long):
        places[character] = places.get(character, 0) | 1 << number
    every, last = (1 << len(long)) - 1, 1 << len(long) - 1
    plus, minus, distance = every, 0, len(long)
    for character in short:
        match = places.get(character, 0)
        diagonal = (((match & plus) + plus) ^ plus) | match | minus
        up, down = minus | (every & ~(diagonal | plus)), plus & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        plus, minus = (down | ~(diagonal | up)) & every, up & diagonal & every
    return distance / longest


def _without_common_ends(before: str, after: str) -> tuple[str, str]:
    head = _common(before, after)
    before, after = before[head:], after[head:]
    tail = _common(before[::-1], after[::-1])
    return before[: len(before) - tail], after[: len(after) - tail]


def _common(first: str, second: str) -> int:
    """Characters that both texts begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (mine, theirs) in pairs if mine != theirs), min(len(first), len(second)))


def _critique(draft: Step) -> Critique:
    if draft.critique is None:
        raise ConfigError("drafts", "one without a critique", "critiques of all")
    return draft.critique


def _issues(critique: Critique) -> frozenset[str]:
    return frozenset(" ".join(issue.casefold().split()) for issue in critique.issues)
