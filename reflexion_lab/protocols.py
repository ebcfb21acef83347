"""The verbs of the lab: one protocol a room, one method a protocol.

Contracts. Rewards and confidences are in [0, 1], higher is better. A candidate's failure is an `Evaluation`, never an
exception; an exception is a broken harness and stops the run loudly, after everything finished has been written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reflexion_lab.records import (
    Attempt,
    Completion,
    Episode,
    Evaluation,
    Execution,
    Grade,
    MemoryState,
    Message,
    Reflection,
    Sampling,
    Task,
    Trajectory,
    WrittenTests,
)


class ModelError(RuntimeError):
    """A model could not answer: what was asked of whom, what came back, what to do. Never holds a key."""


class HarnessError(RuntimeError):
    """The harness itself is broken; no verdict on any candidate may be drawn from it."""


class Model(Protocol):
    """A language model. Thread-safe."""

    fingerprint: str
    """Names the weights or the served model, never a key: equal fingerprints mean interchangeable replies."""
    slots: int
    """Calls that it works on at once."""

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Answer `messages`. `sample` is the how-manyth draw of this very call within one task's loop.

        Raises:
            ModelError: no answer could be had.
        """


class Actor(Protocol):
    """Turns a task and what memory recalled into a program."""

    def act(self, task: Task, episodes: Sequence[Episode]) -> Trajectory:
        """`episodes` are oldest first; `task` is public. Raises only what its model raises."""


class Limits(Protocol):
    """What one execution may use."""

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall and CPU seconds of a task whose canonical solution uses so many CPU seconds."""


class Executor(Protocol):
    """Runs programs where they can harm nothing. Thread-safe."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the isolation layers in force."""

    @property
    def limits(self) -> Limits: ...

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """Execute `program`, then each of `checks`; raises HarnessError alone."""


class Evaluator(Protocol):
    """Judges a program by the tests that the task shows."""

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """One check per visible test, in their order. Raises HarnessError alone."""


class SuiteWriter(Protocol):
    """Writes the tests that stand in for those a task shows."""

    def write(self, task: Task) -> WrittenTests:
        """Before the task's loop; `task` is public. No test kept means unknown, never a pass. Raises what its model
        raises, and HarnessError.
        """


class Reflector(Protocol):
    """Says in words what went wrong."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """`attempt` failed; `episodes` are those its actor saw. None: nothing to say."""


class Recall(Protocol):
    """Chooses what memory shows."""

    def select(self, episodes: Sequence[Episode], task: Task) -> list[Episode]:
        """A subsequence of `episodes` (oldest first), in the same order."""


class Memory(Protocol):
    """Keeps episodes; every memory is read by the next attempt."""

    def recall(self, task: Task) -> list[Episode]: ...

    def remember(self, task: Task, attempt: Attempt) -> None: ...

    def state(self, in_context: int) -> MemoryState: ...


class Stop(Protocol):
    """Decides whether a task's loop ends."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        """The name of the reason, or None to go on. `history` is oldest first and ends before `attempt`."""


class Judge(Protocol):
    """Grades what was submitted against the hidden tests."""

    def grade(self, task: Task, number: int, solution: str) -> Grade:
        """Once per task while the run is open. Asking twice raises."""


class Tracker(Protocol):
    """A view of run folders for other tools; rebuilt from the folder at any time."""

    @property
    def command(self) -> str:
        """Opens the view in a browser; "" where there is nothing to open."""

    def track(self, folder: Path) -> str:
        """Log the run in `folder`; returns where to look at it, "" for nowhere."""
