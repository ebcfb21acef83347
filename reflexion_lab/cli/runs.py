"""`reflexion-lab runs`: list runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal import columns
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.text.shorten import bounded


def add(commands: place.Commands) -> None:
    text = "list runs, newest first: model, benchmark, settings, state, pass@1"
    sub = place.add_command(commands, "runs", runs, text)
    sub.add_argument("folder", metavar="FOLDER", nargs="?", default="runs", help="a folder of runs, or of a sweep")
    place.add_where(sub)
    place.add_limit(sub, 30, "newest runs to list, 0 for all")
    place.add_json(sub)


def runs(options: argparse.Namespace) -> None:
    """Raises ConfigError: no such folder, or as of `run_list.selected`."""
    from reflexion_lab.analysis.report.screen import folded
    from reflexion_lab.analysis.run_list import run_list, sheet

    if not Path(options.folder).is_dir():
        raise ConfigError("FOLDER", repr(options.folder), "a folder of runs", "`reflexion-lab run` makes runs/")
    every = run_list(Path(options.folder), options.where)
    listed = every[: options.limit or None]
    if options.json:
        say_json({"runs": listed, "n": len(every)})
        return
    table = sheet(listed, "", has_intervals=False)
    rows = [list(map(visible, row)) for row in (table.columns, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) - 2 > columns() and max(widths[1:-1]) > 4:
        widths[widths.index(max(widths[1:-1]), 1)] -= 1
    for *texts, result in rows:
        words = (bounded(text, width).ljust(width) for text, width in zip(texts, widths, strict=False))
        print("  ".join([*words, result.rjust(widths[-1])]))
    left = f" of {len(every)}; all: --limit 0" if len(listed) < len(every) else ""
    total = f"{len(listed)} run{'s' * (len(listed) != 1)}{left}"
    print(*(line for run in listed if run.problem for line in folded(run.problem, columns())), total, sep="\n")
