"""What was submitted against the first attempt, by shares of wrong and weak tests: table, figure and README from the
committed cases; `--check` names what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments._tools.evidence import CASES, Row
from experiments._tools.output import save
from experiments._tools.recompute import README, TABLE, csv_text, main, points, readme
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.analysis.stats.estimators import paired
from reflexion_lab.analysis.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL = re.compile(r"wrong_(?P<wrong>[\d.]+)_weak_(?P<weak>[\d.]+)(?:_partial_(?P<partial>[\d.]+))?")
PARTIAL = 0.5
"""Share of inputs on which the wrong programs of most cells are right."""


@cache
def table(folder: Path) -> list[dict[str, Any]]:
    """A row per cell, by the share of inputs on which wrong programs are right, wrong tests and weak tests."""
    cells = ((LABEL.fullmatch(arm.label), arm) for arm in load_cases(folder / CASES))
    rows = [cell(arm, match) for match, arm in cells if match]
    return sorted(rows, key=lambda row: tuple(row.values())[:3])


def cell(arm: Arm, label: re.Match[str]) -> dict[str, Any]:
    first, submitted = arm.verdicts(1), arm.verdicts()
    last = {case: arm.grades[case][attempts[-1].number].passed for case, attempts in arm.attempts.items()}
    gain = difference(arm.by_cluster(first), arm.by_cluster(submitted))
    pairs = paired(first, submitted)
    right, wrong = ([attempt for attempt, grade in arm.graded if grade.passed is passed] for passed in (True, False))
    unpassed = [case for case, attempts in arm.attempts.items() if not any(a.evaluation.passed for a in attempts)]
    return {
        "partial": float(label["partial"] or PARTIAL),
        "wrong_tests": float(label["wrong"]),
        "weak_tests": float(label["weak"]),
        "study": arm.logs[0].study,
        "feedback_source": arm.feedback_source,
        "seeds": " ".join(map(str, arm.seeds)),
        "tasks": len(arm.tasks),
        "tasks_x_seeds": pairs.n,
        "first": sum(first.values()),
        "submitted": sum(submitted.values()),
        "last": sum(last.values()),
        "submitted_minus_first": round(gain.value, 4),
        "low": round(gain.low, 4),
        "high": round(gain.high, 4),
        "won": pairs.repaired,
        "lost": pairs.damaged,
        "right_programs": len(right),
        "right_that_fail": sum(not attempt.evaluation.passed for attempt in right),
        "right_reward": _mean_reward(right),
        "wrong_programs": len(wrong),
        "wrong_that_pass": sum(attempt.evaluation.passed for attempt in wrong),
        "wrong_reward": _mean_reward(wrong),
        "nothing_passed": len(unpassed),
        "nothing_passed_submitted_right": sum(submitted[case] for case in unpassed),
    }


def _mean_reward(attempts: Sequence[Any]) -> float:
    return round(float(sum(attempt.evaluation.reward for attempt in attempts)) / len(attempts), 4)


def compute(folder: Path) -> Mapping[str, str]:
    rows = table(folder)

    def at(wrong: float, weak: float, partial: float = PARTIAL) -> dict[str, Any]:
        key = (partial, wrong, weak)
        return next(row for row in rows if (row["partial"], row["wrong_tests"], row["weak_tests"]) == key)

    values = {"at": at, "gain": lambda *key: points(_gain(at(*key))), "loss": lambda *key: points(_lost(at(*key)))}
    return {TABLE: csv_text(rows), README: readme(folder, **values, rows=rows, matrix=_matrix(rows))}


def _gain(row: Mapping[str, Any]) -> Estimate:
    return Estimate(value=row["submitted_minus_first"], low=row["low"], high=row["high"])


def _lost(row: Mapping[str, Any]) -> Estimate:
    return Estimate(value=-row["submitted_minus_first"], low=-row["high"], high=-row["low"])


def _matrix(rows: Sequence[Mapping[str, Any]]) -> str:
    """The gains in Markdown: a line per share of wrong tests, a column per share of weak ones; registered ones bold."""
    cells = {(row["wrong_tests"], row["weak_tests"]): row for row in rows if row["partial"] == PARTIAL}
    weak = sorted({weak for _, weak in cells})
    lines = [
        f"| wrong \\ weak | {' | '.join(f'{100 * share:.0f} %' for share in weak)} |",
        "|---" * (len(weak) + 1) + "|",
    ]
    for wrong in sorted({wrong for wrong, _ in cells}):
        texts = (_cell_text(cells[wrong, share]) if (wrong, share) in cells else "" for share in weak)
        lines.append(f"| {100 * wrong:.0f} % | {' | '.join(texts)} |")
    return "\n".join(lines)


def _cell_text(row: Mapping[str, Any]) -> str:
    text = points(_gain(row))
    value, _, interval = text.partition(" ")
    return f"**{value}** {interval}" if row["study"] else text


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    at = {(row["wrong_tests"], row["weak_tests"]): row for row in table(folder) if row["partial"] == PARTIAL}
    gains = {key: points(_gain(at[key])) for key in ((0.0, 0.0), (0.2, 0.0), (0.4, 0.0), (0.0, 0.4))}
    text = (
        "about one in five, for a simulated student: submissions less first attempts "
        f"{gains[0.0, 0.0]} points with true tests, {gains[0.2, 0.0]} with 20 % wrong, {gains[0.4, 0.0]} with 40 % "
        f"wrong; with 40 % too weak {gains[0.0, 0.4]}"
    )
    return Row(text, f"{at[0.0, 0.0]['tasks']} × {len(at[0.0, 0.0]['seeds'].split())} seeds")


def draw(folder: Path) -> Sequence[Path]:
    """Write `figure.svg`."""
    rows = table(folder)
    return save(rows, lambda figure: _draw(rows, figure), folder, salt="noise_of_feedback", line_end="\n")


def _draw(rows: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """The submitted program against the first one, by share of wrong tests, one line per share of weak tests."""
    from reflexion_lab.analysis.figures.style import COLOURS, INK, caption, frame

    figure.set_size_inches(7.6, 4.4)
    axes = figure.subplots()
    cells = [row for row in rows if row["partial"] == PARTIAL]
    for place, weak in enumerate(sorted({row["weak_tests"] for row in cells})):
        line = [row for row in cells if row["weak_tests"] == weak]
        x = [100 * row["wrong_tests"] + 1.2 * (place - 1) for row in line]
        y = [100 * row["submitted_minus_first"] for row in line]
        ends = [
            [100 * (row["submitted_minus_first"] - row["low"]) for row in line],
            [100 * (row["high"] - row["submitted_minus_first"]) for row in line],
        ]
        label = f"{100 * weak:.0f} % of the tests weak"
        axes.errorbar(x, y, ends, marker="o", color=COLOURS[place], linewidth=1.4, capsize=3, label=label)
    axes.axhline(0, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(xlabel="tests that are wrong, %", ylabel="correct submissions less first attempts, points")
    axes.legend(frameon=False, fontsize=9)
    frame(axes, "both")
    row = rows[0]
    caption(
        axes,
        f"n = {row['tasks_x_seeds']} cases a point ({row['tasks']} tasks of basics x seeds {row['seeds']}), "
        f"{row['feedback_source']} tests,\neach wrong or weak "
        "with its own probability; a simulated student, 4 attempts.\n"
        "95 % intervals of the paired difference over tasks, not corrected for the number of cells.",
    )


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
