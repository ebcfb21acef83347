"""`python -m experiments._tools.dose RUN...`: share of retries that repair a program, by the truth of the words read.

A case is the second attempt at a task whose first was wrong by its hidden tests and failed its feedback. Its words are
`true` (quoted or oracle), `wrong` (the control `corrupted` replaced them), `none`, or named by their source. The dose
is `reflector.share` of the run, the share of reflections with wrong words; 0 for oracle words throughout.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from experiments._tools import output
from experiments.oracle_words.ceiling import TRUE_WORDS
from experiments.oracle_words.words import CORRUPTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.records import Reflection

PLANTED = ("none", "true", "wrong")
"""Words in the order of `--planted`."""


@dataclass(frozen=True)
class Case:
    """One second attempt."""

    arm: str
    dose: float | None
    """Share of reflections with wrong words; None for an arm of other words."""
    seed: int
    task: str
    words: str
    repaired: bool


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), dose, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("dose", "share of retries that repair a program, by the truth of the words read")
    top.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders with two attempts or more per task")
    planted = "probabilities of a simulated student without words, after true and after wrong ones"
    top.add_argument("--planted", metavar="P", type=float, nargs=3, help=planted)
    top.add_argument("--out", metavar="DIR", type=Path, help="write cases.csv, table.csv and figure.svg there")
    return top


def dose(options: argparse.Namespace) -> int:
    from rich.console import Console

    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.folder.folder import RunFolder

    cases = [case for run in options.runs for case in cases_of(Log.read(RunFolder.existing(run)))]
    rows = table(cases, dict(zip(PLANTED, options.planted or (), strict=False)))
    output.show_sheet(sheet(rows), Console())
    if options.out:
        output.write_csv(options.out / "cases.csv", [asdict(case) for case in cases])
        output.print_written(output.save(rows, partial(draw, rows), options.out, salt="dose", line_end="\n"))
    return 0


def cases_of(log: Log) -> Iterator[Case]:
    for task, attempts in log.attempts.items():
        grades = log.grades_by_task[task]
        if len(attempts) > 1 and not grades[1].passed:
            words = words_of(attempts[0].reflection)
            yield Case(log.arm, dose_of(log), log.manifest.seed, task, words, grades[2].passed)


def words_of(reflection: Reflection | None) -> str:
    if reflection is None or not any(reflection.texts):
        return "none"
    if CORRUPTED in reflection.flags:
        return "wrong"
    return "true" if reflection.source in (*TRUE_WORDS, f"control:{CORRUPTED}") else reflection.source


def dose_of(log: Log) -> float | None:
    """None for an arm without true or corrupted words, and for `quoted`, which is no dose of the same words."""
    reflector: Any = log.manifest.config["reflector"]
    name = str(reflector["_target_"]).rpartition(".")[2]
    return {"Corrupted": float(reflector.get("share", 0)), "Oracle": 0.0}.get(name)


def table(cases: Sequence[Case], planted: dict[str, float]) -> list[dict[str, Any]]:
    """A row per arm and dose, then a row per kind of words over the arms with a dose or without words."""
    groups: dict[tuple[str, str, float | str], list[Case]] = {}
    for case in cases:
        groups.setdefault(("arm", case.arm, "" if case.dose is None else case.dose), []).append(case)
    for case in cases:
        if case.dose is not None or case.words == "none":
            groups.setdefault(("words", case.words, ""), []).append(case)
    return [row(*key, members, planted) for key, members in sorted(groups.items(), key=lambda item: str(item[0]))]


def row(by: str, name: str, dose: float | str, cases: Sequence[Case], planted: dict[str, float]) -> dict[str, Any]:
    """Share repaired with its interval, and the planted share, which weighs the kinds of words by the dose."""
    estimate = repaired(cases)
    expected: float | str = ""
    if planted and isinstance(dose, float):
        expected = round((1 - dose) * planted["true"] + dose * planted["wrong"], 4)
    elif planted and len(kinds := {case.words for case in cases}) == 1:
        expected = planted.get(kinds.pop(), "")
    return {
        "by": by,
        "name": name,
        "dose": dose,
        "n": len(cases),
        "tasks": len({case.task for case in cases}),
        "repaired": sum(case.repaired for case in cases),
        "share": round(estimate.value, 4),
        "low": round(estimate.low, 4),
        "high": round(estimate.high, 4),
        "planted": expected,
    }


def repaired(cases: Sequence[Case]) -> Any:
    """Share of the cases that were repaired, with an interval over tasks."""
    import numpy as np

    from reflexion_lab.analysis.stats.bootstrap import interval

    columns = sorted({(case.arm, case.dose or 0.0, case.seed) for case in cases})
    tasks = sorted({case.task for case in cases})
    outcomes = np.full((len(tasks), len(columns)), np.nan)
    for case in cases:
        outcomes[tasks.index(case.task), columns.index((case.arm, case.dose or 0.0, case.seed))] = case.repaired
    return interval(outcomes)


def sheet(rows: Iterable[dict[str, Any]]) -> Any:
    from reflexion_lab.analysis.report.sheets import Sheet

    lines = tuple(
        (
            row["by"],
            row["name"],
            str(row["dose"]),
            str(row["n"]),
            f"{100 * row['share']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]",
            f"{100 * row['planted']:.1f}" if row["planted"] != "" else "",
        )
        for row in rows
    )
    columns = ("by", "name", "dose", "n", "repaired,\n% [95 %]", "planted,\n%")
    caption = "Second attempts after a wrong first one, judged by the hidden tests. Dose: share of wrong words."
    return Sheet(title="Dose and response", columns=columns, rows=lines, caption=caption, names=2)


def draw(rows: Sequence[dict[str, Any]], drawing: Figure) -> None:
    """Share repaired by dose, with the arms of other words as horizontal lines."""
    from reflexion_lab.analysis.figures.style import COLOURS, INK

    drawing.set_size_inches(7.2, 4.2)
    ax = drawing.subplots()
    doses = sorted((row for row in rows if row["dose"] != ""), key=lambda row: row["dose"])
    for row in doses:
        ax.plot([row["dose"]] * 2, [100 * row["low"], 100 * row["high"]], color=COLOURS[0], linewidth=1.6)
    x = [row["dose"] for row in doses]
    ax.plot(x, [100 * row["share"] for row in doses], "o", color=COLOURS[0], label="oracle words, corrupted")
    if all(row["planted"] != "" for row in doses):
        ax.plot(x, [100 * row["planted"] for row in doses], "--", color=INK, linewidth=1, label="planted")
    others = [row for row in rows if row["by"] == "arm" and row["dose"] == ""]
    for number, row in enumerate(others, start=1):
        colour = COLOURS[number % len(COLOURS)]
        ax.axhspan(100 * row["low"], 100 * row["high"], color=colour, alpha=0.15, linewidth=0)
        ax.axhline(100 * row["share"], color=colour, linewidth=1.2, label=row["name"])
    counts = sorted({row["n"] for row in doses})
    n = " to ".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]])))
    ax.set(ylim=(0, None), xticks=x, ylabel="retries that repair the program, %")
    ax.set_xlabel(f"share of reflections with wrong words\n95 % intervals over tasks; n = {n} retries per dose")
    output.plain_axes(ax, grid="y")
    output.legend_above(ax)


def read(path: Path) -> list[Case]:
    """The cases in `cases.csv`, from which `table` computes all numbers."""
    with path.open(newline="") as file:
        rows = [{**row, "dose": row["dose"] or None} for row in csv.DictReader(file)]
    return [msgspec.convert(row, Case, strict=False) for row in rows]


if __name__ == "__main__":
    raise SystemExit(main())
