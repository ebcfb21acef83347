"""`reflexion-lab show`: a run's tasks, curve and headline figures."""

from __future__ import annotations

import argparse

from reflexion_lab.cli import place


def add(commands: place.Commands) -> None:
    sub = place.add_command(commands, "show", show, "print a run's tasks, curve and headline figures")
    sub.add_argument("folder", metavar="RUN", help="a run folder, as `run` prints at its end")
    place.add_flag(sub, "--all", "list every task of a large run")


def show(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.report.run_tables import show as show_run
    from reflexion_lab.runner.folder.folder import RunFolder

    show_run(RunFolder.existing(options.folder), Console(), all_tasks=options.all)
