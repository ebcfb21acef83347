"""Verdicts on programs, and the tests behind them."""

from __future__ import annotations

from reflexion_lab.records.call import WITHHELD, Message, Usage
from reflexion_lab.records.record import Record

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
"""Outcomes without a verdict on the program."""


class Check(Record, frozen=True, kw_only=True):
    """One test and its result."""

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
    """The value that it got, in the same form."""
    error_type: str = ""
    message: str = ""
    line: int = 0
    """Line of the candidate's program that the error points at, 1-based; 0 when unknown."""
    seconds: float = 0.0


class Execution(Record, frozen=True, kw_only=True):
    """The execution of one program in the sandbox."""

    checks: tuple[Check, ...]
    """One per test, in the order of the tests."""
    output: str
    """Its output, capped."""
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
    """One per test, in the order of the tests; then those of type checker and linter, or one that passes."""
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
    injected: str = ""
    """`false_negative` or `false_positive` where `evaluators.noisy` turned the verdict; no prompt shows it."""

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
    """Tests that a model wrote for one task before its loop, without ever seeing a hidden one."""

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
    """Tests that a model wrote, judged by the canonical solution, each run separately, after the seal."""

    task_id: str
    checks: tuple[Check, ...]
    """One per kept test, in their order; a test is valid where the canonical solution passes it."""
