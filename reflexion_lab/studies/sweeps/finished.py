"""Runs that a sweep can reuse, finished or to be resumed, and how its cells ended: `cells.jsonl`."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.summary import Summary as RunSummary
from reflexion_lab.errors import FolderError
from reflexion_lab.memory.archive import run_ids_in
from reflexion_lab.records import Beginning, Manifest, Record, Usage
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.assemble import pool_of
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.initial_items import origin_of_items
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder, read_beginning
from reflexion_lab.runner.folder.manifest import (
    config_digest,
    data_place,
    differences,
    own_parts,
    prices_of,
    shard_of,
    store_place,
)
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.text.prompts.render import digests


class Run(NamedTuple):
    """A run folder, and what makes it the run of a cell."""

    folder: Path
    run_id: str
    measured: tuple[str, str]
    """Digest of its config, and its shard."""
    study: str
    """Digest of its study."""
    place: str
    """Path of the store, relative to the run root."""
    data: str
    """Path of the tasks."""
    tasks: tuple[str, str]
    """Digests of its benchmark, and of the tasks of that."""

    def begins_with(self, beginning: Beginning | None, place: str) -> bool:
        """Whether it began with this snapshot of a store, or, where there is none, with the store at `place`."""
        if beginning is None:
            return self.place == place
        try:
            own = RunFolder(self.folder).beginning
            return self.place == place if own is None else beginning == own.of_store  # None: killed before it
        except (FolderError, OSError):  # a damaged memory.json affects that run only
            return False

    @property
    def summary(self) -> Summary | None:
        """None until the run is finished and every attempt is graded."""
        figures = RunFolder(self.folder).summary(Summary)
        is_whole = figures and figures.n_logged == figures.n_expected and figures.any_solved is not None
        return figures if is_whole else None

    def kept(self, number: int) -> CellState:
        """The state of a cell that this run finishes."""
        figures = self.summary
        state = CellState(number=number, status="kept", folder=str(self.folder))
        return msgspec.structs.replace(state, **outcome(figures)) if figures else state

    @property
    def is_free(self) -> bool:
        """No process is writing to the run folder."""
        try:
            with RunFolder(self.folder).held():
                return True
        except (FolderError, OSError):  # or this user may not write to it
            return False


class Summary(msgspec.Struct):
    """The fields of a run's `summary.json` that a sweep reads."""

    n_expected: int
    n_logged: int
    feedback_source: str
    pass_at_1: Rate
    any_solved: Rate | None
    """None until every attempt is graded."""
    harness_errors: int = 0
    is_upper_bound: bool = False
    withheld: dict[str, int] = {}

    @property
    def is_spoilt(self) -> bool:
        """Whether server or sandbox spoilt a task."""
        return bool(self.harness_errors or self.withheld.get("wrong_model"))


class _Manifest(msgspec.Struct):
    benchmark_digest: str = ""
    tasks_digest: str = ""
    run_id: str = ""
    study_digest: str = ""
    config: dict[str, Any] = {}


_MANIFEST = msgspec.json.Decoder(_Manifest)


@functools.lru_cache(maxsize=20_000)
def _run_at(manifest_path: Path, _modified: int) -> Run:
    """Read once by a process, which asks for the runs of every cell."""
    manifest = _MANIFEST.decode(manifest_path.read_bytes())
    config = manifest.config
    return Run(
        manifest_path.parent,
        manifest.run_id,
        (config_digest(config), shard_of(config)),
        manifest.study_digest,
        store_place(config),
        data_place(config),
        (manifest.benchmark_digest, manifest.tasks_digest),
    )


def unfinished(runs: Sequence[Run], or_spoilt: bool = False) -> Run | None:
    """The newest interrupted run of `runs` that no process is writing to; also a finished one with unscored tasks."""
    cut = (run for run in reversed(runs) if not run.summary or (or_spoilt and run.summary.is_spoilt))
    return next((run for run in cut if run.is_free), None)


class Runs:
    """The runs in `root`, the oldest first. Current benchmarks and models are loaded once for all cells."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs: list[Run] = []
        for path in sorted(root.glob("[!.]*/manifest.json")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # of another version, or not a run
                self.runs.append(_run_at(path, path.stat().st_mtime_ns))
        self._writers: dict[str, set[str]] = {}
        self._benchmarks: dict[bytes, tuple[Benchmark, str]] = {}
        self._models: dict[bytes, tuple[dict[str, str], dict[str, str]]] = {}

    def finished(self, cfg: RunConfig) -> Run | None:
        """The first finished run of this config whose inputs are unchanged."""
        return self.kept(cfg, self.of(cfg))[0]

    def kept(self, cfg: RunConfig, runs: Sequence[Run]) -> tuple[Run | None, str]:
        """Of the `runs` of this config, the first finished one whose inputs are unchanged; else why the last finished
        one is not kept, such as `benchmark_digest changed`.
        """
        changes: list[str] = []
        for run in runs:
            if run.summary and not (cfg.only and run.summary.is_spoilt):
                changes = self._changes(cfg, run)
                if not changes:
                    return run, ""
        return None, ", ".join(changes)

    def of(self, cfg: RunConfig) -> list[Run]:
        """The runs of this config; with a store that was moved, not copied, those whose records it holds.

        Where the config names no study, a run of any study is one.
        """
        config, snapshot = parts.with_defaults(cfg).recorded, parts.snapshot_path(cfg)
        study = registration.read(cfg.study).digest if cfg.study else ""
        beginning, place = read_beginning(snapshot) if snapshot else None, store_place(config)
        measured = config_digest(config), shard_of(config)
        alike = [run for run in self.runs if run.measured == measured and study in ("", run.study)]
        alike = [run for run in alike if self._has_tasks(cfg, data_place(config), run)]
        runs = [run for run in alike if run.begins_with(beginning, place)]
        if runs or not place or beginning is not None:
            return runs
        moved = [run for run in alike if "://" not in run.place and not (self.root / run.place).exists()]
        return [run for run in moved if run.run_id in self._written_to(cfg)]

    def _written_to(self, cfg: RunConfig) -> set[str]:
        """Ids of the runs with records in the store, which is not created."""
        place = str(cfg.store["place"])
        if place not in self._writers:
            is_there = "://" in place or Path(place).exists()
            with contextlib.closing(build(cfg.store, "store") if is_there else InMemory()) as store:
                self._writers[place] = run_ids_in(store)
        return self._writers[place]

    def _changes(self, cfg: RunConfig, run: Run) -> list[str]:
        """Inputs that differ between `run` and a new run of `cfg`, such as `benchmark_digest changed`."""
        try:
            before = RunFolder.existing(run.folder).manifest
            return [f"{name} changed" for name in differences(before, self._current(cfg, before))]
        except Exception as problem:  # without its inputs a cell could not run again; its results stand
            text = f"{run.folder.name} is kept although its inputs cannot be read: {one_line(problem)}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return []

    def _current(self, cfg: RunConfig, before: Manifest) -> Manifest:
        """`before` with the current benchmark, prompts, models and own parts."""
        provenance = before.provenance
        fingerprints, prices = self._fingerprints_and_prices(cfg)
        embedder = parts.embedder_fingerprint(cfg) if provenance.embedder_fingerprint else ""
        pool = pool_of(cfg, before, provenance.pool) if parts.draws_from_runs(cfg) else {}
        benchmark, drawn = self._benchmark(cfg)
        return msgspec.structs.replace(
            before,
            benchmark_digest=benchmark.digest,
            tasks_digest=benchmark.tasks_digest,
            drawn=drawn,
            prompt_digests=digests(),
            model_fingerprint=fingerprints.pop("actor"),
            role_fingerprints=fingerprints,
            prices=prices,
            provenance=msgspec.structs.replace(
                provenance,
                own_parts=own_parts(cfg.whole),
                embedder_fingerprint=embedder,
                pool=pool,
                items=origin_of_items(cfg),
            ),
        )

    def _benchmark(self, cfg: RunConfig) -> tuple[Benchmark, str]:
        """The benchmark without its tasks, and the digest of those that the run draws."""
        key = msgspec.json.encode([cfg.benchmark, cfg.benchmark.sample and cfg.seed], order="sorted")
        if key not in self._benchmarks:
            with contextlib.closing(parts.load_sandbox(cfg)) as sandbox:
                benchmark = parts.load_benchmark(cfg, sandbox)
            self._benchmarks[key] = benchmark[:0], benchmark.drawn
        return self._benchmarks[key]

    def _has_tasks(self, cfg: RunConfig, path: str, run: Run) -> bool:
        """Whether `run` has the tasks of the cell, by the path of these, or where that differs by their digest."""
        if path == run.data:
            return True
        with contextlib.suppress(OSError, ValueError):  # the file is gone
            benchmark = self._benchmark(cfg)[0]
            return benchmark.digest == run.tasks[0] or benchmark.tasks_digest == run.tasks[1]
        return False

    def _fingerprints_and_prices(self, cfg: RunConfig) -> tuple[dict[str, str], dict[str, str]]:
        """By role."""
        nodes: list[Any] = [cfg.model, cfg.roles, cfg.prices]
        if "'_partial_': True" in str(nodes):  # a model whose constructor receives the tasks
            nodes += [cfg.benchmark, cfg.seed]
        key = msgspec.json.encode(nodes, order="sorted")
        if key not in self._models:
            with contextlib.closing(parts.load_models(cfg)) as models:
                fingerprints = {role: model.fingerprint for role, model in models.by_role.items()}
                self._models[key] = fingerprints, prices_of(models.by_role)
        fingerprints, prices = self._models[key]
        return dict(fingerprints), prices


def outcome(summary: Summary | RunSummary) -> dict[str, Any]:
    """The fields of a cell's state that come from its run's summary."""
    problem = f"{summary.harness_errors} harness errors; only=unscored asks again" if summary.harness_errors else ""
    source, bound = summary.feedback_source, summary.is_upper_bound
    return {"problem": problem, "feedback_source": source, "is_upper_bound": bound, "pass_at_1": summary.pass_at_1}


class CellState(Record, frozen=True, kw_only=True):
    """How a cell ended. The newest line of a cell counts."""

    number: int
    status: str = "waiting"
    """`done`; `kept`: by an earlier run; `failed`; `stopped`: by a cap; `silent`: its model; `waiting`: nothing yet."""
    digest: str = ""
    """Digest of the cell: another grid may have the same `sweep_id`."""
    folder: str = ""
    problem: str = ""
    """One line; the traceback is in `cell-NUMBER.log` beside this file."""
    again: str = ""
    """Why a cell with a finished run was run again, such as `benchmark_digest changed`."""
    feedback_source: str = ""
    is_upper_bound: bool = False
    pass_at_1: Rate | None = None
    """An upper bound if `is_upper_bound`."""
    paid: int = 0
    """Paid model calls."""
    stored: int = 0
    """Model calls answered from the cache."""
    spent: Usage = Usage()
    """Usage of the paid calls."""
    seconds: float = 0.0


_DECODER = msgspec.json.Decoder(CellState)


def record(folder: Path, state: CellState) -> None:
    """Append a line to `cells.jsonl` in one write, so processes may share the file.

    The lock is for several machines: on a network file system they would overwrite each other without it.
    """
    line = msgspec.json.encode(state) + b"\n"
    with (folder / "cells.jsonl").open("a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.seek(0, 2) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            line = b"\n" + line  # after a line that a kill left torn
        file.write(line)


def read_states(folder: Path) -> list[CellState]:
    """The lines of `cells.jsonl`, oldest first; a torn one is skipped."""
    path, states = folder / "cells.jsonl", []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(msgspec.MsgspecError):
            states.append(_DECODER.decode(line))
    return states
