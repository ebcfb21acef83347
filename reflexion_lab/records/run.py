"""A run: its manifest, its results and the hidden verdicts."""

from __future__ import annotations

from typing import Literal

from reflexion_lab.records.attempt import UNKNOWN, Attempt, Record

SCHEMA_VERSION = 1
"""Version of the stored records, raised when one changes its meaning; manifests name theirs."""

FeedbackSource = Literal["visible", "self_tests", "oracle", "none"]
"""Tests that drive the loop: visible ones, the model's own, hidden ones (an upper bound), none."""


class TaskResult(Record, frozen=True, kw_only=True):
    """The end of one task's loop. Attempts are named by number; the run folder holds them."""

    task_id: str
    attempts: int
    submitted: int
    """First attempt to pass its feedback checks, else that of the highest `Evaluation.rank`, the earlier on a tie."""
    best: int
    last: int
    stop_reason: str
    feedback_source: str
    duration: float
    """Seconds of wall time, queues included."""
    cluster: str = ""
    """`Task.cluster_id`; "" in runs before 25 November 2026, see `Log.clusters`."""
    released: str = ""
    """`Task.released`: the ISO date of a task whose benchmark has one."""
    split: str = ""
    """`train`, or `test` or `validation` for tasks held out, for which memory is frozen; "" without a split."""


class Grade(Record, frozen=True, kw_only=True):
    """The hidden verdict on one attempt, stored apart from all that the loop reads."""

    task_id: str
    number: int
    passed: bool
    outcome: str
    checks_passed: int
    checks_total: int
    sealed: bool
    """False for the submitted attempt, graded while the run was open; True for the others, graded after the seal."""
    checks_in_process: int = 0
    """Tests that ran beside the program, which can forge them (`Check.in_process`)."""
    base_passed: bool | None = None
    """Whether the tests of the original benchmark pass (`Task.base_tests`); None without a verdict on them."""

    @property
    def has_verdict(self) -> bool:
        """Whether the outcome is not of `UNKNOWN`."""
        return self.outcome not in UNKNOWN


class SetAside(Record, frozen=True, kw_only=True):
    """A task that was set aside: its loop ended without an answer of the model, is discarded, and restarts later.

    Also the last line of a run that an exception stopped while it reflected.
    """

    task_id: str
    outcome: str
    """One of `errors.UNANSWERED`, `refused` or `reflector_error`."""
    problem: str
    """One line without secrets: server, answer, stage, attempt and hint."""
    at: str
    """UTC, ISO 8601."""
    judged: Attempt | None = None
    """The attempt with its verdict, if the loop ended while reflecting on it."""


class Resumption(Record, frozen=True, kw_only=True):
    """Environment in which an interrupted run was resumed; other fields are as in the manifest."""

    at: str
    """UTC, ISO 8601."""
    code_digest: str
    """Digest of the lab's own files."""
    python: str
    platform: str
    isolation: tuple[str, ...]
    """The sandbox layers in force."""
    package_versions: dict[str, str] = {}
    """Packages of the manifest with another version; "" for a package that is no longer installed."""
    prices: dict[str, str] = {}
    """As in the manifest; {} in runs before 27 November 2026."""


class Provenance(Record, frozen=True, kw_only=True):
    """Environment and command of a run. Digests are SHA-256, shortened to 16 hex digits; "" is unknown."""

    python: str = ""
    """Implementation and version."""
    platform: str = ""
    """System, processor and C library; identifies neither the machine nor its user."""
    cpus: int = 0
    slowness: float = 1.0
    """How many times longer than on the reference machine a program takes: the sandbox's time limits grow with it."""
    lock_digest: str = ""
    """Digest of constraints.txt, the package versions of the tests; "" for an installed wheel."""
    code_digest: str = ""
    """Digest of the lab's own files."""
    diff_digest: str = ""
    """Digest of `git diff HEAD`; "" if that is empty."""
    overrides: tuple[str, ...] = ()
    """Arguments of `reflexion-lab run`, or overrides of a sweep's cell; () for a run from Python."""
    launcher: str = ""
    """Hydra's launcher, such as `basic` or `joblib`."""
    own_parts: dict[str, str] = {}
    """Digests of the source files of user-defined parts and of the own modules that they import, by module."""
    embedder_fingerprint: str = ""
    """Fingerprint of the embedder of retrieval; "" without one."""
    benchmark_file_digest: str = ""
    """Digest of the file of the tasks; "" for a benchmark that is installed with a package."""
    sandbox_version: int = 0
    """`sandbox.cached.VERSION`; the limits are in the config."""
    pool: dict[str, str] = {}
    """Digests of attempts.jsonl of the runs that `reflector=shuffled` draws from, by run id."""
    pool_origin: str = ""
    """`runs of the study` if these runs belong to the study of the run without a deviation."""
    items: str = ""
    """Run and digest of the items that memory began with (`memory.shared.items.of`); "" without such a run."""
    store: str = ""
    """State of the store at the start: `empty`, `filled`, or `across cells`; "" without a durable one."""
    vacuous_tests: dict[str, str] = {}
    """Tasks whose `hidden` or `visible` tests check nothing, by id."""


class Served(Record, frozen=True, omit_defaults=True):
    """What a server says about the model of a role, and what follows from it."""

    name: str = ""
    """In the server's list; of a path its last part. The only model of a server answers to any name."""
    owner: str = ""
    """As the list has it, such as `llamacpp`, `vllm`, or `library` for Ollama."""
    weights: str = ""
    """Part of the fingerprint: name, if not the config's; folder, digest or size; and `structured`. "" if unknown."""
    context: int = 0
    """Tokens of a prompt and its reply, to which prompts are cut; 0: unknown."""
    source: str = ""
    """Path or config key that the context was read from."""
    structured: str = ""
    """Field of requests that constrains replies, such as `grammar` or `response_format`; "": none."""

    def __str__(self) -> str:
        context = f"context {self.context:,} tokens ({self.source})" if self.context else ""
        structured = f"structured replies by {self.structured}" if self.structured else ""
        return ", ".join(filter(None, [self.name, context, structured]))


class Manifest(Record, frozen=True, kw_only=True):
    """Run manifest: enough to decide whether two runs are comparable, and to repeat the run."""

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
    tasks_digest: str = ""
    """Digest of the tasks of the data set, which may have other bytes; "" in runs before 27 November 2026."""
    drawn: str = ""
    """Digest of ids and clusters of the run's tasks, in order; "" in runs before 27 November 2026, with other draws."""
    prompt_digests: dict[str, str]
    model_fingerprint: str
    """Fingerprint of the actor's model."""
    role_fingerprints: dict[str, str] = {}
    """Fingerprints of the models of other roles, if they have their own."""
    served: dict[str, Served] = {}
    """By role; without the models that no server runs, or whose server says nothing."""
    slots: int
    """Sequences decoded at once; batched arithmetic can change greedy replies, 1 is deterministic."""
    feedback_source: str
    shows_solutions: bool = False
    """Whether the reflector or the curator reads canonical solutions."""
    isolation: tuple[str, ...]
    """The sandbox layers in force."""
    study: str = ""
    """The name of the registered study of the run; "" for none."""
    study_digest: str = ""
    """Digest of the study before the first call."""
    prices: dict[str, str] = {}
    """Token prices by role, with date and source of the price list."""
    provenance: Provenance = Provenance()
    schema_version: int = SCHEMA_VERSION

    @property
    def leak(self) -> str:
        """Secret information that the loop read: `hidden tests`, `canonical solutions`; "" for none. With a leak, every
        figure of the run is an upper bound and none a pass@1.
        """
        oracle = "hidden tests" if self.feedback_source == "oracle" else ""
        return " and ".join(filter(None, (oracle, "canonical solutions" if self.shows_solutions else "")))

    @property
    def is_upper_bound(self) -> bool:
        return bool(self.leak)
