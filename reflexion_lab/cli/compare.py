"""`reflexion-lab compare` and `report`: compare runs in the terminal, or as Markdown, HTML and LaTeX."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report.cells import estimate, line
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.cli.place import Commands, add_command, add_flag, add_json, add_runs, chosen, out_folder, positive
from reflexion_lab.cli.sheets import say, say_json
from reflexion_lab.errors import ConfigError, DataError, FolderError
from reflexion_lab.io.files import writable
from reflexion_lab.io.terminal import columns
from reflexion_lab.runner.folder.folder import RunFolder, readable

if TYPE_CHECKING:
    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.comparison import Comparison

WIDTH = 100
"""Minimum width of the tables, in characters."""
MORE = "all tables: --full"
DRAWS = "In %, with 95 % intervals, of first attempts: the seeds are the draws, which need a temperature above 0."
CASES = (".csv", ".csv.gz")
COMPARED = ("baseline", "by", "unit", "margin", "figures", "no_captions")
"""Options of a comparison."""


def add(commands: Commands) -> None:
    text = "compare runs: pass@1, paired differences at equal budgets, damage, errors of the feedback tests, cost"
    sub = add_command(commands, "compare", compare, text)
    _add_runs(sub)
    sub.add_argument("--csv", metavar="FILE", help="also write the table to FILE, with shares in [0, 1]")
    add_flag(sub, "--full", "print all tables")
    text = "print pass@K of the first attempts of K seeds or more, the draws of a task"
    sub.add_argument("--pass-at", metavar="K", type=positive, help=text)
    add_json(sub)
    text = "write what `compare` prints as Markdown, HTML and LaTeX, with figures and the numbers behind them"
    more = "; or, with --html, a page per run with every task and attempt, for any browser"
    sub = add_command(commands, "report", report, text + more)
    _add_runs(sub)
    pages = "write no comparison but FOLDER/<run>.html per run; without --out, run.html in the run folder"
    add_flag(sub, "--html", pages)
    sub.add_argument("--out", metavar="FOLDER", help="folder to write to, created if missing; a comparison needs it")
    sub.add_argument("--figures", choices=("png", "svg", "pdf"), help="format of a comparison's figures (default: png)")
    add_flag(sub, "--no-captions", "figures without titles and captions, for a paper")


def _add_runs(sub: argparse.ArgumentParser) -> None:
    """Add the arguments that `compare` and `report` share."""
    more = (
        "; those of one arm are pooled over seeds; or the cases.csv of a report, gzipped or not; or logs of inspect_ai"
    )
    add_runs(sub, more)
    baseline = "the arm to compare others with (default: feedback_only, retry or simple, or the first)"
    sub.add_argument("--baseline", metavar="ARM", help=baseline)
    by = "config keys that distinguish arms, such as recall.omega"
    sub.add_argument("--by", metavar="KEY,...", default="", help=by)
    unit = "compare at equal attempts and this budget (default: attempts, completion tokens, and cost or tokens)"
    sub.add_argument("--unit", choices=("attempts", "completion_tokens", "tokens", "calls", "cost"), help=unit)
    sub.add_argument("--score", metavar="NAME", default="", help="of logs of inspect_ai, the score to compare")
    margin = "equivalence margin in percentage points (default: that of the registered study, or none)"
    sub.add_argument("--margin", metavar="POINTS", type=float, help=margin)


def compare(options: argparse.Namespace) -> None:
    """Print JSON, one screen or, with --full, the tables between their warnings; several benchmarks one by one."""
    runs = None if _cases(options) else chosen(options)
    if runs and not options.csv and not options.json and len(groups := _of_benchmarks(runs)) > 1:
        problems: list[Exception] = []
        for group in groups:
            try:
                _compare(options, group)
            except (ConfigError, DataError, FolderError) as problem:
                print(f"{group[0].manifest.benchmark}: {problem if problems else 'not compared, for the error below'}")
                problems.append(problem)
        if problems:
            raise problems[0]
    else:
        _compare(options, runs)


def _of_benchmarks(runs: Sequence[RunFolder]) -> list[list[RunFolder]]:
    """The runs of each benchmark: of one name, or of the same tasks under several."""
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        of, digests = run.manifest, {name: group[0].manifest.tasks_digest for name, group in groups.items()}
        same = (name for name, digest in digests.items() if of.benchmark == name or of.tasks_digest == digest != "")
        groups.setdefault(next(same, of.benchmark), []).append(run)
    return list(groups.values())


def _compare(options: argparse.Namespace, runs: Sequence[RunFolder] | None) -> None:
    arms, comparison = read(options, runs)
    draws = {arm.label: arm.pass_at(options.pass_at) for arm in arms if options.pass_at}
    if options.csv:
        from reflexion_lab.analysis.report.documents import write_table

        with writable("--csv", options.csv, "a file (.csv) in a folder that exists"):
            write_table(Path(options.csv), comparison)
    if options.json:
        say_json(comparison.document | ({"pass_at": draws} if draws else {}))
    elif draws or options.full:
        _tables(options, arms, comparison, draws)
    else:
        from reflexion_lab.analysis.report.screen import comparison_screen

        print("\n".join(comparison_screen(comparison, columns(), [MORE])))


def _tables(
    options: argparse.Namespace, arms: Sequence[Arm], comparison: Comparison, draws: Mapping[str, Estimate]
) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.figures.drawing import readable
    from reflexion_lab.analysis.report.comparison import exclusions, sheets, warnings
    from reflexion_lab.analysis.report.sheets import Sheet, as_table

    if draws:
        short = list(readable(arms).values())
        rows = tuple((arm.label, estimate(value)) for arm, value in zip(short, draws.values(), strict=True))
        columns_of = "arm", f"pass@{options.pass_at} [95 %]"
        Console().print(as_table(Sheet(title="", columns=columns_of, rows=rows, caption=f"{DRAWS} {short[0].shared}")))
        return
    grids = [as_table(sheet) for sheet in sheets(comparison)]
    widest = max(Console().measure(grid).minimum for grid in grids)
    console = Console(width=max(WIDTH, widest, Console().width))  # a narrower one would cut figures
    loud = [line(text, "bold white on red") for text in warnings(comparison.short)]
    for part in (*loud, *grids, *map(line, exclusions(comparison.short)), *loud):
        console.print(part)


def read(options: argparse.Namespace, runs: Sequence[RunFolder] | None = None) -> tuple[list[Arm], Comparison]:
    """`runs`: by default those of the options. Raises ValueError: they cannot be compared; it names run and reason."""
    from reflexion_lab.analysis.comparison import compare as compare_arms
    from reflexion_lab.analysis.comparison import side_by_side
    from reflexion_lab.analysis.comparison.cases import load_cases
    from reflexion_lab.analysis.comparison.inspect_logs import load_logs

    margin = None if options.margin is None else options.margin / 100
    if margin is not None and not 0 < margin <= 1:
        raise ConfigError("--margin", f"{options.margin:g}", "percentage points in (0, 100]")
    cases = _cases(options)
    if options.score and (not cases or cases[0].endswith(CASES)):
        raise ConfigError("--score", options.score, "logs of inspect_ai, whose samples have scores")
    if cases:
        for name in ("by", "where"):
            if getattr(options, name):
                raise ConfigError(f"--{name}", f"--{name}, and a file of cases", "run folders, whose configs have keys")
        arms = load_cases(cases[0]) if cases[0].endswith(CASES) else load_logs(cases, options.score)
        return arms, compare_arms(arms, options.baseline, options.unit, margin=margin)
    by = [key for word in options.by.split(",") if (key := word.strip())]
    return side_by_side(chosen(options) if runs is None else runs, options.baseline, by, options.unit, margin)


def _cases(options: argparse.Namespace) -> list[str]:
    """The file of cases, or the logs of inspect_ai, if these are what to compare; [] for run folders."""
    files = [run for run in options.runs if run.endswith((*CASES, ".eval", ".json"))]
    has_cases = any(file.endswith(CASES) for file in files)
    if files and (len(files) < len(options.runs) or (has_cases and len(files) > 1)):
        raise ConfigError("RUN", f"{files[0]} beside others", "run folders, one file of cases, or logs of inspect_ai")
    return files


def report(options: argparse.Namespace) -> None:
    """Raises ConfigError: an option is missing, or has no effect with --html."""
    say(*(f"written: {path}" for path in (_pages(options) if options.html else _comparison(options))))


def _pages(options: argparse.Namespace) -> list[Path]:
    from reflexion_lab.analysis.report.page import save_page
    from reflexion_lab.analysis.shards import grouped
    from reflexion_lab.analysis.shards import read as read_log

    if ignored := [name for name in COMPARED if getattr(options, name)]:
        option = "--" + ignored[0].replace("_", "-")
        raise ConfigError("--html", f"{option}, too", "no option of comparisons: a page shows one run")
    groups = grouped(chosen(options))
    runs = [group[0] for group in groups]
    if not options.out:
        return readable(groups, lambda group: save_page(group[0], log=read_log(group)))
    names = [run.path.resolve().name for run in runs]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise ConfigError("--html", f"{twice[0]} twice", "run folders of different names", "write without --out")
    out = out_folder(options.out)
    return readable(
        zip(groups, names, strict=True), lambda page: save_page(page[0][0], out / f"{page[1]}.html", read_log(page[0]))
    )


def _comparison(options: argparse.Namespace) -> list[Path]:
    from reflexion_lab.analysis.report.documents import save_report

    if not options.out:
        raise ConfigError("--out", "none", "the folder for the comparison, or --html for a page of each run")
    folder = out_folder(options.out)
    arms, comparison = read(options)
    return save_report(folder, comparison, arms, options.figures or "png", not options.no_captions)
