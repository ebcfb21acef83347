"""Estimates of calls, tokens, cost and time of a run or a sweep, from a probe of a few tasks.

The probe uses the shared call cache: the run finds its replies there and does not pay for them again. Cells of a sweep
are probed on the same tasks, so shared calls are counted once, as the sweep pays for them.
"""

from __future__ import annotations

import copy
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Completion, Message, Record, Sampling, Task, Usage

if TYPE_CHECKING:
    from reflexion_lab.agent.models.prices import Price
    from reflexion_lab.analysis.report.sheets import Sheet
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.runner.config.parts import Models
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox


class _Probed(NamedTuple):
    """The probe of one cell."""

    tasks: tuple[str, ...]
    """All tasks of the cell."""
    digest: str
    traces: list[Trace]
    attempts: int
    """Maximal attempts of a loop."""
    workers: int
    excluded: str
    """What the cell's run adds for its curator; "" without one."""


def estimate(cells: Sequence[Config], tasks: int = 3) -> Estimate:
    """Probe `tasks` tasks of every cell, and estimate the cost of all of them. Store contents are not used.

    Raises
    ------
    ConfigError
        The call cache is off.
    CapReached
        The probe itself met a cap; its replies stay in the cache.
    """
    from reflexion_lab.runner.config.parts import load_sandbox

    for cfg in cells:
        if cfg.cache.mode == "off":
            raise ConfigError("cache.mode", "off", "read-write, since the run would pay for the probe again")
    scope = f"estimate-{time.strftime('%Y%m%d-%H%M%S')}"
    with ExitStack() as stack:
        sandboxes: dict[str, CachedSandbox] = {}
        probes = []
        for cfg in cells:
            settings = f"{cfg.sandbox} {cfg.cache}"
            if settings not in sandboxes:
                sandboxes[settings] = stack.enter_context(closing(load_sandbox(cfg)))
            probes.append(_probe(cfg, tasks, scope, sandboxes[settings]))
    return _summed(probes)


def _probe(cfg: Config, n: int, scope: str, sandbox: CachedSandbox) -> _Probed:
    """Run the loops of `n` tasks, the same ones for all cells with these tasks; where tasks learn from each other, of
    the first round. `scope`: where its spending counts towards the caps.
    """
    from reflexion_lab.runner.config.parts import load_archive, load_benchmark, load_models, timed_tasks

    cfg = without_traces(cfg)
    benchmark = load_benchmark(cfg, sandbox)
    ids = [task.task_id for task in benchmark]
    with ExitStack() as stack:
        archive = load_archive(cfg, None)
        if archive:
            stack.enter_context(closing(archive))
        first = ids[: cfg.memory.shared.round_size] if archive else ids
        chosen = random.Random("estimate").sample(first, min(n, len(first)))
        tasks = timed_tasks(benchmark.only(chosen), sandbox, cfg.benchmark.get("keep_failing", False))
        models = stack.enter_context(closing(load_models(cfg)))
        models.meter.scope = scope
        workers = cfg.workers or models.of("actor").slots
        if archive:
            archive.begin()
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            traces = list(pool.map(lambda task: _trace(cfg, models, sandbox, archive, task), tasks))
    return _Probed(
        tuple(ids), benchmark.digest, traces, cfg.loop.max_attempts + cfg.loop.extra_attempts, workers, _excluded(cfg)
    )


def _excluded(cfg: Config) -> str:
    from reflexion_lab.runner.config.build import plain, takes
    from reflexion_lab.runner.config.parts import keeps_items

    if not keeps_items(cfg):
        return ""
    has_model = takes("curator", plain(cfg.curator), "model")
    return "the curator's calls, and its items in prompts" if has_model else "the curator's items in prompts"


def _trace(cfg: Config, models: Models, sandbox: CachedSandbox, archive: Archive | None, task: Task) -> Trace:
    """One task's loop, from the tests that a model writes for it to its last attempt."""
    from reflexion_lab.runner.config.assemble import loop_factory
    from reflexion_lab.runner.config.parts import ROLES, suite_writer_factory
    from reflexion_lab.runner.runner import teach

    trace = Trace(task.task_id, [], [])
    models_by_role = {role: cast(CachedModel, Recording(models.of(role), role, trace)) for role in ROLES}
    written: tuple[str, ...] = ()
    if cfg.feedback_source == "self_tests":
        written = suite_writer_factory(cfg, models_by_role["suite_writer"], sandbox)().write(task.public).tests
    loop = loop_factory(cfg, models._replace(by_role=models_by_role), sandbox, archive)()
    for attempt in loop.attempts(teach(task, cfg.feedback_source, written)):
        trace.attempts.append(attempt)
    return trace


def _summed(cells: list[_Probed]) -> Estimate:
    groups: dict[object, list[_Probed]] = defaultdict(list)
    """Cells with the same tasks."""
    for cell in cells:
        groups[cell.digest, cell.tasks].append(cell)
    every = [call for cell in cells for trace in cell.traces for call in trace.calls]
    new = list({call.key: call for call in reversed(every)}.values())
    """The first of equal calls."""
    prices = {call.role: str(call.price) for call in every}

    def part(calls: Iterable[Call], left: bool = False) -> Part:
        counted = set(map(id, calls))
        return sum((_part(group, counted, left) for group in groups.values()), Part())

    return Estimate(
        cells=len(cells),
        tasks=sum(len(cell.tasks) for cell in cells),
        probed=max(len(cell.traces) for cell in cells),
        roles={role: part(call for call in new if call.role == role) for role in sorted(prices)},
        first_attempts=part(call for call in new if not call.is_retry),
        retries=part(call for call in new if call.is_retry),
        total=part(new),
        apart=part(every),
        paid=sum((call.usage for call in every if not call.cached), Usage()),
        to_pay=part(new, left=True),
        at_most=sum((_at_most(cell) for cell in cells), Usage()),
        seconds=_seconds(cells, set(map(id, new))),
        prices=prices,
        notes=tuple(_notes(cells)),
    )


def _part(cells: list[_Probed], counted: set[int], left: bool) -> Part:
    """The calls `counted`, by `id`, in cells with the same tasks. `left`: without the probed tasks."""
    by_task: dict[str, Usage] = defaultdict(Usage)
    for cell in cells:
        for trace in cell.traces:
            by_task[trace.task_id] += sum((call.usage for call in trace.calls if id(call) in counted), Usage())
    n = len(cells[0].tasks) - (len(by_task) if left else 0)
    figures = {field: [getattr(usage, field) for usage in by_task.values()] for field in Part.__struct_fields__}
    return Part(**{field: Range(n * min(v), n * fmean(v), n * max(v)) for field, v in figures.items()})


def _at_most(cell: _Probed) -> Usage:
    total = Usage()
    every = [(trace.task_id, call) for trace in cell.traces for call in trace.calls]
    for role in dict.fromkeys(call.role for _, call in every):
        calls = [call for _, call in every if call.role == role]
        per_attempt = max(Counter((task_id, call.attempt) for task_id, call in every if call.role == role).values())
        times = per_attempt * (cell.attempts if any(call.attempt for call in calls) else 1) * len(cell.tasks)
        prompt, reply = max(call.usage.prompt_tokens for call in calls), max(call.max_tokens for call in calls)
        cost = max(call.price.cost(prompt, reply) for call in calls)
        total += Usage(calls=times, prompt_tokens=times * prompt, completion_tokens=times * reply, cost=times * cost)
    return total


def _seconds(cells: list[_Probed], new: set[int]) -> tuple[float, float]:
    low = high = 0.0
    for cell in cells:
        left = len(cell.tasks) - len(cell.traces)
        each = fmean(trace.seconds(new) for trace in cell.traces)
        low += left * each / max(min(cell.workers, left), 1)
        high += left * each / max(min(cell.workers, len(cell.traces)), 1)
    return round(low, 3), round(high, 3)


def _notes(cells: list[_Probed]) -> Iterable[str]:
    retried = any(call.is_retry for cell in cells for trace in cell.traces for call in trace.calls)
    if not retried and any(cell.attempts > 1 for cell in cells):
        yield (
            "the probe saw no retry: the expected figures exclude retries, and the bound excludes reflections and the "
            "longer prompts of retries"
        )
    for excluded in dict.fromkeys(cell.excluded for cell in cells if cell.excluded):
        yield f"the figures exclude {excluded}: the probe begins with an empty memory, and no round ends in it"
    if late := sum(trace.attempts[-1].stop_reason == "timeout" for cell in cells for trace in cell.traces):
        yield f"{late} of the probed loops ended by loop.timeout; on a less busy machine they would make more attempts"
    before = sum(call.cached for trace in cells[0].traces for call in trace.calls)
    if before:
        yield f"{before} calls of the probe were in the cache before; the rest were not looked up"


class Range(Record, frozen=True):
    """Totals if every task costs as much as the cheapest probed one, the mean, the most expensive; no interval."""

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
    """Tasks probed per cell; the same ones in cells with the same tasks."""
    roles: dict[str, Part]
    first_attempts: Part
    """Including model-written tests, excluding reflections."""
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
    those of the probe."""
    seconds: tuple[float, float]
    """Remaining wall time: every worker always busy; no more at once than in the probe."""
    prices: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def unpriced(self) -> bool:
        """Whether the price of some role is unknown."""
        return "unknown" in self.prices.values()

    def __repr__(self) -> str:
        return "\n".join((repr(sheet(self)), *lines(self)))

    def _repr_html_(self) -> str:
        from reflexion_lab.analysis.report.sheets import paragraphs

        return sheet(self)._repr_html_() + paragraphs(lines(self))


def sheet(estimate: Estimate) -> Sheet:
    """Calls, tokens and cost: of first attempts and retries, of each role, of all, and of what is left to pay."""
    from reflexion_lab.analysis.report.sheets import Sheet

    cells, unpriced = f"{estimate.cells} cells, " if estimate.cells > 1 else "", estimate.unpriced
    parts = {"first attempts": estimate.first_attempts, "retries": estimate.retries, **estimate.roles}
    parts["all"] = estimate.total
    if estimate.cells > 1:
        parts["without sharing"] = estimate.apart
    parts["still to pay"] = estimate.to_pay
    return Sheet(
        title=f"Estimate: {cells}{estimate.tasks:,} tasks, from {estimate.probed} probed",
        columns=("", "calls", "tokens", "cost"),
        rows=tuple(
            (name, _counted(part.calls), _counted(part.tokens), "unknown" if unpriced else _counted(part.cost, 4))
            for name, part in parts.items()
        ),
        caption="Mean of the probed tasks; in brackets, if all cost as much as the cheapest or the most expensive; no "
        "confidence interval.",
    )


def lines(estimate: Estimate) -> Iterator[str]:
    """Lines below the sheet: spending of the probe, bounds, time, prices, notes."""
    low, high = estimate.seconds
    yield f"the probe newly spent {_spent(estimate.paid, estimate.unpriced)}; the run reads it from the cache"
    at_most = _spent(estimate.at_most, estimate.unpriced)
    yield f"upper bound, if no task passes and every reply is as long as allowed: {at_most}"
    yield f"wall time left: {_time(low)} with every worker busy, {_time(high)} with no more workers than in the probe"
    yield from (f"price of {role}: {price}" for role, price in estimate.prices.items())
    yield from (f"note: {note}" for note in estimate.notes)


def _counted(counts: Range, digits: int = 0) -> str:
    return f"{counts.mean:,.{digits}f} [{counts.low:,.{digits}f}, {counts.high:,.{digits}f}]"


def _spent(usage: Usage, unpriced: bool) -> str:
    cost = "unknown" if unpriced else f"{usage.cost:,.4f}"
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens, cost {cost}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


class Call(NamedTuple):
    """One model call of a probe."""

    key: str
    role: str
    attempt: int
    """1-based; 0 before the first."""
    usage: Usage
    max_tokens: int
    cached: bool
    """Whether the reply came from the cache."""
    price: Price

    @property
    def is_retry(self) -> bool:
        return self.attempt > 1 or self.role == "reflector"


class Trace(NamedTuple):
    """One task's loop."""

    task_id: str
    calls: list[Call]
    attempts: list[Attempt]

    def seconds(self, counted: set[int]) -> float:
        """Seconds of the model in the calls counted, by `id`, and of the evaluations that follow them."""
        calls = [call for call in self.calls if id(call) in counted]
        fresh = {call.attempt for call in calls}
        evaluated = sum(attempt.evaluation.seconds for attempt in self.attempts if attempt.number in fresh)
        return sum(call.usage.seconds for call in calls) + evaluated


class Recording(WrappedModel):
    """`model` in `role` of one loop, with every call recorded in `trace`."""

    def __init__(self, model: CachedModel, role: str, trace: Trace) -> None:
        super().__init__(model)
        self._price = model.price
        self._role = role
        self._trace = trace

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = super().complete(messages, sampling=sampling, sample=sample)
        self._trace.calls.append(
            Call(
                key=call_key(self.fingerprint, messages, sampling, sample),
                role=self._role,
                attempt=len(self._trace.attempts) + (self._role != "suite_writer"),
                usage=completion.usage,
                max_tokens=sampling.max_tokens,
                cached=completion.cached,
                price=self._price,
            )
        )
        return completion


def without_traces(cfg: Config) -> Config:
    """A copy of the config without a store and reflection files; it reflects on the last attempt as with them."""
    from reflexion_lab.runner.config.parts import with_defaults

    cfg = copy.deepcopy(with_defaults(cfg))
    cfg.store, cfg.memory.reflection_files = _no_store(), None
    return cfg


@cache
def _no_store() -> Any:
    """Composed once: it takes Hydra a tenth of a second, and a sweep has a hundred cells."""
    from reflexion_lab.runner.config.compose import compose

    return compose("store=none").store
