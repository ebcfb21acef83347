"""Numbers the draws of one task's loop, so that asking again draws again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reflexion_lab.agent.models.cache import call_key
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Sampling

SUITE_DRAWS = 1_000_000
"""Number of the first draw for a task's own tests; no loop draws so often."""


def draw_seed(messages: Sequence[Message], sampling: Sampling, sample: int) -> int:
    """The seed that a server gets for draw `sample` of this very call, in [0, 2**31).

    Every call has a stream of its own. With the run's seed itself, the first random number was the same at every
    prompt: one seed of three ended half of all replies at their first token, and retries, whose later draws had other
    seeds, looked better than any method whose prompts change. Equal calls have equal seeds, whatever the arm.
    """
    return int(call_key("", messages, sampling, sample)[:8], 16) % 2**31


class Draws:
    """`model` as one task's loop sees it: the n-th equal call of this loop is draw n, counted from 0.

    Loops that ask the same in the same order share draws in a cache; two draws of one loop never collapse. `asked`:
    the loop's count, which the models of its roles share. `first`: the number of the first draw.
    """

    def __init__(self, model: Model, asked: Counter[str] | None = None, first: int = 0) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._first = first
        self._asked = Counter[str]() if asked is None else asked

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`sample` is ignored: the count takes its place."""
        key = call_key(self.fingerprint, messages, sampling, 0)
        self._asked[key] += 1
        return self._model.complete(messages, sampling=sampling, sample=self._first + self._asked[key] - 1)
