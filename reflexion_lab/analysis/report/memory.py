"""Memory across tasks in one screen of plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.learning.checkpoints import Matrix, StreamMemory
from reflexion_lab.analysis.learning.curation import Curated
from reflexion_lab.analysis.learning.memory import EFFECTS, Effect, Window
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.screen import LINES, WIDTH, folded
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Usage

COLUMN = 19
"""Width of the names of measures."""


def memory_screen(memory: StreamMemory, width: int = WIDTH) -> list[str]:
    """Measures with interval and n, damage, the curve, what memory consists of, its readers and its cost: at most
    `LINES` lines of at most `width` columns.
    """
    lines = [
        _about(memory),
        *_effects(memory.matrix),
        *(f"note: {note}" for note in (*memory.matrix.notes, *memory.notes)),
        *_damage(memory.matrix),
        *_curve(memory.curve),
        *_memory(memory.curated),
    ]
    return [line for text in lines for line in folded(text, min(width, WIDTH))][:LINES]


def _about(memory: StreamMemory) -> str:
    matrix = memory.matrix
    runs, rounds = len(matrix.rounds), ", ".join(map(str, dict.fromkeys(matrix.rounds)))
    at = ", ".join(map(str, matrix.checkpoints)) or "none"
    several = f"{runs} runs of " * (runs > 1)
    return f"{plain(memory.arm)} on {plain(memory.benchmark)} · {several}{rounds} rounds · checkpoints after {at}"


def _effects(matrix: Matrix) -> Iterator[str]:
    for name in EFFECTS:
        effect: Effect | None = getattr(matrix.measures, name)
        if effect:
            interval = cells.interval(effect.low, effect.high, signed=True)
            units = f" in {effect.clusters} clusters" * (effect.clusters < effect.n)
            over = f", {matrix.measures.orders} runs" * (effect.over != "tasks")
            value = cells.number(effect.value, signed=True)
            yield f"{name.replace('_', ' '):<{COLUMN}}{value:>6} {interval} points, n {effect.n}{units}{over}"


def _damage(matrix: Matrix) -> Iterator[str]:
    if pair := matrix.measures.against:
        names = f": {plain(cells.listed(matrix.measures.lost, 1))}" if matrix.measures.lost else ""
        yield f"lost with memory {pair.damaged}, gained {pair.repaired} of {pair.n}, p {cells.p_value(pair.p)}{names}"


def _curve(curve: Sequence[Window]) -> Iterator[str]:
    if curve:
        shares = ", ".join(f"{cells.number(window.solved.value)}" for window in curve)
        last = curve[-1].so_far
        total = f"{cells.number(last.value)} {cells.interval(last.low, last.high)} of all {last.n}"
        yield f"solved in turn, by quarter: {shares} %; {total}"


def _memory(every: Sequence[Curated]) -> Iterator[str]:
    sizes = [run.end for run in every]
    items, tokens = (_range([getattr(size, name) for size in sizes]) for name in ("items", "tokens"))
    counts = cells.counts(sum((Counter(run.operations) for run in every), Counter[str]()))
    lost = [collapse for run in every for collapse in run.collapses]
    refused, unreadable = sum(run.refused for run in every), sum(run.unreadable for run in every)
    yield f"memory at the end: {items} items, {tokens} tokens · collapses {len(lost)}" + (
        f", the first in round {lost[0].round + 1}: {lost[0].before:,} to {lost[0].after:,} tokens" if lost else ""
    )
    yield f"operations: {counts} · refused {refused}, unreadable replies {unreadable}"
    rates = ([getattr(run, name) for run in every] for name in ("shown", "reading", "not_reading"))
    shown, reading, others = (Rate.of(sum(rate.k for rate in each), sum(rate.n for rate in each)) for each in rates)
    passes = f"passing attempts: {reading.k} of {reading.n} with items, {others.k} of {others.n} without"
    yield f"items read: {shown.k} of {shown.n} · {passes}"
    curator, rest = sum((r.curation + r.selection for r in every), Usage()), sum((r.others for r in every), Usage())
    yield f"cost: curator {_cost(curator)}; all others {_cost(rest)}"


def _range(values: Sequence[int]) -> str:
    """The value, or the lowest and highest of several orders."""
    ends = sorted({min(values, default=0), max(values, default=0)})
    return " to ".join(f"{value:,}" for value in ends)


def _cost(usage: Usage) -> str:
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens"
