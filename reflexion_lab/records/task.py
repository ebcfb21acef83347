"""A problem of a benchmark."""

from __future__ import annotations

import re

from msgspec.structs import replace

from reflexion_lab.records.record import Record


class Task(Record, frozen=True, kw_only=True):
    """One problem of a benchmark."""

    task_id: str
    prompt: str
    """What the actor reads. For HumanEval-style tasks: Python that ends in the docstring of `entry_point`."""
    entry_point: str
    """The function that the tests call; inside tests it is also known as `candidate`."""
    visible_tests: tuple[str, ...] = ()
    """Check sources, each run in order in one namespace; the loop may see and run these."""
    hidden_tests: tuple[str, ...] = ()
    """Check sources that only the judge runs."""
    setup: str = ""
    """Python that runs before the checks, in their namespace; public."""
    canonical_solution: str = ""
    """A whole program, or the body that completes `prompt`."""
    tags: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    """What the canonical solution was measured to use over all tests of the task; 0 when nobody measured."""

    @property
    def public(self) -> Task:
        """The copy that the loop receives: no hidden tests, no canonical solution."""
        return replace(self, hidden_tests=(), canonical_solution="")

    def __repr__(self) -> str:
        """Without hidden tests and solution: a notebook keeps what it has shown."""
        shown, hidden = len(self.visible_tests), len(self.hidden_tests)
        return f"Task({self.task_id}: {self.entry_point}, {shown} visible and {hidden} hidden tests)"

    @property
    def canonical_program(self) -> str:
        """The canonical solution as a whole program: behind `prompt`, unless it defines `entry_point` itself; "" where
        the task has none.
        """
        name = re.escape(self.entry_point)
        whole = rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*="
        body = self.canonical_solution
        return body if not body.strip() or re.search(whole, body, re.MULTILINE) else self.prompt + body
