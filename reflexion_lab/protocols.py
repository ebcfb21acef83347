"""The verbs of the lab: one protocol a room, one method a protocol.

Contracts. Rewards and confidences are in [0, 1], higher is better. A candidate's failure is an `Evaluation`, never an
exception; an exception is a broken harness and stops the run loudly, after everything finished has been written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from reflexion_lab.records import (
    Attempt,
    Beginning,
    Completion,
    Critique,
    Episode,
    Evaluation,
    Execution,
    MemoryState,
    Message,
    Mistake,
    Recollection,
    Record,
    Reflection,
    Sampling,
    Search,
    Session,
    Task,
    Trajectory,
    Wisdom,
    WrittenTests,
)

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Stored = Episode | Wisdom | Mistake | Session
S = TypeVar("S", Episode, Wisdom, Mistake, Session)


class Hit(NamedTuple):
    """One document that a retriever found."""

    number: int
    """The document's place in the order of adding, from 0; forgotten documents keep theirs."""
    score: float
    """In [0, 1], higher is nearer."""


class Model(Protocol):
    """A language model. Thread-safe."""

    fingerprint: str
    """Names the weights or the served model, never a key: equal fingerprints mean interchangeable replies."""
    slots: int
    """Calls that it works on at once."""
    context: int
    """Tokens of prompt and reply together that a call may hold; 0 where nobody knows."""

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Answer `messages`. `sample` is the how-manyth draw of this very call within one task's loop.

        Raises:
            ModelError: no answer could be had.
        """


class Actor(Protocol):
    """Turns a task and what memory recalled into a program."""

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """`task` is public. What the prompt had no room for is named in `left_out`. Raises only what its model raises,
        and HarnessError where it runs programs.
        """


class Critic(Protocol):
    """Says what is wrong with a draft."""

    def critique(self, task: Task, program: str) -> Critique:
        """`task` is public. Raises CritiqueError, what its model raises, and HarnessError."""


class Reviser(Protocol):
    """Mends a draft."""

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        """A new draft, which may be the old one. Raises only what its model raises."""


class Limits(Protocol):
    """What one execution may use."""

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall and CPU seconds of a task whose canonical solution uses so many CPU seconds."""


class Sandbox(Protocol):
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


class Pool(Sandbox, Protocol):
    """The sandboxes of a run as one."""

    @property
    def servers(self) -> int:
        """Programs at once."""

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """What each call of `program` returns, as Python source; None where that is no plain data or it raised."""

    def close(self) -> None: ...


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
        """`attempt` failed; `episodes` are those of this task that its actor saw. None: nothing to say."""


class Recall(Protocol):
    """Chooses what memory shows of the episodes that it keeps."""

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        """`own` are the task's episodes of this loop, oldest first; `known` is what all tasks of the round share."""


class Known(Protocol):
    """What memory holds across loops, as it stood when the round of tasks began."""

    omega: int
    """Where the adaptive Ω stands."""

    @property
    def outcomes(self) -> Mapping[str, tuple[int, int]]:
        """By failure class: how many reflected failures the next attempt mended, of how many that had a next one;
        feedback verdicts alone.
        """

    def similar(self, task: Task, own: Sequence[Episode], k: int, min_score: float) -> list[Episode]:
        """At most `k` episodes of other loops, best first, with a score of `min_score` or above."""

    def lessons(self, task: Task, own: Sequence[Episode]) -> Recollection:
        """Wisdom, mistakes and insights for the next attempt at `task`; no episodes."""


class Memory(Protocol):
    """Keeps episodes; every memory is read by the next attempt."""

    def recall(self, task: Task) -> Recollection: ...

    def remember(self, task: Task, attempt: Attempt) -> None: ...

    def state(self, recollection: Recollection) -> MemoryState: ...


class Store(Protocol):
    """Keeps episodes, wisdom, mistakes and sessions across runs. Thread-safe; many processes may share one place."""

    def append(self, records: Sequence[Stored]) -> None:
        """Keep `records`, each safe from `kill -9` when this returns. One whose id is known replaces the older record,
        in its place in the order.

        Raises:
            StoreError: the disk is full, the place is read-only or damaged; records kept before stand.
        """

    def read(self, kind: type[S]) -> Iterator[S]:
        """All records of a kind, in the order of their first `append`. Raises StoreError."""

    def search(self, search: Search) -> list[Episode]:
        """Episodes, newest first. Raises StoreError."""

    def prune(self, before: float) -> int:
        """Remove episodes and mistakes that are older than `before` (seconds since the epoch; one of exactly that time
        goes too), and say how many. Raises StoreError.
        """

    def close(self) -> None: ...


class Retriever(Protocol):
    """Finds the documents nearest to a query. Adding is cheap: no call rebuilds what is there."""

    def add(self, documents: Sequence[str]) -> None:
        """Number `documents` on from the last one. What was added is found by the next `rank`."""

    def forget(self, before: int) -> None:
        """Documents with numbers below `before` are not found any more, as a FIFO buffer evicts them."""

    def rank(self, query: str, k: int) -> list[Hit]:
        """At most `k` documents with scores above 0, best first, the newer first on a tie; [] for `k` of 0 or less."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def fingerprint(self) -> str:
        """Names the weights: equal fingerprints mean equal vectors."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """Unit vectors, float32, shape (texts, dimensions); row i is that of text i."""


class Stop(Protocol):
    """Decides whether a task's loop ends."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        """The name of the reason, or None to go on. `history` is oldest first and ends before `attempt`."""


class Loop(Protocol):
    """One task's attempts."""

    def attempts(self, task: Task) -> Iterator[Attempt]:
        """Each made when it is asked for; the last has a stop reason. `task` is public. A loop that is lost begins anew
        by itself, with another first attempt.
        """


class Begun(NamedTuple):
    """A run that has begun, as its executor needs to know it."""

    run_id: str
    scope: str
    """What shares the caps."""
    beginning: Beginning | None
    """What memory held; None where tasks know nothing of each other."""
    store: Store | None
    counted: Callable[[Sequence[Any]], None]
    """Takes the counts of calls that were made elsewhere."""


class Executor(Protocol):
    """Where a run's loops and programs are executed. It changes no result."""

    def pool(self, limits: Any, servers: int | None, config: Mapping[str, Any]) -> Pool:
        """The sandboxes; first of all calls. `config`: the run's, with its interpolations. Raises ConfigError."""

    def loops(self, here: Callable[[], Loop], begun: Begun) -> Callable[[], Loop]:
        """Makes one task's loop; `here` does so in this process. Raises HarnessError, and what the parts raise."""

    def tell(self, learnt: Sequence[Record]) -> None:
        """Make known to all later loops what a round of tasks has learnt."""

    def close(self) -> None:
        """End what was started for the run."""


class Tracker(Protocol):
    """A view of run folders for other tools; rebuilt from the folder at any time."""

    @property
    def command(self) -> str:
        """Opens the view in a browser; "" where there is nothing to open."""

    def track(self, folder: Path, log: Any = None) -> str:
        """Log the run in `folder`; returns where to look at it, "" for nowhere. `log`: its `analysis.run_log.Log`, if
        it has been read.
        """

    def track_arms(
        self, folders: Sequence[Path], baseline: str | None = None, one_seed: bool = False
    ) -> dict[str, str]:
        """Log the arms that the runs in `folders` make, each over its seeds; returns by name where to look, {} for
        nowhere. Raises ValueError: they make no arms.
        """
