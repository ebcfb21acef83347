"""`python -m experiments.recorded_runs_compared.trials_report FOLDER...`: success by trial as tables and a figure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments._tools import output
from experiments.recorded_runs_compared.trials import Pairing, Trials, pairings, read_trials
from experiments.recorded_runs_compared.trials_cases import write_cases
from reflexion_lab.analysis.figures.style import COLOURS, INK, MARKERS, caption, watermark
from reflexion_lab.analysis.report.cells import interval, line, table
from reflexion_lab.analysis.stats.power import minimum_detectable
from reflexion_lab.cli.main import Arguments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from reflexion_lab.analysis.stats.estimators import Paired

COLUMNS = (
    "world", "run", "trial", "n", "solved", "share", "low", "high", "baseline", "baseline_solved", "gained", "lost",
    "difference", "difference_low", "difference_high", "p", "minimum_detectable",
)  # fmt: skip


def show(trials: Sequence[Trials], console: Console) -> None:
    """Print the cumulative successes of every run, then its comparison with each baseline."""
    for run in trials:
        last = run.curve[-1]
        share = f"{100 * last.share:.1f} % {interval(last.low, last.high)}"
        ends = f"{share} of {last.n} environments, Wilson 95 %"
        console.print(line(f"{run.label}: {' '.join(str(rate.k) for rate in run.curve)}; {ends}"))
        if run.repeats.is_fixed:
            console.print(line(f"  control that cannot change: {run.repeats} retries repeat the attempt before"))
    for pairing in pairings(trials):
        sheet = table(
            f"{pairing.second} against {pairing.first}", "trial", "gained", "lost", "difference", "p", names=0
        )
        for trial, pair in enumerate(pairing.by_trial, 1):
            size = f"{100 * pair.difference:+.1f} {interval(pair.low, pair.high)}"
            sheet.add_row(str(trial), str(pair.repaired), str(pair.damaged), size, f"{pair.p:.2g}")
        console.print(sheet)
        start = f"{'equal' if pairing.same_start else 'different'} outcomes in trial 1"
        tests = "points, 95 %: t over tasks with added pairs; exact McNemar, one run each"
        console.print(line(f"{_power(pairing)}; {start}; {tests}"))


def as_rows(trials: Sequence[Trials]) -> Iterator[dict[str, object]]:
    """One row per run, trial and baseline; without a baseline, its columns are empty."""
    by_run: dict[str, list[Pairing]] = {}
    for pairing in pairings(trials):
        by_run.setdefault(pairing.second, []).append(pairing)
    for run in trials:
        for trial, rate in enumerate(run.curve, 1):
            row = {"world": run.world, "run": run.name, "trial": trial, "n": rate.n, "solved": rate.k}
            row = dict.fromkeys(COLUMNS, "") | row | output.columns(rate, "share")
            pairs = [pair for pair in by_run.get(run.label, []) if trial <= len(pair.by_trial)]
            yield from (row | _difference(pair, pair.by_trial[trial - 1]) for pair in pairs)
            if not pairs:
                yield row


def _difference(pairing: Pairing, pair: Paired) -> dict[str, object]:
    minimum = detectable(pair)
    return {
        "baseline": pairing.first.rpartition("/")[2],
        "baseline_solved": pair.both + pair.damaged,
        "gained": pair.repaired,
        "lost": pair.damaged,
        "difference": round(pair.difference, 4),
        "difference_low": round(pair.low, 4),
        "difference_high": round(pair.high, 4),
        "p": f"{pair.p:.3g}",
        "minimum_detectable": "" if minimum is None else round(minimum, 4),
    }


def detectable(pair: Paired) -> float | None:
    """Minimum detectable difference (80 % power) at this number of discordant pairs; None if there is none."""
    discordant = pair.repaired + pair.damaged
    return minimum_detectable(pair.n, discordant / pair.n) if 0 < discordant < pair.n else None


def _power(pairing: Pairing) -> str:
    pair = pairing.by_trial[-1]
    minimum = detectable(pair)
    size = "no difference is" if minimum is None else f"{100 * minimum:.1f} points are"
    discordant = f"{pair.repaired + pair.damaged} discordant environments at trial {len(pairing.by_trial)}"
    return f"with {discordant}, {size} detectable at power 0.8"


def save(trials: Sequence[Trials], folder: Path) -> list[Path]:
    """Write `trials.svg`, one panel per world, and `trials.csv` with its numbers and the differences."""
    worlds = list(dict.fromkeys(run.world for run in trials))

    def draw(figure: Figure) -> None:
        figure.set_size_inches(5.4 * len(worlds), 4.4)
        figure.set_layout_engine("constrained")
        panels = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
        for world, ax in zip(worlds, panels, strict=True):
            success([run for run in trials if run.world == world], ax)

    rows = list(as_rows(trials))
    names = {"name": "trials.svg", "table": "trials.csv"}
    return output.save(rows, draw, folder, salt="reflexion_lab", line_end="\n", **names)


def success(trials: Sequence[Trials], ax: Axes) -> Axes:
    """Draw the share of environments solved so far by trial, with Wilson bands; a run of one trial is a bar."""
    for number, run in enumerate(trials):
        colour = COLOURS[number % len(COLOURS)]
        x, rates = list(range(1, run.length + 1)), run.curve
        low, high = [rate.low for rate in rates], [rate.high for rate in rates]
        if run.length > 1:
            ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
        else:
            ax.vlines(x, low, high, color=colour, alpha=0.35, linewidth=6)
        look: dict[str, Any] = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "markeredgecolor": "white"}
        label = f"{run.name}: {rates[-1].k} of {rates[-1].n}"
        ax.plot(x, [rate.share for rate in rates], linewidth=2, markersize=6.5, label=label, **look)
    _frame(trials, ax)
    return ax


def _frame(trials: Sequence[Trials], ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    longest = max(run.length for run in trials)
    ax.set(xlim=(0.7, longest + 0.3), ylim=(0, 1.02))
    ax.set_title(trials[0].world, color=INK, loc="left", fontweight="bold", pad=8 + 14 * len(trials))
    ax.set_xlabel("trial", color=INK)
    ax.set_ylabel("environments solved so far", color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    output.plain_axes(ax, grid="y")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, frameon=False, labelcolor=INK, fontsize=8.5)
    n = len(trials[0].solved)
    sample_line = f"n = {n} environments, one run each. Bands: Wilson 95 %, over environments.\n"
    caption(ax, f"{sample_line}What drives the loop is the measure itself: solved so far, no pass@1.")
    watermark(ax)


def main(argv: Sequence[str] | None = None) -> int:
    text = "success by trial of agents whose logs list the outcome of each environment"
    top = Arguments(prog="python -m experiments.recorded_runs_compared.trials_report", description=text)
    folders = "folders with env_results_trial_N.json, or parents of such folders; or text logs"
    top.add_argument("folders", metavar="FOLDER", nargs="+", help=folders)
    top.add_argument("--out", metavar="DIR", type=Path, help="write trials.csv, trials.svg and their evidence there")
    return output.run(top, _main, argv)


def _main(options: argparse.Namespace) -> int:
    from rich.console import Console

    read = read_trials(options.folders)
    show(read, Console())
    if options.out:
        output.print_written([*write_cases(read, options.out), *save(read, options.out)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
