"""Tasks; calls of a model; attempts: drafts, critiques and programs, their verdicts and reflections.

One file, since each record holds the ones before it, and most of its lines are the sentences below their fields.
"""

from __future__ import annotations

import re
from enum import StrEnum
from operator import add, attrgetter
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr, replace

DIGITS = 9
"""Decimals that rewards, scores and severities are compared to: 0.3 - 0.2 is less than 0.1 only in binary."""


class Record(msgspec.Struct, frozen=True):
    """Base of all records: immutable; subclasses repeat `frozen=True`, which type checkers need."""


WITHHELD = ("refusal", "content_filter", "context_overflow", "refused", "wrong_model")
"""Finish reasons for which no code is extracted: the model refused, the provider filtered the reply, the prompt is
longer than the context, the server refused it for another reason, which is the reply, or another model answered."""


class Message(Record, frozen=True, kw_only=True):
    """One chat message. A last message of role `assistant` is a beginning that the model continues."""

    role: str
    content: str


SAMPLED = ("seed", "top_p", "stop", "temperature", "max_tokens")
"""Sampling values that a server may refuse, the most dispensable first."""


class Sampling(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling parameters of one reply. Part of the content key of a call. None: not sent, the server's own."""

    temperature: float | None = 0.0
    top_p: float | None = 1.0
    max_tokens: int | None = 512
    stop: tuple[str, ...] | None = ()
    seed: int | None = 0
    grammar: str | None = ""
    """GBNF that constrains the reply where the model supports it; others ignore it."""

    @property
    def longest(self) -> int:
        """Upper bound of a reply in tokens: `max_tokens`, or that of any present model."""
        return 131_072 if self.max_tokens is None else self.max_tokens

    @classmethod
    def of(cls, **fields: object) -> Sampling:
        """From plain values, each checked. Raises ValueError: a field is unknown or of the wrong type."""
        return msgspec.convert(fields, cls)


class Usage(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Costs of calls: tokens, seconds of the model's own time, without queues, and money.

    Fields without a factory came later and are written only where not 0, so that other lines stay as they were.
    """

    calls: int = msgspec.field(default_factory=int)
    prompt_tokens: int = msgspec.field(default_factory=int)
    completion_tokens: int = msgspec.field(default_factory=int)
    seconds: float = msgspec.field(default_factory=float)
    cost: float = msgspec.field(default_factory=float)
    """In the currency of the model's price list; 0 where it has none."""
    retries: int = msgspec.field(default_factory=int)
    """Repeated requests: after overload, a lost connection, a torn or unreadable reply."""
    refused: int = msgspec.field(default_factory=int)
    """Calls whose prompt was rejected, without tokens and cost."""
    cached_tokens: int = 0
    """Prompt tokens from the server's cache; 0 also where the server does not count them."""
    reasoning_tokens: int = 0
    """Completion tokens of reasoning that is not in the reply; 0 also where they are not counted."""
    empty_replies: int = 0
    """Replies without a word outside their reasoning; not those of `cut_replies`."""
    cut_replies: int = 0
    """Replies that ended at `max_tokens`."""
    uncounted_replies: int = 0
    """Replies for which the server reported no tokens of the prompt, or of the reply."""
    prompt_estimate: int = 0
    """Our estimate of the tokens of prompts of which the server counted less than half: it may have cut them."""
    own_temperature: int = 0
    """Replies drawn at the server's own temperature, since it did not get that of the config; likewise below."""
    own_top_p: int = 0
    own_max_tokens: int = 0
    own_stop: int = 0
    own_seed: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def replies(self) -> int:
        return self.calls - self.refused

    @property
    def uncounted(self) -> int:
        """`uncounted_replies`; older records do not count them, but are without a token."""
        return self.uncounted_replies or (0 if self.tokens else self.replies)

    def servers_own(self, names: tuple[str, ...] = SAMPLED) -> str:
        """Sampling values of the server's own, such as `temperature in 3 of 4 replies`; "" if it got all of them."""
        counts = {name: getattr(self, f"own_{name}") for name in names}
        return ", ".join(f"{name} in {n} of {self.replies} replies" for name, n in counts.items() if n)

    def __add__(self, other: Usage) -> Usage:
        return Usage(**dict(zip(_NAMES, map(add, _VALUES(self), _VALUES(other)), strict=True)))


_NAMES = Usage.__struct_fields__
_VALUES = attrgetter(*_NAMES)


class Completion(Record, frozen=True, kw_only=True):
    """A model's reply to one call."""

    text: str
    model: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    cached: bool = False
    """Whether the reply came from the call cache; `usage` is then that of the original call."""
    system_fingerprint: str = ""
    """The server's name of its configuration, on which replies may depend; "" if it has none."""
    refused_tokens: int = 0
    """The server's token count of a prompt rejected as too long; 0 if unknown."""
    reasoning: str = ""
    """Reasoning that the server returned beside the reply."""


Kind = Literal["function", "program", "answer", "actions"]
"""What solves a task: a Python function; a program that reads standard input; a text; actions in an environment."""


class Task(Record, frozen=True, kw_only=True):
    """One problem of a benchmark."""

    task_id: str
    """The same in every pass over a stream: a task's own attempts are those of this id."""
    repetition: int = 1
    """Number of the pass, 1-based; in no digest of a benchmark."""
    prompt: str
    """Text that the actor reads. For HumanEval-style tasks: Python that ends in the docstring of `entry_point`."""
    entry_point: str
    """The function that the tests call; inside tests it is also known as `candidate`. "" if `kind` has none."""
    kind: Kind = "function"
    data: dict[str, Any] = {}
    """Public particulars of other kinds: what an environment starts from, how answers are compared, limits."""
    requires: tuple[str, ...] = ()
    """Installed packages that the solution may import."""
    released: str = ""
    """ISO date of the problem's publication; in no prompt. "" if unknown."""
    visible_tests: tuple[str, ...] = ()
    """Check sources, each run in order in one namespace; the loop may see and run these. Of other kinds: input and
    output of a program as JSON, an accepted answer, a goal of the environment.
    """
    hidden_tests: tuple[str, ...] = ()
    """Check sources that only the judge runs."""
    base_tests: int = 0
    """Number of hidden tests, the first ones, that the original benchmark has, where more were added; 0 elsewhere."""
    setup: str = ""
    """Python that runs before the checks, in their namespace; public."""
    canonical_solution: str = ""
    """A whole program, or the body that completes `prompt`."""
    tags: tuple[str, ...] = ()
    initial_code: str = ""
    """The program of attempt 1, without a model call; "" if the actor writes it."""
    cpu_seconds: float = 0.0
    """CPU time of the canonical solution over all tests of the task, as of `Execution`; 0 if not measured."""
    cluster: str = ""
    """Template, family or repository that the task shares with others: results on these are not independent. "" for a
    task that stands alone. Metadata of the analysis, in no prompt and in no digest of a benchmark.
    """

    @property
    def loop_id(self) -> str:
        """Name of the task's loop in a run's records (their `task_id`): `ID`, of a later pass `ID@pass2`."""
        return self.task_id if self.repetition == 1 else f"{self.task_id}@pass{self.repetition}"

    @property
    def cluster_id(self) -> str:
        """The task's cluster; a task without one is a cluster of its own."""
        return self.cluster or self.task_id

    @property
    def public(self) -> Task:
        """The copy that the loop receives: no hidden tests, no canonical solution."""
        return replace(self, hidden_tests=(), canonical_solution="")

    def __repr__(self) -> str:
        """Without hidden tests and solution, since notebooks store their output."""
        visible, hidden = len(self.visible_tests), len(self.hidden_tests)
        return f"Task({self.task_id}: {self.entry_point or self.kind}, {visible} visible and {hidden} hidden tests)"

    @property
    def canonical_program(self) -> str:
        """The canonical solution as a whole program, after `prompt` unless it defines `entry_point`; "" without one."""
        name = re.escape(self.entry_point)
        whole = rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*="
        body = self.canonical_solution
        is_whole = self.kind != "function" or not body.strip() or re.search(whole, body, re.MULTILINE)
        return body if is_whole else self.prompt + body


OUTCOMES = (
    "pass",
    "fail",
    "error",
    "timeout",
    "memory",
    "early_exit",
    "no_tests",
    "extraction_failed",
    "harness_error",
    *WITHHELD,
)
"""Outcomes of an evaluation. A candidate's own failure is never a `harness_error`, and the reverse."""

UNKNOWN = ("no_tests", "harness_error")
"""Outcomes without a verdict on the program (`has_verdict` of an evaluation, a grade and an episode)."""


class Check(Record, frozen=True, kw_only=True):
    """One test and its result."""

    name: str
    """The check's own source, shortened to one line."""
    outcome: str
    """One of `OUTCOMES`."""
    kind: str = "test"
    """`test`, `type` or `lint`."""
    expected: str = ""
    """`repr` of the expected value of a failing test, capped; "" if unknown."""
    actual: str = ""
    """`repr` of the actual value, capped; "" if unknown."""
    error_type: str = ""
    message: str = ""
    line: int = 0
    """Line of the candidate's program that the error points at, 1-based; 0 when unknown."""
    seconds: float = 0.0
    in_process: bool = False
    """Whether it ran beside the program, which can forge its verdict: it needs more than plain data."""


class Execution(Record, frozen=True, kw_only=True):
    """The execution of one program in the sandbox."""

    checks: tuple[Check, ...]
    """One per test, in the order of the tests."""
    output: str
    """Output of the program, capped."""
    seconds: float
    cpu_seconds: float
    """CPU time on the reference machine: that of this machine, divided by its `slowness`."""
    timed_out: bool = False
    is_doubtful: bool = False
    """Whether the machine may have caused the result."""


class Evaluation(Record, frozen=True, kw_only=True):
    """The verdict on one program. `reward` is in [0, 1], higher is better."""

    passed: bool
    outcome: str
    """One of `OUTCOMES`."""
    reward: float
    """Share of the tests that passed, 0.0 without any; or a tool's 1 or 0; or the weighted mean of `components`."""
    checks: tuple[Check, ...] = ()
    """One per test, in the order of the tests; then those of type checker and linter, or a single passing check."""
    components: dict[str, float] = {}
    """Parts of `reward`, each in [0, 1]; those that did not run are absent."""
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    verification_type: str = "unit_tests"
    feedback: str = ""
    """The failing checks in words, capped; what the actor and the reflector may read."""
    output: str = ""
    """The program's output, capped."""
    seconds: float = 0.0
    confidence: float = 1.0
    """Confidence in the verdict, in [0, 1]: 1 for tests that were run, less for heuristics and missing parts."""

    @property
    def has_verdict(self) -> bool:
        """Whether a test was run: the outcome is not of `UNKNOWN`."""
        return self.outcome not in UNKNOWN

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Sort key of programs, the best highest: passed, pass rate, reward.

        Without the confidence: a type checker that timed out does not count against a program.
        """
        return self.passed, self.pass_rate, self.reward

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome != "pass")

    @property
    def pass_rate(self) -> float:
        """Share of the tests that passed; types and lint do not count. 0.0 when there was no test."""
        tests = [check.outcome for check in self.checks if check.kind == "test"]
        return tests.count("pass") / len(tests) if tests else 0.0


class WrittenTests(Record, frozen=True, kw_only=True):
    """Tests written by a model for one task before its loop, without access to hidden tests."""

    task_id: str
    tests: tuple[str, ...]
    """Valid ones, each an assert that calls the entry point."""
    dropped: dict[str, str] = {}
    """Rejected ones, with the reasons."""
    messages: tuple[Message, ...] = ()
    reply: str = ""
    finish_reason: str = "stop"
    """As of `Trajectory`; a withheld reply is not searched for tests."""
    usage: Usage = Usage()


class SuiteVerdict(Record, frozen=True, kw_only=True):
    """Verdicts of the canonical solution on tests written by a model, each run separately, after the seal."""

    task_id: str
    checks: tuple[Check, ...]
    """One per kept test, in their order; a test is valid where the canonical solution passes it."""


class Category(StrEnum):
    """Categories of failures.

    Rules derive the first eleven classes and `unknown` from the evidence; a model may also judge by the others.
    """

    NO_PROGRAM = "no_program"

    SYNTAX = "syntax"
    ASSERTION = "assertion"
    TIMEOUT = "timeout"
    NULL = "null"
    INDEX = "index"
    PERMISSION = "permission"
    IMPORT = "import"
    TYPE = "type"
    CONCURRENCY = "concurrency"
    MEMORY = "memory"
    UNKNOWN = "unknown"
    ROOT_CAUSE = "root_cause"
    """Any other cause, and unknown category names."""
    APPROACH_FLAW = "approach_flaw"
    """The plan was wrong, however well it was implemented."""
    MISSING_CONTEXT = "missing_context"
    """Information about the task was missing or ignored."""
    TOOL_MISUSE = "tool_misuse"
    TEST_GAP = "test_gap"
    """The available tests did not reveal the fault."""
    VERIFICATION = "verification"
    """The work was not checked, or the check was misread."""
    EDGE_CASE_MISS = "edge_case_miss"
    """A boundary input was not considered."""
    INTEGRATION_ERROR = "integration_error"
    """The parts work, but not together."""
    CORRECT = "correct"
    """No failure: a self-review found nothing to change."""


BY_MODEL = ("llm", "recorded")
"""Sources of reflections whose words are a model's."""


class Reflection(Record, frozen=True, kw_only=True):
    """An explanation of an attempt. `confidence` is in [0, 1]."""

    reflection_id: str
    about_attempt: int
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    source: str
    """`llm`; `rules:<class>`; after a failure of the model `fallback:<class>` by rules or `failed` without words; or
    `control:<name>`."""
    category: str = "unknown"
    """One of `Category`: the class of the evidence, or the model's if the prompt asks for one."""
    action_items: tuple[str, ...] = ()
    key_insight: str = ""
    """A lesson beyond this task, in one sentence; "" without one."""
    lessons: tuple[str, ...] = ()
    quoted_code: str = ""
    """Code for the retry, after the texts; only of the control `quoted`, else ""."""
    what_worked: str = ""
    confidence_source: str = "stated"
    """Source of `confidence`: `stated` by the model, the `class` of failure, `measured` on earlier ones, or `none`."""
    flags: tuple[str, ...] = ()
    """Quality flags (`reflectors/reviewed.py`), and a reflector's own."""
    text: str = ""
    """The model's raw reply, "" for rules."""
    problem: str = ""
    """Reason for a fallback; "" without one."""
    usage: Usage = Usage()

    @property
    def statements(self) -> tuple[tuple[str, str], ...]:
        """Labels and texts for the retry, in order, without empty texts and repetitions."""
        labelled = (
            ("What worked", self.what_worked),
            ("Root cause", self.root_cause),
            ("What went wrong", self.what_went_wrong),
            ("What to change", self.what_to_change),
            *(("Action", item) for item in self.action_items),
            *(("Lesson", lesson) for lesson in self.lessons),
            ("Key insight", self.key_insight),
        )
        by_words: dict[str, tuple[str, str]] = {}
        for label, whole in labelled:
            head, _, evidence = whole.partition(": ")
            is_repeated = len(evidence) > 30 and any(evidence in text for _, text in by_words.values())
            text = f"{head}." if is_repeated and whole != self.what_to_change else whole
            by_words.setdefault(" ".join(text.casefold().split()), (label, text))
        by_words.pop("", None)
        return tuple(by_words.values())

    @property
    def is_told(self) -> bool:
        """Whether it has words, or stands for those that its model failed to give."""
        return self.source == "failed" or any(self.texts)

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, including empty ones."""
        return (
            self.root_cause,
            self.what_went_wrong,
            self.what_to_change,
            self.what_worked,
            self.key_insight,
            *self.action_items,
            *self.lessons,
            self.quoted_code,
        )


class Critique(Record, frozen=True, kw_only=True):
    """A critic's judgement of a draft."""

    severity: float
    """Severity of the worst issue, in [0, 1]; 0 if there is nothing to fix."""
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    score: float | None = None
    """Score of the draft, in [0, 1], higher is better; None if the critic gives none."""
    confidence: float = 1.0
    """Confidence in the critique, in [0, 1]: 1 for tests that were run."""
    rank: tuple[bool, float, float] | None = None
    """`Evaluation.rank` of the draft; None if no test was run."""
    source: str
    """The critic: `llm`, `tests`, `lint`, ..., or several of them joined by `+`."""
    messages: tuple[Message, ...] = ()
    reply: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    """Time of its tools."""


class Observation(Record, frozen=True, kw_only=True):
    """What an environment shows after an action."""

    text: str
    actions: tuple[str, ...] = ()
    """Admissible actions, if the environment lists them; () if it does not."""
    score: float = 0.0
    is_over: bool = False
    """Whether no further action is taken."""
    is_success: bool = False
    """The environment's own verdict so far."""
    answer: str = ""
    """The answer that a play ended with, of an environment for questions."""


class Step(Record, frozen=True, kw_only=True):
    """One turn of an actor that works in several."""

    thought: str = ""
    action: str = ""
    """The tool used; "" for none."""
    observation: str = ""
    error: str = ""
    """The error of this turn; "" without one."""
    program: str = ""
    """The draft of this turn; "" for none."""
    critique: Critique | None = None
    """On `program`."""
    messages: tuple[Message, ...] = ()
    """The exact messages to the actor's model in this turn; () without a call."""
    reply: str = ""
    usage: Usage = Usage()
    """Usage of the actor; that of the critic is in `critique`."""
    seconds: float = 0.0
    """Time of its tools."""


class Trajectory(Record, frozen=True, kw_only=True):
    """The work of an actor in one attempt, and its program."""

    solution: str
    """A whole program that defines the entry point; "" if none was found in the reply."""
    strategy: str
    messages: tuple[Message, ...] = ()
    """The exact messages of the first call of the actor's model; later ones are in `steps`."""
    left_out: tuple[str, ...] = ()
    """Ids of what memory selected and that did not fit into its budgets or the prompt; an insight is its own id."""
    reply: str = ""
    """The raw reply, before extraction."""
    rationale: str = ""
    """The actor's reasoning before the program, in its reply or beside it."""
    extraction: str = ""
    """The rule by which the solution was extracted."""
    model: str = ""
    """The server's name of the model that answered."""
    finish_reason: str = "stop"
    """`stop`, `length`, one of `WITHHELD`, or a server's own reason."""
    usage: Usage = Usage()
    """The actor's own calls."""
    others: dict[str, Usage] = {}
    """Costs of other roles, by role."""
    cached: bool = False
    steps: tuple[Step, ...] = ()
    """Turns, oldest first; () for a single-turn actor."""
    ended: str = ""
    """Why a multi-turn actor ended: `finish`, `max_steps`, `low_severity`, ...; "" for a single-turn actor."""
    files_modified: tuple[str, ...] = ()
    status: str = "complete"
    """`complete`, `stuck` (it gave up or hit an error), or `unfinished`."""


class Delta(Record, frozen=True, kw_only=True):
    """The change of an attempt since the previous one."""

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
    """Ω at this attempt; None if the policy has none."""
    own: int = 0
    """Episodes of this task in the actor's prompt, Ω at most."""

    @property
    def is_blind(self) -> bool:
        """Whether Ω asks for the task's own past, but the prompt contained none of it."""
        return bool(self.omega) and self.total > 0 and not self.own


class Item(Record, frozen=True, kw_only=True):
    """An item of memory across tasks: a rule, a workflow, a case, a note or a whole page."""

    item_id: str
    text: str
    """Text that the actor reads; in a store, "" for an item that was removed."""
    key: str = ""
    """The text that retrieval compares; "" for `text`."""
    section: str = ""
    """Heading in the prompt; "" for none."""
    outcome: bool | None = None
    """Feedback verdict of the attempt that it came from; None if it came from several, or without a verdict."""
    counts: dict[str, int] = {}
    """Such as `score`, `helpful`, `harmful`. An item with a `score` of 0 or less is removed."""
    links: tuple[str, ...] = ()
    """Ids of related items."""
    sources: tuple[str, ...] = ()
    """Ids of the tasks that it came from, in order of arrival."""
    owner: str = ""
    """In a store, the method whose curators alone read and change it; "": of none, as within a run."""


class Retrieved(Record, frozen=True):
    """An item of memory as a search ranked it."""

    item_id: str
    rank: int
    """1-based, among all documents of the search."""
    score: float
    """The retriever's, in [0, 1], higher is nearer; to 6 decimals."""
    retriever: str
    """Its class."""
    query: str
    text: str
    """The first 200 characters of its lesson."""


class Attempt(Record, frozen=True, kw_only=True):
    """One turn of the loop: recall, act, evaluate, reflect."""

    task_id: str
    """`Task.loop_id` (of a later pass `ID@pass2`), as in results and grades; episodes have `Task.task_id`."""
    number: int
    """1-based."""
    parent: int = -1
    """Number of the attempt that this one continues, whose path to the root it read; 0 for a fresh draw. Without a
    value, as in older records, the attempt before it: a chain.
    """
    recalled: tuple[str, ...]
    """Ids of the episodes in the actor's prompt, in their order there."""
    recalled_wisdom: tuple[str, ...] = ()
    recalled_mistakes: tuple[str, ...] = ()
    recalled_items: tuple[str, ...] = ()
    """Ids of the curator's items in the actor's prompt, in their order there."""
    recalled_insights: tuple[str, ...] = ()
    """The insights in the actor's prompt, in their order there."""
    retrieved: tuple[Retrieved, ...] = ()
    """Those of all these that a search found; the curator's in the first attempt alone, which selects them."""
    written_items: tuple[Item, ...] = ()
    """Items that the curator wrote for this task alone; in its first attempt alone."""
    selection_usage: Usage = Usage()
    """Usage of the curator's calls before the loop; in its first attempt alone."""
    trajectory: Trajectory
    evaluation: Evaluation
    """The verdict of the feedback tests; never of the hidden ones, unless the run says `oracle`."""
    reflection: Reflection | None = None
    delta: Delta = Delta()
    memory: MemoryState
    stop_reason: str = ""
    """Why the loop ended after this attempt; "" if it continued."""

    def __post_init__(self) -> None:
        if self.parent < 0:
            force_setattr(self, "parent", self.number - 1)

    @property
    def recalled_by_kind(self) -> dict[str, tuple[str, ...]]:
        """Ids of all that memory put into the actor's prompt, in reading order; an insight is its own id."""
        known = {"episode": self.recalled, "wisdom": self.recalled_wisdom, "mistake": self.recalled_mistakes}
        return known | {"item": self.recalled_items, "insight": self.recalled_insights}

    @property
    def usage(self) -> dict[str, Usage]:
        """Total usage by role."""
        total: dict[str, Usage] = {}
        for role, usage in (
            ("actor", self.trajectory.usage),
            *self.trajectory.others.items(),
            ("reflector", self.reflection.usage if self.reflection else Usage()),
            *((("curator", self.selection_usage),) if self.selection_usage != Usage() else ()),
        ):
            total[role] = total[role] + usage if role in total else usage
        return total

    @property
    def seconds(self) -> float:
        """Recorded time of evaluation, tools and models, without waiting."""
        tools = sum(step.seconds + (step.critique.seconds if step.critique else 0) for step in self.trajectory.steps)
        return self.evaluation.seconds + tools + sum(usage.seconds for usage in self.usage.values())


_PASS = re.compile(r"@pass(\d+)\Z")


def identity(loop_id: str) -> tuple[str, int]:
    """Task and repetition of a loop, as of `Task.loop_id`."""
    match = _PASS.search(loop_id)
    return (loop_id[: match.start()], int(match[1])) if match else (loop_id, 1)


def base_id(loop_id: str) -> str:
    """The task of a loop."""
    return identity(loop_id)[0] if "@pass" in loop_id else loop_id  # every item of a bank is asked in each round
