"""The verdict on one sample of a log: its own tests, executed again."""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.audit.samples import Sample, judged
from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import UNKNOWN, Check, Record
from reflexion_lab.tasks.evaluators.unit_tests import run_tests


class Verdict(Record, frozen=True, kw_only=True):
    sample: Sample
    passed: bool
    outcome: str
    """One of `OUTCOMES`."""
    detail: str = ""
    """Message of the first failing check; "" for a pass."""
    cause: str = ""
    """Cause of a different verdict in the log, one of `causes.CAUSES`; "" if none could be shown."""
    evidence: str = ""
    """Evidence of the cause."""
    is_searched: bool = True
    """False if the search for a cause did not end: the harness failed in it, or a time-out did not get more time."""
    leaked_from: str = ""
    """Id of the earlier sample that the logged verdict depends on, if known."""
    seconds: float = 0.0
    """Wall time of the execution."""
    checks: int = 0
    checks_in_process: int = 0
    """Tests that ran beside the program, which can forge them (`Check.in_process`)."""

    @property
    def broken(self) -> bool:
        """Whether the harness failed, so there is no verdict."""
        return self.outcome == "harness_error"

    @property
    def is_judged(self) -> bool:
        """False if the harness failed or the log has no test."""
        return self.outcome not in UNKNOWN

    @property
    def differs(self) -> bool:
        return not self.broken and self.sample.logged not in (None, self.passed)

    @property
    def is_compared(self) -> bool:
        """Whether the logged verdict can hold or differ: a failure without a test can do neither."""
        return self.sample.logged is not None and (self.is_judged or self.differs)


def execute(sandbox: Sandbox, sample: Sample) -> Verdict:
    """The verdict of a sample's own tests on its program."""
    task = replace(judged(sample, sample.setup), task_id=sample.task_id)
    try:
        evaluation = run_tests(sandbox, task, sample.program, sample.tests)
        if evaluation.passed and sample.helpers:
            evaluation = run_tests(sandbox, replace(task, setup=sample.helpers), sample.program, sample.tests)
    except HarnessError as problem:
        return Verdict(sample=sample, passed=False, outcome="harness_error", detail=str(problem))
    failures = evaluation.failures
    detail = describe(failures[0]) if failures else "" if evaluation.passed else "the log holds no test"
    return Verdict(
        sample=sample,
        passed=evaluation.passed,
        outcome=evaluation.outcome,
        detail=detail,
        seconds=evaluation.seconds,
        checks=len(evaluation.checks),
        checks_in_process=sum(check.in_process for check in evaluation.checks),
    )


def describe(check: Check) -> str:
    """One line on a failing check."""
    if check.outcome == "extraction_failed":
        return "the log holds no program"
    if check.outcome == "fail":
        sides = f"expected {check.expected}, got {check.actual}" if check.expected or check.actual else check.message
        is_new = sides and sides not in check.name  # an assert contains its own message
        return f"{check.name[:150]}: {sides if is_new else 'the assertion is false'}"
    return f"{check.error_type or check.outcome}: {check.message}".removesuffix(": ")
