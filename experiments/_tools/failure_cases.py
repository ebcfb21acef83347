"""Failures as evidence: the texts that are classified, and what each set of rules makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments._tools.failing_attempts import Failure, untyped
from experiments._tools.failure_labels import HELD_OUT, PARTS, Label
from experiments._tools.failure_scores import Case, Score, compared, macro_f1, score
from experiments._tools.keyword_rules import SYSTEMS, classify_by
from reflexion_lab.agent.reflectors.evidence import classify, classify_evaluation
from reflexion_lab.analysis.estimators import Paired
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Record

OURS = "lab"
RULES = (OURS, *SYSTEMS)
EVIDENCE = ("traceback", "source lines", "check")
"""A traceback as `exec` leaves it; the same with source lines, which hold the failing assert; and the lab's own check:
type and message."""
SHOWN = "source lines"
"""What those who labelled cases saw, the program beside it: without the type, the one fair text to compare rules on."""


class Comparison(Record, frozen=True, kw_only=True):
    """All rules on the same cases, by the same evidence."""

    against: str
    """What is taken for true: `executed` (the type that was raised), or `labels` with their part."""
    evidence: str
    typed: bool
    """Whether the text names the exception's type."""
    cases: tuple[Case, ...]
    scores: tuple[Score, ...]
    """In the order of `RULES`."""
    seed: int = 0

    def score(self, rules: str) -> Score:
        return self.scores[RULES.index(rules)]

    def gained(self, over: str) -> tuple[Paired, Estimate]:
        """The lab's rules against others: accuracy with McNemar's test, and macro-averaged F1."""
        return compared(self.cases, over, OURS), macro_f1(self.cases, OURS, minus=over, seed=self.seed)


def compare(failures: Sequence[Failure], labels: Mapping[tuple[str, str], Label], seed: int = 0) -> list[Comparison]:
    """Against what was raised, with and without its type; then against the labels, without it, by parts.

    Raises ConfigError: no failure failed when it was executed, or none of the labels is about one.
    """
    failed = [failure for failure in failures if failure.raised]
    if not failed:
        raise ConfigError(f"{len(failures)} failing attempts: every one of them passes here", expected="one that fails")
    comparisons = [
        _comparison("executed", evidence, typed, [(failure, failure.truth) for failure in failed], seed)
        for typed in (True, False)
        for evidence in EVIDENCE
    ]
    read = [(failure, labels[failure.id]) for failure in failed if failure.id in labels]
    if labels and not read:
        raise ConfigError("labels", f"{len(labels)}, none of them about a failure of these files", "one that is")
    parts = {part: (part,) for part in PARTS} | {"held out": HELD_OUT}
    for against, among in parts.items():
        if chosen := [(failure, label.label) for failure, label in read if label.part in among]:
            comparisons += [_comparison(f"labels, {against}", evidence, False, chosen, seed) for evidence in EVIDENCE]
    return comparisons


def said(failure: Failure, evidence: str, typed: bool) -> str:
    """The text that the rules read; one of `EVIDENCE`."""
    if evidence != "check":
        text = failure.traceback if evidence == "traceback" else failure.source
        return text if typed else untyped(text, failure.raised)
    check = failure.evaluation and classify_evaluation(failure.evaluation)[1]
    return _said(check, typed) if check else ""


def _said(check: Check, typed: bool) -> str:
    message = check.message or ("the assertion is false" if check.outcome == "fail" else "")
    if not typed:
        return message
    kind = check.error_type or ("AssertionError" if check.outcome == "fail" else check.outcome)
    return f"{kind}: {message}".removesuffix(": ")


def _guesses(failure: Failure, evidence: str, typed: bool) -> dict[str, str]:
    text = said(failure, evidence, typed)
    # A check carries more than its text: with it, the rules are asked as the lab asks them.
    whole = failure.evaluation if evidence == "check" and typed else None
    ours = classify_evaluation(whole)[0] if whole else classify("", text)
    return {OURS: ours} | {name: classify_by(keys, text) for name, keys in SYSTEMS.items()}


def _comparison(
    against: str, evidence: str, typed: bool, truths: Sequence[tuple[Failure, str]], seed: int
) -> Comparison:
    cases = tuple(
        Case(
            problem=failure.sample.task_id, kind=failure.raised, truth=truth, guesses=_guesses(failure, evidence, typed)
        )
        for failure, truth in truths
    )
    scores = tuple(score(cases, rules, seed) for rules in RULES)
    return Comparison(against=against, evidence=evidence, typed=typed, cases=cases, scores=scores, seed=seed)
