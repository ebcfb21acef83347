"""`reflexion-lab show`: a run's tasks, curve and headline figures."""

from __future__ import annotations

import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "print a run's tasks, curve and headline figures"
    sub = commands.add_parser("show", help=text, description=text)
    sub.add_argument("folder", metavar="RUN", help="a run folder, as `run` prints at its end")
    sub.add_argument("--all", action="store_true", help="every task, however many")
    sub.set_defaults(command=show)


def show(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.report.run_tables import show as show_run
    from reflexion_lab.runner.folder.folder import RunFolder

    show_run(RunFolder.existing(options.folder), Console(), all_tasks=options.all)
