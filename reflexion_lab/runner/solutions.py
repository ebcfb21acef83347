"""Benchmarks and canonical solutions of recorded runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from reflexion_lab.errors import FolderError
from reflexion_lab.protocols import Environment
from reflexion_lab.records import Manifest, Task
from reflexion_lab.runner.config.build import build, converted
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.config.record import BenchmarkConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Sandbox

OURS = "reflexion_lab.tasks.benchmarks."
ENVIRONMENTS = "reflexion_lab.tasks.environments."
SELECTION = ("ids", "sample", "sample_seed", "limit", "order", "passes", "split", "shard")
"""Keys of a benchmark's node that choose tasks, which its digest does not cover."""


def tasks_of(runs: Iterable[RunFolder]) -> dict[str, dict[str, Task]]:
    """Tasks by run id and task id, with hidden tests and solutions; none of a run whose benchmark cannot be loaded, or
    has another digest now, unless that of another run with the same tasks can. At another seed, a task of the same id
    may be another one.
    """
    known: dict[tuple[str, ...], Benchmark | None] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for run in runs:
        manifest = run.manifest
        node = manifest.config.get("benchmark")
        chosen = {name: node.get(name) for name in SELECTION} if isinstance(node, dict) else {}
        key = manifest.benchmark_digest, repr(chosen), str(manifest.seed) if chosen.get("sample") else ""
        keys[manifest.run_id] = key
        if known.get(key) is None:  # the file of another run with the same tasks may be gone
            known[key] = _same(run.path, manifest)
    return {run_id: {task.loop_id: task for task in known[key] or ()} for run_id, key in keys.items()}


def _same(path: Path, manifest: Manifest) -> Benchmark | None:
    try:
        benchmark = benchmark_of(path, manifest)
    except (OSError, ValueError, ImportError):
        return None
    return benchmark if benchmark.is_of(manifest) else None


def benchmark_of(path: Path, manifest: Manifest) -> Benchmark:
    """The benchmark of a run; only benchmarks of this package are loaded.

    Raises FolderError: it names another target; OSError, ValueError, ImportError: it cannot be loaded.
    """
    node: Any = manifest.config.get("benchmark")
    load = node.get("load") if isinstance(node, dict) else None
    if not isinstance(load, dict) or not _harmless(load, OURS):
        raise FolderError(path, f"config.benchmark.load: {load!r}", "a benchmark of this package")
    packed = path / "data" / Path(str(load.get("path") or ".")).name
    if packed.is_file():  # of an unpacked bundle
        node = {**node, "load": {**load, "path": str(packed)}}
    chosen = {name: node[name] for name in ("name", "load", "fields", *SELECTION) if node.get(name) is not None}
    benchmark = converted("benchmark", chosen, BenchmarkConfig)
    cfg: Any = SimpleNamespace(benchmark=benchmark, seed=manifest.seed, whole={"sandbox": {}})  # {}: default limits
    with contextlib.closing(CachedSandbox(Sandbox(servers=1), None)) as executor:  # starts no process by itself
        return load_benchmark(cfg, executor)


def environment_of(manifest: Manifest) -> Environment | None:
    """The environment of a run, if it is one of this package; None without one."""
    node: Any = manifest.config.get("environment")
    is_ours = isinstance(node, dict) and _harmless(node, ENVIRONMENTS)
    return cast("Environment", build(node, "environment")) if is_ours else None


def _harmless(load: dict[str, Any], ours: str) -> bool:
    """Whether `load` calls a part of this package with plain values: a target could execute anything."""
    rest = dict(load)
    target, partial = str(rest.pop("_target_", "")), rest.pop("_partial_", True)
    plain = all(map(_is_plain, rest.values()))
    named = target.startswith(ours) and target.removeprefix(ours).count(".") == 1
    return named and plain and partial is True and not any(name.startswith("_") for name in rest)


def _is_plain(value: Any) -> bool:
    """Whether a value, or each one in it, is a text or number that neither refers to another nor is a target."""
    if isinstance(value, dict):
        return all(not str(name).startswith("_") and _is_plain(part) for name, part in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | None) and "${" not in str(value)
