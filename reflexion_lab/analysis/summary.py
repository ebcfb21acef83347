"""Headline figures and canonical form of a run.

The canonical form contains all records without ids, times and cache marks. Runs with the same seed, or a run and its
replay, have equal canonical forms, for any number of workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from reflexion_lab.agent.models.prices import FREE, UNKNOWN
from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.learning.reflections import ReflectionFigures
from reflexion_lab.analysis.learning.reflections import reflections as reflection_figures
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats import estimators
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import BY_MODEL, WITHHELD, Attempt, Beginning, Record, Reflection, Usage

__all__ = ["Log", "Summary", "summary"]


class Summary(Record, frozen=True, kw_only=True):
    """Headline figures over the tasks whose loops have ended; `msgspec.to_builtins` converts them to plain values."""

    run_id: str
    benchmark: str
    seed: int
    models: dict[str, str]
    """Fingerprints by role: the actor, then roles with a separate model."""
    feedback_source: str
    is_upper_bound: bool
    """Whether hidden tests or solutions reached the loops (`Manifest.leak`), so that no share is pass@1."""
    n_expected: int
    n_logged: int
    """Tasks whose loops have ended. Figures are final when it reaches `n_expected`."""
    no_verdict: tuple[str, ...]
    """Tasks without a hidden verdict (no hidden tests, or a harness failure). No rate counts them."""
    pass_at_1: Rate
    """Hidden verdicts on submissions. With a split, this and all rates of verdicts are of the test tasks."""
    train: Rate | msgspec.UnsetType = msgspec.UNSET
    """`pass_at_1` of the train tasks, from which memory learnt; absent without a split."""
    pass_at_1_first: Rate | None
    """Hidden verdicts on attempt 1, the plain single attempt; None until every attempt is graded."""
    any_solved: Rate | None
    """Tasks of which any attempt passes the hidden tests: an oracle's pick, not pass@1."""
    visible_pass: Rate
    """Submissions that passed their feedback checks, of those with a feedback verdict."""
    against_single: estimators.Paired | None
    """Submissions compared with attempt 1 of the same task."""
    feedback: estimators.Confusion
    """Feedback verdicts against hidden ones, on submissions."""
    feedback_first: estimators.Confusion | None
    """On attempt 1, before any feedback; None until every attempt is graded."""
    feedback_attempts: estimators.Confusion | None
    """On all attempts."""
    feedback_asserts: estimators.Confusion | None
    """For each single feedback test on every attempt; a single test does not detect every fault."""
    hidden_asked_open: int
    """Hidden verdicts from before the end of all loops: one per task, on its submission."""
    hidden_asked_sealed: int
    """Hidden verdicts from after the end of all loops."""
    verification_types: dict[str, int]
    """Attempts by type of evaluation."""
    did_not_run: dict[str, int]
    """Attempts by missing part of a combined reward."""
    suites: estimators.SuiteQuality | None
    """Model-written tests; None if the model was not asked for any."""
    attempts_mean: float
    stop_reasons: dict[str, int]
    submitted_outcomes: dict[str, int]
    """Hidden outcomes of submissions."""
    feedback_outcomes: dict[str, int]
    """Feedback outcomes of all attempts."""
    usage: dict[str, Usage]
    """By role, over all attempts, written tests and calls of the curator, including cached calls."""
    usage_last_reflections: Usage
    """Part of the usage: reflections after the last attempt of a loop, which no attempt at the task read."""
    read_of_others: dict[str, int] | None
    """Attempts that read episodes, wisdom and mistakes of other loops; None if tasks do not share memory."""
    known_before: dict[str, int]
    """Episodes, wisdom and items of earlier runs in memory at the start; empty if there were none."""
    reflections: dict[str, int]
    """By source: `llm`, `rules:<class>`, `fallback:<class>`."""
    reflections_by_model: Rate
    """Share of reflections written by the model."""
    reflections_repeated: int
    """Reflections identical to an earlier one on the same task."""
    reflection_figures: ReflectionFigures | None
    """Flags, readers and effects of reflections; None without reflections."""
    extraction_failures: int
    """Attempts whose reply contains no program."""
    empty_retries: Rate
    """Retries whose reply contains no program."""
    blind_retries: Rate
    """Retries whose prompt contains no earlier attempt at the task, of the retries with Ω of 1 or more."""
    withheld: dict[str, int]
    """Attempts whose model withheld the program, by `records.WITHHELD`; they count as not passed."""
    inner_loops: dict[str, int]
    """Attempts by the end of their critique-revise loop or ReAct steps; {} for other actors."""
    set_aside: dict[str, int]
    """Loops that were aborted and restarted because the model did not answer, by `protocols.UNANSWERED`; not in n."""
    uncounted: int
    """Replies for which the server reported no tokens: their cost is unknown, not 0."""
    no_feedback: int
    """Tasks that show no test: their single attempt is the submission."""
    timeouts: int
    """Attempts with a feedback check that timed out."""
    harness_errors: int
    """Feedback and hidden verdicts invalid because of a harness failure."""
    seconds: float
    """Sum of the wall times of all loops, with time in queues; loops run in parallel."""
    torn: int
    """Half-written lines in the run folder, which are skipped."""

    @property
    def solved(self) -> int:
        """Tasks of which the submission passes, on both sides of a split, as `usage` is of both."""
        return self.pass_at_1.k + (self.train.k if self.train else 0)


def summary(log: Log) -> Summary:
    """Headline figures of a run, cached on its log; identical in every digit for any order in which tasks ended."""
    cache = log.__dict__  # also the place of its cached properties
    if "summary" not in cache:
        cache["summary"] = _summary(log.by_task)
    figures: Summary = cache["summary"]
    return figures


def _summary(log: Log) -> Summary:
    manifest, every, head = log.manifest, log.every, log.headline
    submitted, suites = head.submitted, log.written.values()
    hidden = [grade for _, grade in submitted.values()]
    firsts = (pair for pair in head.judged if pair[0].number == 1)
    reflections = [attempt.reflection for attempt in every if attempt.reflection]
    last = (attempts[-1].reflection for attempts in log.attempts.values())
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
        pass_at_1=metrics.pass_at_1(head),
        train=metrics.pass_at_1(log.train) if head is not log else msgspec.UNSET,
        pass_at_1_first=metrics.pass_at_1_first(head),
        any_solved=metrics.any_solved(head),
        visible_pass=metrics.visible_pass(head),
        against_single=metrics.against_attempt_1(head),
        feedback=estimators.feedback_confusion(submitted.values(), log.clusters),
        feedback_first=estimators.feedback_confusion(firsts, log.clusters) if log.is_graded else None,
        feedback_attempts=estimators.feedback_confusion(head.judged, log.clusters) if log.is_graded else None,
        feedback_asserts=estimators.assert_confusion(head.judged, log.clusters) if log.is_graded else None,
        hidden_asked_open=sum(not grade.sealed for grade in log.grades.values()),
        hidden_asked_sealed=sum(grade.sealed for grade in log.grades.values()),
        verification_types=dict(Counter(attempt.evaluation.verification_type for attempt in every)),
        did_not_run=_did_not_run(every),
        suites=estimators.suite_quality(suites, log.suite_verdicts, log.clusters) if suites else None,
        attempts_mean=metrics.attempts_mean(log),
        stop_reasons=dict(Counter(result.stop_reason for result in log.results.values())),
        submitted_outcomes=dict(Counter(grade.outcome for grade in hidden)),
        feedback_outcomes=dict(Counter(attempt.evaluation.outcome for attempt in every)),
        usage=_usage(log),
        usage_last_reflections=sum((reflection.usage for reflection in last if reflection), Usage()),
        read_of_others=_read_of_others(log) if log.beginning else None,
        known_before=_known(log.beginning) if log.beginning else {},
        reflections=dict(Counter(reflection.source for reflection in reflections)),
        reflections_by_model=metrics.reflections_by_model_share(log),
        reflections_repeated=metrics.reflections_repeated(log),
        reflection_figures=reflection_figures(log),
        extraction_failures=sum(metrics.extraction_failures(attempt, None) for attempt in every),
        empty_retries=rate(((a.task_id, metrics.empty_retries(a, None)) for a in every), log.clusters),
        blind_retries=rate(((a.task_id, metrics.blind_retries(a, None)) for a in every), log.clusters),
        withheld=_withheld(every),
        inner_loops=dict(Counter(attempt.trajectory.ended for attempt in every if attempt.trajectory.ended)),
        set_aside=dict(Counter(loop.outcome for loop in log.set_aside)),
        uncounted=sum(usage.uncounted for _, usage in usages(log)),
        no_feedback=metrics.no_feedback(log),
        timeouts=sum(any(check.outcome == "timeout" for check in a.evaluation.checks) for a in every),
        harness_errors=metrics.harness_errors(log),
        seconds=sum(result.duration for result in log.results.values()),
        torn=log.torn,
    )


def _read_of_others(log: Log) -> dict[str, int]:
    reads = Counter[str]()
    for attempt in log.every:
        reads.update(kinds_read(log, attempt))
    return dict(reads)


def kinds_read(log: Log, attempt: Attempt) -> dict[str, bool]:
    """Whether the actor read items of each kind; episodes in the Ω window belong to its own loop and do not count."""
    return {
        "episodes": any(not log.is_own(name, attempt.task_id) for name in attempt.recalled),
        "wisdom": bool(attempt.recalled_wisdom),
        "mistakes": bool(attempt.recalled_mistakes),
    }


def _known(beginning: Beginning) -> dict[str, int]:
    counts = {"episodes": beginning.episodes, "wisdom": len(beginning.wisdom), "items": len(beginning.items)}
    return {kind: count for kind, count in counts.items() if count}


def usages(log: Log) -> Iterator[tuple[str, Usage]]:
    """Role and usage of each attempt, written suite and update of a curator."""
    yield from (("suite_writer", suite.usage) for suite in log.written.values())
    yield from (pair for attempt in log.every for pair in attempt.usage.items())
    yield from (("curator", update.usage) for update in log.updates)


def _usage(log: Log) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for role, usage in usages(log):
        total[role] = total.get(role, Usage()) + usage
    return total


def writers(reflections: Iterable[Reflection]) -> dict[str, int]:
    """Who wrote reflections: `the model`; why it did not, such as `not_found`; or the rules or control in its place."""
    counts = Counter[str]()
    for reflection in reflections:
        failure = reflection.problem.partition(":")[0] or reflection.source.partition(":")[0]
        is_failed = reflection.source.startswith(("fallback", "failed"))
        source = reflection.source.partition(":")[0] if reflection.source.startswith("rules") else reflection.source
        counts["the model" if source in BY_MODEL else failure if is_failed else source] += 1
    return dict(counts)


def has_model(sources: Iterable[str]) -> bool:
    """Whether a model was asked for reflections of these sources."""
    return any(source in BY_MODEL or source.startswith(("fallback", "failed")) for source in sources)


def written(counts: Mapping[str, int], has_model: bool) -> str:
    """`12 by the model`; `4 (0 by the model: 4 not_found)`; `4 (4 rules)` of a reflector without a model."""
    total, by_model = sum(counts.values()), counts.get("the model", 0)
    others = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if name != "the model")
    if not others:
        return f"{total} by the model"
    return f"{total} ({f'{by_model} by the model: ' * has_model}{others})"


def is_priced(log: Log) -> bool:
    """Whether every role has a price or is free; a log without prices, whether its replies say their cost."""
    prices = log.manifest.prices.values()
    return str(UNKNOWN) not in prices if prices else any(usage.cost for _, usage in usages(log))


def cost_is_known(log: Log) -> bool:
    """Whether the run `is_priced`, and the tokens of every reply are counted, unless all replies are free."""
    is_free = {*log.manifest.prices.values()} <= {str(FREE)}
    return is_priced(log) and (is_free or not summary(log).uncounted)


def spending(log: Log) -> str:
    """Tokens and cost of all roles, and why they are not known."""
    used, missing = sum(summary(log).usage.values(), Usage()), summary(log).uncounted
    tokens = f"{'at least ' * bool(missing)}{used.tokens:,}" if used.tokens or not used.calls else "unknown"
    cost = f"{used.cost:,.4f} {', '.join(log.currencies)}".rstrip() if used.cost else "0"
    reason = f" ({missing} of {used.replies} replies without usage)" * bool(missing)
    return f"{tokens} tokens, cost {cost if cost_is_known(log) else 'unknown'}{reason}"


def _withheld(attempts: Iterable[Attempt]) -> dict[str, int]:
    ends = (a.trajectory.finish_reason for a in attempts if not a.trajectory.solution.strip())
    return dict(Counter(end for end in ends if end in WITHHELD))


def _did_not_run(attempts: Iterable[Attempt]) -> dict[str, int]:
    issues = (issue for a in attempts if a.evaluation.verification_type == "combined" for issue in a.evaluation.issues)
    return dict(Counter(part for part, marker, _ in (issue.partition(" did not run") for issue in issues) if marker))


TIMES = {"seconds", "cpu_seconds", "duration", "created_at", "timestamp", "last_used_at"}
MARKS = {"cached", "torn", "set_aside", "cluster"}
MARKS |= {"empty_replies", "cut_replies", "uncounted_replies", "prompt_estimate"}  # of replies, which are compared
MARKS |= {"recalled_insights", "retrieved"}  # of prompts, which are compared; older records lack them
MARKS |= {name for name in Usage.__struct_fields__ if name.startswith("own_")}


def canonical_form(log: Log) -> dict[str, dict[str, Any]]:
    """Attempts, result, hidden verdicts and written tests of each task as plain values; tasks are sorted."""
    run_id = log.manifest.run_id
    return {
        task_id: bare(
            {
                "attempts": log.attempts[task_id],
                "result": log.results[task_id],
                "grades": [grade for _, grade in sorted(log.grades_by_task.get(task_id, {}).items())],
                "written_tests": log.written.get(task_id),
                "suite_verdict": log.suite_verdicts.get(task_id),
            },
            run_id,
        )
        for task_id in sorted(log.attempts)
    }


def figures(log: Log) -> dict[str, Any]:
    """The headline figures as plain values."""
    values: dict[str, Any] = bare(summary(log), log.manifest.run_id)
    return values


def bare(record: Any, run_id: str) -> Any:
    """A record, or records, as plain values without ids, times and cache marks; RUN replaces the run's own id."""
    text = msgspec.json.encode(record, order="deterministic").decode()
    # JSON does not escape the characters of an id
    return _without(msgspec.json.decode(text.replace(run_id, "RUN")))


def differences(first: Any, second: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path and values of each difference between two plain values, in the order of `first`."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from differences(first.get(key), second.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(first, list) and isinstance(second, list):
        for number in range(max(len(first), len(second))):
            old, new = (items[number] if number < len(items) else None for items in (first, second))
            yield from differences(old, new, f"{at}[{number}]")
    elif first != second:
        yield at, first, second


def _without(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without(value) for key, value in node.items() if key not in TIMES | MARKS | {"run_id"}}
    return [_without(value) for value in node] if isinstance(node, list) else node
