"""Run folders as samples: attempts, hidden verdicts, and tests of the benchmark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reflexion_lab.audit.samples import Sample
from reflexion_lab.errors import FolderError
from reflexion_lab.moved import updated
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder

if TYPE_CHECKING:
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

OURS = "reflexion_lab.tasks.benchmarks."


def run_samples(path: Path, attempts: bool) -> Iterator[Sample]:
    """The submitted attempt of each task, or every attempt, with its hidden verdict as the logged one.

    Raises
    ------
    FolderError
        It is not a run folder, or its benchmark is not available.
    """
    from reflexion_lab.analysis.summary import Log

    log = Log.read(RunFolder.existing(path))
    benchmark = _same_benchmark(path, log.manifest)
    if lost := sorted(log.attempts.keys() - {task.task_id for task in benchmark}):
        raise FolderError(path, f"task {lost[0]}", f"one of {benchmark.name}")
    submitted = {task_id: result.submitted for task_id, result in log.results.items()}
    for attempt in log.every:
        task, number = benchmark[attempt.task_id], attempt.number
        if not attempts and number != submitted[task.task_id]:
            continue
        grade = log.grades.get((task.task_id, number))
        yield Sample(
            id=f"{task.task_id}/{number}" if attempts else task.task_id,
            task_id=task.task_id,
            entry_point=task.entry_point,
            prompt=task.prompt,
            program=attempt.trajectory.solution,
            tests=task.hidden_tests,
            setup=task.setup,
            logged=grade.passed if grade and grade.outcome != "harness_error" else None,
            feedback=tuple(check.name for check in attempt.evaluation.checks if check.kind == "test"),
        )


def _same_benchmark(path: Path, manifest: Manifest) -> Benchmark:
    benchmark = benchmark_of(path, manifest)
    if benchmark.digest != manifest.benchmark_digest:
        got = f"{benchmark.name} with digest {benchmark.digest[:12]}"
        raise FolderError(path, got, f"{manifest.benchmark_digest[:12]}, the digest in the manifest")
    return benchmark


def benchmark_of(path: Path, manifest: Manifest) -> Benchmark:
    """The benchmark of a run; only benchmarks of this package are loaded.

    Raises
    ------
    FolderError
        It names another target.
    OSError, ValueError, ImportError
        It cannot be loaded.
    """
    from reflexion_lab.runner.config.parts import load_benchmark
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox
    from reflexion_lab.tasks.sandbox.sandbox import Sandbox

    node: Any = updated(manifest.config.get("benchmark"))
    load = node.get("load") if isinstance(node, dict) else None
    if not isinstance(load, dict) or not _harmless(load):
        raise FolderError(path, f"config.benchmark.load: {load!r}", "a benchmark of this package")
    packed = path / "data" / Path(str(load.get("path") or ".")).name
    if packed.is_file():  # of an unpacked bundle
        node = {**node, "load": {**load, "path": str(packed)}}
    with contextlib.closing(CachedSandbox(Sandbox(servers=1), None)) as executor:  # starts no process by itself
        return load_benchmark(_attributes(node, manifest.seed), executor)


def _harmless(load: dict[str, Any]) -> bool:
    """Whether `load` calls a benchmark of this package with plain values: a target could execute anything."""
    rest = dict(load)
    target, partial = str(rest.pop("_target_", "")), rest.pop("_partial_", True)
    plain = all(isinstance(value, str | int | float | None) and "${" not in str(value) for value in rest.values())
    named = target.startswith(OURS) and target.removeprefix(OURS).count(".") == 1
    return named and plain and partial is True and not any(name.startswith("_") for name in rest)


def _attributes(node: dict[str, Any], seed: int) -> Any:
    """The part of a config that `load_benchmark` reads."""
    chosen = {name: node.get(name) for name in ("name", "load", "ids", "sample", "limit")}
    return SimpleNamespace(benchmark=SimpleNamespace(**chosen), seed=seed)
