"""Sample indices: within one task's loop an equal call is a new draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reflexion_lab.agent.models.cache import call_key
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Sampling

SUITE_DRAWS = 1_000_000
"""Index of the first draw for a task's own tests, beyond those of any loop."""


def draw_seed(messages: Sequence[Message], sampling: Sampling, sample: int) -> int:
    """The seed in [0, 2**31) that a server gets for draw `sample` of a call.

    Every call has a stream of its own. With the run's seed itself, the first random number was the same at every
    prompt: one seed of three ended half of all replies at their first token, and retries, whose later draws had other
    seeds, looked better than any method whose prompts change. Equal calls have equal seeds, whatever the arm.
    """
    return int(call_key("", messages, sampling, sample)[:8], 16) % 2**31


class Draws:
    """`model` for one task's loop: the n-th equal call of the loop is draw n, counted from 0.

    Loops with equal calls in the same order share draws in a cache; two draws of one loop never collapse.

    Parameters
    ----------
    model : Model
    asked : Counter of str, optional
        Calls so far, by key; shared by the models of a loop's roles.
    first : int
        Index of the first draw.
    """

    def __init__(self, model: Model, counts: Counter[str] | None = None, first: int = 0) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._first = first
        self._asked = Counter[str]() if counts is None else counts

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`sample` is ignored: the count takes its place."""
        key = call_key(self.fingerprint, messages, sampling, 0)
        self._asked[key] += 1
        return self._model.complete(messages, sampling=sampling, sample=self._first + self._asked[key] - 1)
