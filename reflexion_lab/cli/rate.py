"""`reflexion-lab rate`: quality of reflections by rules, and blind rating sheets for people."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report import cells
from reflexion_lab.cli.place import Commands, add_command, add_flag, add_limit, add_runs, chosen
from reflexion_lab.cli.sheets import say, say_json, sheet
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import writable

if TYPE_CHECKING:
    from reflexion_lab.analysis.learning.rating import Agreement


def add(commands: Commands) -> None:
    text = "rate reflections: whether they name the failing check and the true cause, and say what to change"
    more = (
        "without options, rules rate them, beside the repairs that followed; --out writes a blind sheet for people, "
        "--read reads it back"
    )
    sub = add_command(commands, "rate", rate, f"{text}; {more}")
    add_runs(sub, "; those of one arm are pooled over seeds")
    sheet = "write a shuffled sheet (CSV) without arm, model and verdict, and its key beside it"
    sub.add_argument("--out", metavar="SHEET", help=sheet)
    add_limit(sub, 0, "with --out: number of reflections, drawn at random; 0 for all")
    seed = "with --out: seed of the draw and the order (default: %(default)s)"
    sub.add_argument("--seed", metavar="N", type=int, default=0, help=seed)
    filled = "filled sheets of one key, one per rater: agreement with each other and with the rules"
    sub.add_argument("--read", metavar="SHEET", nargs="+", help=filled)
    sub.add_argument("--key", metavar="FILE", help="with --read: the key (default: beside the first sheet)")
    add_flag(sub, "--json", "print one JSON object instead of a table")


def rate(options: argparse.Namespace) -> None:
    if options.read:
        if options.runs or options.last or options.out:
            raise ConfigError("rate", "--read with runs or --out", "one of both")
        _agreement(options)
    elif not (options.runs or options.last):
        raise ConfigError("rate", "no run", "run folders, or --read SHEET")
    elif options.out:
        _sheet(options)
    else:
        _by_rules(options)


def _by_rules(options: argparse.Namespace) -> None:
    from reflexion_lab.analysis.comparison.grouping import arms
    from reflexion_lab.analysis.learning.words import word_quality
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.analysis.report.words import quality_sheet
    from reflexion_lab.runner.solutions import solutions

    runs = chosen(options)
    logs = {arm.label: arm.logs for arm in arms(runs, frozen="arms")}
    if options.json:
        programs = solutions(runs)
        say_json({label: word_quality(members, programs) for label, members in logs.items()})
        return
    tables = [as_table(sheet) for sheet in quality_sheet(logs, lambda: solutions(runs))]
    say(*(tables or ("no reflection in these runs",)))


def _sheet(options: argparse.Namespace) -> None:
    from reflexion_lab.analysis.learning.rating import rated, write
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.solutions import tasks_of

    runs = chosen(options)
    tasks = tasks_of(runs)
    programs = {run: {name: task.canonical_program for name, task in own.items()} for run, own in tasks.items()}
    reflections = rated([Log.read(run, texts=False) for run in runs], programs)
    if not reflections:
        raise ConfigError("rate", "no reflection with a text in these runs", "runs whose reflector writes some")
    with writable("--out", options.out, "a file (.csv) in a folder that exists"):
        key = write(Path(options.out), reflections, tasks, options.limit, options.seed)
    n = min(options.limit or len(reflections), len(reflections))
    say(
        f"written: {options.out}, {n} of {len(reflections)} reflections; fill in yes or no: names_check, names_cause, "
        "is_advice",
        f"written: {key}, which raters must not see",
    )


def _agreement(options: argparse.Namespace) -> None:
    from reflexion_lab.analysis.learning.rating import agreements

    rows = agreements([Path(path) for path in options.read], Path(options.key) if options.key else None)
    if options.json:
        say_json({"agreements": rows})
        return
    columns = ("quality", "raters", "n", "clusters", "yes, first", "yes, second", "agreed, % [95 %]", "kappa [95 %]")
    note = "kappa: Cohen's; 1 all equal, 0 as by chance. Intervals: Wilson over clusters. Empty cells do not count."
    say(sheet("Agreement of ratings", columns, map(_cells, rows), names=2, note=note))


def _cells(row: Agreement) -> tuple[str, ...]:
    return (
        row.quality,
        f"{row.first} : {row.second}",
        str(row.n),
        str(row.clusters),
        str(row.first_yes),
        str(row.second_yes),
        cells.estimate(row.agreed) if row.agreed else cells.NONE,
        cells.estimate(row.kappa, digits=2, scale=1) if row.kappa else cells.NONE,
    )
