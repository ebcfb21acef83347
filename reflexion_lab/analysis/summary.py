"""The headline figures of a run, from its folder alone, and its canonical form.

The canonical form holds all records without ids, times and cache marks. Runs with the same seed, or a run and its
replay, have equal canonical forms, whatever the number of workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.estimators import (
    Confusion,
    Paired,
    SuiteQuality,
    assert_confusion,
    feedback_confusion,
    suite_quality,
)
from reflexion_lab.analysis.learning.reflections import ReflectionFigures
from reflexion_lab.analysis.learning.reflections import reflections as reflection_figures
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import (
    WITHHELD,
    Attempt,
    Beginning,
    Evaluation,
    Record,
    Usage,
    WrittenTests,
)

__all__ = ["Log", "Summary", "summary"]


class Summary(Record, frozen=True, kw_only=True):
    """Headline figures over the tasks whose loops have ended; `msgspec.to_builtins` makes JSON of it."""

    run_id: str
    benchmark: str
    seed: int
    models: dict[str, str]
    """Fingerprints by role: the actor's, then those of roles that have a model of their own."""
    feedback_source: str
    is_upper_bound: bool
    """Hidden tests or solutions reached the loops (`Manifest.leak`): no figure below is a pass@1."""
    n_expected: int
    n_logged: int
    """Tasks whose loops ended. While they are fewer than `n_expected`, no figure is final."""
    no_verdict: tuple[str, ...]
    """Tasks on which the hidden tests say nothing: they have none, or the harness failed. They are in no rate's n."""
    pass_at_1: Rate
    """Hidden verdicts on submissions."""
    pass_at_1_first: Rate | None
    """The same for attempt 1, the plain single attempt; None until every attempt is graded."""
    any_solved: Rate | None
    """Tasks of which any attempt passes the hidden tests; an oracle's pick, no pass@1."""
    visible_pass: Rate
    """Tasks whose submission passed its feedback checks, of those whose submission has a feedback verdict."""
    against_single: Paired | None
    """What was submitted against attempt 1 of the same task: repairs, damage, difference, p."""
    feedback: Confusion
    """Feedback verdicts on submissions against the hidden ones."""
    feedback_first: Confusion | None
    """The same on attempt 1, which no feedback has shaped; None until every attempt is graded."""
    feedback_attempts: Confusion | None
    """The same on all attempts."""
    feedback_asserts: Confusion | None
    """The same of each single feedback test on every attempt: one test cannot find all that is wrong."""
    feedback_tests: int
    """Feedback tests that were run, over all attempts."""
    feedback_in_place: int
    """Of these, judged in the candidate's own process, where it can forge the verdict."""
    hidden_tests: int
    """Hidden checks that what was submitted was graded by."""
    hidden_in_place: int
    hidden_asked_open: int
    """Hidden verdicts that were given while loops could still learn of them: one a task, on what was submitted."""
    hidden_asked_sealed: int
    """Those that were given when all loops had ended."""
    verification_types: dict[str, int]
    """By what attempts were evaluated."""
    did_not_run: dict[str, int]
    """Parts that were left out of a combined reward, and of how many attempts."""
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
    read_of_others: dict[str, int] | None
    """Attempts whose actor read episodes, wisdom and mistakes of other loops; None where tasks know nothing of each
    other."""
    known_before: dict[str, int]
    """Episodes, wisdom and mistakes of earlier runs that memory held when the run began; empty without."""
    reflections: dict[str, int]
    """By source: `llm`, `rules:<class>`, `fallback:<class>`."""
    reflections_by_model: Rate
    """Share of the reflections that the model wrote."""
    reflections_repeated: int
    """Reflections that say word for word what an earlier one on the same task said."""
    reflection_figures: ReflectionFigures | None
    """Their flags, who read them, what came of it; None where there are none."""
    extraction_failures: int
    """Attempts in whose reply no program was found."""
    empty_retries: Rate
    """Retries in whose reply no program was found, of all retries."""
    blind_retries: Rate
    """Retries that read nothing of their own past though Ω is 1 or more, of the retries with such an Ω."""
    withheld: dict[str, int]
    """Attempts whose model withheld the program, by `records.WITHHELD`; they count as not passed."""
    inner_loops: dict[str, int]
    """How the critique-revise loops of all attempts ended, or the steps of ReAct; {} for other actors."""
    set_aside: dict[str, int]
    """Loops that were broken off since no answer came, by `protocols.UNANSWERED`, and begun anew; none is in n."""
    uncounted: int
    """Attempts with calls that brought a reply of which the server counted no token: their cost is unknown, not 0."""
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
    """The headline figures of a run, computed once a log; equal to the last digit in whatever order its tasks ended."""
    derived = log.__dict__  # where its cached properties are, too
    if "summary" not in derived:
        derived["summary"] = _summary(log.by_task)
    figures: Summary = derived["summary"]
    return figures


def _summary(log: Log) -> Summary:
    manifest, every, submitted = log.manifest, log.every, log.submitted
    hidden = [grade for _, grade in submitted.values()]
    reflections = [attempt.reflection for attempt in every if attempt.reflection]
    modes = [check.mode for attempt in every for check in attempt.evaluation.checks if check.kind == "test"]
    return Summary(
        run_id=manifest.run_id,
        benchmark=manifest.benchmark,
        seed=manifest.seed,
        models={"actor": manifest.model_fingerprint, **manifest.role_fingerprints},
        feedback_source=manifest.feedback_source,
        is_upper_bound=log.is_upper_bound,
        n_expected=manifest.n_expected,
        n_logged=len(log.results),
        no_verdict=log.no_verdict,
        pass_at_1=metrics.pass_at_1(log),
        pass_at_1_first=metrics.attempt_1_pass_at_1(log),
        any_solved=metrics.any_solved(log),
        visible_pass=metrics.visible_pass(log),
        against_single=metrics.against_attempt_1(log),
        feedback=feedback_confusion(submitted.values()),
        feedback_first=feedback_confusion(j for j in log.judged if j[0].number == 1) if log.is_graded else None,
        feedback_attempts=feedback_confusion(log.judged) if log.is_graded else None,
        feedback_asserts=assert_confusion(log.judged) if log.is_graded else None,
        feedback_tests=sum(map(modes.count, ("apart", "in_place"))),
        feedback_in_place=modes.count("in_place"),
        hidden_tests=sum(grade.checks_total for grade in hidden),
        hidden_in_place=sum(grade.checks_in_place for grade in hidden),
        hidden_asked_open=sum(not grade.sealed for grade in log.grades.values()),
        hidden_asked_sealed=sum(grade.sealed for grade in log.grades.values()),
        verification_types=dict(Counter(_verification(attempt.evaluation) for attempt in every)),
        did_not_run=_did_not_run(every),
        suites=suite_quality(log.written.values(), log.suite_verdicts) if log.written else None,
        attempts_mean=metrics.attempts_mean(log),
        stop_reasons=dict(Counter(result.stop_reason for result in log.results.values())),
        submitted_outcomes=dict(Counter(grade.outcome for grade in hidden)),
        feedback_outcomes=dict(Counter(attempt.evaluation.outcome for attempt in every)),
        usage=_usage(every, log.written.values()),
        usage_last_reflections=sum(
            (attempts[-1].reflection.usage for attempts in log.attempts.values() if attempts[-1].reflection), Usage()
        ),
        read_of_others=_read_of_others(every, manifest.run_id) if log.beginning else None,
        known_before=_known(log.beginning) if log.beginning else {},
        reflections=dict(Counter(reflection.source for reflection in reflections)),
        reflections_by_model=metrics.reflections_by_model_share(log),
        reflections_repeated=metrics.reflections_repeated(log),
        reflection_figures=reflection_figures(log),
        extraction_failures=sum(metrics.extraction_failures(attempt, None) for attempt in every),
        empty_retries=_share(metrics.empty_retries, every),
        blind_retries=_share(metrics.blind_retries, every),
        withheld=_withheld(every),
        inner_loops=dict(Counter(attempt.trajectory.ended for attempt in every if attempt.trajectory.ended)),
        set_aside=dict(Counter(loop.outcome for loop in log.set_aside)),
        uncounted=sum(any(u.calls > u.refused and not u.tokens for u in attempt.usage.values()) for attempt in every),
        no_feedback=metrics.no_feedback(log),
        timeouts=sum(any(check.outcome == "timeout" for check in a.evaluation.checks) for a in every),
        harness_errors=metrics.harness_errors(log),
        seconds=sum(result.duration for result in log.results.values()),
        torn=log.torn,
    )


def _share(metric: Callable[[Attempt, None], bool | None], every: Iterable[Attempt]) -> Rate:
    known = [value for attempt in every if (value := metric(attempt, None)) is not None]
    return Rate.of(sum(known), len(known))


def _read_of_others(every: Iterable[Attempt], run_id: str) -> dict[str, int]:
    reads = Counter[str]()
    for attempt in every:
        own = f"ep-{run_id}/{attempt.task_id}-"
        reads["episodes"] += any(not name.startswith(own) for name in attempt.recalled)
        reads["wisdom"] += bool(attempt.recalled_wisdom)
        reads["mistakes"] += bool(attempt.recalled_mistakes)
    return dict(reads)


def _known(beginning: Beginning) -> dict[str, int]:
    counts = {"episodes": beginning.episodes, "wisdom": len(beginning.wisdom), "mistakes": beginning.mistakes}
    return {kind: count for kind, count in counts.items() if count}


def _verification(evaluation: Evaluation) -> str:
    """The kind of verdict; an injected one is named as such."""
    return f"injected_{evaluation.injected}" if evaluation.injected else evaluation.verification_type


def _usage(attempts: Iterable[Attempt], suites: Iterable[WrittenTests]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for suite in suites:
        total["suite_writer"] = total.get("suite_writer", Usage()) + suite.usage
    for attempt in attempts:
        for role, usage in attempt.usage.items():
            total[role] = total.get(role, Usage()) + usage
    return total


def _withheld(attempts: Iterable[Attempt]) -> dict[str, int]:
    ends = (a.trajectory.finish_reason for a in attempts if not a.trajectory.solution.strip())
    return dict(Counter(end for end in ends if end in WITHHELD))


def _did_not_run(attempts: Iterable[Attempt]) -> dict[str, int]:
    issues = (issue for a in attempts if a.evaluation.verification_type == "combined" for issue in a.evaluation.issues)
    return dict(Counter(part for part, marker, _ in (issue.partition(" did not run") for issue in issues) if marker))


TIMES = {"seconds", "cpu_seconds", "duration", "created_at", "timestamp", "last_used_at"}
MARKS = {"cached", "torn", "set_aside"}


def canonical_form(log: Log) -> dict[str, dict[str, Any]]:
    """By task, sorted: attempts, result, hidden verdicts and written tests as plain values. The run's own id, which the
    names of its episodes hold, reads RUN.
    """
    run_id = log.manifest.run_id
    return {task_id: bare(_records(log, task_id), run_id) for task_id in sorted(log.attempts)}


def figures(log: Log) -> dict[str, Any]:
    """The headline figures, likewise."""
    records: dict[str, Any] = bare(summary(log), log.manifest.run_id)
    return records


def bare(record: Any, run_id: str) -> Any:
    """A record, or records, as plain values without ids, times and cache marks."""
    text = msgspec.json.encode(record, order="deterministic").decode()
    # An id stands between quotes or within names made of it; JSON leaves its characters as they are.
    return _without(msgspec.json.decode(text.replace(run_id, "RUN")))


def differences(first: Any, second: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ, in the order of `first`: the place and the two values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from differences(first.get(key), second.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(first, list) and isinstance(second, list):
        for number in range(max(len(first), len(second))):
            here, there = (part[number] if number < len(part) else None for part in (first, second))
            yield from differences(here, there, f"{at}[{number}]")
    elif first != second:
        yield at, first, second


def _records(log: Log, task_id: str) -> dict[str, Any]:
    grades = [log.grades[key] for key in sorted(log.grades) if key[0] == task_id]
    return {
        "attempts": log.attempts[task_id],
        "result": log.results[task_id],
        "grades": grades,
        "written_tests": log.written.get(task_id),
        "suite_verdict": log.suite_verdicts.get(task_id),
    }


def _without(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without(value) for key, value in node.items() if key not in TIMES | MARKS | {"run_id"}}
    return [_without(value) for value in node] if isinstance(node, list) else node
