"""Hidden verdicts, reached again: the programs of a run against the hidden tests of its benchmark, in the sandbox."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.import_records import lenient
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Grade, Task
from reflexion_lab.studies.replay.verify.finding import Finding, unlike
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.sandbox.canonical import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits

NAME = "executed again"
COMPARED = ("passed", "outcome", "checks_passed", "checks_total", "checks_in_place")


class _Case(NamedTuple):
    """One attempt and its hidden verdict."""

    attempt: Attempt
    then: Grade
    task: Task
    program: str


def executed(log: Log, benchmark: Benchmark, n: int | None) -> Finding:
    """Every graded attempt, or `n` of them, drawn by the run's seed. Verdicts that the harness had spoilt are left out.

    A time-out that only one of the two saw is believed after another, longer try.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """
    chosen = _chosen(log, n)
    recorded = log.manifest.config.get("recorded")
    with StoredPrograms(limits=_limits(log.manifest.config)) as programs:
        tasks = _tasks(log, benchmark, sorted({attempt.task_id for attempt, _ in chosen}), programs)
        cases = [_Case(a, then, tasks[a.task_id], _program(a, tasks[a.task_id], recorded)) for a, then in chosen]
        grades = programs.map(_grade, cases, again=_is_about_time)
    wrong = [
        unlike(_where(case, field), getattr(case.then, field), f"{getattr(now, field)!r}, executed here")
        for case, now in zip(cases, grades, strict=True)
        for field in COMPARED
        if getattr(case.then, field) != getattr(now, field)
    ]
    of = f" of {len(log.grades)}" if n is not None else ""
    return Finding(name=NAME, told=f"{len(cases)}{of} programs", disagreements=tuple(wrong))


def _chosen(log: Log, n: int | None) -> list[tuple[Attempt, Grade]]:
    every = [(a, g) for a in log.by_task.every if (g := log.grades.get((a.task_id, a.number)))]
    sound = [(attempt, grade) for attempt, grade in every if grade.outcome != "harness_error"]
    if n is None or n >= len(sound):
        return sound
    return random.Random(f"verify:{log.manifest.seed}").sample(sound, n)


def _limits(config: Mapping[str, Any]) -> Limits:
    """Those of the run."""
    node = config.get("sandbox")
    limits = node.get("limits") if isinstance(node, dict) else None
    return msgspec.convert(limits or {}, Limits)


def _tasks(log: Log, benchmark: Benchmark, ids: Sequence[str], programs: StoredPrograms) -> dict[str, Task]:
    """With what their canonical solutions cost, as the run measured them; importing measures nothing."""
    tasks = tuple(benchmark.only(ids)) if ids else ()
    if "recorded" not in log.manifest.config:
        tasks, _ = measured(tasks, programs.sandbox, programs.workers)
    return {task.task_id: task for task in tasks}


def _program(attempt: Attempt, task: Task, recorded: object) -> str:
    """As the judge ran it."""
    solution = attempt.trajectory.solution
    return lenient(solution, task) if isinstance(recorded, dict) and recorded.get("lenient") else solution


def _grade(sandbox: Sandbox, case: _Case) -> Grade:
    return graded(sandbox, case.task, case.attempt.number, case.program)


def _is_about_time(case: _Case, now: Grade) -> bool:
    return case.then.outcome != now.outcome and "timeout" in (case.then.outcome, now.outcome)


def _where(case: _Case, field: str) -> str:
    return f"{case.attempt.task_id}, attempt {case.attempt.number}, {field}"
