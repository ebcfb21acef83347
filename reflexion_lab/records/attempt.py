"""One attempt at a task: the drafts, critiques and programs of its actor, and all that came of it."""

from __future__ import annotations

from reflexion_lab.records.call import Message, Usage
from reflexion_lab.records.evaluation import Evaluation
from reflexion_lab.records.record import Record
from reflexion_lab.records.reflection import Reflection


class Critique(Record, frozen=True, kw_only=True):
    """What a critic finds in a draft."""

    severity: float
    """Of the worst issue, in [0, 1]; 0 where there is nothing to mend."""
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    score: float | None = None
    """Of the draft, in [0, 1], higher is better; None where the critic gives none."""
    confidence: float = 1.0
    """How far the critic is to be trusted, in [0, 1]: 1 for tests that were run."""
    rank: tuple[bool, float, float] | None = None
    """`Evaluation.rank` of the draft; None where no test was run."""
    source: str
    """Who speaks: `llm`, `tests`, `lint`, ..., or several of them joined by `+`."""
    messages: tuple[Message, ...] = ()
    reply: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    """What its tools took."""


class Step(Record, frozen=True, kw_only=True):
    """One turn of an actor that works in several."""

    thought: str = ""
    action: str = ""
    """The tool that it used; "" for none."""
    observation: str = ""
    error: str = ""
    """What went wrong in this turn; "" when nothing did."""
    program: str = ""
    """The draft of this turn; "" where it made none."""
    critique: Critique | None = None
    """What the critic said of `program`."""
    messages: tuple[Message, ...] = ()
    """What the actor's model received in this turn, word for word; () where it was not asked."""
    reply: str = ""
    usage: Usage = Usage()
    """The actor's own; the critic's stands in `critique`."""
    seconds: float = 0.0
    """What its tools took."""


class Trajectory(Record, frozen=True, kw_only=True):
    """What an actor did in one attempt, and the program it ended with."""

    solution: str
    """A whole program that defines the entry point, or "" when none could be extracted from the reply."""
    strategy: str
    messages: tuple[Message, ...] = ()
    """What the actor's model received first, word for word; what it received later stands in `steps`."""
    left_out: tuple[str, ...] = ()
    """Ids of episodes, wisdom and mistakes that memory selected, and that its budgets or the prompt had no room for."""
    reply: str = ""
    """What it answered, before extraction."""
    rationale: str = ""
    """What it thought before it wrote the program, in words."""
    extraction: str = ""
    """The rule that found the solution in the reply."""
    model: str = ""
    """Who answered, as the server names it."""
    finish_reason: str = "stop"
    """Why the model ended: `stop`, `length`, one of `WITHHELD`, or a server's own word."""
    usage: Usage = Usage()
    """The actor's own calls."""
    others: dict[str, Usage] = {}
    """What other roles cost on the way, by role."""
    cached: bool = False
    steps: tuple[Step, ...] = ()
    """Its turns, oldest first; () for an actor that answers at once."""
    ended: str = ""
    """Why an actor of several turns took no more: `finish`, `max_steps`, `low_severity`, ...; "" for one that answers
    at once."""
    files_modified: tuple[str, ...] = ()
    status: str = "complete"
    """`complete`, `stuck` (it gave up or met an error it could not pass), or `unfinished`."""


class Delta(Record, frozen=True, kw_only=True):
    """An attempt against the one before it."""

    reward_change: float = 0.0
    error_count_change: int = 0
    is_improvement: bool = False


class MemoryState(Record, frozen=True, kw_only=True):
    """The episodic memory as the actor met it."""

    capacity: int
    size: int
    in_context: int
    total: int
    """Episodes ever remembered, evicted ones included."""
    omega: int | None = None
    """Ω at this attempt; None where the policy has none."""


class Attempt(Record, frozen=True, kw_only=True):
    """One turn of the loop: recall, act, evaluate, reflect."""

    task_id: str
    number: int
    """1-based."""
    recalled: tuple[str, ...]
    """Ids of the episodes that the actor was given, in the order in which it read them."""
    recalled_wisdom: tuple[str, ...] = ()
    recalled_mistakes: tuple[str, ...] = ()
    trajectory: Trajectory
    evaluation: Evaluation
    """The verdict of the feedback tests; never of the hidden ones, unless the run says `oracle`."""
    reflection: Reflection | None = None
    delta: Delta = Delta()
    memory: MemoryState
    stop_reason: str = ""
    """Why the loop ended here; "" when it went on."""

    @property
    def usage(self) -> dict[str, Usage]:
        """Cost by role; a role that acts and reflects has the sum."""
        total: dict[str, Usage] = {}
        for role, usage in (
            ("actor", self.trajectory.usage),
            *self.trajectory.others.items(),
            ("reflector", self.reflection.usage if self.reflection else Usage()),
        ):
            total[role] = total.get(role, Usage()) + usage
        return total

    @property
    def seconds(self) -> float:
        """The attempt's own work: evaluation, tools and the models' time, as recorded; no waiting."""
        tools = sum(step.seconds + (step.critique.seconds if step.critique else 0) for step in self.trajectory.steps)
        return self.evaluation.seconds + tools + sum(usage.seconds for usage in self.usage.values())
