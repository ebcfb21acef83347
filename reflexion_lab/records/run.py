"""A run: its manifest, its results and the hidden verdicts."""

from __future__ import annotations

from reflexion_lab.records.attempt import Attempt, Record

SCHEMA_VERSION = 1
"""Version of the stored records, raised when one changes its meaning; manifests name theirs."""

FEEDBACK_SOURCES = ("visible", "self_tests", "oracle", "none")
"""Tests that drive the loop: visible ones, the model's own, hidden ones (an upper bound), none."""


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
    """The hidden verdict on one attempt, stored apart from all that the loop reads."""

    task_id: str
    number: int
    passed: bool
    outcome: str
    checks_passed: int
    checks_total: int
    checks_in_place: int = 0
    """Checks judged in the candidate's process, which could have forged their verdict."""
    sealed: bool
    """False for the one submitted attempt, graded while the run was open; True for the others, graded after it."""


class SetAside(Record, frozen=True, kw_only=True):
    """A deferred task: its loop ended without an answer of the model, is discarded, and restarts later.

    Also the last line of a run that an exception stopped while it reflected.
    """

    task_id: str
    outcome: str
    """One of `errors.UNANSWERED`, or `reflector_error`."""
    problem: str
    """One line: server, answer, stage, attempt and remedy. Never has a key."""
    at: str
    """UTC, ISO 8601."""
    judged: Attempt | None = None
    """The attempt with its verdict, where the loop ended while reflecting on it."""


class Resumption(Record, frozen=True, kw_only=True):
    """Environment in which an interrupted run was resumed; other fields are as in the manifest."""

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
    """Environment and command of a run. Digests are SHA-256, shortened to 16 hex digits; "" is unknown, as in manifests
    of earlier versions.
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
    """Arguments of `reflexion-lab run`, or overrides of a sweep's cell; () for a run from Python."""
    launcher: str = ""
    """Hydra's launcher, such as `basic` or `joblib`."""
    own_parts: dict[str, str] = {}
    """By module, the digest of the file that holds a reader's own part."""
    embedder_fingerprint: str = ""
    """Of the embedder of retrieval; "" without one."""
    benchmark_file_digest: str = ""
    """Of the file that the tasks were read from; "" for a benchmark that is installed with a package."""
    sandbox_version: int = 0
    """`sandbox.cached.VERSION`; the limits stand in the config."""
    pool: dict[str, str] = {}
    """By run id, the digest of attempts.jsonl of each run whose reflections `reflector=shuffled` draws from."""


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
    prompt_digests: dict[str, str]
    model_fingerprint: str
    """The actor's."""
    role_fingerprints: dict[str, str] = {}
    """Those of roles that have a model of their own."""
    slots: int
    """Sequences that the model decoded at once; batched arithmetic can change greedy replies. 1 is deterministic."""
    feedback_source: str
    shows_solutions: bool = False
    """The words of its reflector quote canonical solutions."""
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

    @property
    def leak(self) -> str:
        """What the loop was shown that no loop may know, which makes every figure of the run an upper bound and none
        a pass@1: `hidden tests`, `canonical solutions`; "" where nothing was.
        """
        oracle = "hidden tests" if self.feedback_source == "oracle" else ""
        return " and ".join(filter(None, (oracle, "canonical solutions" if self.shows_solutions else "")))

    @property
    def is_upper_bound(self) -> bool:
        return bool(self.leak)
