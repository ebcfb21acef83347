"""Within the process itself: loops in its threads, programs in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reflexion_lab.protocols import Loop, StartedRun
from reflexion_lab.records import Record
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox


class Local:
    """What every run does unless it is told otherwise."""

    def pool(self, limits: Limits, servers: int | None, config: Mapping[str, Any]) -> Sandbox:
        return Sandbox(limits, servers)

    def loops(self, here: Callable[[], Loop], started: StartedRun) -> Callable[[], Loop]:
        return here

    def broadcast(self, learnt: Sequence[Record]) -> None:
        """The loops of this process share what they know."""

    def close(self) -> None:
        """There is nothing to end."""
