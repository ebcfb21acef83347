"""`reflexion-lab report`: runs as Markdown, HTML and LaTeX, with figures and the numbers behind them."""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.commands import compare


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

    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--out: {options.out!r} cannot be a folder ({problem.strerror}); name another") from None
    arms, found = compare.read(options)
    say(*(f"written: {path}" for path in save_report(folder, found, arms, options.figures)))
