"""`reflexion-lab compare` and `report`: compare runs in the terminal, or as Markdown, HTML and LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.cli.place import Commands, add_command, add_flag, out_folder
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.comparison import Comparison

WIDTH = 100
"""Minimum width of the tables, in characters."""
COMPARED = ("baseline", "by", "unit", "one_seed", "figures")
"""Options of a comparison."""


def add(commands: Commands) -> None:
    text = "compare runs: pass@1, paired differences at equal budgets, damage, errors of the feedback tests, cost"
    sub = add_command(commands, "compare", compare, text)
    _add_runs(sub)
    sub.add_argument("--csv", metavar="FILE", help="also write the table there, shares in [0, 1]")
    add_flag(sub, "--json", "print one JSON object instead")
    text = "write what `compare` prints as Markdown, HTML and LaTeX, with figures and the numbers behind them"
    more = "; or, with --html, a page per run with every task and attempt, for any browser"
    sub = add_command(commands, "report", report, text + more)
    _add_runs(sub)
    add_flag(sub, "--html", "no comparison: FOLDER/<run>.html per run, or run.html in the run folder without --out")
    sub.add_argument("--out", metavar="FOLDER", help="folder to write to, created if missing; a comparison needs it")
    sub.add_argument("--figures", choices=("png", "svg", "pdf"), help="format of a comparison's figures (default: png)")


def _add_runs(sub: argparse.ArgumentParser) -> None:
    """Add the arguments that `compare` and `report` share."""
    sub.add_argument("runs", metavar="RUN", nargs="+", help="run folders; those of one arm are pooled over seeds")
    baseline = "the arm to compare others with (default: feedback_only, or the first)"
    sub.add_argument("--baseline", metavar="ARM", help=baseline)
    sub.add_argument("--by", metavar="KEY,...", default="", help="config keys to name arms by, such as recall.omega")
    unit = "compare at equal attempts and this budget (default: attempts, completion tokens, and cost or tokens)"
    sub.add_argument("--unit", choices=("attempts", "completion_tokens", "tokens", "calls", "cost"), help=unit)
    add_flag(sub, "--one-seed", "also print differences that rest on a single seed")


def compare(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.report.cells import line
    from reflexion_lab.analysis.report.comparison import sheets, warnings
    from reflexion_lab.analysis.report.documents import write_table
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.cli.sheets import say_json
    from reflexion_lab.io.files import writable

    _, comparison = read(options)
    if options.csv:
        with writable("--csv", options.csv, "a file (.csv) in a folder that exists"):
            write_table(Path(options.csv), comparison)
    if options.json:
        say_json(comparison)
        return
    tables = [as_table(sheet) for sheet in sheets(comparison)]
    widest = max(Console().measure(table).minimum for table in tables)
    console = Console(width=max(WIDTH, widest, Console().width))  # a narrower one would cut figures
    loud = [line(text, "bold white on red") for text in warnings(comparison)]
    for part in (*loud, *tables, *loud):
        console.print(part)


def read(options: argparse.Namespace) -> tuple[list[Arm], Comparison]:
    """Raises ValueError: the runs cannot be compared; it names the run and the reason."""
    from reflexion_lab.analysis.comparison import side_by_side
    from reflexion_lab.runner.folder.folder import folders

    by = tuple(key.strip() for key in options.by.split(",") if key.strip())
    return side_by_side(folders(*options.runs), options.baseline, by, options.unit, options.one_seed)


def report(options: argparse.Namespace) -> None:
    """Raises ConfigError: an option is missing, or has no effect with --html."""
    from reflexion_lab.cli.sheets import say

    say(*(f"written: {path}" for path in (_pages(options) if options.html else _comparison(options))))


def _pages(options: argparse.Namespace) -> list[Path]:
    from reflexion_lab.analysis.report.page import NAME, save_page
    from reflexion_lab.runner.folder.folder import folders

    if ignored := [name for name in COMPARED if getattr(options, name)]:
        option = "--" + ignored[0].replace("_", "-")
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
    arms, comparison = read(options)
    return save_report(folder, comparison, arms, options.figures or "png")
