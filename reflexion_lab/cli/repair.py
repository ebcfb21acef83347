"""`reflexion-lab repair`: drop the damaged lines of a run, so that it resumes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import groupby

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json


def add(commands: place.Commands) -> None:
    text = "show what is damaged in a run folder, and move it out of the way; then the run resumes"
    sub = place.add_command(commands, "repair", repair, text)
    sub.add_argument("run", metavar="RUN", help="a run folder, or a part of the name of a run in runs/")
    place.add_flag(sub, "--yes", "move it to RUN/dropped; without it, nothing is changed")
    place.add_json(sub)


def repair(options: argparse.Namespace) -> None:
    from reflexion_lab.runner.folder import repair as records

    folder = place.one_run(options.run)
    dropped = records.repair(folder) if options.yes else records.drops(folder)
    for drop in dropped:
        say(f"{drop.file}{_named(drop.lines)}: {drop.reason}")
    to = folder.path / records.DROPPED
    if not dropped:
        say(f"{folder.path}: nothing to repair")
    elif options.yes:
        say(f"moved to {to}; to finish the run, give the command that began it, with resume={folder.path}")
    else:
        say(f"nothing is changed yet; give --yes to move this to {to}")
    if options.json:
        say_json({"run": str(folder.path), "dropped": dropped, "is_repaired": options.yes})


def _named(lines: Sequence[int]) -> str:
    """Line numbers as in `, lines 3, 5-7`."""
    if not lines:
        return ""
    runs = [[line for _, line in group] for _, group in groupby(enumerate(lines), lambda pair: pair[1] - pair[0])]
    return f", line{'s' * (len(lines) > 1)} " + ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs
    )
