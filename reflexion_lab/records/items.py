"""Memory across tasks: operations that change an `Item` (`attempt.py`), and what a curator reads and returns."""

from __future__ import annotations

from typing import Literal

from reflexion_lab.records.attempt import Attempt, Item, Record, Task, Usage

Kind = Literal["add", "edit", "vote", "link", "merge", "remove"]


class Operation(Record, frozen=True, kw_only=True):
    """One change of memory. Empty fields change nothing.

    add: a new item of these fields; `item_ids` is (), or the id that it shall have. edit: of the first of `item_ids`,
    text, key, section and outcome are replaced, votes added, links and sources united. vote: `votes` are added to the
    counts of all `item_ids`. link: the first of `item_ids` gets links to the others. merge: the others of `item_ids`
    are removed, and the first gets the `text`, and counts, links and sources of all. remove: of all `item_ids`.
    """

    kind: Kind
    item_ids: tuple[str, ...] = ()
    text: str = ""
    key: str = ""
    section: str = ""
    outcome: bool | None = None
    votes: dict[str, int] = {}
    links: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reason: str = ""


class Refusal(Record, frozen=True, kw_only=True):
    operation: Operation
    reason: str


class Finished(Record, frozen=True, kw_only=True):
    """A finished loop as a curator sees it: verdicts are those of the feedback, never of the hidden tests."""

    task: Task
    """Without hidden tests and solution."""
    attempts: tuple[Attempt, ...]
    """In order, one or more."""
    shown: tuple[Item, ...] = ()
    """The items in the actor's prompt, as they were."""

    @property
    def passed(self) -> bool | None:
        """Whether an attempt passed its feedback; None if no attempt has a verdict."""
        known = [a.evaluation.passed for a in self.attempts if a.evaluation.has_verdict]
        return any(known) if known else None


class Batch(Record, frozen=True, kw_only=True):
    """The finished loops of one call of a curator."""

    finished: tuple[Finished, ...]
    kind: str = ""
    """Distinguishes the calls of a method, such as `pair` and `successes`."""


class Selection(Record, frozen=True, kw_only=True):
    """The items for the actor's prompt."""

    items: tuple[Item, ...] = ()
    """In the order of the prompt. An item that memory lacks was written for this task."""
    usage: Usage = Usage()
    """Usage of the curator's calls before the task."""
    written: tuple[Item, ...] = ()
    """New items, which memory lacks; filled by the lab, unless the shown items differ from the written ones."""


class Curation(Record, frozen=True, kw_only=True):
    """The result of one call of a curator."""

    operations: tuple[Operation, ...] = ()
    usage: Usage = Usage()
    unreadable: int = 0
    """Replies that could not be read; they change nothing."""
    replies: tuple[str, ...] = ()
    """Raw replies of the model, for readers of the run."""


class Update(Record, frozen=True, kw_only=True):
    """The effect of one call of a curator: a line of operations.jsonl."""

    round: int
    """0-based."""
    call: int
    """Within the round, 0-based."""
    task_ids: tuple[str, ...]
    """Tasks of the call, in order."""
    kind: str = ""
    """`Batch.kind`."""
    operations: tuple[Operation, ...] = ()
    """Applied operations in order, with the ids of new items, and removals by the limits."""
    refused: tuple[Refusal, ...] = ()
    usage: Usage = Usage()
    unreadable: int = 0
    replies: tuple[str, ...] = ()
    items: int = 0
    """Number of items afterwards."""
    tokens: int = 0
    """Estimated tokens of their texts afterwards."""
    digest: str = ""
    """SHA-256 of the items afterwards, 16 hex digits."""
