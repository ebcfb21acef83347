"""`reflexion-lab estimate`: expected calls, tokens, cost and time of a run or a sweep."""

from __future__ import annotations

import argparse
from typing import Any

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json
from reflexion_lab.runner.folder.registration import read


def add(commands: place.Commands) -> None:
    text = "probe a few tasks of a run or sweep and estimate its tokens, cost and time; probes stay in the cache"
    sub = place.add_command(commands, "estimate", estimate, text)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as for `run`")
    sweep = "a sweep, as for `run -m`; overrides may follow"
    whole = sub.add_mutually_exclusive_group()
    whole.add_argument("--study", metavar="FILE", help="a study.yaml: its arms and seeds; overrides apply to all")
    whole.add_argument("-m", "--multirun", nargs="*", metavar="KEY=A,B", help=sweep)
    sub.add_argument("--tasks", type=place.positive, default=3, metavar="N", help="probed tasks (default: %(default)s)")
    place.add_json(sub)


def estimate(options: argparse.Namespace) -> int:
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.grid import cells
    from reflexion_lab.studies import estimate as study
    from reflexion_lab.studies.registered import cells_of

    configs: list[Any]
    if options.study:
        configs = [cell.cfg for cell in cells_of(read(options.study), options.overrides)]
    elif options.multirun is None:
        configs = [compose(*options.overrides)]
    else:
        configs = [cell.cfg for cell in cells([*options.overrides, *options.multirun])]
    result = study.estimate(configs, options.tasks)
    say(as_table(study.sheet(result)), *study.lines(result))
    if options.json:
        say_json(result)
    return 0
