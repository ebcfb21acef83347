"""Runs repeated from their records, offline, and compared: the very config, its models answering from the
recording alone, its programs executed anew. No network, no weights and no key are needed.
"""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import ConfigError, FolderError, ModelError
from reflexion_lab.io.temp_dirs import Scratch
from reflexion_lab.moved import current, updated
from reflexion_lab.records import Manifest
from reflexion_lab.runner.config.build import has_durable_store
from reflexion_lab.runner.config.compose import CONF, assemble
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import About, BundleError
from reflexion_lab.studies.replay.recorded_files import CALLS, VECTORS, as_file
from reflexion_lab.studies.replay.sameness import Sameness, compare

REPLAY_MODEL = "reflexion_lab.agent.models.replay.ReplayModel"
REPLAY_EMBEDDER = "reflexion_lab.memory.embedders.replay.ReplayEmbedder"
STORE = "reflexion_lab.storage.jsonl.Jsonl"
NO_TRACKER = "reflexion_lab.studies.tracking.null.NullTracker"


class Supplies(NamedTuple):
    """What a run reads, and where it lies now."""

    calls: Path
    """A call-cache file."""
    contexts: Mapping[str, int]
    """Tokens of prompt and reply together, by role."""
    embeddings: Path
    """An embedding-cache file; opened only by runs that ask for vectors."""
    embedder: str
    """Whose vectors; "" for the only ones there."""
    memory: Path
    """A folder of JSON lines; runs that keep what they learn read it, and add to it."""
    data: str | None
    """The benchmark's file, where it is one."""
    pool: tuple[str, ...]
    """Run folders that reflections are drawn from."""
    study: str | None


class Rerun(NamedTuple):
    folder: RunFolder
    problem: ModelError | None
    """What was asked for and not recorded: the run went another way, and ended there."""


def rerun(manifest: Manifest, supplies: Supplies, folder: Path, run_root: Path | None = None) -> Rerun:
    """Carry out the run of `manifest` again. Its caches are new ones in `folder`: afterwards `calls.sqlite` there holds
    what it asked its models, and nothing else. Its own folder comes below `run_root`, else below `folder` too.

    Raises
    ------
    ConfigError
        Its config names parts that this version does not have, or the benchmark is another one here.
    HarnessError
        The sandbox is broken.
    """
    check_parts(manifest.config)
    lab = assemble(config_of(manifest, supplies, folder, run_root or folder))
    try:
        lab.runner.run()
    except ModelError as problem:
        return Rerun(lab.folder, problem)
    finally:
        lab.close()
    return Rerun(lab.folder, None)


def config_of(manifest: Manifest, supplies: Supplies, folder: Path, run_root: Path) -> dict[str, Any]:
    """The config of a run with its models, places and data replaced by what was recorded."""
    config: dict[str, Any] = updated(manifest.config)
    prints = {"actor": manifest.model_fingerprint, **manifest.role_fingerprints}
    nodes = {role: _model(supplies, role, fingerprint, manifest.slots) for role, fingerprint in prints.items()}
    config |= {
        "model": nodes.pop("actor"),
        "roles": nodes,
        "tracker": {"_target_": NO_TRACKER},
        "run_root": str(run_root),
        "resume": None,
        "executor": None,
        "quiet": True,
        "sweep_id": None,
        "caps": None,
        "storage": None,
        "prices": None,
        "study": supplies.study,
        "embedder": {
            "_target_": REPLAY_EMBEDDER,
            "_partial_": True,
            "path": str(supplies.embeddings),
            "fingerprint": supplies.embedder,
        },
    }
    files = {"path": "calls", "embeddings": "embeddings", "executions": "executions"}
    config["cache"] = {"mode": "read-write", **{key: str(folder / f"{name}.sqlite") for key, name in files.items()}}
    if has_durable_store(config):
        config["store"] = {"_target_": STORE, "path": str(supplies.memory)}
    if config["memory"].get("reflection_files"):
        config["memory"]["reflection_files"] = str(folder / "reflections")
    if supplies.data is not None:
        config["benchmark"]["load"]["path"] = supplies.data
    for node in pools(config):
        node["pool"] = list(supplies.pool)
    return config


def _model(supplies: Supplies, role: str, fingerprint: str, slots: int) -> dict[str, Any]:
    return {
        "_target_": REPLAY_MODEL,
        "path": str(supplies.calls),
        "fingerprint": fingerprint,
        "slots": slots,
        "context": supplies.contexts.get(role, 0),
    }


def pools(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts that draw from earlier runs."""
    return [node for node in _dicts(config) if "pool" in node and "_target_" in node]


def check_parts(config: Mapping[str, Any]) -> None:
    """A config from elsewhere may name parts of this version alone: any other name would be a program to run.

    Raises
    ------
    ConfigError
        It names something else, or holds an interpolation.
    """
    for node in _dicts(config):
        target = node.get("_target_")
        named = [target] if target else []
        if target == "hydra.utils.get_object":
            named.append(node.get("path"))
        for name in named:
            if current(name) not in parts():
                raise ConfigError("config", f"the part {name}", "one that conf/ names here", "use its version")
    if any("${" in text for text in _texts(config)):
        raise ConfigError("config", "an interpolation, ${…}", "plain values, as manifests hold them")


@functools.cache
def parts() -> frozenset[str]:
    """Every name of a class or function that the config folder holds."""
    pattern = re.compile(r"^[\s-]*(?:_target_|path): ((?:reflexion_lab|hydra\.utils)\.[\w.]+)", re.MULTILINE)
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return frozenset(name for text in texts for name in pattern.findall(text)) | {STORE}


def _dicts(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _dicts(value)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for value in [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _texts(value)


class Replayed(NamedTuple):
    about: About
    sameness: Sameness
    folder: Path | None
    """The replay's own run folder, where it was to be kept."""


def replay(path: Path, out: Path | None = None) -> Replayed:
    """Unpack the bundle at `path`, carry its run out again and compare; with `out`, keep the new run below that folder.

    Raises
    ------
    BundleError
        The file is no bundle, is damaged, or does not hold a run.
    ValueError
        The run needs parts that this version does not have.
    HarnessError
        The sandbox is broken.
    """
    about, members = bundle.read(path)
    with Scratch() as scratch:
        unpacked = scratch.path / "bundle"
        bundle.unpack(members, unpacked)
        try:
            then = Log.read(RunFolder.existing(unpacked))
        except FolderError as problem:
            raise BundleError(f"{path}: {problem}") from None
        again = rerun(then.manifest, _supplies(about, unpacked), scratch.path / "again", out)
        again.folder.write_json("summary.json", msgspec.to_builtins(summary(Log.read(again.folder))))
        sameness = compare(then, about.figures, again.folder, again.problem)
    if about.python != platform.python_version():
        note = f"python: {about.python} then, {platform.python_version()} here"
        sameness = replace(sameness, notes=(note, *sameness.notes))
    return Replayed(about, sameness, again.folder.path if out is not None else None)


def _supplies(about: About, unpacked: Path) -> Supplies:
    calls, vectors, study = (unpacked / name for name in ("calls.jsonl", "embeddings.jsonl", registration.FILE))
    if not calls.is_file():
        raise BundleError("calls.jsonl", "no such member", "the calls of the run")
    files = sorted((unpacked / "data").glob("*"))
    embeddings = unpacked / "embeddings.sqlite"
    if vectors.is_file():
        as_file(vectors.read_bytes(), VECTORS, embeddings)
    return Supplies(
        calls=as_file(calls.read_bytes(), CALLS, unpacked / "calls.sqlite"),
        contexts=about.contexts,
        embeddings=embeddings,
        embedder=about.embedder,
        memory=unpacked / "memory",
        data=str(files[0]) if files else None,
        pool=tuple(str(folder) for folder in sorted((unpacked / "pool").glob("*"), key=lambda path: int(path.name))),
        study=str(study) if study.is_file() else None,
    )
