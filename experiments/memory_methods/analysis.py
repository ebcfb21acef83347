"""Tables, figure and README of this experiment, from `cases.csv.gz` and `runs.csv.gz`; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments._tools.evidence import Row
from experiments._tools.output import legend, plain_axes, save
from experiments._tools.recompute import README, TABLE, csv_text, main, percent, points, readme
from experiments.memory_methods.cases import Case, Run, deviation, gain, matrix, planted, rate, read
from reflexion_lab.analysis.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "none": "none",
    "none_again": "none, other draws (A/A)",
    "gold": "gold (upper bound)",
    "raw_trajectories": "raw_trajectories",
    "full_history": "full_history, 4,000 tokens",
    "full_history_unlimited": "full_history",
    "shuffled_memento": "shuffled of memento",
    "filler_memento": "filler for memento",
    "filler_expel": "filler for expel",
    "wisdom": "wisdom",
    "expel": "expel",
    "expel_8": "expel, rounds of 8",
    "awm": "awm",
    "dynamic_cheatsheet": "dynamic_cheatsheet, DC-Cu",
    "dynamic_cheatsheet_rs": "dynamic_cheatsheet, DC-RS",
    "memento": "memento",
    "memento_bm25": "memento, bm25",
    "a_mem": "a_mem",
    "reasoning_bank": "reasoning_bank",
    "reasoning_bank_bm25": "reasoning_bank, bm25",
    "ace": "ace",
}
NULLS = ("none", "none_again", "shuffled_memento", "filler_memento", "filler_expel")
"""Controls that can gain nothing, but for items that the shuffle draws from the right family."""
SIZES = (1, 4, 16, 50, 240)
WITHOUT, WITH_RULE = 0.2, 0.8
"""Planted probabilities without a rule and with that of the task's family, as in `family_student.yaml`."""
CHECKPOINTS = (0, 60, 120, 180, 240)
MATRIX = "matrix.csv"
STREAMS = {"expel": "expel", "capped": "raw_trajectories, 5 items"}
MEASURES = ("online_utility", "stability", "forgetting", "backward_transfer")


@cache
def evidence(folder: Path) -> tuple[dict[str, list[Case]], dict[str, list[Run]]]:
    return read(folder)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """A row per arm: every method, the best first, then the naive stream, then other sizes of rounds."""
    cases, runs = evidence(folder)
    methods = [_row("methods", arm, cases[arm], runs[arm], cases["none"]) for arm in NAMES]
    methods.sort(key=lambda row: (-row["planted"], row["arm"]))
    naive = [arm for arm in cases if arm.startswith("naive_")]
    rounds = [arm for arm in cases if arm.startswith("rounds_")]
    return [
        *methods,
        *(_row("naive", arm, cases[arm], runs[arm], cases["naive_none"]) for arm in naive),
        *(_row("rounds", arm, cases[arm], runs[arm], cases["none"]) for arm in rounds),
    ]


def _row(part: str, arm: str, cases: Sequence[Case], runs: Sequence[Run], none: Sequence[Case]) -> dict[str, Any]:
    """Rates are of later tasks, costs of all."""
    later = [case for case in cases if case.is_later]
    baseline = [case for case in none if case.is_later]
    solved, change, n = rate(later), gain(later, baseline), len(cases)
    numbers = {
        "solved": solved.value,
        "low": solved.low,
        "high": solved.high,
        "planted": planted(later),
        "gain": change.value,
        "gain_low": change.low,
        "gain_high": change.high,
        "planted_gain": planted(later) - planted(baseline),
        "z": deviation(later),
    }
    return {
        "part": part,
        "arm": arm,
        "orders": len(runs),
        "n": len(later),
        **{name: round(number, 4) for name, number in numbers.items()},
        "tokens": round(sum(case.tokens for case in cases) / n, 1),
        "curator_tokens": round(sum(run.tokens for run in runs) / n, 1),
        "curator_calls": round(sum(run.calls for run in runs) / n, 2),
        "items": round(sum(run.items for run in runs) / len(runs), 1),
        "item_tokens": round(sum(run.item_tokens for run in runs) / len(runs), 1),
        "unreadable": sum(run.unreadable for run in runs),
    }


def matrix_rows(folder: Path) -> list[dict[str, Any]]:
    """A row per stream and measure: its estimate from verdicts, and its value from the student's chances."""
    cases, _ = evidence(folder)
    return [row for stream in STREAMS for row in _matrix(stream, cases)]


def _matrix(stream: str, cases: Mapping[str, Sequence[Case]]) -> Iterator[dict[str, Any]]:
    frozen = {after: cases[f"frozen_{stream}_{after}"] for after in CHECKPOINTS}
    measured, truth = matrix(cases[f"matrix_{stream}"], frozen)
    for name in MEASURES:
        effect = getattr(measured, name)
        ends = {"value": effect.value, "low": effect.low, "high": effect.high, "planted": truth[name]}
        rounded = {key: round(number, 4) for key, number in ends.items()}
        yield {"stream": stream, "measure": name, "n": effect.n, "over": effect.over, **rounded}


def holds(low: float, value: float, high: float) -> bool:
    return low - 5e-5 <= value <= high + 5e-5


def held(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Intervals of rates and of gains that hold the planted value. Rounds of all tasks repeat the verdicts of none."""
    distinct = [row for row in rows if not row["arm"].endswith(f"_{SIZES[-1]}")]
    gains = [row for row in distinct if row["arm"] not in ("none", "naive_none")]
    return {
        "rates": sum(holds(row["low"], row["planted"], row["high"]) for row in distinct),
        "n_rates": len(distinct),
        "gains": sum(holds(row["gain_low"], row["planted_gain"], row["gain_high"]) for row in gains),
        "n_gains": len(gains),
    }


def solved_of(row: Mapping[str, Any]) -> str:
    return f"{percent(row['solved'])} [{percent(row['low'])}, {percent(row['high'])}]"


def gain_of(row: Mapping[str, Any]) -> str:
    return points(Estimate.of(row["gain"], row["gain_low"], row["gain_high"]))


def recovered(row: Mapping[str, Any]) -> str:
    """Planted share of the gain that a rule in every prompt would give, in per cent."""
    return f"{100 * (row['planted'] - WITHOUT) / (WITH_RULE - WITHOUT):.0f}".replace("-", "−")


def total(row: Mapping[str, Any]) -> float:
    """Tokens per task, of actor and curator."""
    return float(row["tokens"] + row["curator_tokens"])


def compute(folder: Path) -> Mapping[str, str]:
    rows, streams = rows_of(folder), matrix_rows(folder)
    cases, _ = evidence(folder)

    def with_rule(arm: str) -> float:
        """Share of the prompts of later tasks that state the rule."""
        later = [case for case in cases[arm] if case.is_later]
        return sum(case.chance == WITH_RULE for case in later) / len(later)

    by_arm = {row["arm"]: row for row in rows}
    curves = {
        method: [by_arm[method if size == 1 else f"rounds_{method}_{size}"] for size in SIZES]
        for method in ("expel", "ace", "awm")
    }
    distinct = [row for row in rows if not row["arm"].endswith(f"_{SIZES[-1]}")]  # a round of all tasks repeats `none`
    by_order = [deviation(own) ** 2 for row in distinct for own in _orders(cases[row["arm"]])]
    values = {
        "rows": rows,
        "at": by_arm,
        "held": held(rows),
        "largest_z": sorted(distinct, key=lambda row: -abs(row["z"])),
        "dispersion": sum(by_order) / len(by_order),
        "streams": streams,
        "held_streams": sum(holds(row["low"], row["planted"], row["high"]) for row in streams),
        "curves": curves,
        "NAMES": NAMES | {f"naive_{arm}": name for arm, name in NAMES.items()},
        "STREAMS": STREAMS,
        "SIZES": SIZES,
        "solved_of": solved_of,
        "gain_of": gain_of,
        "recovered": recovered,
        "total": total,
        "with_rule": with_rule,
        "signed": lambda value: points(Estimate.of(value, value, value)).partition(" [")[0],
    }
    return {TABLE: csv_text(rows), MATRIX: csv_text(streams), README: readme(folder, **values)}


def _orders(cases: Sequence[Case]) -> list[list[Case]]:
    """The later tasks of each order."""
    orders = sorted({case.order for case in cases})
    return [[case for case in cases if case.is_later and case.order == order] for order in orders]


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = rows_of(folder)
    at, counts = {row["arm"]: row for row in rows}, held(rows)

    def gains(*arms: str) -> str:
        return ", ".join(f"{arm.removesuffix('_memento')} {gain_of(at[arm])}" for arm in arms)

    text = (
        f"for a simulated student, those that show every rule: {gains('ace', 'dynamic_cheatsheet')} points over none, "
        f"as many as solutions ({gains('gold')}); rules from successes alone fewer ({gains('expel', 'awm')}), similar "
        f"past tasks fewer still ({gains('memento')}), {gains('shuffled_memento', 'filler_memento')}. "
        f"A/A, none at other draws: {gain_of(at['none_again'])}. "
        f"{counts['rates']} of {counts['n_rates']} intervals of rates and {counts['gains']} of {counts['n_gains']} of "
        "gains hold what was planted"
    )
    methods = sum(row["part"] == "methods" for row in rows)
    return Row(text, f"200 later tasks in 40 families × {at['none']['orders']} orders, {methods} arms")


def draw(folder: Path) -> Sequence[Path]:
    rows = rows_of(folder)
    return save(
        rows,
        partial(_draw, [row for row in rows if row["part"] == "methods"]),
        folder,
        salt="memory_methods",
        line_end="\n",
    )


def _draw(rows: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Solve rates with intervals and their planted values, and beside them the tokens per task."""
    from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK

    figure.set_size_inches(9.2, 5.6)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for place, row in enumerate(rows):
        kind = "null control" if row["arm"] in NULLS else "upper bound" if row["arm"] == "gold" else "memory"
        colour = {"memory": COLOURS[0], "null control": COLOURS[1], "upper bound": COLOURS[2]}[kind]
        left.hlines(place, 100 * row["low"], 100 * row["high"], color=colour, linewidth=2.4, alpha=0.45)
        left.plot(100 * row["solved"], place, "o", color=colour, markeredgecolor="white", label=kind)
        left.plot(100 * row["planted"], place, "|", color=INK, markersize=11, label="planted", zorder=5)
        right.plot(row["tokens"], place, "o", color=COLOURS[0], label="actor")
        if row["curator_tokens"]:
            right.plot(row["curator_tokens"], place, "D", color=COLOURS[4], label="curator")
    left.set_yticks(range(len(rows)), [NAMES[row["arm"]] for row in rows], color=INK)
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_xlim(0, 100)
    left.axvline(100 * WITHOUT, color=FAINT, linewidth=1)
    left.set_xlabel("later tasks solved, %\n95 % over families and orders", color=INK)
    right.set_xscale("log")
    right.set_xticks([100, 1000, 10_000], ["100", "1,000", "10,000"])
    right.minorticks_off()
    right.set_xlabel("tokens per task", color=INK)
    for ax in (left, right):
        plain_axes(ax, grid="x")
        legend(ax, loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=4, labelcolor=INK, fontsize=9, columnspacing=1)


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
