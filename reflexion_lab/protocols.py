"""The verbs of the lab: one protocol a folder, mostly one method a protocol.

Notes
-----
Range : rewards, scores, severities and confidences are in [0, 1]; higher is better, but for a severity.
Visibility : a `task` is `Task.public`, without hidden tests and solution, wherever a part of the loop receives one.
Failures : a candidate's failure is an `Evaluation`, never an exception. An exception is a broken harness and ends the
    run with a traceback, after everything finished has been written. Only what *Raises* names may be raised.
Determinism : a part's result depends on its arguments, its constructor's and the replies of its model alone, not on
    time, thread or order of tasks; a part that draws at random takes a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

# What the methods below raise; parts of a reader's own import it from here.
from reflexion_lab.errors import CritiqueError, HarnessError, ModelError, StoreError, Unanswered  # noqa: F401
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
Outcome = Literal["any", "passed", "failed"]
"""Of an attempt, by its feedback."""
S = TypeVar("S", Episode, Wisdom, Mistake, Session)


class Hit(NamedTuple):
    """A document and its score."""

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
        """One reply to a conversation.

        Parameters
        ----------
        messages : sequence of Message
            Oldest first, one or more; a last message of role `assistant` is a beginning to continue.
        sampling : Sampling
            Temperature, seed, stop texts, most tokens, grammar; what a model does not support it ignores.
        sample : int
            Index of the draw, from 0: equal calls with different indices are independent draws, equal calls with one
            index the same one.

        Returns
        -------
        Completion
            A refusal, a filtered reply and a prompt that is too long are completions, too (`records.WITHHELD`).

        Raises
        ------
        ModelError
            The model rejects the request.
        Unanswered
            A ModelError: no reply could be had, though another try might bring one.
        ModelNotFound
            A ModelError: the server knows no such model.
        StoreError
            A paid reply could not be stored.
        """


class Actor(Protocol):
    """Writes a program for a task."""

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """One attempt at a task.

        Parameters
        ----------
        task : Task
        recollection : Recollection
            Episodes, lessons and advice for the prompt; empty at a first attempt without shared memory.

        Returns
        -------
        Trajectory
            `solution` is a whole program, "" where the reply held none; `left_out` has the ids of recalled items for
            which the prompt had no room.

        Raises
        ------
        ModelError
            As of `Model.complete`.
        HarnessError
            The sandbox failed; only actors that run programs.
        """


class Critic(Protocol):
    """Criticises a draft."""

    def critique(self, task: Task, program: str) -> Critique:
        """Issues, suggestions and severity of one draft.

        Parameters
        ----------
        task : Task
        program : str
            The draft; "" where there is none yet.

        Returns
        -------
        Critique
            `severity` 0 where nothing is left to fix. `issues` and `suggestions` are not aligned.

        Raises
        ------
        CritiqueError
            The model's reply could not be understood; has the reply and its cost.
        ModelError, HarnessError
            As of `Actor.act`.
        """


class Reviser(Protocol):
    """Revises a draft."""

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        """The next draft.

        Parameters
        ----------
        task : Task
        program : str
            The draft.
        critique : Critique
            Of this very draft.

        Returns
        -------
        Trajectory
            `solution` is the new draft, or the old one where the reply held no program.

        Raises
        ------
        ModelError
            As of `Model.complete`.
        """


class Limits(Protocol):
    """Time limits of executions."""

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall and CPU seconds for a task whose canonical solution uses `canonical` CPU seconds (0: not measured)."""


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
        """Execute a program, then its checks, isolated.

        Parameters
        ----------
        program : str
            Python source.
        entry_point : str
            The function that checks call; they also know it as `candidate`.
        checks : sequence of str
            Python source, run in order in one namespace.
        setup : str
            Python that runs before the checks, in their namespace.
        cpu_seconds : float
            CPU time of the task's canonical solution, from which the limits follow; 0 for the default limits.

        Returns
        -------
        Execution
            `checks[i]` is the outcome of `checks[i]`, whatever the program did.

        Raises
        ------
        HarnessError
            The sandbox itself failed; says nothing of the program.
        """


class Pool(Sandbox, Protocol):
    """All sandboxes of a run."""

    @property
    def servers(self) -> int:
        """Programs that run at once."""

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """Results of `calls`, aligned with them: the value as Python source, or None where it is no plain data or the
        call raised. Raises HarnessError.
        """

    def close(self) -> None: ...


class Evaluator(Protocol):
    """Judges a program by the feedback tests."""

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """The verdict on `trajectory.solution`.

        Returns
        -------
        Evaluation
            `checks` begins with one check per visible test, in their order. Without tests the outcome is `no_tests`,
            which counts as unknown.

        Raises
        ------
        HarnessError
            As of `Sandbox.run`.
        """


class SuiteWriter(Protocol):
    """Writes feedback tests for a task that shows none."""

    def write(self, task: Task) -> WrittenTests:
        """Tests for one task, written before its loop.

        Returns
        -------
        WrittenTests
            `tests` that were kept, and why others were not. Without any the feedback is unknown, never a pass.

        Raises
        ------
        ModelError, HarnessError
            As of `Actor.act`.
        """


class Reflector(Protocol):
    """Explains an attempt in words."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """The reflection on one attempt.

        Parameters
        ----------
        task : Task
        attempt : Attempt
            Judged, without a reflection yet. It failed, unless the loop reflects on successes.
        episodes : sequence of Episode
            Those of this task that the attempt's actor read, oldest first.

        Returns
        -------
        Reflection or None
            None: nothing to say.

        Raises
        ------
        ReflectionError
            The model gave no usable reflection; `WithFallback` then reflects by rules.
        Unanswered
            As of `Model.complete`.
        """


class Recall(Protocol):
    """Chooses what memory gives to an attempt."""

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        """Episodes and lessons for the next attempt.

        Parameters
        ----------
        own : sequence of Episode
            The task's episodes of this loop, oldest first.
        task : Task
        known : Known
            What all tasks of the round share; it does not change within a round.

        Returns
        -------
        Recollection
            Episodes of other loops, the nearest last, then own ones, oldest first.
        """


class Known(Protocol):
    """Memory shared by all loops of a round, as of the beginning of the round."""

    omega: int
    """The adaptive Ω, episodes in context; 0 or more."""

    @property
    def outcomes(self) -> Mapping[str, tuple[int, int]]:
        """By failure class: reflected failures that the next attempt fixed, and those that had a next attempt; by
        feedback verdicts.
        """

    def similar(
        self, task: Task, own: Sequence[Episode], k: int, min_score: float, outcome: Outcome = "any"
    ) -> list[Episode]:
        """At most `k` episodes of other loops, best first, with scores of `min_score` (in [0, 1]) or above, whose
        attempt had this `outcome`.
        """

    def past(self, task: Task) -> list[Episode]:
        """Episodes of earlier runs on this very task, oldest first, where they may be read."""

    def lessons(self, task: Task, own: Sequence[Episode]) -> Recollection:
        """Wisdom, mistakes and insights for the next attempt at `task`; no episodes."""


class Memory(Protocol):
    """The memory of one task's loop. What `remember` takes in, the next `recall` may give back."""

    def recall(self, task: Task) -> Recollection:
        """What the next attempt's actor is given."""

    def remember(self, task: Task, attempt: Attempt) -> None:
        """Keep a finished attempt, with its reflection."""

    def state(self, recollection: Recollection) -> MemoryState:
        """Size and use of memory, where `recollection` is what the actor read."""


class Store(Protocol):
    """Episodes, wisdom, mistakes and sessions across runs. Thread-safe; any number of processes may share one place."""

    def append(self, records: Sequence[Stored]) -> None:
        """Keep `records`, each safe from `kill -9` when this returns. One whose id is known replaces the older record,
        in its place in the order.

        Raises
        ------
        StoreError
            The disk is full, the place is read-only or damaged; earlier records stand.
        """

    def read(self, kind: type[S]) -> Iterator[S]:
        """All records of a kind, in the order of their first `append`. Raises StoreError."""

    def search(self, search: Search) -> list[Episode]:
        """Episodes, newest first. Raises StoreError."""

    def prune(self, before: float) -> int:
        """Remove episodes and mistakes of `before` (seconds since the epoch) and earlier; returns how many. Raises
        StoreError.
        """

    def clear(self) -> None:
        """Remove all records of every kind. Raises StoreError."""

    def close(self) -> None: ...


class Retriever(Protocol):
    """Finds the documents nearest to a query. An index may be rebuilt by the first query after a change: memory changes
    between rounds only.
    """

    def add(self, documents: Sequence[str]) -> None:
        """Index `documents`, numbered on from the last one; the next `rank` finds them."""

    def forget(self, before: int) -> None:
        """Drop the documents with numbers below `before`, as a FIFO buffer evicts them."""

    def rank(self, query: str, k: int) -> list[Hit]:
        """The `k` nearest documents.

        Returns
        -------
        list of Hit
            At most `k`, with scores above 0, best first, the newer first on a tie; [] for `k` of 0 or less.
        """


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def fingerprint(self) -> str:
        """Names the weights: equal fingerprints mean equal vectors."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """Vectors of `texts`.

        Returns
        -------
        ndarray of float32, shape (len(texts), dimensions)
            Rows of length 1; row i is the vector of text i.
        """


class Stop(Protocol):
    """Decides whether a task's loop ends."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        """The stop reason, or None to continue.

        Parameters
        ----------
        attempt : Attempt
            The newest; asked before its reflection, and once more after it.
        history : sequence of Attempt
            Those before `attempt`, oldest first.
        """


class Loop(Protocol):
    """One task's attempts."""

    def attempts(self, task: Task) -> Iterator[Attempt]:
        """Attempts, each made when the iterator is advanced; the last has a stop reason. A loop that is lost restarts
        by itself, with another first attempt.
        """


class StartedRun(NamedTuple):
    """A started run, as its executor needs to know it."""

    run_id: str
    scope: str
    """Name under which calls are counted against the caps."""
    beginning: Beginning | None
    """What the store held when the run began; None without shared memory."""
    store: Store | None
    counted: Callable[[Sequence[Any]], None]
    """Called with the counts of calls that were made in other processes."""


class Executor(Protocol):
    """Where a run's loops and programs are executed. Results do not depend on it."""

    def pool(self, limits: Any, servers: int | None, config: Mapping[str, Any]) -> Pool:
        """The sandboxes of the run; called first. `config`: the run's, with its interpolations. Raises ConfigError."""

    def loops(self, here: Callable[[], Loop], started: StartedRun) -> Callable[[], Loop]:
        """A factory of loops, one a task; `here` makes one in this process. Its attempts raise what their parts raise,
        and HarnessError.
        """

    def broadcast(self, learnt: Sequence[Record]) -> None:
        """Broadcast the memory updates of a round to all later loops."""

    def close(self) -> None:
        """Stop the processes that were started for the run."""


class Tracker(Protocol):
    """A view of run folders in another tool; can be rebuilt from the folder at any time."""

    @property
    def command(self) -> str:
        """The shell command that opens the view; "" where there is nothing to open."""

    def track(self, folder: Path, log: Any = None) -> str:
        """Log the run in `folder`; returns the address of its view, "" for none.

        `log` is its `analysis.run_log.Log`, where that has been read already.
        """

    def track_arms(
        self, folders: Sequence[Path], baseline: str | None = None, one_seed: bool = False
    ) -> dict[str, str]:
        """Log the arms of the runs in `folders`, each over its seeds.

        Returns
        -------
        dict of str to str
            By arm, the address of its view; {} for none.

        Raises
        ------
        ValueError
            The runs make no arms.
        """
