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
from reflexion_lab.text.replies.tokens import tokens
from reflexion_lab.text.shorten import bounded, estimated

CAUSE = "Something in my program does not do what the task asks for."
WRONG = "At least one of the checks did not come out as it should."
CHANGE = (
    "I will read the task once more from the beginning, go through every example step by step, think of unusual "
    "inputs, and write the whole function anew with more care."
)

_LISTED = """
acre amber apple autumn bakery barn basket beach bell birch bird blanket boat bread breeze bridge brook butter candle
canoe carpet castle cedar chalk cherry chimney clay cliff clover coast copper coral cottage cradle creek curtain
daisy dawn desert dew dolphin dune eagle east elm ember evening falcon fern ferry fiddle field flute fog forest fox
garden ginger glacier goose grape gravel hammock harbour hazel hedge heron hill honey horizon island ivory ivy jasmine
kettle lake lantern lavender lemon lilac lily linen maple marble meadow mint mist moon morning moss mountain nest oak
oat ocean olive orchard otter owl paddle painter palm parsley peach pear pebble pine plum pond poppy porch potter quilt
rain raven reed river robin rose saddle saffron sail salmon sand seal shore silk silver snow sparrow spoon spring
stone summer swan tea thistle thunder tide trout tulip valley velvet village violin walnut water wave wheat willow wind
winter wool yarn
"""
WORDS = tuple(_LISTED.split())
"""Nouns unrelated to programs."""
PIECES = (*WORDS, *(f"{word}," for word in WORDS))
SIZES = {piece: estimated(piece) for piece in PIECES}
CUT = 320
"""Length to which templates cut the texts of a reflection."""


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


def filler_of(text: str, rng: random.Random) -> str:
    """Random `WORDS` with as many tokens as `text`, also within any prefix that a template may cut."""
    total, used, filler = estimated(text), 0, ""
    line = " ".join(text.split())[:CUT]
    while used < total:
        fitting = [piece for piece in PIECES if used + SIZES[piece] <= total - piece.endswith(",")]
        if len(filler) < len(line):
            by_then = {size: estimated(line[: len(filler) + size]) for size in {len(piece) for piece in fitting}}
            gaps = {piece: abs(used + SIZES[piece] - by_then[len(piece)]) for piece in fitting}
            least = min(gaps.values())
            fitting = [piece for piece in fitting if gaps[piece] == least]
        piece = rng.choice(fitting)
        filler += f" {piece}" if filler else piece.capitalize()
        used += SIZES[piece]
    return filler
