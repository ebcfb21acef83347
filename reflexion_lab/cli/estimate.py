"""`reflexion-lab estimate`: expected calls, tokens, cost and time of a run or a sweep."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from reflexion_lab.cli import place

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.studies.estimate import Estimate


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "probe a few tasks of a run or sweep and estimate its tokens, cost and time; probes stay in the cache"
    sub = commands.add_parser("estimate", help=text, description=text)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as of `run`")
    sub.add_argument(
        "-m", "--multirun", nargs="*", metavar="KEY=A,B", help="a sweep, as of `run -m`; overrides may follow"
    )
    sub.add_argument("--tasks", type=place.positive, default=3, metavar="N", help="probed tasks (default: %(default)s)")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=estimate)


def estimate(options: argparse.Namespace) -> int:
    from rich.console import Console

    from reflexion_lab.cli.sheets import say_json
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.grid import cells
    from reflexion_lab.studies.estimate import estimate as estimated

    if options.multirun is None:
        configs = [compose(*options.overrides)]
    else:
        configs = [cell.cfg for cell in cells([*options.overrides, *options.multirun])]
    result = estimated(configs, options.tasks)
    show(result, Console())
    if options.json:
        say_json(result)
    return 0


def show(result: Estimate, console: Console) -> None:
    from reflexion_lab.analysis.report.cells import line
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.studies.estimate import lines, sheet

    console.print(as_table(sheet(result)))
    for text in lines(result):
        console.print(line(text), soft_wrap=True)
