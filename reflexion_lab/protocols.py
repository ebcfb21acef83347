"""The verbs of the lab: one protocol per folder, most with a single method.

Notes
-----
Range : rewards, scores, severities and confidences are in [0, 1]; higher is better, but for a severity.
Visibility : a `task` is `Task.public`, without hidden tests and solution, wherever a part of the loop receives one.
Failures : a candidate's failure is an `Evaluation`, never an exception. An exception is a broken harness and ends the
    run with a traceback, after everything finished has been written. A part may raise only what *Raises* names.
Determinism : a part's result depends on its arguments, its constructor's and the replies of its model alone, not on
    time, thread or order of tasks; a part that draws at random takes a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

# Raised by the methods below; user-defined parts import them from here.
from reflexion_lab.errors import CritiqueError, HarnessError, ModelError, StoreError, Unanswered  # noqa: F401
from reflexion_lab.records import (
    Attempt,
    Batch,
    Completion,
    Critique,
    Curation,
    Episode,
    Evaluation,
    Execution,
    Finished,
    Item,
    MemoryState,
    Message,
    Observation,
    Recollection,
    Reflection,
    Sampling,
    Search,
    Selection,
    Task,
    Trajectory,
    Wisdom,
    WrittenTests,
)

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Stored = Episode | Wisdom | Item
Outcome = Literal["any", "passed", "failed"]
"""Outcome of an attempt by its feedback."""
S = TypeVar("S", Episode, Wisdom, Item)


class Hit(NamedTuple):
    """A document and its score."""

    number: int
    """Index of the document in the order of adding, from 0; forgotten documents keep theirs."""
    score: float
    """In [0, 1], higher is nearer."""


class Model(Protocol):
    """A language model. Thread-safe."""

    fingerprint: str
    """Identifies the weights or the served model: equal fingerprints mean interchangeable replies. No secrets."""
    slots: int
    """Concurrent calls."""
    context: int
    """Maximum tokens of prompt and reply together; 0 if unknown."""

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """One reply to a conversation, also for a refusal, a filtered reply and a prompt that is too long or refused
        for an unknown reason (`records.WITHHELD`).

        `messages`: one or more, oldest first; a last one of role `assistant` is to be continued. Unsupported parameters
        of `sampling` are ignored. Equal calls with different `sample` (from 0) are independent draws, with equal ones
        the same. Raises ModelError: the model rejects the request; Unanswered: a ModelError: no reply for a temporary
        reason; ModelNotFound: a ModelError: the server has no such model; StoreError: a paid reply could not be stored.
        """


class Actor(Protocol):
    """Writes a program for a task."""

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """One attempt at a task; `recollection` is empty at a first attempt without shared memory.

        `solution` is a whole program, or "" if the reply contains none; `left_out` has the ids of recalled items that
        did not fit into the prompt. Raises ModelError as `Model.complete`; actors that run programs, HarnessError.
        """


class Critic(Protocol):
    """Criticises a draft."""

    def critique(self, task: Task, program: str) -> Critique:
        """Issues, suggestions and severity of one draft, "" if there is none yet. `severity` is 0 if there is nothing
        to fix; `issues` and `suggestions` are not aligned.

        Raises CritiqueError, with reply and cost, if the reply cannot be read; else as `Actor.act`.
        """


class Reviser(Protocol):
    """Revises a draft."""

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        """The next draft, after the critique of this one; the old one without a program. Raises ModelError."""


class Session(Protocol):
    """One play of an environment, by one thread at a time. What its methods raise is an error of the harness."""

    def observe(self) -> Observation:
        """The newest observation; before any action, the first one."""

    def act(self, text: str) -> Observation:
        """Take one action and return what it shows. The environment also answers actions that it does not know."""

    def close(self) -> None: ...


class Environment(Protocol):
    """A world in which an actor takes several actions. Thread-safe. Equal actions give equal observations: the grade
    of a play is a replay of its actions in a fresh session.
    """

    max_steps: int
    """Actions of a play at most; 1 or more."""
    seconds: float
    """Wall seconds that one action may take."""
    help: str
    """What an actor has to know about the actions; "" where observations list them."""

    def start(self, task: Task) -> Session:
        """A fresh session at the beginning of a task, whose `data` says what it starts from."""


class Limits(Protocol):
    """Time limits of executions."""

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall and CPU seconds for a task whose canonical solution uses `canonical` CPU seconds (0: not measured)."""


class Sandbox(Protocol):
    """Runs programs in isolation. Thread-safe."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the isolation layers in force."""

    @property
    def limits(self) -> Limits: ...

    def run(
        self,
        program: str,
        entry_point: str,
        checks: Sequence[str],
        setup: str = "",
        cpu_seconds: float = 0.0,
        requires: tuple[str, ...] = (),
    ) -> Execution:
        """Execute a program, then its checks, isolated; `checks[i]` of the result is the outcome of `checks[i]` for
        every behaviour of the program.

        `entry_point`: the function that checks call; they also know it as `candidate`. `checks`: python source, run in
        order in one namespace, after `setup`. `cpu_seconds`: CPU time of the task's canonical solution, from which the
        limits follow; 0 for the default limits. `requires`: packages that the program may import; without one of them
        every outcome is `harness_error`. Raises HarnessError: the sandbox failed, so there is no verdict.
        """

    def run_program(self, program: str, checks: Sequence[str], terms: Any, cpu_seconds: float = 0.0) -> Execution:
        """Execute a whole program on the input of each check and compare its outputs by `terms`, a
        `tasks.sandbox.programs.Terms`. Raises HarnessError as `run`.
        """


class Evaluator(Protocol):
    """Judges a program by the feedback tests."""

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """The verdict on `trajectory.solution`: one check per visible test, in order, then others. Without tests the
        outcome is `no_tests`, which counts as unknown. Raises HarnessError as `Sandbox.run`.
        """


class SuiteWriter(Protocol):
    """Writes feedback tests for a task without visible tests."""

    def write(self, task: Task) -> WrittenTests:
        """Tests for one task, written before its loop, and the reasons for dropping others. Without any, the feedback
        is unknown, never a pass. Raises ModelError and HarnessError as `Actor.act`.
        """


class Reflector(Protocol):
    """Explains an attempt in words."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """The reflection on one attempt, which failed, unless the loop reflects on successes; None: no reflection.
        `episodes` are those of this task that the attempt's actor read, oldest first.

        Raises ReflectionError: the reply is unusable (`WithFallback` then uses rules); ModelError: as `Model.complete`.
        """


class Recall(Protocol):
    """Chooses what memory gives to an attempt."""

    def select(self, own: Sequence[Episode], task: Task, shared: SharedMemory) -> Recollection:
        """Episodes for the next attempt: `others`, the nearest last, and `own`, oldest first. Memory moves those of the
        task itself from `others` to `own`. The argument `own` has the episodes of this loop, oldest first; `shared` is
        constant within a round.
        """


class SharedMemory(Protocol):
    """Memory shared by all loops of a round, as of its beginning. What a subclass does not define is empty."""

    omega: int
    """The adaptive Ω, episodes in context; 0 or more."""

    @property
    def outcomes(self) -> Mapping[str, tuple[int, int]]:
        """By failure class, two counts by feedback verdicts: reflected failures that the next attempt fixed, and
        reflected failures with a next attempt.
        """
        return {}

    def similar(
        self, task: Task, own: Sequence[Episode], k: int, min_score: float, outcome: Outcome = "any"
    ) -> list[Episode]:
        """At most `k` episodes of other loops that are similar to the task, best first, with a score of `min_score` or
        more, in [0, 1]. The errors of `own`, the episodes of this loop, may be part of the query.
        """
        return []

    def past(self, task: Task) -> list[Episode]:
        """Episodes of earlier runs on the same task, oldest first, if the config allows reading them."""
        return []

    def lessons(self, task: Task, own: Sequence[Episode]) -> Recollection:
        """Wisdom, mistakes and insights for the next attempt at `task`; no episodes."""
        return Recollection()

    def selection(self, task: Task) -> Selection:
        """The curator's items for a loop at `task`."""
        return Selection()


class Curator(Protocol):
    """Keeps items of memory across tasks: what the actor reads, and what finished loops change. Thread-safe."""

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        """The items for the actor's prompt, in its order, before the first attempt at a task.

        `items` is memory as of the start of the round, oldest first, without items that come from the task itself, too,
        unless `memory.shared.same_task`. Raises ModelError as `Model.complete`; a curator may call its model.
        """

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        """Calls that a round of finished loops, in task order, causes. No model call; the same for the same loops."""

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        """The operations of one call, a batch of `due`, with memory after the calls before it. An unreadable reply
        gives no operation and is counted.

        Raises ModelError as `Model.complete`: the run stops, with all attempts stored, and repeats the call if resumed.
        """


class Policy(Protocol):
    """Chooses which attempt the next one continues: the form of a loop's tree. A chain is the simplest.

    A class may declare `is_chain` (each attempt continues the last one: rules about repetition apply, and memory across
    tasks) and `is_complete_tree` (all of it is made, whatever passes; its `size` replaces `loop.max_attempts`). One
    object serves all loops at once, and is asked more than once for an attempt: it keeps no state.
    """

    def parent(self, history: Sequence[Attempt]) -> int | None:
        """Number of the attempt that the next one continues; 0: none, a fresh draw; None: the tree is complete.
        `history` has all attempts of the loop, oldest first.
        """

    def continues(self, attempt: Attempt) -> bool:
        """Whether a later attempt may continue this one; the loop does not reflect on others."""


class Memory(Protocol):
    """The memory of one task's loop."""

    def recall(self, task: Task, path: Sequence[Attempt] | None = None) -> Recollection:
        """The input of the next attempt's actor, which continues the last attempt of `path`, the first a fresh draw;
        empty for a fresh draw, None: all attempts.
        """

    def remember(self, task: Task, attempt: Attempt) -> None:
        """Store a finished attempt with its reflection."""

    def state(self, recollection: Recollection) -> MemoryState:
        """Size and use of memory; `recollection`: what the actor read."""


class Store(Protocol):
    """Episodes, wisdom and items across runs. Thread-safe; processes may share one place."""

    def append(self, records: Sequence[Stored]) -> None:
        """Store `records`; they survive `kill -9` once this returns. A known id replaces the older record in place.

        Raises StoreError: the disk is full, or the place is read-only or damaged; earlier records are safe.
        """

    def read(self, kind: type[S]) -> Iterator[S]:
        """All records of a kind, in order of their first `append`. Raises StoreError."""

    def search(self, search: Search) -> list[Episode]:
        """Episodes, newest first. Raises StoreError."""

    def prune(self, before: float) -> int:
        """Remove episodes up to `before` (epoch seconds); return the number. Raises StoreError."""

    def clear(self) -> None:
        """Remove all records of every kind. Raises StoreError."""

    def close(self) -> None: ...


class Retriever(Protocol):
    """Finds the documents nearest to a query. Several threads may call `rank` at once."""

    def add(self, documents: Sequence[str]) -> None:
        """Index `documents`, numbered consecutively; the next `rank` finds them."""

    def forget(self, before: int) -> None:
        """Drop the documents with numbers below `before`, evicted by a FIFO buffer."""

    def rank(self, query: str, k: int) -> list[Hit]:
        """At most `k` nearest documents of scores above 0, best first, the newer on a tie; [] for `k` of 0 or less."""


TextKind = Literal["query", "document"]
"""Whether a text is searched with or searched for; some models want another prompt before either."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights: equal fingerprints mean equal vectors."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], kind: TextKind) -> NDArray[float32]:
        """Vectors of `texts`, shape (len(texts), dimensions): rows of length 1, row i of text i."""


class Stop(Protocol):
    """Decides whether a task's loop ends."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        """The stop reason, or None to continue. `attempt` is the newest, evaluated before its reflection, and again
        after it; `history` has those before it, oldest first.
        """


class Loop(Protocol):
    """One task's attempts."""

    def attempts(self, task: Task, earlier: Iterable[Attempt] = ()) -> Iterator[Attempt]:
        """Attempts, made lazily, after the `earlier` ones of an interrupted loop; the last has a stop reason."""


class Tracker(Protocol):
    """A view of run folders in another tool; can be rebuilt from the folder at any time."""

    @property
    def command(self) -> str:
        """The shell command that opens the view; "" if there is none."""

    def track(self, folder: Path, log: Any = None) -> str:
        """Log the run in `folder`; returns the address of its view, "" for none.

        `log` is its `analysis.run_log.Log`, if already read.
        """

    def track_arms(self, folders: Sequence[Path], baseline: str | None = None) -> dict[str, str]:
        """Log the arms of the runs in `folders`, each over its seeds; returns the addresses of their views. Raises
        ValueError if the runs make no arms.
        """
