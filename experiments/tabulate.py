"""Pool run folders by arm into `table.csv` and `figure.svg`: pass@1 with intervals, and paired differences.

    python experiments/tabulate.py OUT_FOLDER BASELINE_ARM RUN...

Runs of one arm differ in seed. Tasks are paired across arms by seed and task id; a task that one arm lacks is an error.
"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec.structs import replace

from reflexion_lab.analysis.estimators import curve, paired, tokens, verdicts_at
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.reports.convergence import Curve, convergence
from reflexion_lab.run_folder import RunFolder
from reflexion_lab.statistics.intervals import Rate

MOST_CURVES = 5
"""More arms than that are shown as differences: their curves would hide each other."""


class Arm:
    """All runs of one arm as one: attempts and grades under keys that carry the seed."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.logs: list[Log] = []

    @property
    def attempts(self):
        return {
            f"{log.manifest.seed}:{key}": [replace(attempt, task_id=f"{log.manifest.seed}:{key}") for attempt in made]
            for log in self.logs
            for key, made in log.attempts.items()
        }

    @property
    def grades(self):
        return {(f"{log.manifest.seed}:{key}", n): grade for log in self.logs for (key, n), grade in log.grades.items()}

    @property
    def verdicts(self):
        return verdicts_at(self.attempts, self.grades, None)

    @property
    def suite_tokens(self):
        """What writing tests took before the loops, where these tests were the feedback."""
        return sum(written.usage.tokens for log in self.logs for written in log.written.values())

    @property
    def curve(self):
        longest = max(len(made) for made in self.attempts.values())
        points = tuple(curve(self.attempts, self.grades, longest, self.suite_tokens))
        seeds = tuple(sorted(log.manifest.seed for log in self.logs))
        return Curve(
            label=self.label, feedback_source=self.logs[0].manifest.feedback_source, seeds=seeds, points=points
        )


def row(arm: Arm, baseline: Arm) -> dict[str, object]:
    """One line of the table."""
    final = Rate.of(sum(arm.verdicts.values()), len(arm.verdicts))
    gain = paired(baseline.verdicts, arm.verdicts)
    reflections = [a.reflection for made in arm.attempts.values() for a in made if a.reflection]
    return {
        "arm": arm.label,
        "feedback_source": arm.curve.feedback_source,
        "seeds": " ".join(map(str, arm.curve.seeds)),
        "tasks_x_seeds": final.n,
        "pass_at_1_first": round(arm.curve.points[0].pass_at_1, 4),
        "pass_at_1": round(final.share, 4),
        "low": round(final.low, 4),
        "high": round(final.high, 4),
        f"minus_{baseline.label}": round(gain.difference, 4),
        "difference_low": round(gain.low, 4),
        "difference_high": round(gain.high, 4),
        "repaired": gain.repaired,
        "damaged": gain.damaged,
        "p_mcnemar": round(gain.p, 4),
        "tokens": arm.suite_tokens + sum(tokens(attempt) for made in arm.attempts.values() for attempt in made),
        "reflections_by_model": sum(reflection.source == "llm" for reflection in reflections),
        "reflections": len(reflections),
    }


def differences(rows: Sequence[dict[str, Any]], baseline: str, ax: Axes) -> Axes:
    """A forest plot: pass@1 minus the baseline's, paired by task and seed, in points; best arm on top."""
    rows = sorted((row for row in rows if row["arm"] != baseline), key=lambda row: row[f"minus_{baseline}"])
    for place, row in enumerate(rows):
        low, middle, high = (100 * row[key] for key in ("difference_low", f"minus_{baseline}", "difference_high"))
        ax.plot([low, high], [place, place], color="#0072B2", alpha=0.45, linewidth=2)
        ax.plot([middle], [place], "o", color="#0072B2")
        ax.annotate(f"{row['repaired']} : {row['damaged']}", (high, place), (6, -3), textcoords="offset points", size=8)
    ax.axvline(0, color="#555555", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(rows)), [f"{row['arm']}, {100 * row['pass_at_1']:.1f} %" for row in rows])
    ax.set_xlabel(f"pass@1 minus {baseline}, points")
    ax.spines[["top", "right"]].set_visible(False)
    first = rows[0]
    caption = (
        f"n = {first['tasks_x_seeds']} tasks x seeds ({first['seeds']}), {first['feedback_source']} feedback. "
        "Paired by task and seed,\n95 % by Newcombe's method 10; right of each: tasks won : lost."
    )
    ax.annotate(caption, (0, 0), (0, -48), xycoords="axes fraction", textcoords="offset points", size=8, va="top")
    return ax


def main(out: str, baseline: str, *runs: str) -> None:
    arms: dict[str, Arm] = {}
    for run in runs:
        log = Log.read(RunFolder.existing(run))
        if errors := summary(log).harness_errors:
            print(f"{run}: HARNESS ERRORS: {errors} verdicts say nothing about a program", file=sys.stderr)
        label = str(log.manifest.config["arm"])
        arms.setdefault(label, Arm(label)).logs.append(log)
    if baseline not in arms:
        sys.exit(
            f"baseline {baseline!r} found; expected one of the runs' arms: {', '.join(arms) or 'no run was given'}"
        )
    rows = [row(arm, arms[baseline]) for arm in arms.values()]
    with (Path(out) / "table.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    figure = Figure(figsize=(7.2, 4.6))
    ax = figure.add_subplot()
    curves = [arm.curve for arm in arms.values() if len(arm.curve.points) > 1]
    if len(curves) > MOST_CURVES:
        differences(rows, baseline, ax)
    else:
        for one in curves:
            convergence(one, ax)
    figure.savefig(Path(out) / "figure.svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
