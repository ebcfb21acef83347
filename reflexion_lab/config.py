"""The composition root: from a Hydra config to the parts of a run. The one module, beside the CLI, that knows Hydra."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reflexion_lab import registration, settings
from reflexion_lab.controls import doubts
from reflexion_lab.manifest import HOW_NOT_WHAT, describe, differences
from reflexion_lab.mistakes import hydras_own
from reflexion_lab.parts import (
    ROLES,
    Models,
    cached,
    embedder_fingerprint,
    instantiate,
    keeps,
    load_archive,
    load_benchmark,
    load_limits,
    load_models,
    shares,
    timed,
)
from reflexion_lab.protocols import Begun, Executor, Model, Sandbox, Stop, SuiteWriter, Tracker
from reflexion_lab.provenance import provenance
from reflexion_lab.records import FEEDBACK_SOURCES, Manifest, Provenance
from reflexion_lab.run_folder import RunFolder
from reflexion_lab.wiring import ConfigError, LoopValues, asked, converted, plain, wire

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.benchmarks.benchmark import Benchmark
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stuck import Stuck
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.memory.rounds import OneRound, Rounds
    from reflexion_lab.models.cache import CachedModel
    from reflexion_lab.models.draws import Draws
    from reflexion_lab.runner import Runner
    from reflexion_lab.sandbox.cached import CachedSandbox

PACKAGE = Path(__file__).parent
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.name == "conf" and path.is_dir())
"""The config folder: inside an installed wheel, else at the top of the checkout."""


class Lab(NamedTuple):
    """The parts of one run, put together."""

    runner: Runner
    folder: RunFolder
    tracker: Tracker
    sandbox: CachedSandbox
    models: Models
    archive: Archive | None
    executor: Executor

    @property
    def model(self) -> CachedModel:
        """The actor's."""
        return self.models.of("actor")

    def close(self) -> None:
        with contextlib.ExitStack() as last_first:  # one that fails to close leaves none of the others open
            for part in (self.executor, self.archive, self.models, self.sandbox):
                if part:
                    last_first.callback(part.close)


def compose(*overrides: str) -> DictConfig:
    """The config that `reflexion-lab run *overrides` would use; works in a notebook."""
    try:
        return _composed(*overrides)
    except Exception as problem:
        raise blamed(problem, overrides) from problem.__cause__


def blamed(problem: Exception, overrides: Sequence[str]) -> Exception:
    """`problem` with the override at fault, where it does not name it: that one raises the very same by itself. What is
    wrong with a file that an override names is a ConfigError.
    """
    if hydras_own(problem) and any(one.partition("=")[0] in str(problem) for one in overrides):
        return problem
    paths = [one for one in overrides if one.startswith("hydra.searchpath=")]
    for one in reversed(overrides):  # what was written last is likelier wrong
        try:
            _composed(*paths, one)
        except Exception as alone:
            if str(alone) != str(problem):
                continue
            if not hydras_own(problem):
                is_file = not isinstance(problem, ValueError) or isinstance(problem, UnicodeDecodeError)
                return ConfigError(f"{one}: {problem}{'; expected a file in YAML' * is_file}")
            problem.add_note(f"in {one}")
            break
    return problem


def _composed(*overrides: str) -> DictConfig:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg: DictConfig = hydra_compose("config", overrides=list(overrides))
    return cfg


def restored(config: Mapping[str, Any]) -> DictConfig:
    """The config that a manifest holds; keys of how a run is carried out that it lacks are null."""
    from omegaconf import OmegaConf

    return OmegaConf.create({**dict.fromkeys(HOW_NOT_WHAT), **config})


def assemble(cfg: DictConfig) -> Lab:
    """One component a line, in the order of the data.

    Raises:
        ConfigError: a value is impossible, or a resumed run began with another config.
    """
    settings.check(cfg)
    if cfg.feedback_source not in FEEDBACK_SOURCES:
        raise ConfigError(
            f"feedback_source: {cfg.feedback_source!r} found; expected one of {', '.join(FEEDBACK_SOURCES)}"
        )
    if cfg.feedback_source == "oracle" and keeps(cfg):
        raise ConfigError(
            "feedback_source: oracle found with a store, which would carry words about hidden tests into other runs; "
            "expected store=none"
        )
    for doubt in doubts(plain(cfg)):
        warnings.warn(doubt, RuntimeWarning, stacklevel=2)
    with contextlib.ExitStack() as held:
        executor = load_executor(cfg)
        held.callback(executor.close)
        lab = _assembled(cfg, executor, held)
        held.pop_all()  # the lab closes them
    return lab


def load_executor(cfg: DictConfig) -> Executor:
    """What the config names; this process, where it names nothing, as an old manifest."""
    executor: Executor = instantiate(cfg.executor or {"_target_": "reflexion_lab.executors.local.Local"}, "executor")
    return executor


def _assembled(cfg: DictConfig, executor: Executor, held: contextlib.ExitStack) -> Lab:
    from omegaconf import OmegaConf

    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.runner import Runner
    from reflexion_lab.stores.in_memory import InMemory

    as_it_stands: Any = OmegaConf.to_container(cfg, resolve=False)
    sandbox = cached(cfg, executor.pool(load_limits(cfg), cfg.sandbox.servers, as_it_stands))
    held.callback(sandbox.close)
    sandbox.open(is_new=False)  # a damaged one shows at once
    benchmark = load_benchmark(cfg, sandbox)
    models = load_models(cfg)
    held.callback(models.close)
    tried = load_archive(cfg, InMemory()) if shares(cfg) else None
    loop_factory(cfg, models, sandbox, tried)()  # an impossible value shows before anything is written
    suite_writer = (
        suite_writer_factory(cfg, models.of("suite_writer"), sandbox) if cfg.feedback_source == "self_tests" else None
    )
    tracker = instantiate(cfg.tracker, "tracker")
    manifest = described(cfg, benchmark, models, sandbox.layers, _provenance(cfg, tried))
    if archive := load_archive(cfg):
        held.callback(archive.close)
    models.open()
    sandbox.open()
    folder = open_folder(cfg, manifest)
    models.meter.scope = str(cfg.sweep_id or folder.manifest.config.get("sweep_id") or folder.manifest.run_id)
    rounds = begin(archive, cfg, folder, executor)
    begun = Begun(
        folder.manifest.run_id, models.meter.scope, folder.beginning, archive.store if archive else None, models.add
    )
    graded = [grade.task_id for grade in folder.grades.values() if not grade.sealed]
    runner = Runner(
        tasks=timed(benchmark, sandbox),
        loop=executor.loops(loop_factory(cfg, models, sandbox, archive, folder.manifest.run_id), begun),
        judge=HiddenTests(sandbox, graded),
        folder=folder,
        feedback_source=cfg.feedback_source,
        workers=cfg.workers or models.of("actor").slots,
        quiet=cfg.quiet,
        suite_writer=suite_writer,
        rounds=rounds,
    )
    return Lab(runner, folder, tracker, sandbox, models, archive, executor)


def begin(archive: Archive | None, cfg: DictConfig, folder: RunFolder, executor: Executor) -> Rounds | OneRound:
    """Read the store as it stood when the run in `folder` began, which a resumed run does again."""
    from reflexion_lab.memory.rounds import OneRound, Rounds

    if archive is None:
        return OneRound()
    rounds = Rounds(archive, cfg.memory.shared.round_size, folder.manifest.run_id, cfg.arm, executor.tell)
    known = folder.beginning
    beginning = archive.begin(known, folder.manifest.run_id)
    if known is None:
        folder.write_json("memory.json", msgspec.to_builtins(beginning))
    return rounds


def loop_factory(
    cfg: DictConfig, models: Models, sandbox: Sandbox, archive: Archive | None = None, run_id: str = ""
) -> Callable[[], Reflexion]:
    """Makes the loop of one task: parts are shared, memory and draw counts are the task's own."""
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stuck import Stuck
    from reflexion_lab.memory.episodic import EpisodicMemory, NothingKnown
    from reflexion_lab.memory.reflection_files import ReflectionFiles
    from reflexion_lab.reflectors.reviewed import Reviewed

    made = {
        name: instantiate(cfg[name], name)
        for name in ("actor", "evaluator", "critic", "reviser", "reflector")
        if name in cfg
    }
    recall, prompts = wire(instantiate(cfg.recall, "recall"), {}, "recall"), instantiate(cfg.prompts, "prompts")
    files = ReflectionFiles(cfg.memory.reflection_files) if cfg.memory.reflection_files else None
    converted("loop", cfg.loop, LoopValues)  # a value of another type shows here, by its key
    stuck = Stuck(cfg.loop.stuck_after)
    stop = stop_rules(cfg, stuck)

    def loop() -> Reflexion:
        draws = draws_by_role(models)
        parts = {"sandbox": sandbox, "prompts": prompts, "known": archive or NothingKnown(), "models": draws}
        parts |= {"model": draws["actor"], "evaluator": wire(made["evaluator"], parts, "evaluator")}
        parts["critic"] = wire(made["critic"], {**parts, "model": draws["critic"]}, "critic")
        parts["reviser"] = made["reviser"]  # wired where it is asked for: its model is the one of that actor
        return Reflexion(
            actor=wire(made["actor"], parts, "actor"),
            evaluator=parts["evaluator"],
            reflector=Reviewed(
                wire(made["reflector"], {**parts, "model": draws["reflector"]}, "reflector"), **plain(cfg.quality)
            ),
            memory=EpisodicMemory(
                recall,
                cfg.memory.max_episodes,
                known=archive,
                run_id=run_id if archive or files else "",
                agent_id=cfg.arm,
                show_session=cfg.memory.show_session,
                files=files,
            ),
            stop=stop,
            stuck=stuck,
            reflect_on_last=cfg.loop.reflect_on_last,
            reflect_on_success=cfg.loop.reflect_on_success,
            reflect_below=cfg.loop.reflect_below,
        )

    return loop


def draws_by_role(models: Models) -> dict[str, Draws]:
    """Each role's model as one loop sees it; roles that share a model, or its fingerprint, share their count."""
    from collections import Counter

    from reflexion_lab.models.draws import Draws

    asked = Counter[str]()
    made = {id(model): Draws(model, asked) for model in models.distinct}
    return {role: made[id(models.of(role))] for role in ROLES}


def stop_rules(cfg: DictConfig, stuck: Stuck) -> Stop:
    """The rules of every loop, then those that the group `stop` adds."""
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed, TimeOut

    return FirstOf(
        NoFeedback(),
        Passed(cfg.loop.confidence_threshold),
        MaxAttempts(cfg.loop.max_attempts, cfg.loop.extra_attempts),
        TimeOut(cfg.loop.timeout),
        stuck,
        *(instantiate(rule, f"stop.{name}") for name, rule in cfg.stop.items()),
    )


def suite_writer_factory(cfg: DictConfig, model: Model, sandbox: Sandbox) -> Callable[[], SuiteWriter]:
    """Makes the writer of one task's tests. Its draws are counted apart: the loop's stay those of every other arm."""
    from reflexion_lab.models.draws import Draws

    style, node = plain(cfg.suite_writer).get("writer", {}).get("style"), cfg.roles.get("suite_writer", cfg.model)
    if style == "continuation" and node._target_.endswith(".OpenAIModel"):
        raise ConfigError(
            f"suite_writer: {style} found with model=openai, whose models chat; expected suite_writer=chat"
        )
    partial, prompts = instantiate(cfg.suite_writer, "suite_writer"), instantiate(cfg.prompts, "prompts")

    def writer() -> SuiteWriter:
        made: SuiteWriter = wire(
            partial, {"model": Draws(model), "sandbox": sandbox, "prompts": prompts}, "suite_writer"
        )
        return made

    writer()  # an impossible value shows before anything is written
    return writer


def _provenance(cfg: DictConfig, archive: Archive | None) -> Provenance:
    from reflexion_lab.sandbox.cached import VERSION

    overrides, launcher = asked()
    embedder = embedder_fingerprint(cfg, archive)
    return provenance(plain(cfg), overrides=overrides, launcher=launcher, embedder=embedder, sandbox_version=VERSION)


def described(
    cfg: DictConfig, benchmark: Benchmark, models: Models, isolation: Sequence[str], made: Provenance
) -> Manifest:
    """What the run is. Raises ConfigError: the run to resume began as another one."""
    manifest = describe(plain(cfg), benchmark.name, benchmark.digest, len(benchmark), models.by_role, isolation, made)
    if cfg.resume is not None and (changed := differences(RunFolder.existing(cfg.resume).manifest, manifest)):
        raise ConfigError(
            f"resume: {cfg.resume} began with another {', '.join(changed)}; expected the command that began it"
        )
    return manifest


def open_folder(cfg: DictConfig, manifest: Manifest) -> RunFolder:
    """A new run folder with its manifest, or the one to resume."""
    if cfg.resume is not None:
        return RunFolder.existing(cfg.resume)
    study = functools.partial(registration.keep, Path(cfg.study), run=manifest) if cfg.study else None
    return RunFolder.begun(Path(cfg.run_root), manifest, study)
