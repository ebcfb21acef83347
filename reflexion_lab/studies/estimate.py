"""Estimates of calls, tokens, cost and time of a run or a sweep, from a probe of a few tasks.

The probe uses the shared call cache: the run finds its replies there and does not pay for them again. Cells of a sweep
are probed on the same tasks, so shared calls are counted once, as the sweep pays for them.

With a curator, the probe is the beginning of the run, its curation included; the curator's calls of a round are counted
by `Curator.due`, for as many loops as a round has, taken in turn from the probe. Prompts stay as long as in the probe,
although memory grows; the upper bound has it full.
"""

from __future__ import annotations

import copy
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Completion, Message, Record, Sampling, Task, Update, Usage
from reflexion_lab.text.shorten import estimated

if TYPE_CHECKING:
    from reflexion_lab.agent.models.prices import Price
    from reflexion_lab.analysis.report.sheets import Sheet
    from reflexion_lab.memory.archive import Archive, Rounds
    from reflexion_lab.memory.curators.curated import CuratedMemory
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
    curation: Curation | None = None


class Curation(NamedTuple):
    """What the curator of a cell did in the probe, and what it will do."""

    batches: list[Trace]
    """Its calls after rounds."""
    expected: int
    """Batches of the whole run."""
    kept: int
    """Batches of the probe that the run has, too: those of complete rounds."""
    has_model: bool
    limit: int
    """Maximal tokens of memory; 0: any number."""


def estimate(cells: Sequence[Config], tasks: int = 3) -> Estimate:
    """Probe `tasks` tasks of every cell, and estimate the cost of all of them. Store contents are not used.

    Raises ConfigError: the call cache is off; CapReached: the probe itself met a cap; its replies stay in the cache.
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
    the first round; with a curator, the first ones, in rounds. `scope`: where its spending counts towards the caps.
    """
    from reflexion_lab.memory.archive import Rounds
    from reflexion_lab.runner.config.assemble import with_salt
    from reflexion_lab.runner.config.initial_items import initial_items
    from reflexion_lab.runner.config.parts import load_archive, load_benchmark, load_models, timed_tasks, with_defaults

    cfg = without_traces(with_salt(with_defaults(cfg)))  # ids of items, which prompts may show, as in the run
    benchmark = load_benchmark(cfg, sandbox)
    ids, size = [task.task_id for task in benchmark], cfg.memory.shared.round_size
    with ExitStack() as stack:
        models = stack.enter_context(closing(load_models(cfg)))
        models.meter.scope = scope
        recorder = Recorder()
        by_role = {**models.by_role, "curator": recorder.of(models, "curator")}
        archive = load_archive(cfg, models._replace(by_role=by_role))
        rounds = None
        if archive:
            stack.enter_context(closing(archive))
            others = initial_items(cfg)
            archive.begin(items=others and others.items)
        if archive and archive.curated:
            rounds = Rounds(archive, size, "", cfg.arm, log=recorder.end_batch, frozen=benchmark.held_out)
            chosen = ids[:n]
        else:
            first = ids[:size] if archive else ids
            chosen = random.Random("estimate").sample(first, min(n, len(first)))
        tasks = timed_tasks(benchmark.only(chosen), sandbox, cfg.benchmark.get("keep_failing", False))
        workers = cfg.workers or models.of("actor").slots
        workers = min(workers, size) if archive else workers
        traces: list[Trace] = []
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            for of_round in rounds.of(tasks) if rounds else [tasks]:
                new = list(pool.map(lambda task: _trace(cfg, models, sandbox, archive, task, recorder), of_round))
                traces += new
                if rounds:
                    for task, trace in zip(of_round, new, strict=True):
                        rounds.finished(task, trace.attempts)
                    rounds.end(of_round)
        curation = _curation(cfg, rounds, list(benchmark), tasks, traces, recorder) if rounds else None
    attempts = cfg.loop.max_attempts + cfg.loop.extra_attempts
    return _Probed(tuple(ids), benchmark.digest, traces, attempts, workers, curation)


def _curation(
    cfg: Config,
    rounds: Rounds,
    every: Sequence[Task],
    probed: Sequence[Task],
    traces: Sequence[Trace],
    recorder: Recorder,
) -> Curation:
    """The curator's part of a run of `every` task, from a probe of the first ones."""
    from reflexion_lab.runner.config.build import plain, takes

    curated = cast("CuratedMemory", rounds.archive.curated)
    loops = cycle([curated.finished(task, trace.attempts) for task, trace in zip(probed, traces, strict=True)])
    unlearnt = {task.task_id for task in every} if curated.is_frozen else rounds.frozen
    seen, batches, kept = 0, 0, 0
    for of_round in rounds.of(every):
        seen += len(of_round)
        if of_round[0].task_id not in unlearnt:
            batches += len(curated.curator.due(list(islice(loops, len(of_round)))))
        kept = batches if seen <= len(probed) else kept
    return Curation(
        batches=recorder.batches,
        expected=batches,
        kept=kept,
        has_model=takes("curator", plain(cfg.curator), "model") and len(unlearnt) < len(every),
        limit=curated.limits.max_tokens or 0,
    )


def _trace(
    cfg: Config, models: Models, sandbox: CachedSandbox, archive: Archive | None, task: Task, recorder: Recorder
) -> Trace:
    """One task's loop, from the tests that a model writes for it to its last attempt."""
    from reflexion_lab.runner.config.assemble import loop_factory
    from reflexion_lab.runner.config.parts import ROLES, suite_writer_factory
    from reflexion_lab.runner.runner import teach

    trace = recorder.begin(task.task_id)
    models_by_role = {role: recorder.of(models, role) for role in ROLES}
    written: tuple[str, ...] = ()
    if cfg.feedback_source == "self_tests":
        written = suite_writer_factory(cfg, models_by_role["suite_writer"], sandbox)().write(task.public).tests
    loop = loop_factory(cfg, models._replace(by_role=models_by_role), sandbox, archive)()
    for attempt in loop.attempts(teach(task, cfg.feedback_source, written)):
        trace.attempts.append(attempt)
    return trace


def _summed(cells: list[_Probed]) -> Estimate:
    groups: dict[object, list[_Probed]] = defaultdict(list)
    """Cells with the same tasks, of which the same were probed."""
    for cell in cells:
        groups[cell.digest, cell.tasks, tuple(trace.task_id for trace in cell.traces)].append(cell)
    every = [call for cell in cells for trace in _all_traces(cell) for call in trace.calls]
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
        first_attempts=part(call for call in new if not call.is_retry and call.role != "curator"),
        retries=part(call for call in new if call.is_retry),
        total=part(new),
        apart=part(every),
        paid=sum((call.usage for call in every if not call.cached), Usage()),
        to_pay=part(new, left=True),
        at_most=sum((_at_most(cell) for cell in cells), Usage()),
        seconds=_seconds(cells, set(map(id, new))),
        prices=prices,
        notes=tuple(_notes(cells)),
        uncounted=sum(call.usage.uncounted for call in every),
    )


def _all_traces(cell: _Probed) -> list[Trace]:
    return [*cell.traces, *(cell.curation.batches if cell.curation else ())]


def _part(cells: list[_Probed], counted: set[int], left: bool) -> Part:
    """The calls `counted`, by `id`, in cells with the same tasks. `left`: without those that the probe has paid."""
    by_task: dict[str, Part] = defaultdict(Part)
    for cell in cells:
        for trace in cell.traces:
            by_task[trace.task_id] += trace.part(counted)
    total = _times(len(cells[0].tasks) - (len(by_task) if left else 0), list(by_task.values()))
    for curation in filter(None, (cell.curation for cell in cells)):
        batches = curation.expected - (curation.kept if left else 0)
        total += _times(batches, [batch.part(counted) for batch in curation.batches])
    return total


def _times(n: int, parts: Sequence[Part]) -> Part:
    """The cost of `n` tasks, or batches, of which `parts` were probed."""
    if not parts:
        return Part()
    figures = {}
    for field in Part.__struct_fields__:
        low, mean, high = zip(*(msgspec.structs.astuple(getattr(part, field)) for part in parts), strict=True)
        figures[field] = Range(n * min(low), n * fmean(mean), n * max(high))
    return Part(**figures)


def _at_most(cell: _Probed) -> Usage:
    total = Usage()
    every = [(trace.task_id, call) for trace in cell.traces for call in trace.calls]
    for role in dict.fromkeys(call.role for _, call in every):
        calls = [call for _, call in every if call.role == role]
        per_attempt = max(Counter((task_id, call.attempt) for task_id, call in every if call.role == role).values())
        times = per_attempt * (cell.attempts if any(call.attempt for call in calls) else 1) * len(cell.tasks)
        total += _longest(times, calls, cell.curation)
    if cell.curation and (calls := [call for batch in cell.curation.batches for call in batch.calls]):
        per_batch = max(len(batch.calls) for batch in cell.curation.batches)
        total += _longest(per_batch * cell.curation.expected, calls, cell.curation)
    return total


def _longest(times: int, calls: Sequence[Call], curation: Curation | None) -> Usage:
    """So many calls with the longest prompt and reply that `calls` may have, with a full memory."""
    prompt = max(call.prompt if call.usage.uncounted else call.usage.prompt_tokens for call in calls)
    if curation:
        room = min((call.context - call.max_tokens for call in calls if call.context), default=0)
        full = prompt + curation.limit if curation.limit else room
        prompt = max(prompt, min(full, room) if room else full)
    reply = max(call.max_tokens for call in calls)
    cost = max(call.price.cost(prompt, reply) for call in calls)
    return Usage(calls=times, prompt_tokens=times * prompt, completion_tokens=times * reply, cost=times * cost)


def _seconds(cells: list[_Probed], new: set[int]) -> tuple[float, float]:
    low = high = 0.0
    for cell in cells:
        left = len(cell.tasks) - len(cell.traces)
        each = fmean(trace.seconds(new) for trace in cell.traces)
        low += left * each / max(min(cell.workers, left), 1)
        high += left * each / max(min(cell.workers, len(cell.traces)), 1)
        if cell.curation and cell.curation.batches:  # one after the other, while no loop runs
            seconds = fmean(batch.seconds(new) for batch in cell.curation.batches)
            low, high = (total + (cell.curation.expected - cell.curation.kept) * seconds for total in (low, high))
    return round(low, 3), round(high, 3)


def _notes(cells: list[_Probed]) -> Iterable[str]:
    retried = any(call.is_retry for cell in cells for trace in cell.traces for call in trace.calls)
    if not retried and any(cell.attempts > 1 for cell in cells):
        yield (
            "the probe saw no retry: the expected figures exclude retries, and the bound excludes reflections and the "
            "longer prompts of retries"
        )
    curated = ((cell, cell.curation) for cell in cells if cell.curation)
    yield from dict.fromkeys(note for cell, curation in curated for note in _notes_on(cell, curation))
    if late := sum(trace.attempts[-1].stop_reason == "timeout" for cell in cells for trace in cell.traces):
        yield f"{late} of the probed loops ended by loop.timeout; on a less busy machine they would make more attempts"
    before = sum(call.cached for trace in cells[0].traces for call in trace.calls)
    if before:
        yield f"{before} calls of the probe were in the cache before; the rest were not looked up"


def _notes_on(cell: _Probed, curation: Curation) -> Iterable[str]:
    """What the figures assume about memory and the curator's calls, or lack."""
    probed, calls = len(cell.traces), [call for trace in _all_traces(cell) for call in trace.calls]
    if curation.has_model and not any(call.role == "curator" for call in calls):
        yield f"the figures lack the curator's calls: it made none in the probe of {probed} tasks; --tasks probes more"
    if len(curation.batches) > curation.kept and any(batch.calls for batch in curation.batches):
        yield "the probe ends within a round, so the run pays the curator's calls of that round again"
    if probed < len(cell.tasks):
        yield "memory grows after the probe, and prompts that show it with it; the upper bound has it full"


class Range(Record, frozen=True):
    """Totals if all tasks or batches cost as much as the cheapest probed one, the mean, or the dearest; no interval."""

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
        from reflexion_lab.analysis.report.sheets import paragraphs

        return sheet(self)._repr_html_() + paragraphs(lines(self))


def sheet(estimate: Estimate) -> Sheet:
    """Calls, tokens and cost: of first attempts and retries, of each role, of all, and of what is left to pay."""
    from reflexion_lab.analysis.report.sheets import Sheet

    cells, unpriced = f"{estimate.cells} cells, " if estimate.cells > 1 else "", estimate.unknown
    least = "≥ " * bool(estimate.uncounted)
    parts = {"first attempts": estimate.first_attempts, "retries": estimate.retries, **estimate.roles}
    parts["all"] = estimate.total
    if estimate.cells > 1:
        parts["without sharing"] = estimate.apart
    parts["still to pay"] = estimate.to_pay
    return Sheet(
        title=f"Estimate: {cells}{estimate.tasks:,} tasks, from {estimate.probed} probed",
        columns=("", "calls", "tokens", "cost"),
        rows=tuple(
            (
                name,
                _counted(part.calls),
                least + _counted(part.tokens),
                "unknown" if unpriced else _counted(part.cost, 4),
            )
            for name, part in parts.items()
        ),
        caption="Mean of the probed tasks; in brackets, if all cost as much as the cheapest or the most expensive; no "
        "confidence interval.",
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
    return f"{usage.calls:,} calls, {least}{usage.tokens:,} tokens, cost {cost}"


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
    context: int = 0
    prompt: int = 0
    """Estimated tokens."""

    @property
    def part(self) -> Part:
        return Part(**{name: Range(*[getattr(self.usage, name)] * 3) for name in Part.__struct_fields__})

    @property
    def is_retry(self) -> bool:
        return self.attempt > 1 or self.role == "reflector"


class Trace(NamedTuple):
    """One task's loop, or one batch of the curator."""

    task_id: str
    calls: list[Call]
    attempts: list[Attempt]

    def part(self, counted: set[int]) -> Part:
        """The cost of the calls counted, by `id`."""
        return sum((call.part for call in self.calls if id(call) in counted), Part())

    def seconds(self, counted: set[int]) -> float:
        """Seconds of the model in the calls counted, by `id`, and of the evaluations that follow them."""
        calls = [call for call in self.calls if id(call) in counted]
        fresh = {call.attempt for call in calls}
        evaluated = sum(attempt.evaluation.seconds for attempt in self.attempts if attempt.number in fresh)
        return sum(call.usage.seconds for call in calls) + evaluated


class Recorder:
    """The traces of a probe: calls of a task's thread belong to its loop, all others to a batch of the curator."""

    def __init__(self) -> None:
        self.batches: list[Trace] = []
        self._batch = Trace("", [], [])
        self._thread = threading.local()

    def of(self, models: Models, role: str) -> CachedModel:
        """The model of a role, whose calls are recorded."""
        return cast(CachedModel, Recording(models.of(role), role, self))

    def begin(self, task_id: str) -> Trace:
        """The trace of a loop that this thread runs from now on."""
        self._thread.trace = Trace(task_id, [], [])
        return cast(Trace, self._thread.trace)

    def end_batch(self, update: Update) -> None:
        """Keep the calls of a batch."""
        self.batches.append(self._batch._replace(task_id=f"{update.round}/{update.call}"))
        self._batch = Trace("", [], [])

    @property
    def trace(self) -> Trace:
        return getattr(self._thread, "trace", self._batch)


class Recording(WrappedModel):
    """`model` in `role`, with every call recorded."""

    def __init__(self, model: CachedModel, role: str, recorder: Recorder) -> None:
        super().__init__(model)
        self._price = model.price
        self._role = role
        self._recorder = recorder

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = super().complete(messages, sampling=sampling, sample=sample)
        trace = self._recorder.trace
        is_before = self._role in ("suite_writer", "curator")
        trace.calls.append(
            Call(
                key=call_key(self.fingerprint, messages, sampling, sample),
                role=self._role,
                attempt=0 if is_before else len(trace.attempts) + 1,
                usage=completion.usage,
                max_tokens=min(sampling.longest, self.context or sampling.longest),
                cached=completion.cached,
                price=self._price,
                context=self.context,
                prompt=sum(estimated(message.content) for message in messages),
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
