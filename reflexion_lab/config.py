"""The composition root: from a Hydra config to the parts of a run. The one module, beside the CLI, that knows Hydra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from reflexion_lab.manifest import describe, differences
from reflexion_lab.parts import (
    ConfigError,
    instantiate,
    keeps,
    load_archive,
    load_benchmark,
    load_model,
    load_sandbox,
    plain,
    timed,
    wire,
)
from reflexion_lab.protocols import Executor, Model, SuiteWriter, Tracker
from reflexion_lab.records import FEEDBACK_SOURCES
from reflexion_lab.run_folder import RunFolder

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.benchmarks.benchmark import Benchmark
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.memory.rounds import OneRound, Rounds
    from reflexion_lab.models.cache import CachedModel
    from reflexion_lab.runner import Runner
    from reflexion_lab.sandbox.cached import CachedExecutor

PACKAGE = Path(__file__).parent
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.name == "conf" and path.is_dir())
"""The config folder: inside an installed wheel, else at the top of the checkout."""


class Lab(NamedTuple):
    """The parts of one run, put together."""

    runner: Runner
    folder: RunFolder
    tracker: Tracker
    sandbox: CachedExecutor
    model: CachedModel
    archive: Archive | None

    def close(self) -> None:
        self.sandbox.close()
        self.model.close()
        if self.archive:
            self.archive.close()


def compose(*overrides: str) -> DictConfig:
    """The config that `reflexion-lab run *overrides` would use; works in a notebook."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg: DictConfig = hydra_compose("config", overrides=list(overrides))
    return cfg


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
    sandbox = load_sandbox(cfg)
    benchmark = load_benchmark(cfg, sandbox)
    model = load_model(cfg)
    archive = load_archive(cfg)
    loop_factory(cfg, model, sandbox, archive)()  # an impossible value shows before anything is written
    suite_writer = suite_writer_factory(cfg, model, sandbox) if cfg.feedback_source == "self_tests" else None
    tracker = instantiate(cfg.tracker)
    folder = open_folder(cfg, benchmark, model, sandbox.layers)
    rounds = begin(archive, cfg, folder)
    graded = [grade.task_id for grade in folder.grades.values() if not grade.sealed]
    runner = Runner(
        tasks=timed(benchmark, sandbox),
        loop=loop_factory(cfg, model, sandbox, archive, folder.manifest.run_id),
        judge=HiddenTests(sandbox, graded),
        folder=folder,
        feedback_source=cfg.feedback_source,
        workers=cfg.workers or model.slots,
        quiet=cfg.quiet,
        suite_writer=suite_writer,
        rounds=rounds,
    )
    return Lab(runner, folder, tracker, sandbox, model, archive)


def begin(archive: Archive | None, cfg: DictConfig, folder: RunFolder) -> Rounds | OneRound:
    """Read the store as it stood when the run in `folder` began, which a resumed run does again."""
    from reflexion_lab.memory.rounds import OneRound, Rounds

    if archive is None:
        return OneRound()
    rounds = Rounds(archive, cfg.memory.shared.round_size, folder.manifest.run_id, cfg.arm)
    folder.write_json("memory.json", msgspec.to_builtins(archive.begin(folder.beginning, folder.manifest.run_id)))
    return rounds


def loop_factory(
    cfg: DictConfig, model: Model, sandbox: Executor, archive: Archive | None = None, run_id: str = ""
) -> Callable[[], Reflexion]:
    """Makes the loop of one task: parts are shared, memory and draw counts are the task's own."""
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed, TimeOut
    from reflexion_lab.memory.episodic import EpisodicMemory
    from reflexion_lab.memory.packing import estimated
    from reflexion_lab.memory.reflection_files import ReflectionFiles
    from reflexion_lab.models.draws import Draws

    actor, reflector, evaluator = (
        instantiate(cfg.actor),
        instantiate(cfg.reflector),
        instantiate(cfg.evaluator),
    )
    recall = wire(instantiate(cfg.recall), {"tokens": getattr(model, "count_tokens", None) or estimated})
    folder = cfg.memory.reflection_files
    files = ReflectionFiles(folder) if folder else None
    stop = FirstOf(
        NoFeedback(),
        Passed(cfg.loop.confidence_threshold),
        MaxAttempts(cfg.loop.max_attempts),
        TimeOut(cfg.loop.timeout),
    )

    def loop() -> Reflexion:
        parts = {"model": Draws(model), "sandbox": sandbox}
        return Reflexion(
            actor=wire(actor, parts),
            evaluator=wire(evaluator, parts),
            reflector=wire(reflector, parts),
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
            reflect_on_last=cfg.loop.reflect_on_last,
        )

    return loop


def suite_writer_factory(cfg: DictConfig, model: Model, sandbox: Executor) -> Callable[[], SuiteWriter]:
    """Makes the writer of one task's tests. Its draws are counted apart: the loop's stay those of every other arm."""
    from reflexion_lab.models.draws import Draws

    style = plain(cfg.suite_writer).get("writer", {}).get("style")
    if style == "continuation" and cfg.model._target_.endswith(".OpenAIModel"):
        raise ConfigError(
            f"suite_writer: {style} found with model=openai, whose models chat; expected suite_writer=chat"
        )
    partial = instantiate(cfg.suite_writer)

    def writer() -> SuiteWriter:
        made: SuiteWriter = wire(partial, {"model": Draws(model), "sandbox": sandbox})
        return made

    writer()  # an impossible value shows before anything is written
    return writer


def open_folder(cfg: DictConfig, benchmark: Benchmark, model: Model, isolation: Sequence[str]) -> RunFolder:
    """A new run folder with its manifest, or the one to resume, if it began as this very run."""
    manifest = describe(plain(cfg), benchmark.name, benchmark.digest, len(benchmark), model, isolation)
    if cfg.resume is None:
        folder = RunFolder(Path(cfg.run_root) / manifest.run_id)
        folder.write_manifest(manifest)
        return folder
    folder = RunFolder.existing(cfg.resume)
    if changed := differences(folder.manifest, manifest):
        raise ConfigError(
            f"resume: {cfg.resume} began with another {', '.join(changed)}; expected the command that began it"
        )
    return folder
