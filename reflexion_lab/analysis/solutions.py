"""Benchmarks and canonical solutions of recorded runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import FolderError
from reflexion_lab.moved import updated
from reflexion_lab.records import Manifest, Task
from reflexion_lab.runner.folder.folder import RunFolder

if TYPE_CHECKING:
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

OURS = "reflexion_lab.tasks.benchmarks."


def tasks_of(runs: Iterable[RunFolder]) -> dict[str, Task]:
    """Tasks of some runs by id, with hidden tests and solutions; without those of benchmarks that cannot be loaded, or
    whose digest is not that of the run.
    """
    tasks: dict[str, Task] = {}
    known: dict[str, Benchmark | None] = {}
    for run in runs:
        manifest = run.manifest
        if manifest.benchmark_digest not in known:
            known[manifest.benchmark_digest] = _same(run.path, manifest)
        tasks |= {task.task_id: task for task in known[manifest.benchmark_digest] or ()}
    return tasks


def solutions(runs: Iterable[RunFolder]) -> dict[str, str]:
    """Canonical programs by task of `tasks_of`."""
    return {name: task.canonical_program for name, task in tasks_of(runs).items() if task.canonical_solution.strip()}


def _same(path: Path, manifest: Manifest) -> Benchmark | None:
    try:
        benchmark = benchmark_of(path, manifest)
    except (OSError, ValueError, ImportError):
        return None
    return benchmark if benchmark.digest == manifest.benchmark_digest else None


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
