"""Reflection without a model: what the class of the failure suggests, with the evidence quoted."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.reflectors.classes import CLASSES
from reflexion_lab.reflectors.evidence import classify_evaluation, describe


class Rules:
    """Ten classes of failure and `unknown`, each with its own words and confidence. Deterministic.

    After earlier reflections on the same task, the text says that the last one's fix was not enough, and the
    confidence is a tenth lower, once. The root cause is one sentence per class: equal causes stay countable.
    """

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        category, check = classify_evaluation(attempt.evaluation)
        failure = CLASSES[category]
        evidence = describe(attempt, check)
        wrong, change, confidence = f"{failure.symptom} {evidence}", failure.fix, failure.confidence
        earlier = [e.reflection for e in episodes if e.task_id == task.task_id and e.reflection is not None]
        if earlier:
            # The quote stays out of `what_to_change`: quoting that next time would quote this quote.
            last = earlier[-1].what_to_change
            wrong = f'{wrong} My last fix was not enough: "{last[:200]}"'
            change = f"I will not repeat the last fix but look elsewhere. {change}"
            confidence = round(confidence * 0.9, 4)
        return Reflection(
            reflection_id=f"{task.task_id}#{attempt.number}",
            about_attempt=attempt.number,
            root_cause=failure.root_cause,
            what_went_wrong=wrong,
            what_to_change=change,
            confidence=confidence,
            source=f"rules:{category}",
            category=category,
            action_items=(failure.action.replace("{evidence}", evidence),),
        )
