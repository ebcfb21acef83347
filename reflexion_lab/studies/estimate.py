"""What a run or a sweep will take, told by a probe of a few of its tasks.

The probe goes through the shared call cache: the run finds its replies there and does not pay for them again. Cells of
a sweep are probed on the same tasks, so that what they have in common is counted once, as the sweep pays for it.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Usage
from reflexion_lab.studies.expected import Estimate, Part, Range
from reflexion_lab.studies.probe import Call, Trace, probe, without_traces

if TYPE_CHECKING:
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox


class _Probed(NamedTuple):
    """One cell, probed."""

    tasks: tuple[str, ...]
    """All of the cell's."""
    digest: str
    traces: list[Trace]
    attempts: int
    """That a loop may make at most."""
    workers: int


def estimate(cells: Sequence[Config], tasks: int = 3) -> Estimate:
    """Probe `tasks` tasks of every cell, and estimate the cost of all of them. Store contents are not used.

    Raises
    ------
    ConfigError
        The replies would not be kept.
    CapReached
        The probe itself met a cap; what it had asked is kept.
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
            wanted = f"{cfg.sandbox} {cfg.cache}"
            if wanted not in sandboxes:
                sandboxes[wanted] = stack.enter_context(closing(load_sandbox(cfg)))
            probes.append(_probe_cell(cfg, tasks, scope, sandboxes[wanted]))
    return _told(probes)


def _probe_cell(cfg: Config, tasks: int, scope: str, sandbox: CachedSandbox) -> _Probed:
    from reflexion_lab.runner.config.parts import load_benchmark, timed_tasks

    cfg = without_traces(cfg)
    benchmark = load_benchmark(cfg, sandbox)
    keep_failing = cfg.benchmark.get("keep_failing", False)
    chosen = timed_tasks(benchmark.only(_chosen(cfg, benchmark, tasks)), sandbox, keep_failing)
    traces, workers = probe(cfg, chosen, sandbox, scope)
    attempts = cfg.loop.max_attempts + cfg.loop.extra_attempts
    return _Probed(tuple(task.task_id for task in benchmark), benchmark.digest, traces, attempts, workers)


def _chosen(cfg: Config, benchmark: Benchmark, tasks: int) -> list[str]:
    """Drawn alike in all cells with the same tasks; of the first round, which knows nothing of others, where tasks
    learn from each other.
    """
    from reflexion_lab.runner.config.parts import load_archive

    ids = [task.task_id for task in benchmark]
    archive = load_archive(cfg)
    if archive:
        archive.close()
        ids = ids[: cfg.memory.shared.round_size]
    return random.Random("estimate").sample(ids, min(tasks, len(ids)))


def _told(cells: list[_Probed]) -> Estimate:
    new, groups = _new(cells), _groups(cells)
    every = [call for cell in cells for trace in cell.traces for call in trace.calls]
    prices = {call.role: call.price for call in every}
    return Estimate(
        cells=len(cells),
        tasks=sum(len(cell.tasks) for cell in cells),
        probed=max(len(cell.traces) for cell in cells),
        roles={role: _part(groups, new, partial(_is_by, role)) for role in sorted(prices)},
        first_attempts=_part(groups, new, lambda call: not call.is_retry),
        retries=_part(groups, new, lambda call: call.is_retry),
        total=_part(groups, new, lambda call: True),
        apart=_part(groups, {id(call) for call in every}, lambda call: True),
        paid=sum((call.usage for call in every if not call.cached), Usage()),
        to_pay=_part(groups, new, lambda call: True, left=True),
        at_most=sum((_at_most(cell) for cell in cells), Usage()),
        seconds=_seconds(cells, new),
        prices=prices,
        notes=tuple(_notes(cells)),
    )


def _is_by(role: str, call: Call) -> bool:
    return call.role == role


def _new(cells: list[_Probed]) -> set[int]:
    """Those calls, by `id`, that no equal one came before."""
    first: dict[str, int] = {}
    for cell in cells:
        for trace in cell.traces:
            for call in trace.calls:
                first.setdefault(call.key, id(call))
    return set(first.values())


def _groups(cells: list[_Probed]) -> list[list[_Probed]]:
    """Cells with the same tasks."""
    groups: dict[object, list[_Probed]] = defaultdict(list)
    for cell in cells:
        groups[cell.digest, cell.tasks].append(cell)
    return list(groups.values())


def _part(groups: list[list[_Probed]], counted: set[int], wanted: Callable[[Call], bool], left: bool = False) -> Part:
    """`left`: without the probed tasks."""
    total = Part()
    for group in groups:
        by_task: dict[str, Usage] = defaultdict(Usage)
        for cell in group:
            for trace in cell.traces:
                by_task[trace.task_id] += _sum(c for c in trace.calls if id(c) in counted and wanted(c))
        n = len(group[0].tasks) - (len(by_task) if left else 0)
        total += Part(
            **{field: _range(n, [getattr(u, field) for u in by_task.values()]) for field in Part.__struct_fields__}
        )
    return total


def _sum(calls: Iterable[Call]) -> Usage:
    return sum((call.usage for call in calls), Usage())


def _range(n: int, values: list[float]) -> Range:
    return Range(n * min(values), n * fmean(values), n * max(values))


def _at_most(cell: _Probed) -> Usage:
    total = Usage()
    calls = [call for trace in cell.traces for call in trace.calls]
    for role in {call.role for call in calls}:
        own = [call for call in calls if call.role == role]
        per_attempt: dict[object, int] = defaultdict(int)
        for trace in cell.traces:
            for call in trace.calls:
                per_attempt[trace.task_id, call.attempt] += call.role == role
        times = (
            max(per_attempt.values()) * (cell.attempts if any(call.attempt for call in own) else 1) * len(cell.tasks)
        )
        prompt, reply = max(c.usage.prompt_tokens for c in own), max(c.max_tokens for c in own)
        cost = max(c.cost(prompt, reply) for c in own)
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
        yield "the probe saw no retry, so that neither the expected figures nor the bound know what one takes"
    if late := sum(trace.attempts[-1].stop_reason == "timeout" for cell in cells for trace in cell.traces):
        yield f"{late} of the probed loops ended by loop.timeout; on a machine less busy they would have gone on"
    before = sum(call.cached for trace in cells[0].traces for call in trace.calls)
    if before:
        yield f"{before} calls of the probe were in the cache before; the rest were not looked up"
