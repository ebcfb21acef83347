"""A model for benchmarks: the simulated student, who takes a while over every reply."""

from __future__ import annotations

import time
from collections.abc import Sequence

from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.records import Completion, Message, Sampling, Task


class Slow(SimulatedModel):
    """Sleeps `seconds` a call, as one waits for a server; nothing is computed meanwhile."""

    def __init__(self, tasks: Sequence[Task], *, seconds: float = 0.2, slots: int = 64) -> None:
        super().__init__(tasks, first=0.3, repair=0.3, damage=0.0, slots=slots)
        self.seconds = seconds

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        time.sleep(self.seconds)
        return super().complete(messages, sampling=sampling, sample=sample)
