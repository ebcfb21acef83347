"""`reflexion-lab optimize`: instructions of actor and reflector that evolve on training tasks."""

from __future__ import annotations

import argparse

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json


def add(commands: place.Commands) -> None:
    text = "evolve the instructions of actor and reflector with gepa; training tasks give feedback, validation tasks "
    text += "choose, test tasks stay untouched until --test; the same command continues, and pays no call twice"
    sub = place.add_command(commands, "optimize", optimize, text)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as for `run`")
    text = "loops of a candidate over a task, at most (default: %(default)s)"
    sub.add_argument("--max-evaluations", type=place.positive, default=200, metavar="N", help=text)
    text = "by a test that may stop at any time, or if better on its own training tasks (default: %(default)s)"
    sub.add_argument("--accept", choices=("e_process", "greedy"), default="e_process", help=text)
    text = "training tasks that a proposal is made from (default: %(default)s)"
    sub.add_argument("--minibatch", type=place.positive, default=3, metavar="N", help=text)
    text = "tests that score training and validation tasks (default: %(default)s)"
    sub.add_argument("--scores", choices=("visible", "hidden"), default="visible", help=text)
    text = "another model that proposes, such as model=openai/NAME; once per override"
    sub.add_argument("--proposer", action="append", default=[], metavar="KEY=VALUE", help=text)
    place.add_flag(sub, "--test", "also run winner and seed on the test tasks, as two arms")
    place.add_json(sub)


def optimize(options: argparse.Namespace) -> int:
    from reflexion_lab.studies import optimize as study

    values = {**vars(options), "proposer": tuple(options.proposer)}
    settings = study.Settings(**{name: values[name] for name in study.Settings.__struct_fields__})
    result = study.optimize(options.overrides, settings, options.test)
    say(repr(result))
    if options.json:
        say_json(result)
    return 0
