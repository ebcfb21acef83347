"""`reflexion-lab compare`: the minimum honest table of some runs, in the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.comparison import Comparison

WIDTH = 100
"""Minimum width of the tables, in characters."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "put runs side by side: pass@1, paired differences at equal budgets, damage, errors of the tests, cost"
    sub = commands.add_parser("compare", help=text, description=text)
    add_runs(sub)
    sub.add_argument("--csv", metavar="FILE", help="also write the table there, shares in [0, 1]")
    sub.add_argument("--json", action="store_true", help="print one JSON object instead")
    sub.set_defaults(command=compare)


def add_runs(sub: argparse.ArgumentParser) -> None:
    """Add the arguments that `compare` and `report` share."""
    sub.add_argument("runs", metavar="RUN", nargs="+", help="run folders; those of one arm are put together over seeds")
    sub.add_argument(
        "--baseline", metavar="ARM", help="the arm to compare others with (default: feedback_only, or the first)"
    )
    sub.add_argument("--by", metavar="KEY,...", default="", help="config keys to name arms by, such as recall.omega")
    sub.add_argument(
        "--unit", choices=("tokens", "calls", "cost"), default="tokens", help="budget to match by (default: tokens)"
    )
    sub.add_argument("--one-seed", action="store_true", help="also print differences that rest on a single seed")


def compare(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.report.cells import line
    from reflexion_lab.analysis.report.comparison import sheets, warnings
    from reflexion_lab.analysis.report.documents import write_table
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.cli.sheets import say_json
    from reflexion_lab.io.files import writable

    _, comparison = read(options)
    if options.csv:
        with writable("--csv", options.csv, "a file (.csv) in a folder that exists"):
            write_table(Path(options.csv), comparison)
    if options.json:
        say_json(comparison)
        return
    tables = [as_table(sheet) for sheet in sheets(comparison)]
    widest = max(Console().measure(table).minimum for table in tables)
    console = Console(width=max(WIDTH, widest, Console().width))  # a narrower one would cut figures
    loud = [line(text, "bold white on red") for text in warnings(comparison)]
    for part in (*loud, *tables, *loud):
        console.print(part)


def read(options: argparse.Namespace) -> tuple[list[Arm], Comparison]:
    """Raises ValueError: the runs cannot be compared; what is wrong, and of which run."""
    from reflexion_lab.analysis.comparison import side_by_side
    from reflexion_lab.runner.folder.folder import folders

    by = tuple(key.strip() for key in options.by.split(",") if key.strip())
    return side_by_side(folders(*options.runs), options.baseline, by, options.unit, options.one_seed)
