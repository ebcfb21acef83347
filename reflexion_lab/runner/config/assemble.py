"""The composition root: from a config, composed or recorded in a manifest, to the checked parts of its run.

One file: the order in which parts are checked and opened is what it is about.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.reflectors.reviewed import Reviewed
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.loop.deadline import Budgeted
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import Stuck
from reflexion_lab.memory.archive import Archive, Rounds, is_begun_with, run_ids_in
from reflexion_lab.memory.episodic import EpisodicMemory, NoSharedMemory
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.protocols import Sandbox, Store, Tracker
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.build import Config, build, construct, fixed, has_durable_store, job_overrides, takes
from reflexion_lab.runner.config.check import arm_warnings, check
from reflexion_lab.runner.config.compose import restored
from reflexion_lab.runner.config.initial_items import (
    InitialItems,
    initial_items,
    of_held_out,
    origin_of_items,
    shows_solutions,
)
from reflexion_lab.runner.config.kinds import check_kinds
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import IRREPLACEABLE, RunFolder, read_beginning
from reflexion_lab.runner.folder.manifest import (
    SALT,
    config_digest,
    differences,
    new_manifest,
    own_targets,
    provenance,
    resumption,
    store_place,
    value_at,
)
from reflexion_lab.runner.objects import method_of
from reflexion_lab.runner.pool import pool_digests, pool_runs
from reflexion_lab.runner.runner import Runner
from reflexion_lab.runner.sources import changed_since
from reflexion_lab.storage.call_store import Spending
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.stream import overlap
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.sandbox.cached import VERSION, CachedSandbox


class Lab(NamedTuple):
    cfg: RunConfig
    runner: Runner
    folder: RunFolder
    tracker: Tracker
    sandbox: CachedSandbox
    models: parts.Models
    archive: Archive | None

    @property
    def model(self) -> CachedModel:
        """The model of the actor."""
        return self.models.of("actor")

    def close(self) -> None:
        with contextlib.ExitStack() as last_first:  # an error in one close does not keep the others open
            for part in (self.archive, self.models, self.sandbox):
                if part:
                    last_first.callback(part.close)


def assemble(config: RunConfig | Config | Mapping[str, Any]) -> Lab:
    """Check a config and build the parts of its run.

    `config`: a composed config; or a plain mapping, the config of a manifest. Raises ConfigError: a value is invalid, a
    key is unused, or a resumed run began with another config.
    """
    with warnings.catch_warnings():  # else Python shows a warning once a process, and a further run has none
        pass
    cfg = RunConfig.of(restored(config) if isinstance(config, dict) else config)
    check(cfg, is_recorded=isinstance(config, dict))
    cfg = resolved(cfg)
    for message in arm_warnings(cfg):
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    with contextlib.ExitStack() as held:
        lab = _assembled(cfg, held)
        held.pop_all()  # the lab closes them
    return lab


def resolved(cfg: RunConfig) -> RunConfig:
    """The config with values that follow from others and the salt of item ids; a resumed run keeps its manifest's."""
    cfg = parts.with_defaults(cfg)
    if parts.keeps_items(cfg) and cfg.memory.shared.items.salt is None:
        before = value_at(earlier.config, SALT) if (earlier := cfg.resumed) else None
        cfg = cfg.having({SALT: before or config_digest(cfg.recorded)})
    return cfg


def _assembled(cfg: RunConfig, held: contextlib.ExitStack) -> Lab:
    sandbox = parts.load_sandbox(cfg)
    held.callback(sandbox.close)
    sandbox.open(is_new=False)  # report a damaged cache before anything runs
    check_kinds(cfg, benchmark := parts.load_benchmark(cfg, sandbox))
    if benchmark.note:
        warnings.warn(benchmark.note, stacklevel=2)
    models = parts.load_models(cfg)
    held.callback(models.close)
    manifest = run_manifest(cfg, benchmark, models, sandbox.layers, _provenance(cfg))
    if parts.draws_from_runs(cfg):
        runs = pool_runs(cfg.reflector["pool"], cfg.seed, manifest, manifest.provenance.pool)
        cfg = replace(cfg, reflector={**cfg.reflector, "pool": list(map(str, runs))})
    if archive := parts.load_archive(cfg, models):
        held.callback(archive.close)
    loop = loop_factory(cfg, models, sandbox, archive)
    loop("")  # report invalid values before anything is written
    suite_writer = parts.suite_writer_factory(cfg, models, sandbox) if cfg.feedback_source == "self_tests" else None
    tracker = build(cfg.tracker, "tracker")
    store_state = _store_state(cfg, archive)  # before anything is written
    models.open()
    sandbox.open()
    # A resumed run keeps its tasks even if a canonical solution now fails on a busy machine.
    keep = cfg.benchmark.keep_failing or cfg.resume is not None
    tasks = parts.timed_tasks(benchmark, sandbox, keep)
    origin = replace(manifest.provenance, store=store_state, vacuous_tests=parts.vacuous_tests(tasks, sandbox, keep))
    manifest = replace(manifest, provenance=origin)
    if benchmark.held_out and not cfg.quiet:
        print(overlap(benchmark), file=sys.stderr)
    folder = open_folder(cfg, manifest)
    for role in parts.ROLES if folder.results else ():  # a resumed run need not begin with a prompt that is answered
        models.refusals(role).has_answered = True
    models.meter.scope = str(cfg.sweep_id or folder.manifest.config.get("sweep_id") or folder.manifest.run_id)
    workers = cfg.workers or models.of("actor").slots
    if cfg.resume is not None:
        models.meter.recover(lambda: Spending.of(folder.paid, workers))
    rounds = begin_rounds(archive, cfg, folder, benchmark.held_out) if archive else None
    place = None if parts.keeps_items(cfg) else cfg.memory.reflection_files
    files = ReflectionFiles(place) if place else None
    runner = Runner(
        tasks=tasks,
        loop=functools.partial(loop, folder.manifest.run_id),
        judge=HiddenTests(sandbox),
        folder=folder,
        feedback_source=cfg.feedback_source,
        workers=workers,
        quiet=cfg.quiet,
        suite_writer=suite_writer,
        rounds=rounds,
        held_out=benchmark.held_out,
        part=benchmark.part,
        spent=lambda: models.spent,
        resumption=resumption(folder.manifest, manifest) if cfg.resume is not None else None,
        silent_replies=cfg.silent_replies,
        continued=None if files is None else functools.partial(files.continued, folder.manifest.run_id),
        is_unscored_only=cfg.only is not None,
    )
    return Lab(cfg, runner, folder, tracker, sandbox, models, archive)


def begin_rounds(archive: Archive, cfg: RunConfig, folder: RunFolder, frozen: Collection[str] = ()) -> Rounds:
    """The rounds of a run, whose memory starts with the contents of the store at the first start of the run.

    All cells of a sweep start with the same snapshot, which the first cell takes. `folder`: its `memory.json` has the
    contents at the first start, if the run is resumed. `frozen`: ids of the held-out tasks, for which memory is frozen.
    """
    if folder.beginning is None and folder.results:
        raise FolderError(folder.path / "memory.json", "no file", "what the store held at the start", IRREPLACEABLE)
    _check_store(cfg, archive.store, folder)
    rounds = Rounds(
        archive,
        cfg.memory.shared.round_size,
        folder.manifest.run_id,
        cfg.arm,
        log=functools.partial(folder.append, "operations.jsonl"),
        frozen=frozen,
    )
    snapshot, recorded = parts.snapshot_path(cfg), folder.beginning
    with _locked(snapshot):
        start = recorded or (read_beginning(snapshot) if snapshot else None)
        others = None if recorded else initial_items(cfg)
        stored = start.items if start else archive.stored_items()
        read = stored if recorded else archive.owned(stored)
        beginning = archive.begin(start, folder.manifest.run_id, (*(others.items if others else ()), *read))
        if others:  # before memory.json: a start that broke off does it again
            _begin_with(others, archive, cfg, frozen)
        held = {item.item_id for item in beginning.items}
        if n := len({item.item_id for item in (*read, *(others.items if others else ()))} - held):
            limits = "memory.shared.items.max_tokens and .max_items"
            origin = others.origin if others else "the store"
            print(f"warning: {n} items of {origin} are left out, since they exceed {limits}", file=sys.stderr)
        if n := 0 if recorded else sum(not item.owner for item in stored):
            print(f"warning: {n} items of the store name no curator and are not read", file=sys.stderr)
        if recorded is None:
            beginning = replace(beginning, stored=UNSET if stored == beginning.items else stored)
            folder.write_json("memory.json", msgspec.to_builtins(beginning))
        parts.take_snapshot(cfg, beginning)
    return rounds


def _begin_with(others: InitialItems, archive: Archive, cfg: RunConfig, held_out: Collection[str]) -> None:
    """Store those items of another run that the store has never had, and warn of what a reader would not expect."""
    if not cfg.memory.shared.items.frozen:
        stored = {item.item_id for item in archive.store.read(records.Item)}
        owner = method_of(cfg.curator)
        archive.store.append([replace(item, owner=owner) for item in others.items if item.item_id not in stored])
    if (method := method_of(cfg.curator)) != others.method:
        print(f"warning: the items of {others.origin} are those of {others.method}, not {method}", file=sys.stderr)
    if n := of_held_out(others.items, held_out):
        print(f"warning: {n} items of {others.origin} come from tasks that this run holds out", file=sys.stderr)


def _check_store(cfg: RunConfig, store: Store, folder: RunFolder) -> None:
    """Raises ConfigError: the run to resume began with another store, which is no copy of this one.

    A store of another place has records of the run, what the run began with, or, where both are empty, no round yet.
    A sweep finds its runs by their stores (`studies.sweeps.finished`).
    """
    before, beginning = store_place(folder.manifest.config), folder.beginning
    if cfg.sweep_id or beginning is None or before == store_place(cfg.recorded):
        return
    is_unused = beginning.episodes or len(folder.results) <= cfg.memory.shared.round_size
    method = method_of(cfg.curator)
    if folder.manifest.run_id not in run_ids_in(store) and not (is_unused and is_begun_with(store, beginning, method)):
        expected = f"the store with which {folder.path} began, {before} from its run root, or a copy of it"
        raise ConfigError("store.place", repr(str(cfg.store["place"])), expected)


@contextlib.contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Exclusive lock between processes on the file at `path`."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def loop_factory(
    cfg: RunConfig, models: parts.Models, sandbox: Sandbox, archive: Archive | None = None
) -> Callable[..., Reflexion]:
    """A factory of loops, one per task: parts are shared, memory and draw counts are the task's own.

    `archive`: memory shared by all tasks; by default none. The factory takes the prefix of the ids of stored episodes.
    """
    nodes = {name: fixed(getattr(cfg, name), name) for name in ("actor", "evaluator", "critic", "reviser", "reflector")}
    recall, prompts = build(cfg.recall, "recall"), build(cfg.prompts, "prompts")
    files = ReflectionFiles(cfg.memory.reflection_files) if cfg.memory.reflection_files else None
    solutions = {"tasks": parts.load_benchmark(cfg, is_whole=True).tasks} if parts.reads_solutions(cfg) else {}
    has_critic = any(takes(name, nodes[name], "critic") for name in ("actor", "reflector", "reviser"))
    user_defined = {name for name in (*nodes, "recall", "retriever", "embedder") if own_targets(getattr(cfg, name))}
    quality, stuck = msgspec.structs.asdict(cfg.quality), Stuck(cfg.loop.stuck_after)
    shared = archive or NoSharedMemory()
    of_run: dict[str, Any] = {
        "stop": parts.stop_rules(cfg, stuck),
        "policy": build(cfg.policy, "policy"),
        "stuck": stuck,
        "reflect_on_last": parts.reflects_on_last(cfg),
        "reflect_on_success": cfg.loop.reflect_on_success,
        "reflect_below": cfg.loop.reflect_below,
        "reflect_unjudged": parts.declares(cfg.reflector, "needs_no_verdict"),
    }

    def bounded(part: Any, method: str, *groups: str, kinds: tuple[type, ...]) -> Any:
        """Bound user-defined parts; those of the lab are bounded by model and sandbox."""
        return part if user_defined.isdisjoint(groups) else Budgeted(part, method, cfg.loop.timeout, kinds)

    def loop(run_id: str = "") -> Reflexion:
        draws = parts.draws_by_role(models, cfg.loop.first_draw)
        given = {"sandbox": sandbox, "prompts": prompts, "shared": shared, "models": draws}
        if environment := getattr(sandbox, "environment", None):
            given["environment"] = environment
        given["evaluator"] = build(nodes["evaluator"], "evaluator", given)
        if has_critic:
            given["critic"] = build(nodes["critic"], "critic", {**given, "model": draws["critic"]})
        given["reviser"] = nodes["reviser"]  # built by the actor that uses it, with the actor's model
        reflector = build(nodes["reflector"], "reflector", {**given, **solutions, "model": draws["reflector"]})
        actor = build(nodes["actor"], "actor", {**given, "model": draws["actor"]})
        memory = EpisodicMemory(
            recall,
            cfg.memory.max_episodes,
            shared=shared,
            run_id=run_id if archive or files else "",
            agent_id=cfg.arm,
            show_session=cfg.memory.show_session,
            files=files,
            heading=cfg.memory.heading,
        )
        first = bounded(reflector, "reflect", "reflector", kinds=(records.Reflection, NoneType))
        return Reflexion(
            actor=bounded(actor, "act", "actor", "critic", "reviser", kinds=(records.Trajectory,)),
            evaluator=bounded(given["evaluator"], "evaluate", "evaluator", kinds=(records.Evaluation,)),
            reflector=construct("quality", Reviewed, first=first, **quality),
            memory=bounded(memory, "recall", "recall", "retriever", "embedder", kinds=(records.Recollection,)),
            **of_run,
        )

    return loop


def _provenance(cfg: RunConfig) -> records.Provenance:
    from reflexion_lab.tasks.sandbox.sandbox import slowness

    overrides, launcher = job_overrides()
    return provenance(
        cfg.whole,
        overrides=overrides,
        launcher=launcher,
        embedder_fingerprint=parts.embedder_fingerprint(cfg),
        sandbox_version=VERSION,
        items=origin_of_items(cfg),
        slowness=slowness(),
    )


def run_manifest(
    cfg: RunConfig, benchmark: Benchmark, models: parts.Models, isolation: Sequence[str], origin: records.Provenance
) -> records.Manifest:
    """The manifest of the run.

    Raises ConfigError: the run to resume began with another config; DataError: its study cannot be read.
    """
    manifest = new_manifest(cfg.whole, benchmark, models.by_role, isolation, origin)
    study = registration.read(cfg.study) if cfg.study else None
    registered = {"study": study.name, "study_digest": study.digest} if study else {}
    manifest = replace(manifest, shows_solutions=shows_solutions(cfg), **registered)
    earlier = cfg.resumed
    if parts.draws_from_runs(cfg):
        pool = pool_of(cfg, manifest, earlier.provenance.pool if earlier else ())
        is_of_study = study is not None and not any(
            registration.deviations(study, RunFolder(run).manifest)
            for run in pool_runs(cfg.reflector["pool"], cfg.seed, manifest, pool)
        )
        origin = replace(origin, pool=pool, pool_origin=registration.OF_STUDY * is_of_study)
        manifest = replace(manifest, provenance=origin)
    edited = [f"source of {name}" for name in changed_since(manifest.provenance.own_parts)]
    if earlier and (changed := [*differences(earlier, manifest), *edited]):
        raise ConfigError(
            f"resume: {cfg.resume} began with another {', '.join(changed)}", expected="the command that began it"
        )
    return manifest


def manifest_of(composed: RunConfig | Config, is_asked: bool = True) -> records.Manifest:
    """The manifest that a run of this config would begin with, without the state of sandbox and study.

    A pool that holds no run yet, or is the run root, stands for runs of the study. `is_asked`: as of `load_models`.
    Raises ConfigError: a value is invalid or a key is unused.
    """
    check(cfg := RunConfig.of(composed))
    cfg = resolved(cfg)
    check_kinds(cfg, benchmark := parts.load_benchmark(cfg))
    models = parts.load_models(cfg, is_asked)
    try:
        origin = _provenance(cfg)
        if archive := parts.load_archive(cfg, models):
            with contextlib.closing(archive):
                origin = replace(origin, store=_store_state(cfg, archive))
        manifest = new_manifest(cfg.whole, benchmark, models.by_role, (), origin)
        manifest = replace(manifest, shows_solutions=shows_solutions(cfg))
    finally:
        models.close()
    if not parts.draws_from_runs(cfg):
        return manifest
    pool = {}
    folders = cfg.reflector["pool"]
    folders = [folders] if isinstance(folders, str) else folders
    if {Path(folder).resolve() for folder in folders} != {Path(cfg.run_root).resolve()}:
        with contextlib.suppress(ConfigError):  # no such run yet; the run raises it
            pool = pool_of(cfg, manifest, ())
    origin = replace(origin, pool=pool, pool_origin="" if pool else registration.OF_STUDY)
    return replace(manifest, provenance=origin)


def _store_state(cfg: RunConfig, archive: Archive | None) -> str:
    """`empty` or `filled`, as the run finds the store; `across cells` if cells fill it for others; "" without one."""
    if archive is None or not has_durable_store(cfg.store):
        return ""
    if cfg.memory.shared.across_cells:
        return "across cells"
    snapshot = parts.snapshot_path(cfg)
    with _locked(snapshot):
        if snapshot and (known := read_beginning(snapshot)):
            is_filled = bool(known.episodes or known.wisdom or known.items)
        else:
            read = archive.store.read
            is_filled = any(True for _ in chain(read(records.Episode), read(records.Wisdom), read(records.Item)))
    return "filled" if is_filled else "empty"


def pool_of(cfg: RunConfig, manifest: records.Manifest, known: Collection[str]) -> dict[str, str]:
    """Digests of the runs whose reflections the run of `manifest` reads; `known` and errors as of `pool_digests`."""
    return pool_digests(cfg.reflector["pool"], cfg.seed, manifest, known)


def open_folder(cfg: RunConfig, manifest: records.Manifest) -> RunFolder:
    """A new run folder with its manifest, or the folder to resume."""
    if cfg.resume is not None:
        return RunFolder.existing(cfg.resume)
    study = functools.partial(registration.keep, Path(cfg.study), run=manifest) if cfg.study else None
    return RunFolder.create(Path(cfg.run_root), manifest, study)
