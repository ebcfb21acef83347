"""`reflexion-lab report`: runs side by side as Markdown, HTML and LaTeX; or, with `--html`, each run as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.cli import compare
from reflexion_lab.cli.place import out_folder
from reflexion_lab.errors import ConfigError

COMPARED = ("baseline", "by", "unit", "one_seed", "figures")
"""Options of a comparison."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "write what `compare` prints as Markdown, HTML and LaTeX, with figures and the numbers behind them"
    more = "; or, with --html, each run by itself as a page with every task and attempt, to be read in any browser"
    sub = commands.add_parser("report", help=text, description=text + more)
    compare.add_runs(sub)
    sub.add_argument(
        "--html",
        action="store_true",
        help="no comparison: one file a run, FOLDER/<run>.html, or run.html in the run folder without --out",
    )
    where = "where to write; made where there is none; a comparison needs one"
    sub.add_argument("--out", metavar="FOLDER", help=where)
    sub.add_argument("--figures", choices=("png", "svg", "pdf"), help="of a comparison (default: png)")
    sub.set_defaults(command=report, unit=None)  # None: not given


def report(options: argparse.Namespace) -> None:
    """Raises ConfigError: an option is missing, or says nothing beside --html."""
    from reflexion_lab.cli.sheets import say

    say(*(f"written: {path}" for path in (_pages(options) if options.html else _comparison(options))))


def _pages(options: argparse.Namespace) -> list[Path]:
    from reflexion_lab.analysis.report.page import NAME, save_page
    from reflexion_lab.runner.folder.folder import folders

    if names_given := [name for name in COMPARED if getattr(options, name)]:
        option = "--" + names_given[0].replace("_", "-")
        raise ConfigError("--html", f"{option}, too", "no option of comparisons: a page shows one run")
    runs = folders(*options.runs)
    if not options.out:
        return [save_page(run, run.path / NAME) for run in runs]
    names = [run.path.resolve().name for run in runs]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise ConfigError("--html", f"{twice[0]} twice", "run folders of different names", "write without --out")
    out = out_folder(options.out)
    return [save_page(run, out / f"{name}.html") for run, name in zip(runs, names, strict=True)]


def _comparison(options: argparse.Namespace) -> list[Path]:
    from reflexion_lab.analysis.report.documents import save_report

    if not options.out:
        raise ConfigError("--out", "none", "the folder for the comparison, or --html for a page of each run")
    folder = out_folder(options.out)
    options.unit = options.unit or "tokens"
    arms, comparison = compare.read(options)
    return save_report(folder, comparison, arms, options.figures or "png")
