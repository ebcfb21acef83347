"""The determinism of a model as text for a terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.studies.agreement import Agreement
from reflexion_lab.studies.determinism import Determinism, Plan

if TYPE_CHECKING:
    from rich.console import Console


def announced(plan: Plan) -> str:
    """What will be asked, in one line, before it is."""
    how = " and ".join(["one at a time", *plan.conditions[1:]])
    asked = f"{plan.prompts} prompts × {plan.repeats}, {how}"
    drawn = f"temperature {plan.sampling.temperature:g}, seed {plan.sampling.seed}"
    return f"{plan.calls} calls to {plain(plan.model)}: {asked}; {drawn}; the call cache is off"


def show(found: Determinism, console: Console) -> None:
    """Print one row a condition. Intervals are 95 %, over prompts."""
    title = f"Equal calls, {found.prompts} prompts of {plain(found.benchmark)} × {found.repeats}: shares in %"
    columns = ("prompts that\ndiffer", "pairs that\ndiffer", "pairs, same\nprogram", "differ\nfrom")
    table = cells.table(title, "asked", *columns)
    for one in found.conditions:
        table.add_row(*map(cells.line, _row(one)))
    table.caption = "95 % intervals over prompts; differ from: the first character, the median over prompts that differ"
    console.print(table)
    for one in found.conditions[:2]:
        if one.system_fingerprints:
            named = ", ".join(f"{plain(name)} {n}" for name, n in one.system_fingerprints.items())
            changes = " (IT CHANGED)" if len(one.system_fingerprints) > 1 else ""
            console.print(cells.line(f"system_fingerprint, {one.name}: {named}{changes}"))
    spent = found.spent
    console.print(cells.line(f"spent: {spent.calls} calls, {spent.tokens:,} tokens, cost {spent.cost:.4f}"))


def _row(one: Agreement) -> list[str]:
    rate = one.differing
    share = f"{rate.k} of {rate.n} {cells.interval(rate.low, rate.high)}"
    at = f"{median(one.first_differences):g}" if one.first_differences else "-"
    return [one.name, share, _told(one.pairs), _told(one.same_program) if one.same_program else "-", at]


def _told(found: Estimate) -> str:
    return f"{100 * found.value:.1f} {cells.interval(found.low, found.high)}"
