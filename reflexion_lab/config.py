"""The composition root: from a Hydra config to the parts of a run. The one module, beside the CLI, that knows Hydra."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reflexion_lab.manifest import describe, differences
from reflexion_lab.protocols import Executor, Model, SuiteWriter, Tracker
from reflexion_lab.records import FEEDBACK_SOURCES
from reflexion_lab.run_folder import RunFolder

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.benchmarks.benchmark import Benchmark
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.models.cache import CachedModel
    from reflexion_lab.records import Task
    from reflexion_lab.runner import Runner
    from reflexion_lab.sandbox.cached import CachedExecutor

PACKAGE = Path(__file__).parent
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.name == "conf" and path.is_dir())
"""The config folder: inside an installed wheel, else at the top of the checkout."""


class ConfigError(ValueError):
    """The config asks for something impossible: which key, what was found, what was expected."""


class Lab(NamedTuple):
    """The parts of one run, put together."""

    runner: Runner
    folder: RunFolder
    tracker: Tracker
    sandbox: CachedExecutor
    model: CachedModel


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
    sandbox = load_sandbox(cfg)
    benchmark = load_benchmark(cfg, sandbox)
    model = load_model(cfg)
    loop = loop_factory(cfg, model, sandbox)
    loop()  # an impossible value shows before anything is written
    suite_writer = suite_writer_factory(cfg, model, sandbox) if cfg.feedback_source == "self_tests" else None
    tracker = instantiate(cfg.tracker)
    folder = open_folder(cfg, benchmark, model, sandbox.layers)
    graded = [grade.task_id for grade in folder.grades.values() if not grade.sealed]
    runner = Runner(
        tasks=timed(benchmark, sandbox),
        loop=loop,
        judge=HiddenTests(sandbox, graded),
        folder=folder,
        feedback_source=cfg.feedback_source,
        workers=cfg.workers or model.slots,
        quiet=cfg.quiet,
        suite_writer=suite_writer,
    )
    return Lab(runner, folder, tracker, sandbox, model)


def loop_factory(cfg: DictConfig, model: Model, sandbox: Executor) -> Callable[[], Reflexion]:
    """Makes the loop of one task: parts are shared, memory and draw counts are the task's own."""
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed, TimeOut
    from reflexion_lab.memory.episodic import EpisodicMemory
    from reflexion_lab.models.draws import Draws

    actor, reflector, evaluator = (
        instantiate(cfg.actor),
        instantiate(cfg.reflector),
        instantiate(cfg.evaluator),
    )
    recall = instantiate(cfg.recall)
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
            memory=EpisodicMemory(recall, cfg.memory.max_episodes),
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


def wire(partial: functools.partial[Any], parts: dict[str, Any]) -> Any:
    """Call a partial with those `parts` that its constructor names; partials among its arguments come first."""
    inner = {k: wire(v, parts) for k, v in partial.keywords.items() if isinstance(v, functools.partial)}
    named = inspect.signature(partial.func).parameters
    return partial(**inner, **{name: part for name, part in parts.items() if name in named})


def load_sandbox(cfg: DictConfig, servers: int | None = None) -> CachedExecutor:
    """The sandbox behind its execution cache."""
    from reflexion_lab.sandbox.cached import CachedExecutor
    from reflexion_lab.sandbox.sandbox import Sandbox

    path = None if cfg.cache.mode == "off" else cfg.cache.executions
    return CachedExecutor(Sandbox(load_limits(cfg), servers or cfg.sandbox.servers), path)


def timed(benchmark: Benchmark, sandbox: CachedExecutor) -> tuple[Task, ...]:
    """The tasks with what their canonical solutions cost; says loudly which of these fail here."""
    from reflexion_lab.sandbox.canonical import measured

    tasks, failing = measured(benchmark, sandbox, sandbox.servers)
    if failing:
        shown = ", ".join(failing[:5]) + (" and others" if len(failing) > 5 else "")
        print(
            f"warning: {len(failing)} canonical solutions fail tests of their own tasks here: {shown}", file=sys.stderr
        )
    return tasks


def load_benchmark(cfg: DictConfig, sandbox: CachedExecutor | None = None) -> Benchmark:
    """The selected tasks, under the digest of the whole data set. `sandbox` computes what a data set leaves out."""
    from reflexion_lab.benchmarks.benchmark import Benchmark

    loaded = instantiate(cfg.benchmark.load)
    if isinstance(loaded, functools.partial):
        loaded = wire(loaded, {"compute": sandbox and sandbox.values})
    whole = loaded if isinstance(loaded, Benchmark) else Benchmark(name=cfg.benchmark.name, tasks=tuple(loaded))
    chosen = whole.select(
        limit=cfg.benchmark.limit, sample=cfg.benchmark.sample, seed=cfg.seed, ids=plain(cfg.benchmark.ids)
    )
    if not len(chosen):
        raise ConfigError("benchmark: no task is left after ids, sample and limit; expected at least one")
    return chosen


def load_model(cfg: DictConfig) -> CachedModel:
    """The model behind its call cache. Equal model configs share one instance in a process."""
    from reflexion_lab.models.cache import CachedModel

    if cfg.actor._target_.endswith(".Continuation") and cfg.model._target_.endswith(".OpenAIModel"):
        raise ConfigError("actor: continuation found with model=openai, whose models chat; expected actor=single_shot")
    model = _model(msgspec.json.encode(plain(cfg.model)))
    return CachedModel(model, cfg.cache.path, cfg.cache.mode)


@functools.cache
def _model(node: bytes) -> Model:
    model: Model = instantiate(msgspec.json.decode(node))
    return model


def load_limits(cfg: DictConfig) -> Any:
    from reflexion_lab.sandbox.sandbox import Limits

    try:
        return msgspec.convert(plain(cfg.sandbox.limits), Limits)
    except msgspec.ValidationError as problem:
        said = str(problem).removeprefix("sandbox.limits.")
        raise ConfigError(f"sandbox.limits.{said}" if said != str(problem) else f"sandbox.limits: {said}") from None


def instantiate(node: Any) -> Any:
    from hydra.utils import instantiate as hydra_instantiate

    return hydra_instantiate(node, _convert_="all")


def plain(node: Any) -> Any:
    """A config node as dicts, lists and scalars, interpolations resolved."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


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
