"""Hidden verdicts, reached again: the programs of a run against the hidden tests of its benchmark, in the sandbox."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.audit import PATIENT
from reflexion_lab.audit.import_attempts import lenient
from reflexion_lab.records import Attempt, Grade, Task
from reflexion_lab.studies.replay.verify.finding import Finding, unlike
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.sandbox.canonical import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

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

    Raises:
        HarnessError: the sandbox is broken.
    """
    chosen = _chosen(log, n)
    limits, workers = _limits(log.manifest.config), os.cpu_count() or 1
    with Sandbox(limits, servers=workers) as sandbox:
        ids = sorted({attempt.task_id for attempt, _ in chosen})
        tasks = _tasks(log, benchmark, ids, sandbox)
        programs = log.manifest.config.get("recorded")
        cases = [
            _Case(one, then, tasks[one.task_id], _program(one, tasks[one.task_id], programs)) for one, then in chosen
        ]
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(lambda case: _grade(sandbox, case), cases))
    with Sandbox(PATIENT, servers=1) as patient:
        pairs = zip(cases, found, strict=True)
        found = [_grade(patient, case) if _is_about_time(case.then, now) else now for case, now in pairs]
    wrong = [
        unlike(_where(case, field), getattr(case.then, field), f"{getattr(now, field)!r}, executed here")
        for case, now in zip(cases, found, strict=True)
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


def _tasks(log: Log, benchmark: Benchmark, ids: Sequence[str], sandbox: Sandbox) -> dict[str, Task]:
    """With what their canonical solutions cost, as the run measured them; importing measures nothing."""
    tasks = tuple(benchmark.only(ids)) if ids else ()
    if "recorded" not in log.manifest.config:
        tasks, _ = measured(tasks, sandbox, sandbox.servers)
    return {task.task_id: task for task in tasks}


def _program(attempt: Attempt, task: Task, recorded: object) -> str:
    """As the judge ran it."""
    solution = attempt.trajectory.solution
    return lenient(solution, task) if isinstance(recorded, dict) and recorded.get("lenient") else solution


def _grade(sandbox: Sandbox, case: _Case) -> Grade:
    judge = HiddenTests(sandbox)
    judge.seal()
    return judge.grade(case.task, case.attempt.number, case.program)


def _is_about_time(then: Grade, now: Grade) -> bool:
    return then.outcome != now.outcome and "timeout" in (then.outcome, now.outcome)


def _where(case: _Case, field: str) -> str:
    return f"{case.attempt.task_id}, attempt {case.attempt.number}, {field}"
