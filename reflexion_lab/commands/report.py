"""`reflexion-lab report`: runs as Markdown, HTML and LaTeX, with figures and the numbers behind them."""

from __future__ import annotations

import argparse

from reflexion_lab.commands import compare
from reflexion_lab.commands.place import out_folder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "write what `compare` prints as Markdown, HTML and LaTeX, with figures and the numbers behind them"
    sub = commands.add_parser("report", help=text, description=text)
    compare.add_runs(sub)
    sub.add_argument("--out", metavar="FOLDER", required=True, help="where to write; made where there is none")
    sub.add_argument("--figures", choices=("png", "svg"), default="png", help="their kind (default: png)")
    sub.set_defaults(command=report)


def report(options: argparse.Namespace) -> None:
    from reflexion_lab.commands.sheets import say
    from reflexion_lab.reports.documents import save_report

    folder = out_folder(options.out)
    arms, found = compare.read(options)
    say(*(f"written: {path}" for path in save_report(folder, found, arms, options.figures)))
