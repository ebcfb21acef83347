"""`reflexion-lab calibrate`: what to know of a model before an experiment on words."""

from __future__ import annotations

import argparse

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json


def add(commands: place.Commands) -> None:
    text = "measure a model in 200 to 400 calls before an experiment on words; whether it uses what it reads, how far "
    text += "words can move it, its empty and cut replies, tokens a task, and the tasks that an experiment needs"
    sub = place.add_command(commands, "calibrate", calibrate, text)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as for `run`: model=NAME …")
    sub.add_argument("--tasks", type=place.positive, default=40, metavar="N", help="tasks (default: %(default)s)")
    place.add_json(sub)


def calibrate(options: argparse.Namespace) -> int:
    from reflexion_lab.studies import calibrate as study

    sweep, most = study.plan(options.overrides, options.tasks)
    say(f"about {most} model calls at most; the same command continues, and pays no call twice")
    result = study.calibrate(sweep)
    say(repr(result), f"page: {sweep.folder}/calibration.html")
    if options.json:
        say_json(result)
    return 0
