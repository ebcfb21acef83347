"""Models that pass their calls on to another model."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from reflexion_lab.errors import ModelError, Unanswered
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Completion, Message, Sampling, Served

IN_A_ROW = 3
"""Loops with refused prompts, without an answer between them, after which a run stops."""


class Refusals:
    """Refused prompts of one role: outcomes of their loops, or a config that does not suit the server. Thread-safe."""

    def __init__(self) -> None:
        self.has_answered = False
        self._loops: list[object] = []
        self._lock = threading.Lock()

    def check(self, completion: Completion, loop: object) -> Completion:
        """Raises Unanswered: a refusal before any answer; ModelError: `IN_A_ROW` loops in a row were refused."""
        with self._lock:
            if completion.finish_reason not in WITHHELD:
                self.has_answered = True
                if not completion.cached:  # which does not show that the server still answers
                    self._loops.clear()
            elif completion.finish_reason == "refused" and not completion.cached:
                if not self.has_answered:
                    raise Unanswered(completion.text, "refused")
                self._loops += [loop] * all(loop is None or loop is not other for other in self._loops)
                if len(self._loops) >= IN_A_ROW:
                    raise ModelError(f"prompts of {IN_A_ROW} tasks in a row were refused. The last: {completion.text}")
        return completion


class WrappedModel:
    """`model`, with its fingerprint, slots and context. Subclasses override `complete`.

    `refusals`: of the role that calls, if they are looked at. `loop`: whose prompts count as one; None: each counts.
    """

    def __init__(self, model: Model, refusals: Refusals | None = None, loop: object = None) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self.served: Served | None = getattr(model, "served", None)
        self._model, self._refusals, self._loop = model, refusals, loop

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = self._model.complete(messages, sampling=sampling, sample=sample)
        return self._refusals.check(completion, self._loop) if self._refusals else completion
