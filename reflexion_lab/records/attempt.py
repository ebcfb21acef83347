"""One attempt at a task: the drafts, critiques and programs of its actor, and all that came of it."""

from __future__ import annotations

from reflexion_lab.records.call import Message, Usage
from reflexion_lab.records.evaluation import Evaluation
from reflexion_lab.records.record import Record
from reflexion_lab.records.reflection import Reflection


class Critique(Record, frozen=True, kw_only=True):
    """A critic's judgement of a draft."""

    severity: float
    """Of the worst issue, in [0, 1]; 0 where there is nothing to fix."""
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    score: float | None = None
    """Of the draft, in [0, 1], higher is better; None where the critic gives none."""
    confidence: float = 1.0
    """Confidence in the critique, in [0, 1]: 1 for tests that were run."""
    rank: tuple[bool, float, float] | None = None
    """`Evaluation.rank` of the draft; None where no test was run."""
    source: str
    """The critic: `llm`, `tests`, `lint`, ..., or several of them joined by `+`."""
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
    """The error of this turn; "" without one."""
    program: str = ""
    """The draft of this turn; "" where it made none."""
    critique: Critique | None = None
    """On `program`."""
    messages: tuple[Message, ...] = ()
    """The exact messages to the actor's model in this turn; () without a call."""
    reply: str = ""
    usage: Usage = Usage()
    """The actor's own; the critic's stands in `critique`."""
    seconds: float = 0.0
    """What its tools took."""


class Trajectory(Record, frozen=True, kw_only=True):
    """The work of an actor in one attempt, and its program."""

    solution: str
    """A whole program that defines the entry point, or "" when none could be extracted from the reply."""
    strategy: str
    messages: tuple[Message, ...] = ()
    """The exact messages of the first call of the actor's model; later ones are in `steps`."""
    left_out: tuple[str, ...] = ()
    """Ids of selected episodes, wisdom and mistakes that did not fit into memory's budgets or the prompt."""
    reply: str = ""
    """The raw reply, before extraction."""
    rationale: str = ""
    """Its reasoning before the program."""
    extraction: str = ""
    """The rule that found the solution in the reply."""
    model: str = ""
    """The model that answered, by the server's name."""
    finish_reason: str = "stop"
    """Why the model ended: `stop`, `length`, one of `WITHHELD`, or a server's own word."""
    usage: Usage = Usage()
    """The actor's own calls."""
    others: dict[str, Usage] = {}
    """Costs of other roles, by role."""
    cached: bool = False
    steps: tuple[Step, ...] = ()
    """Its turns, oldest first; () for an actor that answers at once."""
    ended: str = ""
    """Why an actor of several turns ended: `finish`, `max_steps`, `low_severity`, ...; "" for one of a single turn."""
    files_modified: tuple[str, ...] = ()
    status: str = "complete"
    """`complete`, `stuck` (it gave up or hit an error), or `unfinished`."""


class Delta(Record, frozen=True, kw_only=True):
    """An attempt against the one before it."""

    reward_change: float = 0.0
    error_count_change: int = 0
    is_improvement: bool = False


class MemoryState(Record, frozen=True, kw_only=True):
    """The episodic memory at the time of an attempt."""

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
    """Ids of the episodes in the actor's prompt, in their order there."""
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
        """Cost by role, summed over all that a role did."""
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
