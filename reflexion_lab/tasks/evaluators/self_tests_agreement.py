"""Dual agreement of programs and tests (CodeT; Chen et al. 2022, arXiv:2207.10397, section 2)."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from reflexion_lab.limits import Again, validated
from reflexion_lab.protocols import Actor, Sandbox, SuiteWriter
from reflexion_lab.records import Recollection, Task, Trajectory, WrittenTests
from reflexion_lab.tasks.evaluators.executed import executed


class DualAgreement:
    """Suite writer that keeps the tests of `writer` on which drafts of the program agree.

    Every test runs on `agreement` drafts. Drafts that pass the same tests form a group with the score (number of
    drafts) x (number of tests passed). The tests of the best group are kept; on a tie, the group with more tests, then
    with the earliest draft. If no draft passes any test, no test is kept. With `agreement` 0 all tests are kept. The
    suite's usage includes that of the drafts.
    """

    @validated
    def __init__(self, writer: SuiteWriter, drafter: Actor, sandbox: Sandbox, agreement: Again = 0) -> None:
        self.writer = writer
        self.drafter = drafter
        self.sandbox = sandbox
        self.agreement = agreement

    def write(self, task: Task) -> WrittenTests:
        written = self.writer.write(task)
        if not (self.agreement and written.tests):
            return written
        drafts = [self.drafter.act(task, Recollection()) for _ in range(self.agreement)]
        agreed = self._agreed(task, written.tests, drafts)
        reason = "outside the agreement of the drafts" if agreed else "passed by no draft"
        return replace(
            written,
            tests=tuple(test for test in written.tests if test in agreed),
            dropped=written.dropped | {test: reason for test in written.tests if test not in agreed},
            usage=sum((usage for draft in drafts for usage in (draft.usage, *draft.others.values())), written.usage),
        )

    def _agreed(self, task: Task, tests: tuple[str, ...], drafts: list[Trajectory]) -> frozenset[str]:
        programs = Counter(draft.solution for draft in drafts)
        groups: Counter[frozenset[str]] = Counter()
        for program, count in programs.items():
            groups[self._passed(task, tests, program)] += count
        return max(groups, key=lambda passed: (groups[passed] * len(passed), len(passed)))

    def _passed(self, task: Task, tests: tuple[str, ...], program: str) -> frozenset[str]:
        if not program.strip():
            return frozenset()
        checks = executed(task, program, tests, self.sandbox).checks
        return frozenset(test for test, check in zip(tests, checks, strict=True) if check.outcome == "pass")
