"""Convergence rules of a critique-revise loop."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Share, validated
from reflexion_lab.records import DIGITS, Critique, Step


class Convergence:
    """Rules that end a critique-revise loop.

    `convergence_threshold`: smallest change of text or score that continues the loop, in [0, 1]; 0 never converges.
    `severity_threshold`: severity in [0, 1] below which a critique ends the loop.
    """

    @validated
    def __init__(self, convergence_threshold: Share = 0.1, severity_threshold: Share = 0.3) -> None:
        self.convergence_threshold = convergence_threshold
        self.severity_threshold = severity_threshold

    def reached(self, drafts: Sequence[Step], prompt: str = "") -> str | None:
        """The first rule that the newest draft meets, or None.

        `low_severity`, or compared with the previous draft: `minimal_change` of the text (edits over the length of the
        longer draft), `score_plateau`, `regression` (the score fell by less than the threshold), `severity_plateau`
        (the same issues, not less severe). A larger fall of the score continues the loop. `drafts`: oldest first, each
        with its critique. `prompt`: code of the task with which drafts may begin; ignored when texts are compared.
        """
        newest = _critique(drafts[-1])
        if round(newest.severity, DIGITS) < self.severity_threshold:
            return "low_severity"
        if len(drafts) == 1:
            return None
        before = _critique(drafts[-2])
        own = [draft.program.removeprefix(prompt) for draft in drafts[-2:]]
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
    """Index of the best draft: highest `Critique.rank`, then highest score times confidence, each used only if all
    critiques have it; without scores, lowest severity. Ties: the earlier draft. Drafts without a critique come last.
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
    """Improvement from one draft to a later one, in [-1, 1]: in score if both have one, else in 1 - severity."""
    if before.score is not None and after.score is not None:
        return after.score - before.score
    return before.severity - after.severity


def _critique(draft: Step) -> Critique:
    if draft.critique is None:
        raise ConfigError("drafts", "one without a critique", "critiques of all")
    return draft.critique


def _issues(critique: Critique) -> frozenset[str]:
    return frozenset(" ".join(issue.casefold().split()) for issue in critique.issues)
