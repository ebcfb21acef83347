"""`reflexion-lab show`: a run, or its attempts at one task."""

from __future__ import annotations

import argparse
import sys

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal import columns


def add(commands: place.Commands) -> None:
    sub = place.add_command(commands, "show", show, "print a run's result, or its attempts at one task")
    sub.add_argument("run", metavar="RUN", nargs="?", help="a run folder, or a part of the name of a run in runs/")
    sub.add_argument("task", metavar="TASK", nargs="?", help="a task's id, or a part of it that no other task has")
    place.add_flag(sub, "--last", "the newest run in runs/; then RUN is the TASK")
    place.add_flag(sub, "--full", "print all tables, or of TASK whole texts, prompts and replies")
    place.add_flag(sub, "--all", "with --full, list every task of a large run")
    place.add_json(sub)


def show(options: argparse.Namespace) -> None:
    """Raises ConfigError: no run is named, or --json beside a task."""
    from reflexion_lab.analysis.report import run_tables, screen
    from reflexion_lab.analysis.shards import read, with_others
    from reflexion_lab.analysis.summary import summary
    from reflexion_lab.runner.folder.folder import newest

    run, task = options.run, options.task
    if options.last and task is not None:
        raise ConfigError("--last", f"--last and a run, {run}", "one of both")
    if options.last:
        task = run
    elif run is None:
        raise ConfigError("RUN", "no run", "the name of a run, or --last")
    folder = newest(1)[0] if options.last else place.one_run(run)
    log = read(with_others(folder), texts=bool(task))
    if options.json:
        if task:
            raise ConfigError("--json", "--json, and a task", "a run", "attempts.jsonl in the run folder holds them")
        if log.lacks_shards:
            print(f"warning: {run_tables.shards_missing(log)}", file=sys.stderr)
        say_json(summary(log))
    elif task:
        most = None if options.full else screen.MOST_LINES
        print("\n".join(screen.task_screen(folder, log, log.task_named(task), columns(), most)))
    elif options.full or options.all:
        from rich.console import Console

        run_tables.show(folder, Console(), options.all, log)
    else:
        print("\n".join(screen.run_screen(folder, log, columns())))
