"""What was submitted against the first attempt, by the errors put into the feedback: `table.csv` and `figure.svg`.

python experiments/noise_of_feedback/tabulate.py OUT_FOLDER RUN_ROOT
"""

import csv
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from reflexion_lab.analysis.arms import arms
from reflexion_lab.analysis.estimators import paired
from reflexion_lab.analysis.figures.style import INK, caption
from reflexion_lab.analysis.learning.transitions import transitions
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.runner.folder.folder import RunFolder

KEYS = "evaluator.false_negative", "evaluator.false_positive"


def row(arm):
    config = arm.logs[0].manifest.config["evaluator"]
    first, final = arm.verdicts(1), arm.verdicts()
    last = {case: arm.grades[case][history[-1].number].passed for case, history in arm.attempts.items()}
    gain = difference(arm.by_cluster(first), arm.by_cluster(final))
    against, drift = paired(first, final), paired(first, last)
    moves = transitions(arm).programs_pooled
    return {
        "false_negative": config["false_negative"],
        "false_positive": config["false_positive"],
        "feedback_source": arm.feedback_source,
        "seeds": " ".join(map(str, arm.seeds)),
        "tasks_x_seeds": against.n,
        "first": round(sum(first.values()) / len(first), 4),
        "submitted": round(sum(final.values()) / len(final), 4),
        "last": round(sum(last.values()) / len(last), 4),
        "submitted_minus_first": round(gain.value, 4),
        "low": round(gain.low, 4),
        "high": round(gain.high, 4),
        "won": against.repaired,
        "lost": against.damaged,
        "p_mcnemar": round(against.p, 4),
        "last_minus_first": round(drift.difference, 4),
        "damage_rate": round(moves.damage.value, 4) if moves and moves.damage else "",
        "repair_rate": round(moves.repair.value, 4) if moves and moves.repair else "",
        "calls": sum(usage.calls for attempt in arm.attempts.values() for a in attempt for usage in a.usage.values()),
    }


def figure(rows):
    """Two maps, of what was submitted and of the last program, against the first attempt; bold: 95 % leave out 0."""
    drawing = Figure(figsize=(9.6, 4.2))
    negative, positive = (sorted({row[key] for row in rows}) for key in ("false_negative", "false_positive"))
    titles = {
        "submitted_minus_first": "the submitted program",
        "last_minus_first": "the last program",
    }
    axes = drawing.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.07})
    for ax, (field, title) in zip(axes, titles.items(), strict=True):
        cells = {(row["false_positive"], row["false_negative"]): row for row in rows}
        shares = np.array([[100 * cells[p, n][field] for n in negative] for p in positive])
        ax.imshow(shares, cmap="RdBu", vmin=-25, vmax=25, origin="lower", aspect="auto")
        for y, p in enumerate(positive):
            for x, n in enumerate(negative):
                cell, value = cells[p, n], shares[y, x]
                detected = field == "submitted_minus_first" and (cell["low"] > 0 or cell["high"] < 0)
                ink = "white" if abs(value) > 15 else INK
                ax.text(x, y, f"{value:+.1f}", ha="center", va="center", size=9, color=ink,
                        weight="bold" if detected else "normal")  # fmt: skip
        ax.set_xticks(range(len(negative)), [f"{100 * n:.0f} %" for n in negative])
        ax.set_yticks(range(len(positive)), [f"{100 * p:.0f} %" for p in positive])
        ax.set_xlabel("right programs that are said to fail", color=INK)
        ax.set_title(f"{title}, minus the first one, points", size=10, color=INK, loc="left")
        ax.tick_params(length=0, colors=INK)
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("wrong programs that are said to pass", color=INK)
    head = rows[0]
    caption(
        axes[0],
        f"n = {head['tasks_x_seeds']} tasks x seeds ({head['seeds']}) a cell, {head['feedback_source']} feedback with "
        "errors put in, a simulated student, 4 attempts.\nPaired by task and seed; bold: the 95 % interval (bootstrap, "
        "tasks as clusters) leaves out 0; nothing corrected for 25 cells.",
    )
    return drawing


def main(out, root):
    runs = [path.parent for path in sorted(Path(root).glob("*/manifest.json"))]
    noisy = [run for run in runs if RunFolder.existing(run).manifest.config["arm"] == "noise"]
    rows = sorted((row(arm) for arm in arms(noisy, KEYS)), key=lambda values: tuple(values.values())[:2])
    with (Path(out) / "table.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    figure(rows).savefig(Path(out) / "figure.svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
