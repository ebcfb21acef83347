"""Convergence of a critique-revise loop: rules on drafts and their critiques."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.records import DIGITS, Critique, Step


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

        `low_severity`; compared with the draft before: `minimal_change` of the text (edits over the
        length of the longer draft), `score_plateau`, `regression` (the
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
        if Levenshtein.normalized_distance(*own) < self.convergence_threshold:
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


def _critique(draft: Step) -> Critique:
    if draft.critique is None:
        raise ConfigError("drafts", "one without a critique", "critiques of all")
    return draft.critique


def _issues(critique: Critique) -> frozenset[str]:
    return frozenset(" ".join(issue.casefold().split()) for issue in critique.issues)
