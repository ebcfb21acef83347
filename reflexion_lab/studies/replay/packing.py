"""Packs a run: it is replayed from its recorded calls first, so that what is packed is known to replay.

No key, no log-in and no place on the machine's disks leaves with it.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import figures
from reflexion_lab.io.secrets import SHAPES, of_environment, without_logins
from reflexion_lab.io.temp_dirs import Scratch
from reflexion_lab.protocols import Store
from reflexion_lab.records import Beginning, Completion, Episode, Manifest, Mistake
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import EXECUTION_KEYS
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.postgresql import is_url, with_login
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import CALLS, VECTORS, About, BundleError, Call, as_file, as_lines, copied
from reflexion_lab.studies.replay.replay import Sameness, Supplies, compare, keeps, pools, rerun
from reflexion_lab.tasks.benchmarks.datasets_in import HUB

if TYPE_CHECKING:
    from reflexion_lab.agent.models.prices import Price

LOG = (
    "attempts.jsonl",
    "results.jsonl",
    "grades.jsonl",
    "written_tests.jsonl",
    "suite_verdicts.jsonl",
    "resumptions.jsonl",
)


KEYS = re.compile(SHAPES.pattern.encode())
KEPT = ("workers", "quiet")
"""Execution settings that do not describe the machine."""


class Packed(NamedTuple):
    path: Path
    calls: int
    members: dict[str, int]
    """Bytes by member."""
    sameness: Sameness
    """The run against its replay."""


def pack(run: RunFolder, out: Path, calls: str | Path | None = None, store: Store | None = None) -> Packed:
    """Write the bundle of a finished run to `out`.

    Parameters
    ----------
    calls : str or Path, optional
        The call cache that the run used, a file or PostgreSQL's URL, where it is no longer the one that its config
        names.
    store : Store, optional
        What the run read at its beginning, where that was anything.

    Raises
    ------
    BundleError
        The run is not finished, something that it read is gone, its replay differs, or it holds a key or a path of this
        machine.
    """
    log = Log.read(run)
    if len(log.results) != log.manifest.n_expected or not log.is_graded:
        raise BundleError(
            f"{run.path}: the run is not finished", expected="all tasks graded", hint="finish it with resume="
        )
    with Scratch() as scratch:
        here = scratch.path
        supplies = _gather(run, log, here, calls, store)
        used = here / "used"  # the run adds to its store
        if supplies.memory.is_dir():
            shutil.copytree(supplies.memory, used)
        again = rerun(log.manifest, supplies._replace(memory=used), here / "again")
        sameness = compare(log, figures(log), again.folder, again.problem)
        if not sameness.holds:
            raise BundleError(f"{run.path}: its replay differs, so it is not packed: {sameness.first}")
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
    return Packed(out, members["calls.jsonl"].count(b"\n"), {k: len(v) for k, v in members.items()}, sameness)


def _gather(run: RunFolder, log: Log, here: Path, calls: str | Path | None, store: Store | None) -> Supplies:
    config: dict[str, Any] = log.manifest.config
    study = run.path / registration.FILE
    cache: Mapping[str, Any] = config.get("cache") or {}
    memory = here / "memory"
    if keeps(config):
        _write_memory(log.beginning or Beginning(), log.manifest.run_id, store, memory)
    vectors = _beside(run, cache.get("embeddings"), "embeddings.sqlite")
    stored = _calls(run, log.manifest, str(calls or ""), here)
    return Supplies(
        calls=_priced(stored, log.manifest, here / "priced.sqlite"),
        contexts=contexts(log.manifest),
        embeddings=vectors,
        embedder="",
        memory=memory,
        data=_data(config),
        pool=_pool(log.manifest),
        study=str(study) if study.is_file() else None,
    )


def contexts(manifest: Manifest) -> dict[str, int]:
    """By role, the context that its model's config names; 0 where it names none."""
    config: dict[str, Any] = manifest.config
    nodes: dict[str, Any] = {"actor": config["model"], **(config.get("roles") or {})}
    return {role: int(nodes[role].get("context") or 0) for role in ("actor", *manifest.role_fingerprints)}


def _calls(run: RunFolder, manifest: Manifest, named: str, here: Path) -> Path:
    """The call cache as a file, `named` or the one of the config."""
    config: dict[str, Any] = manifest.config
    usual = str((config.get("cache") or {}).get("path") or "")
    if is_url(named or usual):
        prints = [manifest.model_fingerprint, *manifest.role_fingerprints.values()]
        return copied(named or with_login(usual), prints, here / "shared.sqlite")
    return _found(Path(named) if named else _beside(run, usual, "calls.sqlite"), "call cache", "--calls")


def _priced(calls: Path, manifest: Manifest, out: Path) -> Path:
    """The call cache as the run read it: replies stored without a price have it added."""
    from reflexion_lab.agent.models.prices import price_of, read

    config: dict[str, Any] = manifest.config
    nodes = {"actor": config["model"], **(config.get("roles") or {})}
    if not any("price_per_million" in node for node in nodes.values()):
        return calls  # nothing is paid where models run here
    lists = read((config.get("prices") or {}).get("path"))
    prints = {"actor": manifest.model_fingerprint, **manifest.role_fingerprints}
    prices = {fingerprint: price_of(nodes[role], lists) for role, fingerprint in prints.items()}
    rows = (msgspec.json.decode(line, type=Call) for line in as_lines(calls, CALLS).splitlines())
    priced = (
        replace(row, completion=_put_on(prices[row.fingerprint], row.completion))
        for row in rows
        if row.fingerprint in prices
    )
    return as_file(b"".join(msgspec.json.encode(row) + b"\n" for row in priced), CALLS, out)


def _put_on(price: Price, completion: str) -> str:
    return msgspec.json.encode(price.put_on(msgspec.json.decode(completion, type=Completion))).decode()


def _beside(run: RunFolder, named: str | None, usual: str) -> Path:
    """A cache as the config names it, seen from here; else where runs have theirs, beside the run folder."""
    return Path(named) if named and Path(named).is_file() else run.path.parent / usual


def _found(path: Path, what: str, option: str) -> Path:
    if not path.is_file():
        raise BundleError(path, f"no {what}", "a run with cache.mode on", f"name it with {option}")
    return path


def _data(config: Mapping[str, Any]) -> str | None:
    """The benchmark's file; None for one that needs none. A data set of the hub is not there offline."""
    load = config["benchmark"]["load"]
    if "path" not in load:
        return None
    path = str(load["path"] or "")
    if not path or path.startswith(HUB):
        raise BundleError("benchmark.load.path", f"{path or 'null'}, of the hub", "a file, so that it can travel")
    if not Path(path).is_file():
        raise BundleError("benchmark.load.path", f"{path}, no file from here", "one; go where the run was started")
    return path


def _pool(manifest: Manifest) -> tuple[str, ...]:
    from reflexion_lab.runner.pool import pool_runs

    nodes, known = pools(manifest.config), manifest.provenance.pool
    runs = (run for node in nodes for run in pool_runs(node["pool"], manifest.seed, known=known))
    return tuple(str(run.resolve()) for run in runs)


def _write_memory(beginning: Beginning, run_id: str, store: Store | None, folder: Path) -> None:
    """What the store held when the run began, as a store of its own."""
    if store is None and (beginning.episodes or beginning.mistakes):
        raise BundleError("the run read a store when it began", expected="it, so that it is packed too: --store PLACE")
    held = Jsonl(folder)
    if store is not None:
        episodes = [record for record in store.read(Episode) if not record.session_id.startswith(f"{run_id}/")]
        mistakes = [record for record in store.read(Mistake) if not record.mistake_id.startswith(f"mistake-{run_id}/")]
        held.append(episodes[: beginning.episodes])
        held.append(mistakes[: beginning.mistakes])
    held.append(beginning.wisdom)
    held.close()


def _members(run: RunFolder, manifest: Manifest, supplies: Supplies, again: Path) -> Iterator[tuple[str, bytes]]:
    yield "manifest.json", _json(portable(manifest))
    for name in (*LOG, "memory.json", registration.FILE):
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
        yield f"pool/{number}/manifest.json", _json(portable(earlier.manifest))
        yield f"pool/{number}/attempts.jsonl", (earlier.path / "attempts.jsonl").read_bytes()


def _json(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2) + b"\n"


def portable(manifest: Manifest) -> Manifest:
    """The manifest without places: of an absolute path its last part is left, and what says where a run lay is empty.
    The digests stay those of the run.
    """
    config = {key: value for key, value in manifest.config.items() if key not in EXECUTION_KEYS or key in KEPT}
    config = {key: _without_places(value) for key, value in without_logins(config).items()}
    provenance = replace(manifest.provenance, overrides=())  # they hold places too, and the config says it all
    return replace(manifest, config=config, provenance=provenance)


def check_secrets(members: Mapping[str, bytes], run: Path) -> None:
    """Raises BundleError: a member holds a key, the value of a variable that is named like one, or where this machine
    keeps the run, the package or its user's files. What it holds is not told.
    """
    for name, content in members.items():
        for what, text in _unwanted(run):
            if text in content:
                raise BundleError(f"{run}: {name} holds {what}; a bundle goes to others, so nothing was packed")
        if KEYS.search(content):
            raise BundleError(f"{run}: {name} holds what looks like an API key; nothing was packed")


def _unwanted(run: Path) -> Iterator[tuple[str, bytes]]:
    for variable, value in of_environment():
        yield f"the value of the environment variable {variable}", value.encode()
    for what, place in {"run folder": run.resolve(), "package": Path(__file__).parents[2], "home": Path.home()}.items():
        if len(place.parts) > 2:  # `/root` or `/` may stand in any text
            yield f"the path of this machine's {what}", str(place).encode()


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
