"""The composition root: from a Hydra config to the parts of a run. The one module, beside the CLI, that knows Hydra."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reflexion_lab import registration
from reflexion_lab.controls import doubts
from reflexion_lab.manifest import HOW_NOT_WHAT, describe, differences
from reflexion_lab.parts import (
    ROLES,
    Models,
    instantiate,
    keeps,
    load_archive,
    load_benchmark,
    load_models,
    load_sandbox,
    timed,
)
from reflexion_lab.protocols import Model, Sandbox, Stop, SuiteWriter, Tracker
from reflexion_lab.records import FEEDBACK_SOURCES
from reflexion_lab.run_folder import RunFolder
from reflexion_lab.wiring import ConfigError, LoopValues, converted, plain, wire

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

    @property
    def model(self) -> CachedModel:
        """The actor's."""
        return self.models.of("actor")

    def close(self) -> None:
        self.sandbox.close()
        self.models.close()
        if self.archive:
            self.archive.close()


def compose(*overrides: str) -> DictConfig:
    """The config that `reflexion-lab run *overrides` would use; works in a notebook."""
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
    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.runner import Runner

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
    sandbox = load_sandbox(cfg)
    benchmark = load_benchmark(cfg, sandbox)
    models = load_models(cfg)
    archive = load_archive(cfg)
    loop_factory(cfg, models, sandbox, archive)()  # an impossible value shows before anything is written
    suite_writer = (
        suite_writer_factory(cfg, models.of("suite_writer"), sandbox) if cfg.feedback_source == "self_tests" else None
    )
    tracker = instantiate(cfg.tracker)
    folder = open_folder(cfg, benchmark, models, sandbox.layers)
    models.meter.scope = str(cfg.sweep_id or folder.manifest.config.get("sweep_id") or folder.manifest.run_id)
    rounds = begin(archive, cfg, folder)
    graded = [grade.task_id for grade in folder.grades.values() if not grade.sealed]
    runner = Runner(
        tasks=timed(benchmark, sandbox),
        loop=loop_factory(cfg, models, sandbox, archive, folder.manifest.run_id),
        judge=HiddenTests(sandbox, graded),
        folder=folder,
        feedback_source=cfg.feedback_source,
        workers=cfg.workers or models.of("actor").slots,
        quiet=cfg.quiet,
        suite_writer=suite_writer,
        rounds=rounds,
    )
    return Lab(runner, folder, tracker, sandbox, models, archive)


def begin(archive: Archive | None, cfg: DictConfig, folder: RunFolder) -> Rounds | OneRound:
    """Read the store as it stood when the run in `folder` began, which a resumed run does again."""
    from reflexion_lab.memory.rounds import OneRound, Rounds

    if archive is None:
        return OneRound()
    rounds = Rounds(archive, cfg.memory.shared.round_size, folder.manifest.run_id, cfg.arm)
    folder.write_json("memory.json", msgspec.to_builtins(archive.begin(folder.beginning, folder.manifest.run_id)))
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
        name: instantiate(cfg[name]) for name in ("actor", "evaluator", "critic", "reviser", "reflector") if name in cfg
    }
    recall, prompts = wire(instantiate(cfg.recall), {}, "recall"), instantiate(cfg.prompts)
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
        *(instantiate(rule) for rule in cfg.stop.values()),
    )


def suite_writer_factory(cfg: DictConfig, model: Model, sandbox: Sandbox) -> Callable[[], SuiteWriter]:
    """Makes the writer of one task's tests. Its draws are counted apart: the loop's stay those of every other arm."""
    from reflexion_lab.models.draws import Draws

    style, node = plain(cfg.suite_writer).get("writer", {}).get("style"), cfg.roles.get("suite_writer", cfg.model)
    if style == "continuation" and node._target_.endswith(".OpenAIModel"):
        raise ConfigError(
            f"suite_writer: {style} found with model=openai, whose models chat; expected suite_writer=chat"
        )
    partial, prompts = instantiate(cfg.suite_writer), instantiate(cfg.prompts)

    def writer() -> SuiteWriter:
        made: SuiteWriter = wire(
            partial, {"model": Draws(model), "sandbox": sandbox, "prompts": prompts}, "suite_writer"
        )
        return made

    writer()  # an impossible value shows before anything is written
    return writer


def open_folder(cfg: DictConfig, benchmark: Benchmark, models: Models, isolation: Sequence[str]) -> RunFolder:
    """A new run folder with its manifest, or the one to resume, if it began as this very run."""
    manifest = describe(plain(cfg), benchmark.name, benchmark.digest, len(benchmark), models.by_role, isolation)
    if cfg.resume is None:
        folder = RunFolder(Path(cfg.run_root) / manifest.run_id)
        folder.write_manifest(manifest)
        if cfg.study:
            registration.keep(Path(cfg.study), folder.path, manifest)
        return folder
    folder = RunFolder.existing(cfg.resume)
    if changed := differences(folder.manifest, manifest):
        raise ConfigError(
            f"resume: {cfg.resume} began with another {', '.join(changed)}; expected the command that began it"
        )
    return folder
