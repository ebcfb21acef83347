"""Episodes and lessons of memory, what it gives to one attempt, and searches of a store. Items: `attempt.py`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from reflexion_lab.records.attempt import UNKNOWN, Check, Evaluation, Item, Record, Reflection, Retrieved, Usage

ITEM_SOURCE = re.compile(r"(?:ep|mistake)-(?:(?P<run>\d{8}-\d{6}-\d{6}-[^/]+-s\d+)/)?(?P<task>.+)-(?P<last>\w+)")
"""Id of an item in memory: its run (only if tasks share memory), its task, and an attempt or a digest."""


class Results(Record, frozen=True, kw_only=True):
    """Outcomes of an attempt's checks, and what else its evaluator said; all 0 where no check ran."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    failing: tuple[Check, ...] = ()
    """Each check that did not pass, in the order of the tests."""
    tests: int = 0
    """Those of all checks that are tests."""
    components: dict[str, float] = {}
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()


class Episode(Record, frozen=True, kw_only=True):
    """An attempt in memory. Verdicts are those of the feedback tests, never of the hidden ones."""

    episode_id: str = ""
    """Unique in a store; filled when the episode is stored without one."""
    session_id: str = ""
    """The loop that it came from: one task in one run."""
    turn_id: str = ""
    agent_id: str
    """The agent of the attempt; in a run, the arm."""
    task_id: str
    task_description: str = ""
    attempt_number: int
    code: str
    test_results: str
    """The failing checks in words, as in the actor's prompt."""
    results: Results = Results()
    failure_analysis: str = ""
    """The error signature: the failure without the values of this task."""
    reflection: Reflection | None
    improvement: str = ""
    """`what_to_change` of the reflection."""
    confidence: float = 0.0
    """The reflection's, in [0, 1]."""
    passed: bool
    reward: float = 0.0
    timestamp: float = 0.0
    """Seconds since the epoch; filled when the episode is stored without one."""
    metadata: dict[str, str] = {}
    """`verification_type` and `outcome` of the evaluation, summary of the `trajectory`, the critic's first `issue` with
    the program, the ids of the `wisdom` that its actor read, and fields added by importers."""

    @property
    def run_id(self) -> str:
        """Its run, the first part of its session, where tasks share memory."""
        return self.session_id.partition("/")[0]

    @property
    def has_verdict(self) -> bool:
        """Whether the outcome, if it is known, is not of `UNKNOWN`."""
        return self.metadata.get("outcome") not in UNKNOWN

    @property
    def verdict(self) -> str:
        """`passed`, `failed`, or `was never tested`."""
        return ("passed" if self.passed else "failed") if self.has_verdict else "was never tested"

    @property
    def category(self) -> str:
        """The failure class that the reflection names; "" without one."""
        return self.reflection.category if self.reflection else ""

    @property
    def statements(self) -> tuple[tuple[str, str], ...]:
        """`Reflection.statements`; () without a reflection."""
        return self.reflection.statements if self.reflection else ()

    @property
    def quoted_code(self) -> str:
        """`Reflection.quoted_code`; "" without a reflection."""
        return self.reflection.quoted_code if self.reflection else ""


class Wisdom(Record, frozen=True, kw_only=True):
    """A root cause of two or more failures, with its use. One entry per normalised root cause."""

    wisdom_id: str
    pattern: str
    """The root cause in its first wording."""
    frequency: int
    """Episodes that share it."""
    impact: float
    """Mean gain of confidence from one episode to the next within a session, losses as 0; in [0, 1]."""
    domain: str
    """`code`, `testing`, `architecture`, `concurrency` or `performance`."""
    tags: tuple[str, ...] = ()
    advice: str = ""
    """`what_to_change` of the most confident reflection."""
    sources: tuple[str, ...] = ()
    """Ids of the episodes, oldest first."""
    tasks: tuple[str, ...] = ()
    """The distinct tasks of these episodes, in order of first occurrence."""
    use_count: int = 0
    """Attempts whose actor read the entry."""
    success_rate: float = 0.0
    """Share of them that passed their feedback tests; 0 before the first use."""
    created_at: float = 0.0
    last_used_at: float = 0.0


class Mistake(Record, frozen=True, kw_only=True):
    """A wrong answer to a prompt, and its correction; derived from the episodes of a loop."""

    mistake_id: str
    task_id: str
    prompt: str
    prompt_hash: str
    """SHA-256 of the prompt, 16 hex digits."""
    mistake: str
    correction: str = ""
    """"" while there is none."""
    severity: float
    """In [0, 1]: the share of the checks that failed."""
    timestamp: float = 0.0


class Session(Record, frozen=True, kw_only=True):
    """The state that one loop carries from attempt to attempt; it begins with the episodes of earlier loops."""

    session_id: str
    reflections: tuple[Reflection, ...] = ()
    """The newest five, newest first."""
    scores: tuple[str, ...] = ()
    """Score of their attempts and, of earlier runs, their number back: `score 81 of 100, 2 runs before`."""
    key_insights: tuple[str, ...] = ()
    """At most twenty, oldest first."""
    last_trajectory_summary: str = ""
    last_evaluation: Evaluation | None = None
    is_progress: bool | None = None
    """Whether the last attempt was better than the previous one; None at the first."""


RECALLED = {"own": -1, "others": -1, "items": 1, "wisdom": 1, "mistakes": 1, "insights": -1}
"""Parts of a recollection in the order of need; -1: the last of them is the most needed."""


def id_of(entry: Record | str) -> str:
    """The id of what memory holds: its first field; an insight is its own."""
    return entry if isinstance(entry, str) else str(getattr(entry, entry.__struct_fields__[0]))


class Recollection(Record, frozen=True, kw_only=True):
    """Everything that memory gives the actor for one attempt."""

    others: tuple[Episode, ...] = ()
    """Episodes of other tasks, the nearest last; in a prompt with the own ones below `heading`."""
    own: tuple[Episode, ...] = ()
    """Episodes of the task at hand: those of earlier passes and runs, then those of this loop, oldest first."""
    wisdom: tuple[Wisdom, ...] = ()
    """Best first."""
    mistakes: tuple[Mistake, ...] = ()
    """Best first."""
    insights: tuple[str, ...] = ()
    """Oldest first."""
    items: tuple[Item, ...] = ()
    """The curator's selection, in the order of the prompt."""
    written_items: tuple[Item, ...] = ()
    """Items that the curator wrote for this task alone."""
    selection_usage: Usage = Usage()
    """Usage of the curator's calls for this task."""
    retrieved: tuple[Retrieved, ...] = ()
    """Those of all these that a search found."""
    session: str = ""
    """The session's history as text; "" if it is not shown."""
    heading: str = "Earlier attempts"
    omega: int | None = None
    session_id: str = ""
    """The loop at hand; "": all own episodes are of it."""
    attempt: int = 1
    """Number of the attempt, 1-based; set by the loop."""
    hint: str = ""
    """What is left of the newest own episode where nothing else of it fits into the prompt."""
    stuck: str = ""
    """Description of the repetition if the loop is stuck; the prompt then asks for a different approach."""
    left_out: tuple[str, ...] = ()
    """Ids of selected items that did not fit into memory's budgets; an insight is its own id."""
    token_ratio: float = 1.0
    """Tokens counted by the model in the task's earlier prompts for each estimated one; 1.0 before the first count."""
    text: str = ""
    """For the generator of an `rl.agent`, all of it, ready for a prompt; "" where memory gives nothing."""

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """In the order of the prompt."""
        return (*self.others, *self.own)

    @property
    def of_loop(self) -> tuple[Episode, ...]:
        """The episodes of the loop at hand: no earlier run, no earlier pass."""
        return tuple(episode for episode in self.own if self.session_id in ("", episode.session_id))

    @property
    def asks_to_correct(self) -> bool:
        """Whether the last own episode did not pass."""
        return bool(self.own) and not self.own[-1].passed

    @property
    def further_insights(self) -> tuple[str, ...]:
        """Insights that are not among the statements of its episodes."""
        stated = {" ".join(text.split()) for episode in self.episodes for _, text in episode.statements}
        return tuple(insight for insight in self.insights if " ".join(insight.split()) not in stated)

    @property
    def ids(self) -> set[str]:
        """Ids of all episodes, wisdom, mistakes and items, and the insights."""
        return {id_of(entry) for name in RECALLED for entry in getattr(self, name)}

    def without(self, left_out: Collection[str]) -> Recollection:
        """The recollection without the items of these ids."""
        lists: dict[str, Sequence[Any]] = {name: getattr(self, name) for name in (*RECALLED, "retrieved")}
        kept = {name: tuple(each for each in lists[name] if id_of(each) not in left_out) for name in lists}
        return replace(self, **kept)


class Beginning(Record, frozen=True, kw_only=True):
    """Contents of the store at the start of a run; a resumed run starts with the same."""

    episodes: int = 0
    """Number of episodes."""
    newest_episode: str = ""
    """Id of the last of them; later episodes are not read, even after a prune."""
    wisdom: tuple[Wisdom, ...] = ()
    items: tuple[Item, ...] = ()
    """The curator's, oldest first."""
    stored: tuple[Item, ...] | UnsetType = UNSET
    """Those of the store, where `items` are others: of another run, too, or as many as the curator's limits hold."""

    @property
    def of_store(self) -> Beginning:
        """What the store alone held: cells of a sweep begin with it, and with items of different runs."""
        return replace(self, items=self.items if self.stored is UNSET else self.stored, stored=UNSET)


class Search(Record, frozen=True, kw_only=True):
    """A search for episodes; empty fields do not restrict it."""

    categories: tuple[str, ...] = ()
    min_confidence: float = 0.0
    """Inclusive."""
    keywords: tuple[str, ...] = ()
    """Searched, casefolded, in the task's description, the failure analysis and the reflection's texts."""
    every_keyword: bool = False
    """Whether all keywords must occur; else one is enough."""
    task_id: str = ""
    session_id: str = ""
    agent_id: str = ""
    passed: bool | None = None
    limit: int = 0
    """Maximum number of episodes, the newest; 0 for all."""
