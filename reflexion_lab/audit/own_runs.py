"""Run folders as samples: attempts, hidden verdicts, and tests of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reflexion_lab.analysis.solutions import benchmark_of
from reflexion_lab.audit.samples import Sample
from reflexion_lab.errors import FolderError
from reflexion_lab.records import UNKNOWN
from reflexion_lab.runner.folder.folder import RunFolder


def run_samples(path: Path, attempts: bool) -> Iterator[Sample]:
    """The submitted attempt of each task, or every attempt, with its hidden verdict as the logged one.

    Raises
    ------
    FolderError
        It is not a run folder, or its benchmark is not available.
    """
    from reflexion_lab.analysis.summary import Log

    log = Log.read(RunFolder.existing(path))
    benchmark, digest = benchmark_of(path, log.manifest), log.manifest.benchmark_digest
    if benchmark.digest != digest:
        got = f"{benchmark.name} with digest {benchmark.digest[:12]}"
        raise FolderError(path, got, f"{digest[:12]}, the digest in the manifest")
    if lost := sorted(log.attempts.keys() - {task.task_id for task in benchmark}):
        raise FolderError(path, f"task {lost[0]}", f"one of {benchmark.name}")
    submitted = {task_id: result.submitted for task_id, result in log.results.items()}
    for attempt in log.every:
        task, number = benchmark[attempt.task_id], attempt.number
        if not attempts and number != submitted[task.task_id]:
            continue
        grade = log.grades.get((task.task_id, number))
        feedback = tuple(check.name for check in attempt.evaluation.checks if check.kind == "test")
        has_verdict = feedback and attempt.evaluation.outcome not in UNKNOWN
        yield Sample(
            id=f"{task.task_id}/{number}" if attempts else task.task_id,
            task_id=task.task_id,
            entry_point=task.entry_point,
            prompt=task.prompt,
            program=attempt.trajectory.solution,
            tests=task.hidden_tests,
            setup=task.setup,
            logged=grade.passed if grade and grade.outcome != "harness_error" else None,
            feedback=feedback,
            visible_passed=attempt.evaluation.passed if has_verdict else None,
        )
