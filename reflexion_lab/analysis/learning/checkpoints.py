"""The matrix a(i, j) of `memory` from run folders: runs of a stream, and runs that begin with their memory, frozen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from reflexion_lab.analysis.learning.curation import Curated, curated
from reflexion_lab.analysis.learning.memory import Measures, Stream, Window, changes, measures, prequential
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.clusters import Clusters, merged
from reflexion_lab.errors import FolderError
from reflexion_lab.io.arrays import np
from reflexion_lab.records import Item, Manifest, Record, base_id
from reflexion_lab.runner.folder.folder import RunFolder, folders, readable
from reflexion_lab.runner.folder.manifest import comparable, same_tasks, settings
from reflexion_lab.runner.solutions import tasks_of
from reflexion_lab.tasks.benchmarks.similar import repeated

ITEMS = "memory.shared.items"
ORDERS = (
    "benchmark.load", "benchmark.order", "benchmark.sample_seed",
    f"{ITEMS}.of", f"{ITEMS}.after", f"{ITEMS}.frozen", f"{ITEMS}.salt",
)  # fmt: skip
"""Keys that may differ between orders of a stream, like every `seed`; tasks are compared by their digest."""
FROZEN = (*ORDERS, "arm", "benchmark", "model", "roles", "memory.shared.round_size", "memory.shared.same_task")
"""Keys that may differ between a frozen run and its stream; models are compared by their fingerprints."""
NEEDS = {
    "online_utility": ("zero",),
    "stability": ("before", "end"),
    "forgetting": ("before", "end"),
    "backward_transfer": ("before", "end"),
    "generalisation": ("held_out", "zero"),
}
"""Requirements of each measure, by names of `_available`."""
WORDS = {
    "zero": f"a frozen run with {ITEMS}.after=0",
    "before": "a frozen run after fewer rounds than the last",
    "end": "a frozen run with after=null",
    "held_out": "held-out tasks (benchmark.split)",
}


class Matrix(Record, frozen=True, kw_only=True):
    """Measures of the memory of runs of one stream."""

    rounds: tuple[int, ...]
    """Rounds of each run of the stream."""
    checkpoints: tuple[int, ...]
    """Rounds after which frozen runs began, over all orders."""
    measures: Measures
    notes: tuple[str, ...]
    """Missing data of a measure, or deviations from its definition."""


class StreamMemory(Record, frozen=True, kw_only=True):
    """The memory of runs of one stream: what it gains, keeps and loses, and what it consists of."""

    arm: str
    benchmark: str
    matrix: Matrix
    curve: tuple[Window, ...]
    curated: tuple[Curated, ...]
    """Memory by run of the stream."""
    notes: tuple[str, ...]
    """Remarks on the tasks of the stream."""


def stream_memory(runs: object) -> StreamMemory:
    """Measures from runs of a stream, one per order, and from runs with `memory.shared.items.frozen`.

    A frozen run belongs to the run that its `memory.shared.items.of` names. One after 0 rounds serves all orders of the
    same tasks. Test tasks of a split are held out: the stream's own run is their checkpoint at its end. `runs`: a run
    folder, a pattern, a sweep, or a list of these; see `folder.folders`. Raises FolderError: no run of a stream, a
    frozen run of none of them, two on the same memory, runs of several benchmarks or of other tasks at a seed, streams
    that differ in more than seed, order and first items, or a frozen run that differs from its stream in what its
    verdicts depend on.
    """
    whole = readable(folders(runs), lambda run: (run, Log.read(run, texts=False)))
    read = {log.manifest.run_id: (run, log) for run, log in whole}
    logs, streams = [log for _, log in read.values()], stream_ids(run for run, _ in read.values())
    _check(logs, streams)
    own, by_stream = [log for log in logs if not is_frozen(log)], _assigned(logs, streams)
    return StreamMemory(
        arm=own[0].arm,
        benchmark=own[0].manifest.benchmark,
        matrix=matrix((log, by_stream.get(log.manifest.run_id, ())) for log in own),
        curve=tuple(prequential([stream_of(log) for log in own], _clusters(own))),
        curated=tuple(curated(log) for log in own),
        notes=tuple(_repeated(read[own[0].manifest.run_id][0])),
    )


def matrix(runs: Iterable[tuple[Log, Sequence[Log]]]) -> Matrix:
    """Measures from the logs of a stream, one per order, each with those of its checkpoints."""
    pairs = [*runs]
    streams = [stream_of(log, frozen) for log, frozen in pairs]
    every = [each for log, frozen in pairs for each in (log, *frozen)]
    is_one = all(same_tasks(log.manifest, pairs[0][0].manifest) for log, _ in pairs)
    own_tasks = () if is_one else ("the seeds have other tasks: streams of one method, not orders of one stream",)
    return Matrix(
        rounds=tuple(end(log) for log, _ in pairs),
        checkpoints=tuple(sorted({at for stream in streams for at in stream.checkpoints})),
        measures=measures(streams, _clusters(every)),
        notes=(*own_tasks, *_notes(streams, [each for _, frozen in pairs for each in frozen])),
    )


def is_frozen(log: Log) -> bool:
    """Whether the run's memory learns nothing."""
    return bool(_node(log.manifest, "items").get("frozen"))


def source(manifest: Manifest) -> str:
    """Id of the run whose memory a frozen run has; "" for none."""
    return manifest.provenance.items.partition(": ")[0] if _node(manifest, "items").get("frozen") else ""


def rounds_before(log: Log) -> int | None:
    """Rounds after which the memory of a frozen run was taken; None: after all."""
    after: int | None = _node(log.manifest, "items").get("after")
    return after


def stream_ids(runs: Iterable[RunFolder]) -> dict[str, str]:
    """By the id of each frozen run, that of the run whose memory it has, if that is among `runs`."""
    manifests = [run.manifest for run in runs]
    ids = {manifest.run_id for manifest in manifests}
    return {manifest.run_id: name for manifest in manifests if (name := source(manifest)) in ids}


def checkpoints(logs: Sequence[Log], streams: Mapping[str, str]) -> dict[str, list[Log]]:
    """The frozen runs among `logs` by the id of the run of a stream whose checkpoints they are.

    Left out are frozen runs whose stream is not among `logs`, that differ from it in what verdicts depend on, that are
    registered, or of which several have the same memory. `streams`: as of `stream_ids`.
    """
    own = {log.manifest.run_id: log for log in logs if not is_frozen(log)}
    kept = [log for log in logs if is_frozen(log) and not log.manifest.study_digest]
    pairs = [(log, stream) for log in kept if (stream := own.get(streams.get(log.manifest.run_id, "")))]
    pairs = [(log, stream) for log, stream in pairs if _fits(log, stream)]
    uses = Counter(case for pair in pairs for case in _memories(*pair))
    single = [log for log, stream in pairs if all(uses[case] == 1 for case in _memories(log, stream))]
    return _assigned([*own.values(), *single], streams)


def _assigned(logs: Iterable[Log], streams: Mapping[str, str]) -> dict[str, list[Log]]:
    """Frozen runs by the ids of their streams. One after 0 rounds serves others without, of equal tasks and items."""
    every = [*logs]
    own = {log.manifest.run_id: log for log in every if not is_frozen(log)}
    by_stream: dict[str, list[Log]] = {}
    for log in every:
        if is_frozen(log) and (name := streams.get(log.manifest.run_id, "")) in own:
            by_stream.setdefault(name, []).append(log)
    zeros = [log for frozen in by_stream.values() for log in frozen if rounds_before(log) == 0]
    for name, stream in own.items():
        has_zero = any(rounds_before(log) == 0 for log in by_stream.get(name, ()))
        fitting = (log for log in zeros if _fits(log, stream) and _beginning(log) == _beginning(stream))
        if not has_zero and (zero := next(fitting, None)):
            by_stream.setdefault(name, []).append(zero)
    return by_stream


def _beginning(log: Log) -> tuple[Item, ...]:
    return tuple(log.beginning.items) if log.beginning else ()


def _fits(log: Log, stream: Log) -> bool:
    """Whether a frozen run has the tasks of the stream, and differs in nothing else that verdicts depend on."""
    return same_tasks(log.manifest, stream.manifest) and not _difference(log, stream, FROZEN)


def _memories(log: Log, stream: Log) -> Iterator[tuple[str, int, str]]:
    """Stream, rounds of memory, and task of each case of a frozen run."""
    after = rounds_before(log)
    at = end(stream) if after is None else after
    return ((stream.manifest.run_id, at, task_id) for task_id in log.results)


def shows_own(log: Log) -> bool:
    """Whether a prompt may hold items that were learnt from its task."""
    return bool(_node(log.manifest).get("same_task"))


def round_size(log: Log) -> int:
    """Tasks after which memory learns; 0 if the config does not say."""
    return int(_node(log.manifest).get("round_size") or 0)


def end(log: Log) -> int:
    """Rounds of a stream."""
    return max(_rounds(log).values(), default=-1) + 1


def _node(manifest: Manifest, *names: str) -> Mapping[str, Any]:
    """The node of the config below `memory.shared`."""
    node: Mapping[str, Any] = manifest.config
    for name in ("memory", "shared", *names):
        node = node.get(name) or {}
    return node


def _clusters(logs: Iterable[Log]) -> Clusters:
    return merged(*(log.clusters for log in logs))


def _check(logs: Sequence[Log], streams: Mapping[str, str]) -> None:
    """Raises FolderError."""
    own = {log.manifest.run_id: log for log in logs if not is_frozen(log)}
    if not own:
        raise FolderError("memory measures", "no run of a stream", "one whose memory.shared.items.frozen is false")
    frozen = [log for log in logs if is_frozen(log)]
    pairs = []
    for log in frozen:
        stream = own.get(streams.get(log.manifest.run_id, ""))
        if stream is None:
            got = f"memory of {source(log.manifest) or 'no run'}"
            raise FolderError(log.manifest.run_id, got, f"of {' or '.join(own)}", "name that run, too")
        pairs.append((log, stream))
    apart = [each for each in combinations(own.values(), 2) if not comparable(*(log.manifest for log in each))]
    apart += [each for each in pairs if not same_tasks(*(log.manifest for log in each))]
    for log, other in apart:
        got, expected = f"other tasks than {other.manifest.run_id}", "one benchmark, and the same tasks at a seed"
        raise FolderError(log.manifest.run_id, got, expected)
    first, *others = own.values()
    problems = [_difference(log, first, (*ORDERS, "model_fingerprint", "role_fingerprints")) for log in others]
    problems += [_difference(log, stream, FROZEN) for log, stream in pairs]
    for problem in filter(None, problems):
        raise problem
    seen: dict[tuple[str, int, str], str] = {}
    for log, stream in pairs:
        for case in _memories(log, stream):
            if (run_id := seen.setdefault(case, log.manifest.run_id)) != log.manifest.run_id:
                got = f"{case[2]} with memory after {case[1]} rounds here and in {run_id}"
                raise FolderError(log.manifest.run_id, got, "one of them", "name one of the runs")


def _difference(log: Log, other: Log, may_differ: Collection[str]) -> FolderError | None:
    """The first key in which two runs differ."""
    mine, expected = _settings(log, may_differ), _settings(other, may_differ)
    for key in sorted(mine.keys() | expected.keys()):
        if (got := mine.get(key)) != expected.get(key):
            of = f"{expected.get(key)!r} as in {other.manifest.run_id}"
            return FolderError(f"{log.manifest.run_id}: {key}", repr(got), of, "measure other methods apart")
    return None


def _settings(log: Log, without: Collection[str]) -> dict[str, Any]:
    """Measured properties of a run, by dotted key, without seeds and the nodes `without`."""
    manifest = log.manifest
    parts = {
        **settings(manifest.config),
        "model_fingerprint": manifest.model_fingerprint,
        **{f"role_fingerprints.{role}": name for role, name in manifest.role_fingerprints.items()},
        **{f"prompt_digests.{name}": digest for name, digest in manifest.prompt_digests.items()},
    }
    nodes = tuple(f"{name}." for name in without)
    return {key: v for key, v in parts.items() if key.split(".")[-1] != "seed" and not f"{key}.".startswith(nodes)}


def stream_of(log: Log, frozen: Sequence[Log] = ()) -> Stream:
    """The matrix of one run of a stream, with its checkpoints."""
    rounds, last = _rounds(log), end(log)
    rows = {last: _verdicts(log.headline)} if log.headline is not log else {}
    for each in frozen:
        at = last if (after := rounds_before(each)) is None else after
        rows[at] = rows.get(at, {}) | _verdicts(each)
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

    A round ends before the next begins, so the order of ends tells rounds apart. Within a round, tasks are sorted.
    """
    size = round_size(log) or 1
    train = [task_id for task_id, result in log.results.items() if result.split in ("", "train")]
    parts = [sorted(train[start : start + size]) for start in range(0, len(train), size)]
    return {task_id: number for number, part in enumerate(parts) for task_id in part}


def _verdicts(log: Log) -> dict[str, float]:
    """Hidden verdicts on submissions, by task, of tasks with one."""
    return {task: float(grade.passed) for task, (_, grade) in log.submitted.items() if task not in log.no_verdict}


def _repeated(run: RunFolder) -> Iterator[str]:
    """Near-duplicates in a stream: memory of one task may hold the solution of another."""
    every = tasks_of([run])[run.manifest.run_id]
    first = {base_id(task_id): task for task_id, task in reversed(every.items())}
    tasks = [first[name] for name in dict.fromkeys(map(base_id, every))]
    if pairs := repeated(tasks):
        example = f"such as {pairs[0].later} of {pairs[0].earlier}"
        yield f"{len(pairs)} of {len(tasks)} tasks resemble an earlier one of another cluster, {example}"


def _notes(streams: Sequence[Stream], frozen: Sequence[Log]) -> Iterator[str]:
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
    if not all(shows_own(log) for log in frozen if rounds_before(log) != 0):
        yield "frozen runs hid the items of the task itself: stability needs memory.shared.same_task=true"
    if any(rounds_before(log) == 0 and _beginning(log) for log in frozen):
        yield "a(0, j) is with the items that the stream began with, not without memory"
    if "forgetting" not in {name for names in reasons.values() for name in names}:
        yield "forgetting takes the best verdict, so it is high even where memory does nothing; see backward transfer"


def _available(stream: Stream) -> Iterator[str]:
    """Names of `WORDS` that a stream has."""
    is_learnt = np.isfinite(np.asarray(stream.learnt, float))
    last = np.asarray(stream.verdicts, float)[-1][is_learnt] if len(stream.checkpoints) else np.empty(0)
    facts = {
        "zero": 0 in stream.checkpoints,
        "before": sum(at > 0 for at in stream.checkpoints) > 1,
        "end": bool(np.isfinite(last).any()) and stream.checkpoints[-1] > 0,
        "held_out": not is_learnt.all(),
    }
    return (name for name, is_met in facts.items() if is_met)
