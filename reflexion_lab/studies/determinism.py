"""How far a model answers alike when it is asked alike: the same prompts, the same sampling, the same seed, repeated.

Asked one at a time and several at once, since batched arithmetic can change even greedy replies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, cast

from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Completion, Message, Recollection, Record, Sampling, Task, Usage
from reflexion_lab.studies.agreement import Agreement, Said, across, within
from reflexion_lab.studies.probe import without_traces

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.agent.models.cache import CachedModel
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox

ALONE, BETWEEN = "alone", "between the two"
"""Conditions: one call at a time; and, where there is another, each reply of the one against each of the other."""


class Determinism(Record, frozen=True, kw_only=True):
    """What was asked, and how far the replies agree."""

    model: str
    """Its fingerprint."""
    slots: int
    sampling: Sampling
    """Of the first prompt."""
    benchmark: str
    prompts: int
    repeats: int
    conditions: tuple[Agreement, ...]
    """One call at a time; as many at once as the model has slots; the one against the other."""
    spent: Usage


class Plan(NamedTuple):
    """What is about to be asked."""

    model: str
    slots: int
    prompts: int
    repeats: int
    sampling: Sampling

    @property
    def conditions(self) -> list[str]:
        return [ALONE, *([_at_once(self.slots)] if self.slots > 1 else [])]

    @property
    def calls(self) -> int:
        return self.prompts * self.repeats * len(self.conditions)


class Prompt(NamedTuple):
    """What an actor asks first of a task."""

    task: Task
    messages: tuple[Message, ...]
    sampling: Sampling


class Asked(Exception):
    """An actor's question that nobody answers."""

    def __init__(self, messages: Sequence[Message], sampling: Sampling) -> None:
        super().__init__()
        self.messages = tuple(messages)
        self.sampling = sampling


class Given:
    """In the place of `model`: the one reply that it gave before, or none."""

    def __init__(self, model: Model, reply: Completion | None) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._replies = [reply] if reply else []

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Raises Asked: there is no reply, or no other."""
        if not self._replies:
            raise Asked(messages, sampling)
        return self._replies.pop()


def determinism(cfg: DictConfig, prompts: int, repeats: int, announce: Callable[[Plan], None]) -> Determinism:
    """Ask for first attempts at `prompts` tasks, drawn by the seed: `repeats` times each, in each condition. The call
    cache is off; the caps hold, for this probe by itself. `announce` is told before the first call.

    Raises:
        ConfigError: fewer than two repeats, or a config that no run could have.
        ModelError: a reply could not be had.
        CapReached: no more may be spent.
    """
    from reflexion_lab.runner.config.parts import load_benchmark, load_models, load_sandbox

    if repeats < 2:
        raise ConfigError("--repeats", repeats, "2 or more, since replies are held against each other")
    cfg = without_traces(cfg)
    cfg.cache.mode = "off"
    models = load_models(cfg)
    models.meter.scope = f"determinism-{time.time_ns()}"
    with closing(models), closing(load_sandbox(cfg, 1)) as sandbox:
        whole, model = load_benchmark(cfg, sandbox), models.of("actor")
        benchmark = whole.sample(min(prompts, len(whole)), cfg.seed)
        asked = [_asked(cfg, model, sandbox, task) for task in benchmark]
        announce(Plan(model.fingerprint, model.slots, len(asked), repeats, asked[0].sampling))
        conditions = []
        for at_once in sorted({1, model.slots}):
            made = replies(model, asked, repeats, at_once)
            conditions.append([_said(cfg, model, sandbox, *one) for one in zip(asked, made, strict=True)])
        return Determinism(
            model=model.fingerprint,
            slots=model.slots,
            sampling=asked[0].sampling,
            benchmark=benchmark.name,
            prompts=len(asked),
            repeats=repeats,
            conditions=tuple(_compared(conditions, model.slots)),
            spent=models.spent,
        )


def replies(model: Model, prompts: Sequence[Prompt], repeats: int, at_once: int) -> list[list[Completion]]:
    """By prompt, its replies. All prompts are asked once before any is asked again: equal calls are never neighbours,
    unless there is one prompt alone.
    """
    rounds = [prompt for _ in range(repeats) for prompt in prompts]
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(lambda prompt: model.complete(prompt.messages, sampling=prompt.sampling), rounds))
    return [found[number :: len(prompts)] for number in range(len(prompts))]


def _compared(conditions: Sequence[Sequence[Sequence[Said]]], slots: int) -> list[Agreement]:
    names = [ALONE, _at_once(slots)]
    found = [within(name, made) for name, made in zip(names, conditions, strict=False)]
    return [*found, across(BETWEEN, *conditions)] if len(conditions) > 1 else found


def _at_once(slots: int) -> str:
    return f"{slots} at once"


def _actor(cfg: DictConfig, model: Model, sandbox: CachedSandbox) -> Actor:
    """The actor of a loop of its own, with `model` in every role."""
    from reflexion_lab.runner.config.compose import loop_factory
    from reflexion_lab.runner.config.parts import Models

    return loop_factory(cfg, Models({"actor": cast("CachedModel", model)}), sandbox)().actor


def _asked(cfg: DictConfig, model: Model, sandbox: CachedSandbox, task: Task) -> Prompt:
    """Raises ConfigError: the actor asks nothing."""
    from reflexion_lab.runner.runner import teach

    shown = teach(task, "none" if cfg.feedback_source == "none" else "visible")
    try:
        _actor(cfg, Given(model, None), sandbox).act(shown, Recollection())
    except Asked as question:
        return Prompt(shown, question.messages, question.sampling)
    raise ConfigError("actor", f"{cfg.actor._target_}, which asks its model nothing", "one that does")


def _said(
    cfg: DictConfig, model: Model, sandbox: CachedSandbox, prompt: Prompt, made: Sequence[Completion]
) -> list[Said]:
    programs: dict[str, str | None] = {}
    for reply in {reply.text: reply for reply in made}.values():
        try:
            actor = _actor(cfg, Given(model, reply), sandbox)
            programs[reply.text] = actor.act(prompt.task, Recollection()).solution
        except Asked:
            programs[reply.text] = None
    return [Said(reply.text, programs[reply.text], reply.system_fingerprint) for reply in made]
