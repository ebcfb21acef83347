"""The nouns of the lab: frozen, typed records that go to JSON and come back without loss.

A record is what one step hands to the next and what the run folder stores. `msgspec.json.decode(line, type=Attempt)`
checks every field at the door; `msgspec.json.schema(Attempt)` is the schema for other tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

import msgspec
from msgspec.structs import replace

SCHEMA_VERSION = 1
"""Raised whenever a stored record changes its meaning; a run folder names the one it was written with."""

DIGITS = 9
"""Decimals that rewards, scores and severities are compared to: 0.3 - 0.2 is less than 0.1 only in binary."""

WITHHELD = ("refusal", "content_filter", "context_overflow", "wrong_model")
"""Ends of a reply in which no program is looked for: the model refuses; its provider cut the reply out; the prompt is
longer than the context; another model than the one asked for answered."""

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
"""What an evaluation can end in. A candidate's own failure is never a `harness_error`, and the reverse."""

UNKNOWN = ("no_tests", "harness_error")
"""Outcomes that say nothing of a program."""

FEEDBACK_SOURCES = ("visible", "self_tests", "oracle", "none")
"""What drives the loop: the tests a task shows, the model's own, the hidden ones (an upper bound), nothing."""


class Record(msgspec.Struct, frozen=True):
    """Base of all records: immutable; subclasses repeat `frozen=True`, which type checkers need."""


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


class Message(Record, frozen=True, kw_only=True):
    """One chat message. A last message of role `assistant` is a beginning that the model continues."""

    role: str
    content: str


class Sampling(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one reply is drawn. Part of the content key of a call."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int = 0
    grammar: str = ""
    """GBNF that constrains the reply where the model supports it; others ignore it."""

    @classmethod
    def of(cls, **fields: object) -> Sampling:
        """From plain values, each checked.

        Raises:
            ValueError: a field is unknown or of the wrong type.
        """
        return msgspec.convert(fields, cls)


class Usage(Record, frozen=True, kw_only=True):
    """What calls cost: tokens, seconds of the model's own time (waiting in a queue left out), and money."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    """In the currency of the model's price list; 0 where it has none."""
    retries: int = 0
    """Requests that brought no answer and were sent again: overload, a lost connection, a torn or unreadable reply."""
    refused: int = 0
    """Of the calls, those whose prompt was turned down: nothing was computed, so they have no tokens and no cost."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{field: getattr(self, field) + getattr(other, field) for field in self.__struct_fields__})


class Completion(Record, frozen=True, kw_only=True):
    """A model's reply to one call."""

    text: str
    model: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    cached: bool = False
    """True when the reply came from the call cache: `usage` then says what it cost when it was first paid."""
    system_fingerprint: str = ""
    """What the server calls its own configuration; another one may answer otherwise. "" where it does not say."""
    refused_tokens: int = 0
    """What the server counted in a prompt that it turned down as too long; 0 where it does not say."""


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


class Check(Record, frozen=True, kw_only=True):
    """One test and what came of it."""

    name: str
    """The check's own source, shortened to one line."""
    outcome: str
    """One of `OUTCOMES`."""
    kind: str = "test"
    """`test`, `type` or `lint`."""
    mode: str = ""
    """How a test is judged: `apart`, comparing values where the candidate never runs; or `in_place`, in its process."""
    expected: str = ""
    """The value that a failing test wanted, as Python shows it, capped; "" when unknown."""
    actual: str = ""
    """The value that it got, likewise."""
    error_type: str = ""
    message: str = ""
    line: int = 0
    """Line of the candidate's program that the error points at, 1-based; 0 when unknown."""
    seconds: float = 0.0


class Execution(Record, frozen=True, kw_only=True):
    """What came of one program in the sandbox."""

    checks: tuple[Check, ...]
    """One per test, in the order of the tests."""
    output: str
    """What it printed, capped."""
    seconds: float
    cpu_seconds: float
    timed_out: bool = False


class Evaluation(Record, frozen=True, kw_only=True):
    """The verdict on one program. `reward` is in [0, 1], higher is better."""

    passed: bool
    outcome: str
    """One of `OUTCOMES`."""
    reward: float
    """Share of the tests that passed, 0.0 without any; or a tool's 1 or 0; or the weighted mean of `components`."""
    checks: tuple[Check, ...] = ()
    """One per test, in the order of the tests; then what type checker and linter found, or one that passes."""
    components: dict[str, float] = {}
    """What `reward` is made of, each part in [0, 1]; parts that did not run are absent."""
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    verification_type: str = "unit_tests"
    feedback: str = ""
    """The failing checks in words, capped; what the actor and the reflector may read."""
    output: str = ""
    """What the program printed, capped."""
    seconds: float = 0.0
    confidence: float = 1.0
    """How far the verdict is to be trusted, in [0, 1]: 1 for tests that were run, less for heuristics and where parts
    did not run."""
    injected: str = ""
    """`false_negative` or `false_positive` where `evaluators.noisy` turned the verdict; no prompt shows it."""

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Sort key of programs, the best highest: passed, pass rate, reward.

        The confidence is no part of it: a type checker that timed out says nothing against a program.
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
    """Tests that a model wrote for one task before its loop, without ever seeing a hidden one."""

    task_id: str
    tests: tuple[str, ...]
    """Those that were kept: each an assert that calls the entry point."""
    dropped: dict[str, str] = {}
    """Those that were not, and why."""
    messages: tuple[Message, ...] = ()
    reply: str = ""
    finish_reason: str = "stop"
    """Why the model ended, as of `Trajectory`: a reply that withholds is not looked through for tests."""
    usage: Usage = Usage()


class SuiteVerdict(Record, frozen=True, kw_only=True):
    """The canonical solution against the tests that a model wrote, each run apart; judged after the seal."""

    task_id: str
    checks: tuple[Check, ...]
    """One per kept test, in their order; a test is valid where the canonical solution passes it."""


class Category(StrEnum):
    """What a reflection may call a failure.

    The ten classes and `unknown` say what the evidence shows, and are all that rules ever give; the others say where
    the attempt went astray, in a model's own words.
    """

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
    """A cause was found that has no name of its own here; what any unheard-of name becomes."""
    APPROACH_FLAW = "approach_flaw"
    """The plan was wrong, however well it was carried out."""
    MISSING_CONTEXT = "missing_context"
    """Something about the task was not known or not read."""
    TOOL_MISUSE = "tool_misuse"
    TEST_GAP = "test_gap"
    """The tests at hand did not show the fault."""
    VERIFICATION = "verification"
    """The work was not checked, or the check was misread."""
    EDGE_CASE_MISS = "edge_case_miss"
    """An input at the border was not thought of."""
    INTEGRATION_ERROR = "integration_error"
    """The parts work, and not together."""


class Reflection(Record, frozen=True, kw_only=True):
    """What went wrong, in words. `confidence` is in [0, 1]."""

    reflection_id: str
    about_attempt: int
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    source: str
    """`llm`, `rules:<class>`, `fallback:<class>` when rules stepped in for a model that failed, `failed`
    where nobody did, or `control:<name>`."""
    category: str = "unknown"
    """One of `Category`: the failure class of the evidence, or what the model calls it where it was asked to."""
    action_items: tuple[str, ...] = ()
    key_insight: str = ""
    """What is worth knowing beyond this task, in one sentence; "" when the reflector names none."""
    lessons: tuple[str, ...] = ()
    what_worked: str = ""
    confidence_source: str = "stated"
    """Where `confidence` comes from: `stated` by the model, the `class` of failure, `measured` on earlier ones; `none`
    where it says nothing."""
    flags: tuple[str, ...] = ()
    """What is wrong with these words, by name; see `reflectors/quality.py`."""
    text: str = ""
    """The model's reply as it came, "" for rules."""
    problem: str = ""
    """Why the fallback stepped in; "" when it did not."""
    usage: Usage = Usage()


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


class Episode(Record, frozen=True, kw_only=True):
    """What memory keeps of an attempt. Verdicts are those of the feedback tests, never of the hidden ones."""

    episode_id: str = ""
    """Unique in a store; filled when the episode is stored without one."""
    session_id: str = ""
    """The loop that it came from: one task in one run."""
    turn_id: str = ""
    agent_id: str
    """Who made the attempt; the arm, in a run."""
    task_id: str
    task_description: str = ""
    attempt_number: int
    code: str
    test_results: str
    """The failing checks in words, as the actor was told them."""
    failure_analysis: str = ""
    """The error signature: what failed, without the values of this one task."""
    reflection: Reflection | None
    improvement: str = ""
    """What the reflection wants changed."""
    confidence: float = 0.0
    """The reflection's, in [0, 1]."""
    passed: bool
    reward: float = 0.0
    timestamp: float = 0.0
    """Seconds since the epoch; filled when the episode is stored without one."""
    metadata: dict[str, str] = {}
    """`verification_type` and `outcome` of the evaluation, and whatever an importer adds."""

    @property
    def category(self) -> str:
        """The failure class that the reflection names; "" without one."""
        return self.reflection.category if self.reflection else ""


class Wisdom(Record, frozen=True, kw_only=True):
    """A cause of failure that came back, and whether knowing of it helped. One per normalised root cause."""

    wisdom_id: str
    pattern: str
    """The root cause as it was first put into words."""
    frequency: int
    """Episodes that share it."""
    impact: float
    """Mean gain of confidence from one episode to the next within a session, losses as 0; in [0, 1]."""
    domain: str
    """`code`, `testing`, `architecture`, `concurrency` or `performance`."""
    tags: tuple[str, ...] = ()
    advice: str = ""
    """What the most confident of its reflections wants changed."""
    sources: tuple[str, ...] = ()
    """Ids of the episodes, oldest first."""
    tasks: tuple[str, ...] = ()
    """The distinct tasks of these episodes, in the order in which they came."""
    use_count: int = 0
    """Attempts whose actor read it."""
    success_rate: float = 0.0
    """Share of them that passed their feedback tests; 0 before the first use."""
    created_at: float = 0.0
    last_used_at: float = 0.0


class Mistake(Record, frozen=True, kw_only=True):
    """A wrong answer to a prompt, and what mended it."""

    mistake_id: str
    task_id: str
    prompt: str
    prompt_hash: str
    """SHA-256 of the prompt, 16 hex digits."""
    mistake: str
    correction: str = ""
    """"" while nothing has mended it."""
    severity: float
    """In [0, 1]: the share of the checks that failed."""
    timestamp: float = 0.0


class Session(Record, frozen=True, kw_only=True):
    """What one loop carries from turn to turn."""

    session_id: str
    reflections: tuple[Reflection, ...] = ()
    """The newest five, newest first."""
    key_insights: tuple[str, ...] = ()
    """At most twenty, oldest first."""
    last_trajectory_summary: str = ""
    last_evaluation: Evaluation | None = None


class Recollection(Record, frozen=True, kw_only=True):
    """All that memory gives the actor for one attempt."""

    episodes: tuple[Episode, ...] = ()
    """Those of other loops, the nearest last; then the task's own, oldest first."""
    wisdom: tuple[Wisdom, ...] = ()
    """Best first."""
    mistakes: tuple[Mistake, ...] = ()
    """Best first."""
    insights: tuple[str, ...] = ()
    """Oldest first."""
    session: str = ""
    """The session's history in words; "" where the policy shows none."""
    omega: int | None = None
    attempt: int = 1
    """Which attempt at the task this is, 1-based; the loop fills it in."""
    stuck: str = ""
    """What keeps coming back, where the loop has got stuck: the actor is asked for a different approach."""
    left_out: tuple[str, ...] = ()
    """Ids of episodes, wisdom and mistakes that memory selected and its budgets had no room for."""

    @property
    def ids(self) -> set[str]:
        """Of its episodes, wisdom and mistakes."""
        return {
            *(episode.episode_id for episode in self.episodes),
            *(entry.wisdom_id for entry in self.wisdom),
            *(mistake.mistake_id for mistake in self.mistakes),
        }

    def without(self, left_out: Collection[str]) -> Recollection:
        """All but the episodes, wisdom and mistakes with these ids."""
        return replace(
            self,
            episodes=tuple(episode for episode in self.episodes if episode.episode_id not in left_out),
            wisdom=tuple(entry for entry in self.wisdom if entry.wisdom_id not in left_out),
            mistakes=tuple(mistake for mistake in self.mistakes if mistake.mistake_id not in left_out),
        )


class Beginning(Record, frozen=True, kw_only=True):
    """What the store held when a run began; a resumed run begins with the same."""

    episodes: int = 0
    """The first so many."""
    newest_episode: str = ""
    """The id of the last of them: what the store took in later is not read, even where a prune has made room."""
    mistakes: int = 0
    newest_mistake: str = ""
    wisdom: tuple[Wisdom, ...] = ()


class Search(Record, frozen=True, kw_only=True):
    """Which episodes to look for; what is left empty does not narrow the search."""

    categories: tuple[str, ...] = ()
    min_confidence: float = 0.0
    """Inclusive."""
    keywords: tuple[str, ...] = ()
    """Looked for, casefolded, in the task's description, the failure analysis and the reflection's words."""
    every_keyword: bool = False
    """True: all of them must be there; False: one is enough."""
    task_id: str = ""
    session_id: str = ""
    agent_id: str = ""
    passed: bool | None = None
    limit: int = 0
    """At most so many, the newest; 0 for all."""


class TaskResult(Record, frozen=True, kw_only=True):
    """The end of one task's loop. Attempts are named by number; the run folder holds them."""

    task_id: str
    attempts: int
    submitted: int
    """First attempt that passed its feedback checks, else the one of the highest `Evaluation.rank`, the earlier on a
    tie."""
    best: int
    last: int
    stop_reason: str
    feedback_source: str
    duration: float
    """Seconds of wall time, queues included."""


class Grade(Record, frozen=True, kw_only=True):
    """The hidden verdict on one attempt, kept apart from everything that the loop can see."""

    task_id: str
    number: int
    passed: bool
    outcome: str
    checks_passed: int
    checks_total: int
    checks_in_place: int = 0
    """Those that ran beside the program, which could have forged their verdict."""
    sealed: bool
    """False for the one submitted attempt, graded while the run was open; True for the others, graded after it."""


class SetAside(Record, frozen=True, kw_only=True):
    """A loop that was broken off since its model gave no answer. Its task is begun anew; nothing of it counts."""

    task_id: str
    outcome: str
    """One of `protocols.UNANSWERED`."""
    problem: str
    """In one line: who was asked, what came back, at which stage and attempt, what to do. Never holds a key."""
    at: str
    """UTC, ISO 8601."""


class Resumption(Record, frozen=True, kw_only=True):
    """On what and with what a run went on that had been cut off. What it leaves out is as in the manifest."""

    at: str
    """UTC, ISO 8601."""
    code_digest: str
    """Of the lab's own files."""
    python: str
    platform: str
    isolation: tuple[str, ...]
    """The sandbox layers in force."""
    package_versions: dict[str, str] = {}
    """Of the manifest's packages, those with another version; "" for one that is no longer installed."""


class Provenance(Record, frozen=True, kw_only=True):
    """On what, with what and by which words a run was made. Digests are SHA-256, shortened to 16 hex digits; "" is
    unknown, as in manifests of earlier versions.
    """

    python: str = ""
    """Implementation and version."""
    platform: str = ""
    """System, processor and C library; neither the machine nor its user is named."""
    cpus: int = 0
    lock_digest: str = ""
    """Of constraints.txt, which names the versions of all that the tests run with; "" for an installed wheel."""
    code_digest: str = ""
    """Of the lab's own files."""
    diff_digest: str = ""
    """Of `git diff HEAD`; "" where that is empty."""
    overrides: tuple[str, ...] = ()
    """What followed `reflexion-lab run`, or made the cell of a sweep; () for a run from Python."""
    launcher: str = ""
    """Hydra's launcher, such as `basic` or `joblib`."""
    own_parts: dict[str, str] = {}
    """By module, the digest of the file that holds a reader's own part."""
    embedder_fingerprint: str = ""
    """Whose vectors retrieval compares; "" where nothing is embedded."""
    benchmark_file_digest: str = ""
    """Of the file that the tasks were read from; "" for a benchmark that is installed with a package."""
    sandbox_version: int = 0
    """`sandbox.cached.VERSION`; the limits stand in the config."""
    pool: dict[str, str] = {}
    """By run id, the digest of attempts.jsonl of each run whose reflections `reflector=shuffled` draws from."""


class Manifest(Record, frozen=True, kw_only=True):
    """What a run was: enough to say whether two runs may be compared, and to run it again."""

    run_id: str
    created_at: str
    seed: int
    config: dict[str, object]
    config_digest: str
    git_commit: str
    dirty: bool
    package_versions: dict[str, str]
    benchmark: str
    benchmark_digest: str
    n_expected: int
    prompt_digests: dict[str, str]
    model_fingerprint: str
    """The actor's."""
    role_fingerprints: dict[str, str] = {}
    """Those of roles that have a model of their own."""
    slots: int
    """Sequences that the model decoded at once; batched arithmetic can change greedy replies. 1 is deterministic."""
    feedback_source: str
    isolation: tuple[str, ...]
    """The sandbox layers that were in force."""
    study: str = ""
    """The name of the registered study that the run belongs to; "" where none is."""
    study_digest: str = ""
    """Of the study's file as it stood before the first call."""
    prices: dict[str, str] = {}
    """By role, what a token was taken to cost, of which day, by whose list."""
    provenance: Provenance = Provenance()
    schema_version: int = SCHEMA_VERSION


for _kind in Record.__subclasses__():
    # msgspec (0.22) prepares a type at its first decoder: a second thread that decodes it meanwhile reads what is not
    # there yet, and the process dies. Types that threads decode get theirs on import.
    msgspec.json.Decoder(_kind)
