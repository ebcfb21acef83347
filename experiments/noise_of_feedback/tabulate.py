"""What was submitted against the first attempt, by shares of wrong and weak tests: `table.csv` and `figure.svg`.

python experiments/noise_of_feedback/tabulate.py OUT_FOLDER RUN_ROOT
"""

import csv
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from reflexion_lab.analysis.arms import arms
from reflexion_lab.analysis.estimators import paired
from reflexion_lab.analysis.figures.style import COLOURS, INK, caption, frame
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.runner.folder.folder import RunFolder

KEYS = "model.partial", "evaluator.wrong_tests", "evaluator.weak_tests"
PARTIAL = 0.5
"""Share of inputs on which the wrong programs of the registered cells are right."""


def row(arm):
    config = arm.logs[0].manifest.config
    first, submitted = arm.verdicts(1), arm.verdicts()
    last = {case: arm.grades[case][attempts[-1].number].passed for case, attempts in arm.attempts.items()}
    gain = difference(arm.by_cluster(first), arm.by_cluster(submitted))
    pairs, drift = paired(first, submitted), paired(first, last)
    right = [(attempt, grade) for attempt, grade in arm.graded if grade.passed]
    wrong = [(attempt, grade) for attempt, grade in arm.graded if not grade.passed]
    unpassed = [case for case, attempts in arm.attempts.items() if not any(a.evaluation.passed for a in attempts)]
    return {
        "partial": config["model"]["partial"],
        "wrong_tests": config["evaluator"]["wrong_tests"],
        "weak_tests": config["evaluator"]["weak_tests"],
        "feedback_source": arm.feedback_source,
        "seeds": " ".join(map(str, arm.seeds)),
        "tasks_x_seeds": pairs.n,
        "first": sum(first.values()),
        "submitted": sum(submitted.values()),
        "last": sum(last.values()),
        "submitted_minus_first": round(gain.value, 4),
        "low": round(gain.low, 4),
        "high": round(gain.high, 4),
        "won": pairs.repaired,
        "lost": pairs.damaged,
        "last_minus_first": round(drift.difference, 4),
        "right_programs": len(right),
        "right_that_fail": sum(not attempt.evaluation.passed for attempt, _ in right),
        "right_reward": round(float(np.mean([attempt.evaluation.reward for attempt, _ in right])), 4),
        "wrong_programs": len(wrong),
        "wrong_that_pass": sum(attempt.evaluation.passed for attempt, _ in wrong),
        "wrong_reward": round(float(np.mean([attempt.evaluation.reward for attempt, _ in wrong])), 4),
        "nothing_passed": len(unpassed),
        "nothing_passed_submitted_right": sum(submitted[case] for case in unpassed),
        "calls": sum(usage.calls for attempts in arm.attempts.values() for a in attempts for usage in a.usage.values()),
    }


def figure(rows):
    """The submitted program against the first one, by share of wrong tests, one line per share of weak tests."""
    drawing = Figure(figsize=(7.6, 4.4))
    axes = drawing.subplots()
    cells = [row for row in rows if row["partial"] == PARTIAL]
    for place, weak in enumerate(sorted({row["weak_tests"] for row in cells})):
        line = [row for row in cells if row["weak_tests"] == weak]
        x = [100 * row["wrong_tests"] + 1.2 * (place - 1) for row in line]
        y = [100 * row["submitted_minus_first"] for row in line]
        ends = [
            [100 * (r["submitted_minus_first"] - r["low"]) for r in line],
            [100 * (r["high"] - r["submitted_minus_first"]) for r in line],
        ]
        label = f"{100 * weak:.0f} % of the tests weak"
        axes.errorbar(x, y, ends, marker="o", color=COLOURS[place], linewidth=1.4, capsize=3, label=label)
    axes.axhline(0, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(xlabel="tests that are wrong, %", ylabel="correct submissions less first attempts, points")
    axes.legend(frameon=False, fontsize=9)
    frame(axes, "both")
    cell = rows[0]
    caption(
        axes,
        f"n = {cell['tasks_x_seeds']} cases a point (100 tasks of basics x seeds {cell['seeds']}), "
        f"{cell['feedback_source']} tests,\neach wrong or weak "
        "with its own probability; a simulated student, 4 attempts.\n"
        "95 % intervals of the paired difference over tasks, not corrected for the number of cells.",
    )
    return drawing


def main(out, root):
    runs = [path.parent for path in sorted(Path(root).glob("*/manifest.json"))]
    noisy = [run for run in runs if RunFolder.existing(run).manifest.config["arm"] == "noise"]
    rows = sorted((row(arm) for arm in arms(noisy, KEYS)), key=lambda row: tuple(row.values())[:3])
    with (Path(out) / "table.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    figure(rows).savefig(Path(out) / "figure.svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
