"""Controls in a reflection's place: which of its parts help? The words, their sense, their length, or another look.

`Reflection.source` names each (`control:NAME`); `shuffled.py` holds the one that needs an earlier run. What a control
asked of a model is paid and recorded as ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.agent.reflectors.llm import evidence
from reflexion_lab.limits import Positive, validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.text.prompts.length import estimated
from reflexion_lab.text.replies.tokens import tokens
from reflexion_lab.text.shorten import bounded

NO_CONFIDENCE = 0.0
"""Of a control that judges nothing; its `confidence_source` is `none`."""

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
"""Harmless, and of no use to a programmer."""
PIECES = (*WORDS, *(f"{word}," for word in WORDS))
SIZES = {piece: estimated(piece) for piece in PIECES}
CUT = 320
"""Characters within which templates cut a text of a reflection."""


class FeedbackOnly:
    """The failing checks once more, in the place of words: no diagnosis, no advice. Costs nothing."""

    @validated
    def __init__(self, max_evidence: Positive = 2000) -> None:
        self.max_evidence = max_evidence

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        shown = bounded(evidence(attempt), self.max_evidence)
        return _unasked("feedback_only", task, attempt, "", shown, "")


class Generic:
    """The same advice whatever happened. Costs nothing."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        return _unasked("generic", task, attempt, CAUSE, WRONG, CHANGE)


class LengthMatched:
    """Asks `first`, and puts words without any sense in the place of each of its texts, as long in tokens
    (`prompts.length.estimated`), also where a template cuts both. Confidence and category stay those of `first`, and
    so does `text`, its reply.
    """

    def __init__(self, first: Reflector, seed: int = 0) -> None:
        self.first = _Unaware(first)
        self.seed = seed

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises what `first` raises."""
        rng = random.Random(f"{self.seed}:{task.task_id}:{attempt.number}")
        said = self.first.reflect(task, attempt, episodes)
        return said and _reworded("length_matched", said, lambda text: _filler(text, rng))


class Keywords:
    """Asks `first`, and leaves of each of its texts the words that carry sense (`tokens.tokens`), each once, in their
    order. Confidence and category stay those of `first`, and so does `text`, its reply.
    """

    def __init__(self, first: Reflector) -> None:
        self.first = _Unaware(first)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises what `first` raises."""
        said = self.first.reflect(task, attempt, episodes)
        return said and _reworded("keywords", said, lambda text: " ".join(dict.fromkeys(tokens(text))))


class _Unaware:
    """`first` as it is in its own arm: of its earlier words it reads what it said, not what became of it."""

    def __init__(self, first: Reflector) -> None:
        self._first = first
        self._said: dict[tuple[str, int], Reflection] = {}

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        own = [replace(e, reflection=self._said.get((e.task_id, e.attempt_number), e.reflection)) for e in episodes]
        said = self._first.reflect(task, attempt, own)
        if said:
            self._said[task.task_id, attempt.number] = said
        return said


def _unasked(name: str, task: Task, attempt: Attempt, cause: str, wrong: str, change: str) -> Reflection:
    return Reflection(
        reflection_id=f"{task.task_id}#{attempt.number}",
        about_attempt=attempt.number,
        root_cause=cause,
        what_went_wrong=wrong,
        what_to_change=change,
        confidence=NO_CONFIDENCE,
        confidence_source="none",
        source=f"control:{name}",
        category=classify_evaluation(attempt.evaluation)[0],
    )


def _reworded(name: str, said: Reflection, reword: Callable[[str], str]) -> Reflection:
    return replace(
        said,
        source=f"control:{name}",
        root_cause=reword(said.root_cause),
        what_went_wrong=reword(said.what_went_wrong),
        what_to_change=reword(said.what_to_change),
        what_worked=reword(said.what_worked),
        key_insight=reword(said.key_insight),
        action_items=tuple(map(reword, said.action_items)),
        lessons=tuple(map(reword, said.lessons)),
    )


def _filler(text: str, rng: random.Random) -> str:
    """As many tokens of `WORDS` as `text` has, drawn by `rng`; its first characters have as many as those of `text`."""
    total, used, filler = estimated(text), 0, ""
    line = " ".join(text.split())[:CUT]
    while used < total:
        fitting = [piece for piece in PIECES if used + SIZES[piece] <= total - piece.endswith(",")]
        if len(filler) < len(line):
            by_then = {size: estimated(line[: len(filler) + size]) for size in {len(piece) for piece in fitting}}
            gaps = {piece: abs(used + SIZES[piece] - by_then[len(piece)]) for piece in fitting}
            fitting = [piece for piece in fitting if gaps[piece] == min(gaps.values())]
        piece = rng.choice(fitting)
        filler += f" {piece}" if filler else piece.capitalize()
        used += SIZES[piece]
    return filler
