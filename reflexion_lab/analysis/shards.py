"""Runs over the shards of a benchmark, alike but for `benchmark.shard`, as one run."""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import changes, resumption, shard_of
from reflexion_lab.runner.folder.registration import deviations_of


def grouped(runs: Iterable[RunFolder]) -> list[list[RunFolder]]:
    """The folders of each run: several for one with shards, in the order of these, at the place of the first. Shards of
    one sweep belong together before those of several; a shard that is there twice is one of another run.
    """
    parts: dict[tuple[str, object, int], dict[int, RunFolder]] = {}
    copies = Counter[object]()
    for run in runs:
        kind, sweep = str(run.path), run.manifest.config.get("sweep_id")
        number = int(shard_of(run.manifest.config).partition("/")[0] or 0)
        if shard_of(run.manifest.config):
            kind = _kind(run.manifest)
            copies[kind, sweep, number] += 1
        parts.setdefault((kind, sweep, copies[kind, sweep, number]), {})[number] = run
    groups: list[dict[int, RunFolder]] = []
    of_kind = defaultdict[str, list[dict[int, RunFolder]]](list)
    for (kind, _, _), part in parts.items():
        if group := next((group for group in of_kind[kind] if group.keys().isdisjoint(part)), None):
            group |= part
        else:
            of_kind[kind].append(part)
            groups.append(part)
    return [[group[number] for number in sorted(group)] for group in groups]


def with_others(run: RunFolder) -> list[RunFolder]:
    """The folders of the run of which `run` may be a shard, among those beside it; of equal shards, the newest."""
    if not shard_of(run.manifest.config):
        return [run]
    manifests = sorted(run.path.resolve().parent.glob("[!.]*/manifest.json"), reverse=True)
    beside = (RunFolder(path.parent) for path in manifests)
    alike = [other for other in beside if _kind(other.manifest) == _kind(run.manifest)]
    others = [other for other in alike if other.path != run.path.resolve()]
    return grouped([run, *others])[0]


def read(group: Sequence[RunFolder], texts: bool | Literal["digests", "on demand"] = True) -> Log:
    """The log of one run, from the folders of its shards. Raises FolderError: as of `Log.read`; two hold a task."""
    logs = [Log.read(run, texts) for run in group]
    first, n = logs[0], shard_of(logs[0].manifest.config).partition("/")[2]
    if not n:
        return first
    every = chain.from_iterable
    config: dict[str, Any] = first.manifest.config
    manifest = replace(
        first.manifest,
        config={**config, "benchmark": {**config["benchmark"], "shard": None}},
        n_expected=sum(log.manifest.n_expected for log in logs),
    )
    results = dict(every(log.results.items() for log in logs))
    if len(results) < sum(len(log.results) for log in logs):
        raise FolderError(group[0].path, "a task in two of its shards", "shards of the same tasks and clusters")
    by_task = ("grades", "written", "suite_verdicts", "clusters")
    of_all = deviations_of(group[0].path, manifest)
    begun = (resumption(first.manifest, log.manifest) for log in logs[1:])  # what differs counts as after a resumption
    return replace(
        first,
        manifest=manifest,
        results=results,
        attempts=ChainMap(*(log.attempts for log in reversed(logs))),  # type: ignore[arg-type]  # only read
        **{name: dict(every(getattr(log, name).items() for log in logs)) for name in by_task},
        set_aside=tuple(every(log.set_aside for log in logs)),
        resumptions=(*(each for each in begun if changes(manifest, each)), *every(log.resumptions for log in logs)),
        deviations=tuple(dict.fromkeys((*every(log.deviations for log in logs), *of_all))),
        torn=sum(log.torn for log in logs),
        shard_ids=tuple(log.manifest.run_id for log in logs),
        n_shards=int(n),
        unfinished=tuple(
            str(run.path)
            for run, log in zip(group, logs, strict=True)
            if len(log.results) < log.manifest.n_expected or not log.is_graded
        ),
    )


def _kind(manifest: Manifest) -> str:
    """Equal for the shards of a run."""
    n = shard_of(manifest.config).partition("/")[2]
    models = manifest.model_fingerprint, sorted(manifest.role_fingerprints.items())
    parts = sorted(manifest.provenance.own_parts.items())
    texts = sorted(manifest.prompt_digests.items())
    prices = sorted(manifest.prices.items())
    data = manifest.benchmark_digest, manifest.provenance.benchmark_file_digest  # the second covers clusters, too
    return repr((n, manifest.config_digest, data, models, parts, texts, prices, manifest.study_digest))
