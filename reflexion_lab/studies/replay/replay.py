"""Replays: a run executed again from its recorded calls, offline and without keys, and compared with the record."""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, bare, canonical_form, differences, figures, summary
from reflexion_lab.errors import ConfigError, FolderError, ModelError
from reflexion_lab.io.files import Scratch
from reflexion_lab.moved import current, updated
from reflexion_lab.records import Attempt, Manifest, Record
from reflexion_lab.runner.config.build import has_durable_store
from reflexion_lab.runner.config.compose import CONF, assemble
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import CALLS, VECTORS, About, BundleError, as_file
from reflexion_lab.text.shorten import cut

REPLAY_MODEL = "reflexion_lab.agent.models.replay.ReplayModel"
REPLAY_EMBEDDER = "reflexion_lab.memory.embedders.cached.ReplayEmbedder"
STORE = "reflexion_lab.storage.jsonl.Jsonl"
NO_TRACKER = "reflexion_lab.studies.tracking.null.NullTracker"
RECORDS = {
    "attempts": "attempts",
    "submissions": "result",
    "hidden verdicts": "grades",
    "tests by the model": "written_tests",
    "their verdicts": "suite_verdict",
}
SHOWN = 120
"""Characters of a value."""


class Supplies(NamedTuple):
    """The inputs of a replay."""

    calls: Path
    """A call-cache file."""
    contexts: Mapping[str, int]
    """Context size in tokens, by role."""
    embeddings: Path
    """An embedding-cache file; opened only by runs that embed."""
    embedder: str
    """Fingerprint of the embedder; "" for the only one in the file."""
    memory: Path
    """A JSONL store; runs with a durable store read it and append to it."""
    data: str | None
    """The benchmark's file, if it has one."""
    pool: tuple[str, ...]
    """Run folders that reflections are drawn from."""
    study: str | None


class Rerun(NamedTuple):
    folder: RunFolder
    problem: ModelError | None
    """A call that is not recorded: the replay took another course and ended there."""


def rerun(manifest: Manifest, supplies: Supplies, folder: Path, run_root: Path | None = None) -> Rerun:
    """Run the config of `manifest` again, with new caches in `folder`: afterwards `calls.sqlite` there has exactly the
    calls of the replay. Its run folder is below `run_root`, by default below `folder`.

    Raises
    ------
    ConfigError
        The config names unknown parts, or the benchmark differs here.
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
    """The config of a run with models, paths and data replaced by recorded ones."""
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
    """Config nodes of the parts that read earlier runs."""
    return [node for node in _nodes(config) if isinstance(node, dict) and "pool" in node and "_target_" in node]


def check_parts(config: Mapping[str, Any]) -> None:
    """Refuse a config that names anything but parts of this version: any other name would be a program to run.

    Raises
    ------
    ConfigError
        It names something else, or has an interpolation.
    """
    for node in _nodes(config):
        if isinstance(node, str) and "${" in node:
            raise ConfigError("config", "an interpolation, ${…}", "plain values, as manifests hold them")
        target = node.get("_target_") if isinstance(node, dict) else None
        names = [target, node.get("path")] if target == "hydra.utils.get_object" else [target] if target else []
        for name in names:
            if current(name) not in parts():
                raise ConfigError("config", f"the part {name}", "one that conf/ names here", "use its version")


@functools.cache
def parts() -> frozenset[str]:
    """Every name of a class or function in the config folder."""
    pattern = re.compile(r"^[\s-]*(?:_target_|path): ((?:reflexion_lab|hydra\.utils)\.[\w.]+)", re.MULTILINE)
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return frozenset(name for text in texts for name in pattern.findall(text)) | {STORE}


def _nodes(config: Any) -> Iterator[Any]:
    """Every value and key in a config."""
    yield config
    if isinstance(config, dict | list):
        for item in [*config, *config.values()] if isinstance(config, dict) else config:
            yield from _nodes(item)


class Replayed(NamedTuple):
    about: About
    sameness: Sameness
    folder: Path | None
    """The run folder of the replay, if it is kept."""


def replay(path: Path, out: Path | None = None) -> Replayed:
    """Replay the bundle at `path` and compare; with `out`, keep the new run below that folder.

    Raises
    ------
    BundleError
        The file is no bundle, is damaged, or has no run.
    ConfigError
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


class Row(Record, frozen=True, kw_only=True):
    """One comparison."""

    name: str
    same: bool
    told: str
    """The number of equal items, or the first difference."""


class Sameness(Record, frozen=True, kw_only=True):
    """All comparisons of a run with its replay."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """Differences that do not matter, such as versions of packages."""

    @property
    def holds(self) -> bool:
        return all(row.same for row in self.rows)

    @property
    def first(self) -> str:
        """The first difference; "" where there is none."""
        return next((f"{row.name}: {row.told}" for row in self.rows if not row.same), "")


def compare(then: Log, packed: Mapping[str, Any], folder: RunFolder, problem: ModelError | None) -> Sameness:
    """Compare a run with its replay.

    Parameters
    ----------
    then : Log
        The run.
    packed : Mapping[str, Any]
        Its headline figures, as they were packed.
    folder : RunFolder
        The replay.
    problem : ModelError | None
        A call of the replay that was not recorded and ended it.
    """
    now = Log.read(folder)
    rows = [*_conditions(then.manifest, now.manifest), _beginning(then, now)]
    if problem:
        rows.append(_unrecorded_call(then, folder.attempts, problem))
    rows += _records(then, now)
    if not problem:
        rows += _figures(packed, figures(now))
    return Sameness(rows=tuple(rows), notes=tuple(_notes(then.manifest, now.manifest)))


def _conditions(then: Manifest, now: Manifest) -> Iterator[Row]:
    before, after = ((run.benchmark, run.benchmark_digest, run.n_expected) for run in (then, now))
    same = f"{then.n_expected} of {then.benchmark}"
    yield _row("tasks", before == after, same, f"{then.benchmark} has another digest or number of tasks here")
    templates = sorted(
        name
        for name in then.prompt_digests.keys() | now.prompt_digests.keys()
        if then.prompt_digests.get(name) != now.prompt_digests.get(name)
    )
    yield _row("prompts", not templates, f"{len(then.prompt_digests)} templates", ", ".join(templates))
    yield _row("study", then.study_digest == now.study_digest, then.study or "none", "another digest")


def _beginning(then: Log, now: Log) -> Row:
    places = list(differences(*(bare(log.beginning, log.manifest.run_id) for log in (then, now))))
    same = f"{then.beginning.episodes} episodes, {len(then.beginning.wisdom)} wisdom" if then.beginning else "none"
    return _row("memory at the start", not places, same, _place(places))


def _records(then: Log, now: Log) -> Iterator[Row]:
    before, after = canonical_form(then), canonical_form(now)
    by_time = _timed_out_apart(then.attempts, now.attempts)
    for name, field in RECORDS.items():
        pairs = {task: (before[task][field], after.get(task, {}).get(field)) for task in before}
        count = sum(len(value) if isinstance(value, list) else value is not None for value, _ in pairs.values())
        if not count and not any(value for _, value in pairs.values()):
            continue
        different = {task: list(differences(*pair)) for task, pair in pairs.items() if pair[0] != pair[1]}
        task = next((task for task in different if task in by_time), next(iter(different), ""))
        where = f"{len(different)} of {len(before)} tasks; {task}, {_place(different.get(task, []))}"
        yield _row(name, not different, str(count), where + _timeout_note(by_time))


def _figures(packed: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Row]:
    """One row for all equal figures, one for each that differs."""
    for name in ("pass_at_1", "pass_at_1_first"):
        if packed.get(name) and packed[name] == now.get(name):
            yield _row(name, True, f"{packed[name]['k']} of {packed[name]['n']}", "")
    changed = {name: list(differences(packed.get(name), now.get(name))) for name in packed}
    for name, places in changed.items():
        if places:
            yield _row(name, False, "", _place(places))
    yield _row("headline figures", not any(changed.values()), f"{len(changed)} to the last digit", "see above")


def _unrecorded_call(then: Log, replayed: Mapping[str, Sequence[Attempt]], problem: ModelError) -> Row:
    """The first earlier difference, which explains the unrecorded call; else the problem itself."""
    run_ids = then.manifest.run_id
    by_time = _timed_out_apart(then.attempts, replayed, partly=True)
    for task, attempts in replayed.items():
        before = bare(then.attempts.get(task, [])[: len(attempts)], run_ids)
        if places := list(differences(before, bare(attempts, run_ids), "attempts")):
            return _row("calls", False, "", f"{task}, {_place(places)}{_timeout_note(by_time)}")
    reason = "; ".join([str(problem), *getattr(problem, "__notes__", ())])
    return _row("calls", False, "", f"{' '.join(reason.split())}{_timeout_note(by_time)}")


def _timed_out_apart(
    then: Mapping[str, Sequence[Attempt]], now: Mapping[str, Sequence[Attempt]], partly: bool = False
) -> list[str]:
    """Tasks on which a program or the loop timed out in one of the two runs only."""
    apart = []
    for task in then:
        before, after = then[task], now.get(task, ())
        pairs = (
            zip(before, after, strict=False) if partly else zip(before[: len(after)], after[: len(before)], strict=True)
        )
        if any(_timed_out(a) != _timed_out(b) for a, b in pairs):
            apart.append(task)
    return apart


def _timed_out(attempt: Attempt) -> tuple[object, ...]:
    checks = tuple(number for number, check in enumerate(attempt.evaluation.checks) if check.outcome == "timeout")
    return checks, attempt.stop_reason == "timeout"


def _timeout_note(by_time: Sequence[str]) -> str:
    if not by_time:
        return ""
    return f" (a time-out: a program ended in time in one of the two alone, first on {by_time[0]})"


def _notes(then: Manifest, now: Manifest) -> Iterator[str]:
    for name in sorted(then.package_versions.keys() | now.package_versions.keys()):
        before, after = (manifest.package_versions.get(name, "none") for manifest in (then, now))
        if before != after:
            yield f"{name}: {before} then, {after} here"
    if then.isolation != now.isolation:
        yield f"isolation: {', '.join(then.isolation)} then, {', '.join(now.isolation)} here"


def _place(places: Sequence[tuple[str, Any, Any]]) -> str:
    """The first of the differences in words."""
    if not places:
        return ""
    at, before, after = places[0]
    return f"{at}: {cut(repr(before), SHOWN)} then, {cut(repr(after), SHOWN)} here"


def _row(name: str, same: bool, if_same: str, if_not: str) -> Row:
    return Row(name=name, same=same, told=if_same if same else if_not)
