"""The headline figures of a run, from its folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reflexion_lab.analysis.estimators import Paired, Point, curve, paired, submitted_at, verdicts_at
from reflexion_lab.analysis.intervals import Rate
from reflexion_lab.analysis.suite_quality import Confusion, SuiteQuality, feedback_confusion, suite_quality
from reflexion_lab.records import (
    Attempt,
    Grade,
    Manifest,
    Record,
    SuiteVerdict,
    TaskResult,
    Usage,
    WrittenTests,
)
from reflexion_lab.run_folder import RunFolder, RunFolderError


class Log(Record, frozen=True, kw_only=True):
    """A run folder, read once: the tasks whose loops have ended, in the order in which they did."""

    manifest: Manifest
    results: dict[str, TaskResult]
    attempts: dict[str, list[Attempt]]
    grades: dict[tuple[str, int], Grade]
    written: dict[str, WrittenTests]
    """Tests that the model wrote, by task; empty unless they were the feedback."""
    suite_verdicts: dict[str, SuiteVerdict]
    torn: int
    """Lines that a kill left half-written; they were skipped."""

    @classmethod
    def read(cls, run: RunFolder) -> Log:
        """Raises RunFolderError: a file cannot be read, or a task has a result and no attempts."""
        fresh = RunFolder(run.path)  # its count of torn lines begins at 0
        results, attempts, grades = fresh.results, fresh.attempts, fresh.grades
        if lost := sorted(results.keys() - attempts.keys()):
            where = f"{run.path / 'attempts.jsonl'}: no attempt at {lost[0]} found, of which there is a result"
            raise RunFolderError(f"{where}; expected one at least; delete its line in results.jsonl and resume")
        written = fresh.written_tests
        return cls(
            manifest=fresh.manifest,
            results=results,
            attempts={task_id: attempts[task_id] for task_id in results},
            grades=grades,
            written={task_id: written[task_id] for task_id in results if task_id in written},
            suite_verdicts=fresh.suite_verdicts,
            torn=fresh.torn,
        )

    @property
    def every(self) -> list[Attempt]:
        return [attempt for made in self.attempts.values() for attempt in made]

    @property
    def submitted(self) -> dict[str, tuple[Attempt, Grade]]:
        """By task, what was submitted and its hidden verdict; tasks still to be graded are left out."""
        chosen = {task_id: submitted_at(made) for task_id, made in self.attempts.items()}
        return {
            task_id: (attempt, self.grades[task_id, attempt.number])
            for task_id, attempt in chosen.items()
            if (task_id, attempt.number) in self.grades
        }

    @property
    def is_graded(self) -> bool:
        """Every attempt has its hidden verdict; an interrupted run has those of submissions alone."""
        return all((attempt.task_id, attempt.number) in self.grades for attempt in self.every)

    @property
    def points(self) -> list[Point]:
        """The convergence curve, up to the longest loop; empty until `is_graded`."""
        return self.curve(max((len(made) for made in self.attempts.values()), default=0))

    def curve(self, n_attempts: int) -> list[Point]:
        """The convergence curve up to `n_attempts`; empty until `is_graded`, and without any task."""
        before = sum(written.usage.tokens for written in self.written.values())
        return curve(self.attempts, self.grades, n_attempts, before) if self.attempts and self.is_graded else []

    @property
    def judged(self) -> list[tuple[Attempt, Grade]]:
        """Every attempt with its hidden verdict; empty until `is_graded`."""
        return [(a, self.grades[a.task_id, a.number]) for a in self.every] if self.is_graded else []


class Summary(Record, frozen=True, kw_only=True):
    """Headline figures over the tasks whose loops have ended; `msgspec.to_builtins` makes JSON of it."""

    run_id: str
    benchmark: str
    seed: int
    feedback_source: str
    is_upper_bound: bool
    """Hidden tests drove the loop (`oracle`): no figure below is a pass@1."""
    n_expected: int
    n_logged: int
    """Tasks whose loops ended. While they are fewer than `n_expected`, no figure is final."""
    pass_at_1: Rate
    """Hidden verdicts on submissions. A harness error counts as not passed, and in `harness_errors`."""
    pass_at_1_first: Rate | None
    """The same for attempt 1, the plain single attempt; None until every attempt is graded."""
    any_solved: Rate | None
    """Tasks of which any attempt passes the hidden tests; an oracle's pick, no pass@1."""
    visible_pass: Rate
    """Tasks whose submission passed its feedback checks."""
    against_single: Paired | None
    """What was submitted against attempt 1 of the same task: repairs, damage, difference, p."""
    feedback: Confusion
    """Feedback verdicts on submissions against the hidden ones."""
    feedback_first: Confusion | None
    """The same on attempt 1, which no feedback has shaped; None until every attempt is graded."""
    feedback_attempts: Confusion | None
    """The same on all attempts."""
    suites: SuiteQuality | None
    """The tests that the model wrote; None where it was not asked to."""
    attempts_mean: float
    stop_reasons: dict[str, int]
    submitted_outcomes: dict[str, int]
    """Hidden outcomes of what was submitted."""
    feedback_outcomes: dict[str, int]
    """Feedback outcomes of all attempts."""
    usage: dict[str, Usage]
    """By role, over all attempts and written tests; cached replies count what they took when they were first drawn."""
    usage_last_reflections: Usage
    """Of this, reflections after a loop's last attempt: paid for, and read by no attempt at that task."""
    reflections: dict[str, int]
    """By source: `llm`, `rules:<class>`, `fallback:<class>`."""
    reflections_by_model: Rate
    """Share of the reflections that the model wrote."""
    reflections_repeated: int
    """Reflections that say word for word what an earlier one on the same task said."""
    extraction_failures: int
    """Attempts in whose reply no program was found."""
    no_feedback: int
    """Tasks that show no test: one attempt, submitted as it was."""
    timeouts: int
    """Attempts of which a feedback check timed out."""
    harness_errors: int
    """Feedback and hidden verdicts that the harness itself spoilt."""
    seconds: float
    """Wall seconds of all loops added up, queues included; loops run side by side."""
    torn: int
    """Half-written lines in the run folder, skipped."""


def summary(log: Log) -> Summary:
    """The headline figures of `Log.read(run)`."""
    manifest, every, submitted = log.manifest, log.every, log.submitted
    hidden = [grade for _, grade in submitted.values()]
    reflections = [attempt.reflection for attempt in every if attempt.reflection]
    by_model = sum(reflection.source == "llm" for reflection in reflections)
    first = verdicts_at(log.attempts, log.grades, 1) if log.is_graded else None
    final = {task_id: grade.passed for task_id, (_, grade) in submitted.items()}
    passed = sum(submitted_at(made).evaluation.passed for made in log.attempts.values())
    return Summary(
        run_id=manifest.run_id,
        benchmark=manifest.benchmark,
        seed=manifest.seed,
        feedback_source=manifest.feedback_source,
        is_upper_bound=manifest.feedback_source == "oracle",
        n_expected=manifest.n_expected,
        n_logged=len(log.results),
        pass_at_1=Rate.of(sum(final.values()), len(final)),
        pass_at_1_first=None if first is None else Rate.of(sum(first.values()), len(first)),
        any_solved=Rate.of(_any_solved(log), len(log.attempts)) if log.is_graded else None,
        visible_pass=Rate.of(passed, len(log.attempts)),
        against_single=None if first is None else paired(first, final),
        feedback=feedback_confusion(submitted.values()),
        feedback_first=feedback_confusion(j for j in log.judged if j[0].number == 1) if log.is_graded else None,
        feedback_attempts=feedback_confusion(log.judged) if log.is_graded else None,
        suites=suite_quality(log.written.values(), log.suite_verdicts) if log.written else None,
        attempts_mean=len(every) / len(log.attempts) if log.attempts else 0.0,
        stop_reasons=dict(Counter(result.stop_reason for result in log.results.values())),
        submitted_outcomes=dict(Counter(grade.outcome for grade in hidden)),
        feedback_outcomes=dict(Counter(attempt.evaluation.outcome for attempt in every)),
        usage=_usage(every, log.written.values()),
        usage_last_reflections=sum((made[-1].usage["reflector"] for made in log.attempts.values()), Usage()),
        reflections=dict(Counter(reflection.source for reflection in reflections)),
        reflections_by_model=Rate.of(by_model, len(reflections)),
        reflections_repeated=sum(_repeated(made) for made in log.attempts.values()),
        extraction_failures=sum(not attempt.trajectory.solution.strip() for attempt in every),
        no_feedback=sum(made[0].evaluation.outcome == "no_tests" for made in log.attempts.values()),
        timeouts=sum(any(check.outcome == "timeout" for check in a.evaluation.checks) for a in every),
        harness_errors=_harness_errors(every, log.grades.values()),
        seconds=sum(result.duration for result in log.results.values()),
        torn=log.torn,
    )


def _any_solved(log: Log) -> int:
    return len({attempt.task_id for attempt in log.every if log.grades[attempt.task_id, attempt.number].passed})


def _usage(attempts: Iterable[Attempt], suites: Iterable[WrittenTests]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for suite in suites:
        total["test_writer"] = total.get("test_writer", Usage()) + suite.usage
    for attempt in attempts:
        for role, usage in attempt.usage.items():
            total[role] = total.get(role, Usage()) + usage
    return total


def _repeated(made: Sequence[Attempt]) -> int:
    words = [(r.root_cause, r.what_went_wrong, r.what_to_change, r.action_items) for a in made if (r := a.reflection)]
    return len(words) - len(set(words))


def _harness_errors(attempts: Iterable[Attempt], grades: Iterable[Grade]) -> int:
    verdicts = [*(attempt.evaluation.outcome for attempt in attempts), *(grade.outcome for grade in grades)]
    return verdicts.count("harness_error")
