"""When a critique-revise loop has converged: rules on drafts and what a critic said of them."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.records import DIGITS, Critique, Step

LONGEST = 20_000
"""Characters of the longest texts, common ends left out, whose distance is worked out."""


class Convergence:
    """Says why drafts need no further revision.

    `convergence_threshold`: a change below it, of the text or of the score, is none; in [0, 1], 0 never converges.
    `severity_threshold`: a critique below it leaves nothing to mend; in [0, 1].
    """

    @validated
    def __init__(self, convergence_threshold: Share = 0.1, severity_threshold: Share = 0.3) -> None:
        self.convergence_threshold = convergence_threshold
        self.severity_threshold = severity_threshold

    def reached(self, drafts: Sequence[Step], given: str = "") -> str | None:
        """The first rule that the newest of `drafts` meets, or None. Each has its critique, and they are oldest first.
        `given`: what drafts may begin with that is the task's own, and no part of a change.

        `low_severity`; against the draft before: `minimal_change` of its text, `score_plateau`, `regression` (a fall of
        the score by less than the threshold), `severity_plateau` (the very same issues, none of them milder). A greater
        fall is something to mend, and ends nothing.
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
    """The place of the best draft: of the highest `Critique.rank`, then of the highest score, weighed by the critic's
    confidence; each counts only where all critiques have it. Without scores, of the lowest severity. The earlier on a
    tie; a draft without a critique is the last choice.
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
    """How much better the later draft is, in [-1, 1]: the difference of the scores where both have one, else that of
    1 - severity.
    """
    if before.score is not None and after.score is not None:
        return after.score - before.score
    return before.severity - after.severity


def edit_distance(before: str, after: str) -> float:
    """Levenshtein distance over the length of the longer text, in [0, 1]; 0 for two empty ones.

    Bit-parallel: Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances" (Nordic Journal
    of Computing 10, 2003), figure 8, after Myers (J. ACM 46, 1999); one step a character of the shorter text. Where
    more than `LONGEST` characters lie between the common ends, these count as wholly different: no loop converges by
    mistake.
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


def _common(one: str, other: str) -> int:
    """Characters that both texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _critique(draft: Step) -> Critique:
    if draft.critique is None:
        raise ConfigError("drafts", "one without a critique", "critiques of all")
    return draft.critique


def _issues(critique: Critique) -> frozenset[str]:
    return frozenset(" ".join(issue.casefold().split()) for issue in critique.issues)
