"""Runs over the shards of a benchmark, alike but for `benchmark.shard`, as one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import shard_of


def grouped(runs: Iterable[RunFolder]) -> list[list[RunFolder]]:
    """The folders of each run: several for one with shards, in the order of these, at the place of the first. A shard
    that is there twice is one of another run.
    """
    groups: dict[object, list[RunFolder]] = {}
    copies = Counter[object]()
    for run in runs:
        key: object = str(run.path)
        if shard := shard_of(run.manifest.config):
            kind = _kind(run.manifest)
            copies[kind, shard] += 1
            key = kind, copies[kind, shard]
        groups.setdefault(key, []).append(run)
    return [sorted(group, key=_number) for group in groups.values()]


def with_others(run: RunFolder) -> list[RunFolder]:
    """The folders of the run of which `run` may be a shard, among those beside it."""
    if not shard_of(run.manifest.config):
        return [run]
    beside = (RunFolder(path.parent) for path in sorted(run.path.resolve().parent.glob("[!.]*/manifest.json")))
    alike = [other for other in beside if _kind(other.manifest) == _kind(run.manifest)]
    others = [other for other in alike if other.path != run.path.resolve()]
    return grouped([run, *others])[0]


def read(group: Sequence[RunFolder], texts: bool | Literal["digests"] = True) -> Log:
    """The log of one run, from the folders of its shards. Raises FolderError: as of `Log.read`."""
    logs = [Log.read(run, texts) for run in group]
    first, n = logs[0], shard_of(logs[0].manifest.config).partition("/")[2]
    if not n:
        return first
    manifest, every = first.manifest, chain.from_iterable
    config: dict[str, Any] = manifest.config
    return replace(
        first,
        manifest=replace(
            manifest,
            config={**config, "benchmark": {**config["benchmark"], "shard": None}},
            n_expected=sum(log.manifest.n_expected for log in logs),
        ),
        results=dict(every(log.results.items() for log in logs)),
        attempts=dict(every(log.attempts.items() for log in logs)),
        grades=dict(every(log.grades.items() for log in logs)),
        written=dict(every(log.written.items() for log in logs)),
        suite_verdicts=dict(every(log.suite_verdicts.items() for log in logs)),
        clusters=dict(every(log.clusters.items() for log in logs)),
        set_aside=tuple(every(log.set_aside for log in logs)),
        resumptions=tuple(every(log.resumptions for log in logs)),
        deviations=tuple(dict.fromkeys(every(log.deviations for log in logs))),
        torn=sum(log.torn for log in logs),
        shard_ids=tuple(log.manifest.run_id for log in logs),
        n_shards=int(n),
    )


def _kind(manifest: Manifest) -> str:
    """Equal for the shards of a run."""
    n = shard_of(manifest.config).partition("/")[2]
    models = manifest.model_fingerprint, sorted(manifest.role_fingerprints.items())
    parts = sorted(manifest.provenance.own_parts.items())
    texts = sorted(manifest.prompt_digests.items())
    return repr((n, manifest.config_digest, manifest.benchmark_digest, models, parts, texts, manifest.study_digest))


def _number(run: RunFolder) -> int:
    return int(shard_of(run.manifest.config).partition("/")[0] or 0)
