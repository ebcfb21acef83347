"""Programs that are sent to workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflexion_lab.records import Execution
from reflexion_lab.studies.scale.crew import Crew
from reflexion_lab.tasks.sandbox.sandbox import Limits


class Programs:
    """The sandboxes of all workers as one: the judge's, and for whatever else this process executes. Thread-safe.

    `crew`: the workers, who may have to be started. `servers`: programs at once in each.
    """

    def __init__(self, crew: Callable[[], Crew], limits: Limits, servers: int) -> None:
        self.crew = crew
        self.limits = limits
        self.each = servers

    @property
    def layers(self) -> tuple[str, ...]:
        """Those of every worker."""
        return self.crew().layers

    @property
    def servers(self) -> int:
        return self.each * len(self.crew().places)

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """As `Sandbox.run`; elsewhere once more where a worker is lost over it, but not for ever."""
        arguments = (program, entry_point, tuple(checks), setup, cpu_seconds)
        execution: Execution = self.crew().ask("programs", f"a program for {entry_point}", "run", *arguments)
        return execution

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        arguments = (program, entry_point, tuple(calls), setup)
        values: list[str | None] = self.crew().ask("programs", f"calls of {entry_point}", "values", *arguments)
        return values

    def close(self) -> None:
        """Workers end with the cluster."""
