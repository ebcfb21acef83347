"""Estimates of calls, tokens, cost and time of a run or a sweep, from a probe of a few tasks.

The probe uses the shared call cache: the run finds its replies there and does not pay for them again. Cells of one seed
are probed on the same tasks, so shared calls are counted once, as the sweep pays for them; other seeds, which share no
calls, on other tasks, so that the probe sees more of them. With a curator, the probe is the beginning of the run, in
whole rounds, its curation included. One file: probe, projection and prices share their counts.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from contextvars import ContextVar
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple, cast

import msgspec

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.agent.models.prices import Price
from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.analysis.report.sheets import Sheet, paragraphs
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.archive import Archive, Rounds
from reflexion_lab.records import Attempt, Completion, Message, Record, Sampling, Task, Usage
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.assemble import loop_factory, resolved
from reflexion_lab.runner.config.build import Config, plain, takes
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.initial_items import initial_items
from reflexion_lab.runner.config.kinds import check_kinds
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.runner import teach
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.text.shorten import estimated, number_of


def estimate(configs: Sequence[RunConfig | Config], tasks: int = 3) -> Estimate:
    """Probe `tasks` tasks of every cell, and estimate the cost of all of them. Store contents are not used.

    Raises ConfigError: the call cache is off, or a config is refused; CapReached: the probe itself met a cap; its
    replies stay in the cache.
    """
    cells = [RunConfig.of(cfg) for cfg in configs]
    for cfg in cells:
        check(cfg)  # before a call is paid for a run that would be refused
        if cfg.cache.mode == "off":
            raise ConfigError("cache.mode", "off", "read-write, since the run would pay for the probe again")
    scope = f"estimate-{time.strftime('%Y%m%d-%H%M%S')}"
    with ExitStack() as stack:
        sandboxes: dict[str, CachedSandbox] = {}
        probes = []
        for cfg in cells:
            settings = f"{cfg.sandbox} {cfg.cache}"
            if settings not in sandboxes:
                sandboxes[settings] = stack.enter_context(closing(parts.load_sandbox(cfg)))
            probes.append(_probe(cfg, tasks, scope, sandboxes[settings]))
    return _summed(probes)


class Probe(NamedTuple):
    tasks: int
    """Of the whole cell."""
    loops: list[Trace]
    rounds: list[Trace]
    """Curations of the probed rounds; empty without a curator."""
    expected: int
    """Rounds of the whole cell whose tasks memory learns from."""
    attempts: int
    """Maximal attempts of a loop."""
    turns: int
    """Maximal calls of the actor in an attempt, where it plays; 1 elsewhere."""
    workers: int
    items_limit: int
    """Maximal tokens of a curator's items; 0: without a limit or a curator."""
    has_curator: bool
    """Whether a model curates."""

    @property
    def traces(self) -> list[Trace]:
        return self.loops + self.rounds

    def part(self, new: Collection[int], every: Collection[int], left: bool = False) -> Part:
        """The cost of the calls `new`, by `id`, for all tasks. `left`: for those alone that were not probed.

        Where tasks learn from each other, only the probe shares calls with other cells: `every` call counts later.
        """
        later = every if self.rounds else new
        total = Part()
        for traces, n in ((self.loops, self.tasks), (self.rounds, self.expected)):
            if traces:
                total += _times(n - len(traces), [trace.part(later) for trace in traces])
                total += Part() if left else sum((trace.part(new) for trace in traces), Part())
        return total


def _probe(cfg: RunConfig, n: int, scope: str, sandbox: CachedSandbox) -> Probe:
    """Run the loops of `n` tasks, the same ones for all cells of a seed; where tasks learn from each other, of the
    first round; with a curator, the first rounds. `scope`: where its spending counts towards the caps.
    """
    cfg = without_traces(resolved(cfg))  # ids of items, which prompts may show, as in the run
    check_kinds(cfg, benchmark := parts.load_benchmark(cfg, sandbox))
    size = cfg.memory.shared.round_size
    with ExitStack() as stack:
        models = stack.enter_context(closing(parts.load_models(cfg)))
        models.meter.scope = scope
        curator = Recording(models.of("curator"), "curator")
        archive = parts.load_archive(
            cfg, models._replace(by_role={**models.by_role, "curator": cast(CachedModel, curator)})
        )
        rounds, curated = None, archive and archive.curated
        if archive:
            stack.enter_context(closing(archive))
            others = initial_items(cfg)
            archive.begin(items=others and others.items)
        chosen = list(benchmark)[:size] if archive else list(benchmark)
        if archive and curated:
            rounds, chosen = Rounds(archive, size, "", cfg.arm, frozen=benchmark.held_out), []
            for of_round in rounds.of(list(benchmark)):
                chosen += of_round if len(chosen) < n else ()
        else:
            chosen = random.Random(f"estimate {cfg.seed}").sample(chosen, min(n, len(chosen)))
        probed = benchmark.only([task.loop_id for task in chosen])
        tasks = parts.timed_tasks(probed, sandbox, cfg.benchmark.keep_failing)
        workers = cfg.workers or models.of("actor").slots
        workers = min(workers, size) if archive else workers
        loops: list[Trace] = []
        by_round: list[Trace] = []
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            for of_round in rounds.of(tasks) if rounds else [tasks]:
                new = list(pool.map(lambda task: _trace(cfg, models, sandbox, archive, task), of_round))
                loops += new
                if rounds:
                    for task, trace in zip(of_round, new, strict=True):
                        rounds.finished(task, trace.attempts)
                    TRACE.set(trace := Trace([], []))
                    rounds.end(of_round)
                    by_round += [trace] * (of_round[0].task_id not in rounds.frozen)
    return Probe(
        tasks=len(benchmark),
        loops=loops,
        rounds=by_round,
        expected=sum(each[0].task_id not in rounds.frozen for each in rounds.of(list(benchmark))) if rounds else 0,
        attempts=cfg.loop.max_attempts + cfg.loop.extra_attempts,
        turns=int((cfg.environment or {}).get("max_steps", 1)),
        workers=workers,
        items_limit=(curated.limits.max_tokens or 0) if curated else 0,
        has_curator=bool(curated and not curated.is_frozen) and takes("curator", cfg.curator, "model"),
    )


def _trace(cfg: RunConfig, models: parts.Models, sandbox: CachedSandbox, archive: Archive | None, task: Task) -> Trace:
    """One task's loop, from the tests that a model writes for it to its last attempt."""
    TRACE.set(trace := Trace([], []))
    by_role = {role: cast(CachedModel, Recording(models.of(role), role, trace)) for role in parts.ROLES}
    models = models._replace(by_role=by_role)
    written: tuple[str, ...] = ()
    if cfg.feedback_source == "self_tests":
        written = parts.suite_writer_factory(cfg, models, sandbox)().write(task.public).tests
    loop = loop_factory(cfg, models, sandbox, archive)()
    for attempt in loop.attempts(teach(task, cfg.feedback_source, written)):
        trace.attempts.append(attempt)
    return trace


def _summed(cells: Sequence[Probe]) -> Estimate:
    every = [call for cell in cells for trace in cell.traces for call in trace.calls]
    fresh = {id(call) for call in {call.key: call for call in reversed(every)}.values()}
    """The first of equal calls."""
    prices = {call.role: str(call.price) for call in every}

    def part(calls: Iterable[Call], left: bool = False) -> Part:
        asked = set(map(id, calls))
        return sum((cell.part(asked & fresh, asked, left) for cell in cells), Part())

    return Estimate(
        cells=len(cells),
        tasks=sum(cell.tasks for cell in cells),
        probed=max(len(cell.loops) for cell in cells),
        roles={role: part(call for call in every if call.role == role) for role in sorted(prices)},
        first_attempts=part(call for call in every if not call.is_retry and call.role != "curator"),
        retries=part(call for call in every if call.is_retry),
        total=part(every),
        apart=sum((cell.part(ids := set(map(id, every)), ids) for cell in cells), Part()),
        paid=sum((call.usage for call in every if not call.cached), Usage()),
        to_pay=part(every, left=True),
        at_most=sum((_at_most(cell) for cell in cells), Usage()),
        seconds=_seconds(cells, fresh),
        prices=prices,
        notes=tuple(_notes(cells)),
        uncounted=sum(call.usage.uncounted for call in every),
    )


def _times(n: int, costs: Sequence[Part]) -> Part:
    """The cost of `n` further tasks or rounds after those of these `costs`."""
    figures = {}
    for field in Part.__struct_fields__:
        low, mean, high = zip(*(msgspec.structs.astuple(getattr(part, field)) for part in costs), strict=True)
        figures[field] = Range(n * min(low), n * fmean(mean), n * max(high))
    return Part(**figures)


def _at_most(cell: Probe) -> Usage:
    """As many calls as a loop or round may make, all with the longest prompt and reply; with a full memory."""
    total = Usage()
    for role in {call.role for trace in cell.traces for call in trace.calls}:
        calls = [call for trace in cell.traces for call in trace.calls if call.role == role]
        times = (cell.attempts if any(call.attempt for call in calls) else 1) * cell.tasks
        if role == "curator":
            times = cell.expected + cell.tasks * any(c.role == role for trace in cell.loops for c in trace.calls)
        at_once = Counter((n, c.attempt) for n, trace in enumerate(cell.traces) for c in trace.calls if c.role == role)
        times *= max(*at_once.values(), cell.turns if role == "actor" else 1)
        prompt = max(call.prompt if call.usage.uncounted else call.usage.prompt_tokens for call in calls)
        if cell.rounds:
            room = min((call.context - call.max_tokens for call in calls if call.context), default=0)
            full = prompt + cell.items_limit if cell.items_limit else room
            prompt = max(prompt, min(full, room) if room else full)
        reply = max(call.max_tokens for call in calls)
        cost = times * max(call.price.cost(prompt, reply) for call in calls)
        total += Usage(calls=times, prompt_tokens=times * prompt, completion_tokens=times * reply, cost=cost)
    return total


def _seconds(cells: Sequence[Probe], new: Collection[int]) -> tuple[float, float]:
    low = high = 0.0
    for cell in cells:
        left = cell.tasks - len(cell.loops)
        each = fmean(trace.seconds(new) for trace in cell.loops)
        # rounds are curated one after the other, while no loop runs
        curated = fmean(trace.seconds(new) for trace in cell.rounds or [Trace([], [])])
        curated *= cell.expected - len(cell.rounds)
        low += left * each / max(min(cell.workers, left), 1) + curated
        high += left * each / max(min(cell.workers, len(cell.loops)), 1) + curated
    return round(low, 3), round(high, 3)


def _notes(cells: Sequence[Probe]) -> Iterable[str]:
    every = [call for cell in cells for trace in cell.traces for call in trace.calls]
    if not any(call.is_retry for call in every) and any(cell.attempts > 1 for cell in cells):
        yield (
            "the probe saw no retry: the expected figures exclude retries, and the bound excludes reflections and the "
            "longer prompts of retries"
        )
    for cell in cells:
        if cell.has_curator and not any(trace.calls for trace in cell.rounds):
            yield f"the figures lack the curator's calls: it made none in the probe of {len(cell.loops)} tasks"
            break
    if any(cell.rounds and len(cell.loops) < cell.tasks for cell in cells):
        yield "memory grows after the probe, and prompts that show it with it; the upper bound has it full"
    if late := sum(trace.attempts[-1].stop_reason == "timeout" for cell in cells for trace in cell.loops):
        yield f"{late} of the probed loops ended by loop.timeout; on a less busy machine they would make more attempts"
    if before := sum(call.cached for trace in cells[0].loops for call in trace.calls):
        yield f"{before} calls of the probe were in the cache before; the rest were not looked up"


class Range(Record, frozen=True):
    """Totals of the probe, and the others as the cheapest probed one, the mean, or the most expensive; no interval."""

    low: float = 0.0
    mean: float = 0.0
    high: float = 0.0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.mean + other.mean, self.high + other.high)


class Part(Record, frozen=True, kw_only=True):
    """The cost of a group of calls."""

    calls: Range = Range()
    prompt_tokens: Range = Range()
    completion_tokens: Range = Range()
    tokens: Range = Range()
    cost: Range = Range()
    """Of calls whose price is known."""

    def __add__(self, other: Part) -> Part:
        return Part(**{field: getattr(self, field) + getattr(other, field) for field in self.__struct_fields__})


class Estimate(Record, frozen=True, kw_only=True):
    """Expected cost of all cells and seeds; equal calls count once."""

    cells: int
    tasks: int
    """Over all cells."""
    probed: int
    """Tasks probed per cell; the same ones in cells of a seed."""
    roles: dict[str, Part]
    first_attempts: Part
    """Including model-written tests, excluding reflections and the curator."""
    retries: Part
    """Reflections, and attempts after the first."""
    total: Part
    apart: Part
    """The total if every cell paid for all of its calls: the sum of the figures in the run folders."""
    paid: Usage
    """New spending of the probe."""
    to_pay: Part
    """`total` without the probed tasks."""
    at_most: Usage
    """Upper bound: no task passes and every reply has the maximal length; calls per attempt and prompt lengths are
    those of the probe, with a full memory. The curator calls as often as in the mean."""
    seconds: tuple[float, float]
    """Remaining wall time: every worker always busy; no more at once than in the probe."""
    prices: dict[str, str]
    notes: tuple[str, ...] = ()
    uncounted: int = 0
    """Replies of the probe without usage: tokens are lower bounds."""

    @property
    def unknown(self) -> bool:
        """Whether the cost is unknown: the price of some role is, or the tokens of a reply that is paid for."""
        return self.unpriced or (
            self.uncounted > 0 and any(not price.startswith("nothing") for price in self.prices.values())
        )

    @property
    def unpriced(self) -> bool:
        """Whether the price of some role is unknown."""
        return "unknown" in self.prices.values()

    def __repr__(self) -> str:
        return "\n".join((repr(sheet(self)), *lines(self)))

    def _repr_html_(self) -> str:
        return sheet(self)._repr_html_() + paragraphs(lines(self))


def sheet(estimate: Estimate) -> Sheet:
    """Calls, tokens and cost: of first attempts and retries, of each role, of all, and of what is left to pay."""
    cells, unpriced = f"{number_of(estimate.cells, 'cell')}, " if estimate.cells > 1 else "", estimate.unknown
    least = "≥ " * bool(estimate.uncounted)
    costs = {"first attempts": estimate.first_attempts, "retries": estimate.retries, **estimate.roles}
    costs["all"] = estimate.total
    if estimate.cells > 1:
        costs["without sharing"] = estimate.apart
    costs["still to pay"] = estimate.to_pay
    return Sheet(
        title=f"Estimate: {cells}{number_of(estimate.tasks, 'task')}, from {estimate.probed} probed",
        columns=("", "calls", "tokens", "cost"),
        rows=tuple(
            (
                name,
                _counted(part.calls),
                least + _counted(part.tokens),
                "unknown" if unpriced else _counted(part.cost, 4),
            )
            for name, part in costs.items()
        ),
        caption="Mean of the probed tasks; in brackets, if all others cost as much as the cheapest or the most "
        "expensive; no confidence interval.",
    )


def lines(estimate: Estimate) -> Iterator[str]:
    """Lines below the sheet: spending of the probe, bounds, time, prices, notes."""
    low, high = estimate.seconds
    yield f"the probe newly spent {_spent(estimate.paid, estimate.unknown)}; the run reads it from the cache"
    at_most = _spent(estimate.at_most, estimate.unpriced)
    yield f"upper bound, if no task passes and every reply is as long as allowed: {at_most}"
    yield f"wall time left: {_time(low)} with all workers busy, {_time(high)} at the probe's concurrency"
    yield from (f"price of {role}: {price}" for role, price in estimate.prices.items())
    if estimate.uncounted:
        yield f"{estimate.uncounted} replies of the probe are without usage: only the upper bound counts them"
    yield from (f"note: {note}" for note in estimate.notes)


def _counted(counts: Range, digits: int = 0) -> str:
    return f"{counts.mean:,.{digits}f} [{counts.low:,.{digits}f}, {counts.high:,.{digits}f}]"


def _spent(usage: Usage, unpriced: bool) -> str:
    cost = "unknown" if unpriced else f"{usage.cost:,.4f}"
    least = "at least " * bool(usage.uncounted_replies)
    return f"{number_of(usage.calls, 'call')}, {least}{usage.tokens:,} tokens, cost {cost}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


class Call(NamedTuple):
    key: str
    role: str
    attempt: int
    """1-based; 0 before the first."""
    usage: Usage
    max_tokens: int
    cached: bool
    """Whether the reply came from the call cache."""
    price: Price
    context: int
    prompt: int
    """Estimated tokens."""

    @property
    def part(self) -> Part:
        return Part(**{name: Range(*[getattr(self.usage, name)] * 3) for name in Part.__struct_fields__})

    @property
    def is_retry(self) -> bool:
        return self.attempt > 1 or self.role == "reflector"


class Trace(NamedTuple):
    """One task's loop, or the curator's calls of one round."""

    calls: list[Call]
    attempts: list[Attempt]

    def part(self, counted: Collection[int]) -> Part:
        """The cost of the calls counted, by `id`."""
        return sum((call.part for call in self.calls if id(call) in counted), Part())

    def seconds(self, counted: Collection[int]) -> float:
        """Seconds of the model in the calls counted, by `id`, and of the evaluations that follow them."""
        calls = [call for call in self.calls if id(call) in counted]
        fresh = {call.attempt for call in calls}
        evaluated = sum(attempt.evaluation.seconds for attempt in self.attempts if attempt.number in fresh)
        return sum(call.usage.seconds for call in calls) + evaluated


TRACE: ContextVar[Trace] = ContextVar("trace")
"""Of the loop or round in this thread: all loops of a cell share a curator."""


class Recording(WrappedModel):
    """`model` in `role`, with every call recorded in `trace`, by default in that of the thread."""

    def __init__(self, model: CachedModel, role: str, trace: Trace | None = None) -> None:
        super().__init__(model)
        self._price, self._role, self._trace = model.price, role, trace

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = super().complete(messages, sampling=sampling, sample=sample)
        trace = self._trace or TRACE.get()
        trace.calls.append(
            Call(
                key=call_key(self.fingerprint, messages, sampling, sample),
                role=self._role,
                attempt=0 if self._role in ("suite_writer", "curator") else len(trace.attempts) + 1,
                usage=completion.usage,
                max_tokens=min(sampling.longest, self.context or sampling.longest),
                cached=completion.cached,
                price=self._price,
                context=self.context,
                prompt=sum(estimated(message.content) for message in messages),
            )
        )
        return completion


def without_traces(cfg: RunConfig) -> RunConfig:
    """A copy of the config without a store and reflection files; it reflects on the last attempt as with them."""
    return parts.with_defaults(cfg).having({"store": _no_store(), "memory.reflection_files": None})


@cache
def _no_store() -> Any:
    """Composed once: it takes Hydra a tenth of a second, and a sweep has a hundred cells."""
    return plain(compose("store=none").store)
