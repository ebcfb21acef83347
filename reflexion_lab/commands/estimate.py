"""`reflexion-lab estimate`: what a run or a sweep would take, before it is paid for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from reflexion_lab.commands import place

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from reflexion_lab.records import Usage
    from reflexion_lab.study.expected import Estimate, Part, Range


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "probe a few tasks of a run or sweep and tell what all of it will take; the run finds them in the cache"
    sub = commands.add_parser("estimate", help=text, description=text)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as of `run`")
    sub.add_argument(
        "-m", "--multirun", nargs="*", metavar="KEY=A,B", help="a sweep, as of `run -m`; overrides may follow"
    )
    sub.add_argument("--tasks", type=place.positive, default=3, metavar="N", help="probed tasks (default: %(default)s)")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=estimate)


def estimate(options: argparse.Namespace) -> int:
    import msgspec
    from rich.console import Console

    from reflexion_lab.config import compose
    from reflexion_lab.grid import cells
    from reflexion_lab.study.estimate import estimate as estimated

    if options.multirun is None:
        configs = [compose(*options.overrides)]
    else:
        configs = [cell.cfg for cell in cells([*options.overrides, *options.multirun])]
    found = estimated(configs, options.tasks)
    show(found, Console())
    if options.json:
        print(msgspec.json.encode(found).decode())
    return 0


def show(found: Estimate, console: Console) -> None:
    from reflexion_lab.reports import cells

    what = f"{found.cells} cells, " if found.cells > 1 else ""
    title = f"Estimate: {what}{found.tasks:,} tasks, from {found.probed} probed"
    table = cells.table(title, "", "calls", "tokens", "cost")
    parts = {"first attempts": found.first_attempts, "retries": found.retries, **found.roles, "all": found.total}
    if found.cells > 1:
        parts["without sharing"] = found.apart
    parts["still to pay"] = found.to_pay
    for name, part in parts.items():
        _row(table, name, part, found.unpriced)
    table.caption = (
        "by the mean of the probed tasks, and in brackets by the cheapest and by the dearest; no confidence interval"
    )
    console.print(table)
    for line in _lines(found):
        console.print(cells.line(line), soft_wrap=True)


def _row(table: Table, name: str, part: Part, unpriced: bool) -> None:
    cost = "unknown" if unpriced else _counted(part.cost, 4)
    table.add_row(name, _counted(part.calls), _counted(part.tokens), cost)


def _counted(found: Range, digits: int = 0) -> str:
    return f"{found.mean:,.{digits}f} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"


def _lines(found: Estimate) -> list[str]:
    low, high = found.seconds
    return [
        f"the probe newly spent {_spent(found.paid, found.unpriced)}; the run finds it in the cache",
        f"at most, were no task to pass and every reply as long as allowed: {_spent(found.at_most, found.unpriced)}",
        f"wall time left: {_time(low)} with every worker busy, {_time(high)} with no more at once than in the probe",
        *(f"price of {role}: {price}" for role, price in found.prices.items()),
        *(f"note: {note}" for note in found.notes),
    ]


def _spent(usage: Usage, unpriced: bool) -> str:
    cost = "unknown" if unpriced else f"{usage.cost:,.4f}"
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens, cost {cost}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
