"""Reflections by rules, without a model: fixed advice by failure class, with the evidence quoted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reflexion_lab.agent.reflectors.evidence import CLASSES, classify_evaluation, describe, in_words_of, reflection_on
from reflexion_lab.limits import Positive, validated
from reflexion_lab.protocols import SharedMemory
from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.text.shorten import number_of

NOT_ENOUGH = 0.9
"""Factor of a class's confidence after earlier reflections on the task."""


class Rules:
    """Fixed texts and a confidence for each failure class. Deterministic.

    After earlier reflections on the same task, the text adds that the last fix was not enough. The root cause is one
    sentence per class, so that equal causes can be counted.

    The confidence is a constant of the class, times `NOT_ENOUGH` after earlier reflections, until `shared` contains at
    least `enough` outcomes of the class. From then on it is (fixed + 1) / (cases + 2), the rule of succession (Laplace
    1774): the share of attempts that passed right after such a failure, with one success and one failure added. It is
    not lowered again, since those cases include second and third attempts.
    """

    @validated
    def __init__(self, shared: SharedMemory | None = None, enough: Positive = 20) -> None:
        self.shared = shared
        self.enough = enough

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        own = [episode.reflection for episode in episodes if episode.reflection]
        # A rejected reflection, which the actor never read, has no fix.
        fixes = [reflection.what_to_change for reflection in own if reflection.what_to_change]
        if attempt.evaluation.passed:
            return _on_success(task, attempt, fixes)
        category, check = classify_evaluation(attempt.evaluation)
        failure, words = CLASSES[category], partial(in_words_of, task)
        evidence = words(describe(attempt, check))
        wrong, change = f"{words(failure.symptom)} {evidence}", words(failure.fix)
        if fixes:
            # Not in `what_to_change`: the next reflection would quote the quote.
            is_same = change in fixes[-1]  # a class has one fix, for any place of the program
            wrong = f"{wrong} My last fix was not enough" + ("." if is_same else f': "{fixes[-1][:200]}"')
            elsewhere = "look at another place" if is_same else "not repeat the last fix but look elsewhere"
            change = f"I will {elsewhere}. {change}"
        fixed, cases = self.shared.outcomes.get(category, (0, 0)) if self.shared else (0, 0)
        confidence, confidence_source = failure.confidence, "class"
        if cases >= self.enough:
            confidence, confidence_source = round((fixed + 1) / (cases + 2), 4), "measured"
        elif fixes:
            confidence = round(confidence * NOT_ENOUGH, 4)
        return reflection_on(
            attempt,
            f"rules:{category}",
            root_cause=words(failure.root_cause),
            what_went_wrong=wrong,
            what_to_change=change,
            confidence=confidence,
            confidence_source=confidence_source,
            action_items=(words(failure.action).replace("{evidence}", evidence),),
        )


def _on_success(task: Task, attempt: Attempt, fixes: Sequence[str]) -> Reflection:
    """A reflection on a pass, which rules cannot explain: its confidence is that of `unknown`."""
    passed = sum(check.outcome == "pass" for check in attempt.evaluation.checks)
    work = {"answer": "answer passed its", "actions": "actions passed their"}.get(task.kind, "program passed its")
    worked = f"My {work} {number_of(passed, 'check')} at attempt {attempt.number}."
    if fixes:
        worked = f'{worked} Before it I had set out to do this: "{fixes[-1][:200]}"'
    confidence = CLASSES["unknown"].confidence
    return reflection_on(attempt, "rules:passed", what_worked=worked, confidence=confidence, confidence_source="class")
