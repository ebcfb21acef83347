"""Base class of models that pass their calls on to another model."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Sampling


class WrappedModel:
    """`model`, with its fingerprint, slots and context. Subclasses override `complete`."""

    def __init__(self, model: Model) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        return self._model.complete(messages, sampling=sampling, sample=sample)
