"""The matrix a(i, j) of `memory` from run folders: runs of a stream, and runs that begin with their memory, frozen."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.learning.curation import Curated, curated
from reflexion_lab.analysis.learning.memory import Measures, Stream, Window, changes, measures, prequential
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.solutions import tasks_of
from reflexion_lab.analysis.stats.clusters import merged
from reflexion_lab.errors import FolderError
from reflexion_lab.memory.items import Items
from reflexion_lab.records import Record, base_id
from reflexion_lab.runner.folder.folder import RunFolder, folders
from reflexion_lab.runner.folder.manifest import measured, settings
from reflexion_lab.tasks.benchmarks.similar import repeated

ITEMS = "memory.shared.items"
ORDERS = (
    "benchmark.load",
    "benchmark.order",
    "benchmark.sample_seed",
    f"{ITEMS}.of",
    f"{ITEMS}.after",
    f"{ITEMS}.frozen",
)
"""Keys that may differ between orders of a stream, like every `seed`; tasks are compared by their digest."""
FROZEN = (*ORDERS, "arm", "benchmark", "model", "roles", "memory.shared.round_size", "memory.shared.same_task")
"""Keys that may differ between a frozen run and its stream; models are compared by their fingerprints."""
EMPTY = (*FROZEN, "curator", "role_fingerprints.curator", "retriever", "embedder", ITEMS)
"""Likewise without memory and curator."""
NEEDS = {
    "online_utility": ("zero",),
    "stability": ("before", "end"),
    "forgetting": ("before", "end"),
    "backward_transfer": ("before", "end"),
    "generalisation": ("held_out", "zero"),
}
"""What each measure needs, by names of `_available`."""
WORDS = {
    "zero": f"a frozen run with {ITEMS}.after=0",
    "before": "a frozen run after fewer rounds than the last",
    "end": "a frozen run with after=null",
    "held_out": "held-out tasks (benchmark.split)",
}


class Matrix(Record, frozen=True, kw_only=True):
    """Measures of the memory of runs of one stream."""

    arm: str
    benchmark: str
    rounds: tuple[int, ...]
    """Rounds of each run of the stream."""
    checkpoints: tuple[int, ...]
    """Rounds after which frozen runs began, over all orders."""
    measures: Measures
    curve: tuple[Window, ...]
    curated: tuple[Curated, ...]
    """Memory by run of the stream."""
    notes: tuple[str, ...]
    """What is missing for a measure, or differs from its definition."""


class _Frozen(NamedTuple):
    """A run with the frozen memory of another one."""

    log: Log
    of: str
    """Name of the other run's folder."""
    after: int | None


def matrix(runs: object) -> Matrix:
    """Measures from runs of a stream, one per order, and from runs with `memory.shared.items.frozen`.

    A frozen run belongs to the run that its `memory.shared.items.of` names. One after 0 rounds serves all orders of the
    same tasks. Test tasks of a split are held out: the stream's own run is their checkpoint at its end.

    Parameters
    ----------
    runs : object
        A run folder, a pattern, a sweep, or a list of these; see `folder.folders`.

    Raises
    ------
    FolderError
        No run of a stream, a frozen run of none of them, runs of several benchmarks, streams that differ in more than
        seed, order and first items, or a frozen run that differs from its stream in what its verdicts depend on. A
        frozen run after 0 rounds may have no curator.
    """
    own: dict[str, Log] = {}
    frozen: list[_Frozen] = []
    for run in (found := folders(runs)):
        log, items = Log.read(run, texts=False), _shared(run.manifest.config).get("items") or {}
        if items.get("frozen"):
            frozen.append(_Frozen(log, Path(str(items.get("of") or "")).name, items.get("after")))
        else:
            own[run.path.resolve().name] = log
    _check(own, frozen)
    streams = [_stream(name, log, frozen) for name, log in own.items()]
    clusters = merged(*(log.clusters for log in (*own.values(), *(run.log for run in frozen))))
    first = next(iter(own.values()))
    return Matrix(
        arm=first.arm,
        benchmark=first.manifest.benchmark,
        rounds=tuple(len(set(_rounds(log).values())) for log in own.values()),
        checkpoints=tuple(sorted({at for stream in streams for at in stream.checkpoints})),
        measures=measures(streams, clusters),
        curve=tuple(prequential(streams, clusters)),
        curated=tuple(curated(log) for log in own.values()),
        notes=(*_notes(streams, frozen), *_repeated(run for run in found if run.path.resolve().name in own)),
    )


def _shared(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node `memory.shared`."""
    memory: Mapping[str, Any] = config.get("memory") or {}
    return memory.get("shared") or {}


def _check(own: Mapping[str, Log], frozen: Iterable[_Frozen]) -> None:
    """Raises FolderError."""
    if not own:
        raise FolderError("memory measures", "no run of a stream", "one whose memory.shared.items.frozen is false")
    for run in frozen:
        if run.of not in own:
            got = f"memory of {run.of or 'no run'}"
            raise FolderError(run.log.manifest.run_id, got, f"of {' or '.join(own)}", "name that run, too")
    digests = {log.manifest.benchmark_digest for log in (*own.values(), *(run.log for run in frozen))}
    if len(digests) > 1:
        raise FolderError("memory measures", f"runs of {len(digests)} benchmarks", "one")
    first, *others = own.values()
    for log in others:
        _check_equal(log, first, (*ORDERS, "model_fingerprint", "role_fingerprints"))
    for run in frozen:
        is_empty = run.after == 0 and "curator" not in measured(run.log.manifest.config)
        _check_equal(run.log, own[run.of], EMPTY if is_empty else FROZEN)


def _check_equal(log: Log, other: Log, may_differ: Collection[str]) -> None:
    """Raises FolderError with the first key in which two runs differ."""
    mine, expected = _settings(log, may_differ), _settings(other, may_differ)
    for key in sorted(mine.keys() | expected.keys()):
        if (got := mine.get(key)) != expected.get(key):
            of = f"{expected.get(key)!r} as in {other.manifest.run_id}"
            raise FolderError(f"{log.manifest.run_id}: {key}", repr(got), of, "measure other methods apart")


def _settings(log: Log, without: Collection[str]) -> dict[str, Any]:
    """What a run measures, by dotted key, without seeds and the nodes `without`."""
    manifest = log.manifest
    parts = {
        **{f"{ITEMS}.{key}": value for key, value in msgspec.to_builtins(Items()).items()},
        **settings(manifest.config),
        "model_fingerprint": manifest.model_fingerprint,
        **{f"role_fingerprints.{role}": name for role, name in manifest.role_fingerprints.items()},
        **{f"prompt_digests.{name}": digest for name, digest in manifest.prompt_digests.items()},
    }
    nodes = tuple(f"{name}." for name in without)
    return {key: v for key, v in parts.items() if key.split(".")[-1] != "seed" and not f"{key}.".startswith(nodes)}


def online(log: Log) -> Stream:
    """The stream of a run, without checkpoints."""
    return _stream("", log, ())


def _stream(name: str, log: Log, frozen: Sequence[_Frozen]) -> Stream:
    """The matrix of one run of a stream."""
    rounds = _rounds(log)
    end = len(set(rounds.values()))
    rows = {end: _verdicts(log.headline)} if log.headline is not log else {}
    zeros = [run for run in frozen if run.after == 0 and run.of != name]
    for run in (*zeros, *(run for run in frozen if run.of == name)):
        at = end if run.after is None else run.after
        rows[at] = rows.get(at, {}) | _verdicts(run.log)
    seen = {base_id(task) for task in rounds}
    held_out = sorted({task for row in rows.values() for task in row if base_id(task) not in seen})
    tasks = [*rounds, *held_out]
    online = _verdicts(log)

    def row(at: int) -> list[float]:
        """A later pass has its verdict without memory alone."""
        return [rows[at].get(base_id(task) if at == 0 else task, float("nan")) for task in tasks]

    return Stream(
        tasks=tasks,
        learnt=[rounds[task] + 1 if task in rounds else float("nan") for task in tasks],
        online=[online.get(task, float("nan")) for task in tasks],
        checkpoints=sorted(rows),
        verdicts=[row(at) for at in sorted(rows)],
    )


def _rounds(log: Log) -> dict[str, int]:
    """Round of each task from which memory learnt, 0-based, in the order of the stream.

    A round ends before the next one begins, so that the order of ends tells rounds apart. Within a round, tasks are
    sorted.
    """
    size = int(_shared(log.manifest.config).get("round_size") or 1)
    train = [task_id for task_id, result in log.results.items() if result.split in ("", "train")]
    parts = [sorted(train[start : start + size]) for start in range(0, len(train), size)]
    return {task_id: number for number, part in enumerate(parts) for task_id in part}


def _verdicts(log: Log) -> dict[str, float]:
    """Hidden verdicts on submissions, by task, of tasks with one."""
    return {
        task_id: float(grade.passed) for task_id, (_, grade) in log.submitted.items() if task_id not in log.no_verdict
    }


def _repeated(runs: Iterable[RunFolder]) -> Iterator[str]:
    """Near-duplicates in the first stream: memory of one task may hold the solution of another."""
    run = next(iter(runs))
    every = tasks_of([run])[run.manifest.run_id]
    first = {base_id(task_id): task for task_id, task in reversed(every.items())}
    tasks = [first[name] for name in dict.fromkeys(map(base_id, every))]
    if pairs := repeated(tasks):
        example = f"such as {pairs[0].later} of {pairs[0].earlier}"
        yield f"{len(pairs)} of {len(tasks)} tasks resemble an earlier one of another cluster, {example}"


def _notes(streams: Sequence[Stream], frozen: Sequence[_Frozen]) -> Iterator[str]:
    """Why a measure is None, and which of the orders it lacks."""
    available = {name for stream in streams for name in _available(stream)}
    by_order = [changes(stream) for stream in streams]
    reasons: dict[str, list[str]] = {}
    for measure, needs in NEEDS.items():
        n = sum(any(map(math.isfinite, change[measure])) for change in by_order)
        missing = [WORDS[name] for name in needs if name not in available] or ["other verdicts at its checkpoints"]
        if n < len(streams):
            reason = f"of {n} of {len(streams)} orders only" if n else f"it needs {' and '.join(missing)}"
            reasons.setdefault(reason, []).append(measure.replace("_", " "))
    for reason, names in reasons.items():
        yield f"{', '.join(names)} {reason}" if reason.startswith("of") else f"no {', '.join(names)}: {reason}"
    if not all(_shared(run.log.manifest.config).get("same_task") for run in frozen if run.after != 0):
        yield "frozen runs hid the items of the task itself: stability needs memory.shared.same_task=true"


def _available(stream: Stream) -> Iterator[str]:
    """Names of `WORDS` that a stream has."""
    import numpy as np

    is_learnt = np.isfinite(np.asarray(stream.learnt, float))
    last = np.asarray(stream.verdicts, float)[-1][is_learnt] if len(stream.checkpoints) else np.empty(0)
    facts = {
        "zero": 0 in stream.checkpoints,
        "before": sum(at > 0 for at in stream.checkpoints) > 1,
        "end": bool(np.isfinite(last).any()) and stream.checkpoints[-1] > 0,
        "held_out": not is_learnt.all(),
    }
    return (name for name, is_met in facts.items() if is_met)
