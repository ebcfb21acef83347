"""Determinism of a model: agreement of its replies to equal calls (prompt, sampling, seed).

Calls are made one at a time and several at once, since batched arithmetic can change even greedy replies. A prompt is a
cluster: intervals are over prompts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import combinations, product
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple, cast

from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Completion, Message, Recollection, Record, Sampling, Task, Usage
from reflexion_lab.studies.estimate import without_traces

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.agent.models.cache import CachedModel
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox

ALONE, BETWEEN = "alone", "between the two"
"""Conditions: one call at a time; its replies against those of calls made at once."""


class Reply(NamedTuple):
    """One reply."""

    text: str
    program: str | None
    """The program that the actor extracts; None where it needs more calls."""
    system_fingerprint: str = ""


Pair = tuple[Reply, Reply]


class Agreement(Record, frozen=True, kw_only=True):
    """Agreement of replies within one condition or between two. A prompt is a cluster."""

    name: str
    replies: int
    differing: Rate
    """Prompts with at least two different replies."""
    pairs: Estimate
    """Mean over prompts of the share of reply pairs that differ."""
    same_program: Estimate | None
    """Share of reply pairs with the same program; None if the actor needs more than one reply."""
    first_differences: tuple[int, ...]
    """For each prompt with different replies, the first character, from 0, at which any two differ."""
    system_fingerprints: dict[str, int]
    """Number of replies by server configuration; {} where the server reports none."""


def within(name: str, by_prompt: Sequence[Sequence[Reply]]) -> Agreement:
    """Agreement of all pairs of replies within one condition; at least two replies per prompt."""
    return _agreement(name, [list(combinations(of_prompt, 2)) for of_prompt in by_prompt], by_prompt)


def across(name: str, first: Sequence[Sequence[Reply]], second: Sequence[Sequence[Reply]]) -> Agreement:
    """Agreement of each reply of one condition with each of the other, prompt by prompt."""
    pairs = [list(product(*both)) for both in zip(first, second, strict=True)]
    return _agreement(name, pairs, [*first, *second])


def first_difference(first: str, second: str) -> int:
    """The first character, from 0, at which two texts differ; the length of the shorter one if the other extends it."""
    shorter = min(len(first), len(second))
    return next((place for place in range(shorter) if first[place] != second[place]), shorter)


def _agreement(name: str, by_prompt: Sequence[Sequence[Pair]], replies: Iterable[Sequence[Reply]]) -> Agreement:
    all_replies = [reply for of_prompt in replies for reply in of_prompt]
    is_extracted = all(reply.program is not None for reply in all_replies)
    same_program = [[fmean(a.program == b.program for a, b in pairs)] for pairs in by_prompt]
    differing = [[(a.text, b.text) for a, b in pairs if a.text != b.text] for pairs in by_prompt]
    names = Counter(reply.system_fingerprint for reply in all_replies if reply.system_fingerprint)
    return Agreement(
        name=name,
        replies=len(all_replies),
        differing=Rate.of(sum(map(bool, differing)), len(by_prompt)),
        pairs=interval([[len(texts) / len(pairs)] for texts, pairs in zip(differing, by_prompt, strict=True)]),
        same_program=interval(same_program) if is_extracted else None,
        first_differences=tuple(min(first_difference(*both) for both in texts) for texts in differing if texts),
        system_fingerprints=dict(names),
    )


class Determinism(Record, frozen=True, kw_only=True):
    """The calls of a determinism probe, and the agreement of their replies."""

    model: str
    """Fingerprint of the model."""
    slots: int
    sampling: Sampling
    """Sampling parameters of the first prompt."""
    benchmark: str
    prompts: int
    repeats: int
    conditions: tuple[Agreement, ...]
    """One call at a time; as many at once as the model has slots; one against the other."""
    spent: Usage


class Prompt(NamedTuple):
    """The first model call of an actor on a task."""

    task: Task
    messages: tuple[Message, ...]
    sampling: Sampling


class UnansweredCall(BaseException):
    """A model call of an actor without a recorded reply; its arguments are the messages and their sampling."""


class Recorded(WrappedModel):
    """Substitute for `model` with at most one recorded reply."""

    def __init__(self, model: Model, reply: Completion | None) -> None:
        super().__init__(model)
        self._replies = [reply] if reply else []

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Raises UnansweredCall: no reply is left."""
        if not self._replies:
            raise UnansweredCall(tuple(messages), sampling)
        return self._replies.pop()


def determinism(cfg: Config, prompts: int, repeats: int, announce: Callable[[str], None]) -> Determinism:
    """Request first attempts at `prompts` random tasks, `repeats` times in each condition, without the call cache.

    Parameters
    ----------
    announce : Callable[[str], None]
        Receives one line about the planned calls before the first of them.

    Raises
    ------
    ConfigError
        Fewer than two repeats, or an impossible config.
    ModelError
        A call failed.
    CapReached
        A spending cap is reached; the caps apply to this probe alone.
    """
    from reflexion_lab.runner.config.parts import load_benchmark, load_models, load_sandbox

    if repeats < 2:
        raise ConfigError("--repeats", repeats, "2 or more, since replies are compared")
    cfg = without_traces(cfg)
    cfg.cache.mode = "off"
    models = load_models(cfg)
    models.meter.scope = f"determinism-{time.time_ns()}"
    with closing(models), closing(load_sandbox(cfg, 1)) as sandbox:
        whole, model = load_benchmark(cfg, sandbox), models.of("actor")
        benchmark = whole.sample(min(prompts, len(whole)), cfg.seed)
        calls = [_first_prompt(cfg, model, sandbox, task) for task in benchmark]
        names = {1: ALONE, model.slots: f"{model.slots} at once"} if model.slots > 1 else {1: ALONE}
        planned = " and ".join(["one at a time", *list(names.values())[1:]])
        size, sampling = f"{len(calls)} prompts × {repeats}, {planned}", calls[0].sampling
        drawn = f"temperature {sampling.temperature:g}, seed {sampling.seed}"
        n = len(calls) * repeats * len(names)
        announce(f"{n} calls to {plain(model.fingerprint)}: {size}; {drawn}; the call cache is off")
        conditions = []
        for at_once in names:
            completions = zip(calls, replies(model, calls, repeats, at_once), strict=True)
            conditions.append([_replies_of(cfg, model, sandbox, prompt, repeated) for prompt, repeated in completions])
        agreements = [within(name, by_prompt) for name, by_prompt in zip(names.values(), conditions, strict=True)]
        if len(conditions) > 1:
            agreements.append(across(BETWEEN, *conditions))
        return Determinism(
            model=model.fingerprint,
            slots=model.slots,
            sampling=sampling,
            benchmark=benchmark.name,
            prompts=len(calls),
            repeats=repeats,
            conditions=tuple(agreements),
            spent=models.spent,
        )


def replies(model: Model, prompts: Sequence[Prompt], repeats: int, at_once: int) -> list[list[Completion]]:
    """Replies by prompt. Every prompt is sent once before any is repeated, so equal calls are not neighbours."""
    rounds = [prompt for _ in range(repeats) for prompt in prompts]
    with ThreadPoolExecutor(at_once) as pool:
        completions = list(pool.map(lambda prompt: model.complete(prompt.messages, sampling=prompt.sampling), rounds))
    return [completions[number :: len(prompts)] for number in range(len(prompts))]


def _actor(cfg: Config, model: Model, sandbox: CachedSandbox) -> Actor:
    """An actor with `model` in every role."""
    from reflexion_lab.runner.config.assemble import loop_factory
    from reflexion_lab.runner.config.parts import Models

    return loop_factory(cfg, Models({"actor": cast("CachedModel", model)}), sandbox)().actor


def _first_prompt(cfg: Config, model: Model, sandbox: CachedSandbox, task: Task) -> Prompt:
    """Raises ConfigError: the actor makes no model call."""
    from reflexion_lab.runner.runner import teach

    taught = teach(task, "none" if cfg.feedback_source == "none" else "visible")
    try:
        _actor(cfg, Recorded(model, None), sandbox).act(taught, Recollection())
    except UnansweredCall as call:
        return Prompt(taught, *call.args)
    raise ConfigError("actor", f"{cfg.actor._target_}, which makes no model call", "one that does")


def _replies_of(
    cfg: Config, model: Model, sandbox: CachedSandbox, prompt: Prompt, completions: Sequence[Completion]
) -> list[Reply]:
    programs: dict[str, str | None] = {}
    for reply in {reply.text: reply for reply in completions}.values():
        try:
            actor = _actor(cfg, Recorded(model, reply), sandbox)
            programs[reply.text] = actor.act(prompt.task, Recollection()).solution
        except UnansweredCall:
            programs[reply.text] = None
    return [Reply(reply.text, programs[reply.text], reply.system_fingerprint) for reply in completions]


def show(result: Determinism, console: Console) -> None:
    """Print one row a condition. Intervals are 95 %, over prompts."""
    from reflexion_lab.analysis.report import cells

    title = f"Equal calls, {result.prompts} prompts of {plain(result.benchmark)} × {result.repeats}: shares in %"
    columns = ("prompts that\ndiffer", "pairs that\ndiffer", "pairs, same\nprogram", "differ\nfrom")
    table = cells.table(title, "condition", *columns)
    for condition in result.conditions:
        rate, differences = condition.differing, condition.first_differences
        differing = f"{rate.k} of {rate.n} {cells.interval(rate.low, rate.high)}"
        shares = [
            f"{100 * share.value:.1f} {cells.interval(share.low, share.high)}" if share else "-"
            for share in (condition.pairs, condition.same_program)
        ]
        row = (condition.name, differing, *shares, f"{median(differences):g}" if differences else "-")
        table.add_row(*map(cells.line, row))
    table.caption = "95 % intervals over prompts; differ from: the first character, the median over prompts that differ"
    console.print(table)
    for condition in result.conditions[:2]:
        if condition.system_fingerprints:
            names = ", ".join(f"{plain(name)} {n}" for name, n in condition.system_fingerprints.items())
            changes = " (IT CHANGED)" if len(condition.system_fingerprints) > 1 else ""
            console.print(cells.line(f"system_fingerprint, {condition.name}: {names}{changes}"))
    spent = result.spent
    console.print(cells.line(f"spent: {spent.calls} calls, {spent.tokens:,} tokens, cost {spent.cost:.4f}"))
