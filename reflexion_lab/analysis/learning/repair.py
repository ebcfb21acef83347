"""Is repair worth its tokens? The trees of an arm, and their pass@t beside independent draws at equal tokens."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.comparison.budgets import is_known, reflecting
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.clusters import places
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.stats.trees import Curves, Program, curves, oracle_stop
from reflexion_lab.errors import DataError
from reflexion_lab.records import Attempt, Record

SIZES = (1, 2, 3, 5, 10, 25)  # numbers of repairs that are compared, and that of the tree
LONGER = "a larger loop.timeout makes whole trees; their first calls come from the cache"
EXPECTED = "fresh draws and repairs of them, as of policy=repair_tree"


class Repair(Record, frozen=True, kw_only=True):
    """The trees of `n` cases, with `repairs` of each program that failed its feedback."""

    arm: str
    n: int
    repairs: int
    left_out: int
    """Cases without feedback tests or a hidden verdict."""
    curves: Curves
    submitted: Rate
    """pass@1 of what was submitted by feedback."""
    stopped: Rate
    """Upper bound that stops on hidden tests (`oracle_stop`), and its mean tokens of a tree."""
    stopped_tokens: float


def repair(arm: Arm) -> Repair:
    """Raises DataError: tokens are unknown; an attempt continues a repair, or reads no attempt; a draw was given; trees
    differ in size; there is no repair.
    """
    if not is_known(arm, "tokens"):
        raise DataError(f"arm {arm.label}", "runs of unknown tokens", "runs that say what every call took")
    by_case = {case: _tree(case, arm) for case, own in sorted(arm.judged.items()) if own[0].evaluation.has_verdict}
    n_p = max(map(len, by_case.values()), default=0)
    n_r = max((len(each.repairs) for tree in by_case.values() for each in tree), default=0)
    if not n_r:
        raise DataError(f"arm {arm.label}", "no repair of any program", EXPECTED, LONGER)
    for case, tree in by_case.items():
        fewest = min((len(each.repairs) for each in tree if each.is_repaired), default=n_r)
        if len(tree) < n_p or fewest < n_r:
            got = f"{len(tree)} programs, one with {fewest} repairs, as if loop.timeout had cut it"
            raise DataError(f"task {case.task_id}", got, f"{n_p} with {n_r} each, as of policy=repair_tree", LONGER)
    place_of = places((case.task_id for case in by_case), arm.clusters)
    clusters, sizes = [place_of[case.task_id] for case in by_case], {n for n in SIZES if n < n_r} | {n_r}
    stops = [(case.task_id, *oracle_stop(tree)) for case, tree in by_case.items()]
    return Repair(
        arm=arm.label,
        n=len(by_case),
        repairs=n_r,
        left_out=len(arm.attempts) - len(by_case),
        curves=curves(list(by_case.values()), clusters, sorted(sizes)),
        submitted=arm.share({case: passed for case, passed in arm.verdicts().items() if case in by_case}),
        stopped=rate(((task_id, passed) for task_id, passed, _ in stops), arm.clusters),
        stopped_tokens=fmean(tokens for *_, tokens in stops),
    )


def _tree(case: Case, arm: Arm) -> list[Program]:
    """Tokens are without those that all programs of a task share: of written tests, and of a curator."""
    draws = {attempt.number: attempt for attempt in arm.attempts[case] if not attempt.parent}
    repairs: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    if deeper := [each for each in arm.attempts[case] if each.parent and each.parent not in draws]:
        got = f"attempt {deeper[0].number}, which continues attempt {deeper[0].parent}, a repair itself"
        raise DataError(f"task {case.task_id}", got, EXPECTED)
    for attempt in arm.attempts[case]:
        if attempt.parent and not attempt.memory.own:
            got = f"attempt {attempt.number}, whose prompt shows no program"
            expected = "repairs that read one: recall.omega of 1 or more, and room for it"
            raise DataError(f"task {case.task_id}", got, expected)
        if not attempt.parent and attempt.trajectory.strategy == "given":
            raise DataError(f"task {case.task_id}", "a program of its initial_code", "programs that the actor drew")
        repairs[attempt.parent].append((arm.grades[case][attempt.number].passed, _tokens(attempt)))
    return [
        Program(
            passed=arm.grades[case][number].passed,
            is_repaired=not draw.evaluation.passed,
            tokens=_tokens(draw),
            reflection=reflecting(draw, "tokens"),
            repairs=repairs[number],
        )
        for number, draw in draws.items()
    ]


def _tokens(attempt: Attempt) -> float:
    return sum(usage.tokens for usage in (attempt.trajectory.usage, *attempt.trajectory.others.values()))
