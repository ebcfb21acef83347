"""Control conditions for reflections: does their existence, content, length or target matter?

`Reflection.source` is `control:NAME`. The control that needs an earlier run is in `shuffled.py`. Model calls of a
control are paid and recorded as usual.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.agent.reflectors.llm import evidence
from reflexion_lab.limits import Positive, validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.text.filler import filler_of
from reflexion_lab.text.replies.tokens import tokens
from reflexion_lab.text.shorten import bounded

CAUSE = "Something in my program does not do what the task asks for."
WRONG = "At least one of the checks did not come out as it should."
CHANGE = (
    "I will read the task once more from the beginning, go through every example step by step, think of unusual "
    "inputs, and write the whole function anew with more care."
)


class FeedbackOnly:
    """The failing checks instead of a reflection: no diagnosis, no advice. No model call."""

    @validated
    def __init__(self, max_evidence: Positive = 2000) -> None:
        self.max_evidence = max_evidence

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        feedback = bounded(evidence(attempt), self.max_evidence)
        return reflection_on(attempt, "control:feedback_only", what_went_wrong=feedback)


class Generic:
    """The same advice after every failure. No model call."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        texts = {"root_cause": CAUSE, "what_went_wrong": WRONG, "what_to_change": CHANGE}
        return reflection_on(attempt, "control:generic", **texts)


class LengthMatched:
    """Replaces each text of `first` by random nouns of the same length in tokens (`text.shorten.estimated`), also after
    a template cuts both. Confidence, category and `text` (the reply) stay those of `first`.
    """

    def __init__(self, first: Reflector, seed: int = 0) -> None:
        self.first = Unaware(first)
        self.seed = seed

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises what `first` raises."""
        rng = random.Random(f"{self.seed}:{task.loop_id}:{attempt.number}")
        reflection = self.first.reflect(task, attempt, episodes)
        return reflection and _reworded("length_matched", reflection, lambda text: filler_of(text, rng))


class Keywords:
    """Reduces each text of `first` to its distinct content words (`tokens.tokens`), in order. Confidence, category and
    `text` (the reply) stay those of `first`.
    """

    def __init__(self, first: Reflector) -> None:
        self.first = Unaware(first)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises what `first` raises."""
        reflection = self.first.reflect(task, attempt, episodes)
        return reflection and _reworded("keywords", reflection, lambda text: " ".join(dict.fromkeys(tokens(text))))


class Unaware:
    """`first`, which reads its own earlier reflections, not the control's versions of them."""

    def __init__(self, first: Reflector) -> None:
        self._first = first
        self._own: dict[tuple[str, str, int], Reflection] = {}

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        own = [replace(episode, reflection=self._first_of(episode)) for episode in episodes]
        reflection = self._first.reflect(task, attempt, own)
        if reflection:
            self._own[reflection.reflection_id, task.task_id, attempt.number] = reflection
        return reflection

    def _first_of(self, episode: Episode) -> Reflection | None:
        """The original of an episode's reflection; ids tell the passes of a stream apart."""
        known = episode.reflection
        return known and self._own.get((known.reflection_id, episode.task_id, episode.attempt_number), known)


TEXTS = ("root_cause", "what_went_wrong", "what_to_change", "what_worked", "key_insight")
FIELDS = (*TEXTS, "action_items", "lessons", "quoted_code")
"""Fields with words for the actor, in the order of the draws of `LengthMatched`."""


def _reworded(name: str, reflection: Reflection, reword: Callable[[str], str]) -> Reflection:
    reword = functools.cache(reword)  # equal texts stay equal: a retry reads each once (`Reflection.statements`)
    old = {field: getattr(reflection, field) for field in FIELDS}
    new = {field: reword(text) if isinstance(text, str) else tuple(map(reword, text)) for field, text in old.items()}
    return replace(reflection, source=f"control:{name}", **new)
