"""Packing of a run: it is replayed from its recorded calls first, so every bundle is known to replay.

A bundle contains no key, no login and no path of this machine.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.prices import price_of, read
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import figures
from reflexion_lab.io.files import Scratch
from reflexion_lab.io.secrets import SHAPES, of_environment, without_logins
from reflexion_lab.protocols import Store
from reflexion_lab.records import Beginning, Completion, Episode, Manifest
from reflexion_lab.runner.config.build import has_durable_store
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import EXECUTION_KEYS, fingerprints
from reflexion_lab.runner.pool import pool_runs
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.place import with_login
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import CALLS, VECTORS, About, BundleError, Call, as_file, as_json, as_lines
from reflexion_lab.studies.replay.findings import Verification
from reflexion_lab.studies.replay.replay import Supplies, compare, pools, rerun
from reflexion_lab.tasks.benchmarks.rows import HUB

LOG = ("attempts", "results", "grades", "written_tests", "suite_verdicts", "resumptions", "operations")
KEYS = re.compile(SHAPES.pattern.encode())
KEPT = ("workers", "quiet")
"""Execution settings that do not describe the machine."""


class Packed(NamedTuple):
    path: Path
    calls: int
    members: dict[str, int]
    """Bytes by member."""
    verification: Verification
    """The run against its replay."""


def pack(
    run: RunFolder, out: Path, calls: str | Path | None = None, store: Store | None = None, trusted: Sequence[str] = ()
) -> Packed:
    """Write the bundle of a finished run to `out`.

    Raises BundleError: the run is not finished, an input is gone, the replay differs, or a member has a key or a path
    of this machine. `calls`: the run's call cache, a file or a PostgreSQL URL; by default the one that its config
    names. `store`: the store that the run read at its start. `trusted`: modules with parts of one's own.
    """
    log = Log.read(run)
    if len(log.results) != log.manifest.n_expected or not log.is_graded:
        raise BundleError(
            f"{run.path}: the run is not finished",
            expected="all tasks graded",
            hint="finish it with the same command and resume=FOLDER",
        )
    with Scratch() as scratch:
        here = scratch.path
        supplies = _gather(run, log, here, calls, store)
        used = here / "used"  # the run adds to its store
        if supplies.memory.is_dir():
            shutil.copytree(supplies.memory, used)
        again = rerun(log.manifest, supplies._replace(memory=used), here / "again", trusted=trusted)
        verification = compare(run.path, log, figures(log), again)
        if not verification.holds:
            reasons = "; ".join(map(str, (verification.disagreements[0], *verification.notes)))
            raise BundleError(f"{run.path}: its replay differs, so it is not packed: {reasons}")
        members = dict(_members(run, log.manifest, supplies, here / "again"))
    about = About(
        run_id=log.manifest.run_id,
        python=platform.python_version(),
        packages=log.manifest.package_versions,
        contexts=dict(supplies.contexts),
        embedder=supplies.embedder,
        figures=figures(log),
        members={},
    )
    check_secrets(members, run.path)
    bundle.write(out, about, members)
    return Packed(out, members["calls.jsonl"].count(b"\n"), {k: len(v) for k, v in members.items()}, verification)


def _gather(run: RunFolder, log: Log, here: Path, calls: str | Path | None, store: Store | None) -> Supplies:
    manifest = log.manifest
    config: dict[str, Any] = manifest.config
    study, memory = run.path / registration.FILE, here / "memory"
    cache: Mapping[str, Any] = config.get("cache") or {}
    if has_durable_store(config["store"]):
        _write_memory(log.beginning or Beginning(), manifest.run_id, store, memory)
    nodes = {"actor": config["model"], **(config.get("roles") or {})}
    models = {role: nodes[role] for role in fingerprints(manifest)}
    served = {role: served.context for role, served in manifest.served.items()}
    stored = _calls(run, manifest, str(calls or ""), str(cache.get("path") or ""), here)
    known = manifest.provenance.pool
    pool = (earlier for node in pools(config) for earlier in pool_runs(node["pool"], manifest.seed, known=known))
    return Supplies(
        calls=_priced(stored, manifest, models, here / "priced.sqlite"),
        contexts={role: int(node.get("context") or served.get(role, 0)) for role, node in models.items()},
        embeddings=_beside(run, cache.get("embeddings"), "embeddings.sqlite"),
        embedder=manifest.provenance.embedder_fingerprint,
        memory=memory,
        data=_data(config),
        pool=tuple(str(earlier.resolve()) for earlier in pool),
        study=str(study) if study.is_file() else None,
        recorded=run.path,
    )


def _calls(run: RunFolder, manifest: Manifest, named: str, usual: str, here: Path) -> Path:
    """The call cache as a file: `named`, or the `usual` one of the config."""
    if "://" in (named or usual):
        return bundle.copied(named or with_login(usual), [*fingerprints(manifest).values()], here / "shared.sqlite")
    path = Path(named) if named else _beside(run, usual, "calls.sqlite")
    if not path.is_file():
        raise BundleError(path, "no call cache", "a run with cache.mode on", "name it with --calls")
    return path


def _priced(calls: Path, manifest: Manifest, models: Mapping[str, Any], out: Path) -> Path:
    """The call cache as the run read it: replies stored without a price get one."""
    config: dict[str, Any] = manifest.config
    if not any("price_per_million" in node for node in models.values()):
        return calls  # models that run here cost nothing
    lists = read((config.get("prices") or {}).get("path"))
    prices = {name: price_of(models[role], lists) for role, name in fingerprints(manifest).items()}
    priced = []
    for line in as_lines(calls, CALLS).splitlines():
        call = msgspec.json.decode(line, type=Call)
        if call.fingerprint in prices:
            completion = prices[call.fingerprint].with_cost(msgspec.json.decode(call.completion, type=Completion))
            priced.append(msgspec.json.encode(replace(call, completion=msgspec.json.encode(completion).decode())))
    return as_file(b"".join(line + b"\n" for line in priced), CALLS, out)


def _beside(run: RunFolder, named: str | None, usual: str) -> Path:
    """The cache that the config names; if it is gone, the one beside the run folder."""
    return Path(named) if named and Path(named).is_file() else run.path.parent / usual


def _data(config: Mapping[str, Any]) -> str | None:
    """The benchmark's file; None if it needs none. A data set of the hub is not available offline."""
    load = config["benchmark"]["load"]
    if "path" not in load:
        return None
    path = str(load["path"] or "")
    if not path or path.startswith(HUB):
        raise BundleError("benchmark.load.path", f"{path or 'null'}, of the hub", "a file, so that it can travel")
    if Path(path).is_dir():
        raise BundleError("benchmark.load.path", f"{path}, a folder, which does not travel", "its rows in one file")
    if not Path(path).is_file():
        raise BundleError("benchmark.load.path", f"{path}, no file from here", "one; go where the run was started")
    return path


def _write_memory(beginning: Beginning, run_id: str, store: Store | None, folder: Path) -> None:
    """Write the contents of the store at the start of the run into a store of its own."""
    if store is None and beginning.episodes:
        raise BundleError("the run read a store when it began", expected="it, so that it is packed too: --store PLACE")
    held = Jsonl(folder)
    if store is not None:
        episodes = [record for record in store.read(Episode) if not record.session_id.startswith(f"{run_id}/")]
        held.append(episodes[: beginning.episodes])
    held.append(beginning.wisdom)
    held.close()


def _members(run: RunFolder, manifest: Manifest, supplies: Supplies, again: Path) -> Iterator[tuple[str, bytes]]:
    yield "manifest.json", as_json(portable(manifest))
    for name in (*(f"{name}.jsonl" for name in LOG), "memory.json", registration.FILE):
        if (run.path / name).is_file():
            yield name, (run.path / name).read_bytes()
    yield "calls.jsonl", as_lines(again / "calls.sqlite", CALLS)
    if vectors := as_lines(again / "embeddings.sqlite", VECTORS):
        yield "embeddings.jsonl", vectors
    for path in sorted(supplies.memory.glob("*.jsonl")):
        yield f"memory/{path.name}", path.read_bytes()
    if supplies.data:
        name = re.sub(r"[/\\\x00-\x1f]", "_", Path(supplies.data).name)[-200:].lstrip(".")
        yield f"data/{name or 'tasks'}", Path(supplies.data).read_bytes()
    for number, folder in enumerate(supplies.pool):
        earlier = RunFolder.existing(folder)
        yield f"pool/{number}/manifest.json", as_json(portable(earlier.manifest))
        yield f"pool/{number}/attempts.jsonl", (earlier.path / "attempts.jsonl").read_bytes()


def portable(manifest: Manifest) -> Manifest:
    """The manifest without folders and overrides. Its digests stay those of the run."""
    config = {key: value for key, value in manifest.config.items() if key not in EXECUTION_KEYS or key in KEPT}
    config = {key: _without_places(value) for key, value in without_logins(config).items()}
    provenance = replace(manifest.provenance, overrides=())  # they hold places too, and the config says it all
    return replace(manifest, config=config, provenance=provenance)


def check_secrets(members: Mapping[str, bytes], run: Path) -> None:
    """Raises BundleError: a member has an API key, the value of a secret variable, or a path of this machine's
    run, package or home folder. The message does not repeat it.
    """
    secrets = {f"the value of the environment variable {name}": value for name, value in of_environment()}
    for what, place in {"run folder": run.resolve(), "package": Path(__file__).parents[2], "home": Path.home()}.items():
        if len(place.parts) > 2:  # `/root` or `/` may stand in any text
            secrets[f"the path of this machine's {what}"] = str(place)
    for name, content in members.items():
        for what, text in secrets.items():
            if text.encode() in content:
                raise BundleError(f"{run}: {name} contains {what}; a bundle is for sharing, so nothing was packed")
        if KEYS.search(content):
            raise BundleError(f"{run}: {name} contains what looks like an API key; nothing was packed")


def _without_places(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_places(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_places(value) for value in node]
    if not isinstance(node, str):
        return node
    address = re.fullmatch(r"(sqlite|file):/+(.*)", node)
    if PurePosixPath(node).is_absolute() or address or node.startswith("~"):
        return PurePosixPath(node).name
    return PureWindowsPath(node).name if PureWindowsPath(node).is_absolute() else node
