"""The default executor: loops in threads of this process, programs in its own sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reflexion_lab.protocols import Loop, StartedRun
from reflexion_lab.records import Record
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox


class Local:
    """Loops and programs of a run in this process."""

    def pool(self, limits: Limits, servers: int | None, config: Mapping[str, Any]) -> Sandbox:
        return Sandbox(limits, servers)

    def loops(self, here: Callable[[], Loop], started: StartedRun) -> Callable[[], Loop]:
        return here

    def broadcast(self, learnt: Sequence[Record]) -> None:
        """Loops of this process share their memory."""

    def close(self) -> None:
        """Nothing to stop."""
