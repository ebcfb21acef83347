"""Table, figure and README, from `cases.csv.gz` and `pilot.csv` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from experiments._tools.evidence import CASES, Row, read_rows
from experiments._tools.output import plain_axes, save
from experiments._tools.recompute import README, TABLE, csv_text, main, points, readme
from experiments.dead_units.student import chance_of_draw
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.report.cells import p_value
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.analysis.stats.permutation import holm
from reflexion_lab.runner.folder.registration import FILE, read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLIND = "blind"
ROLES = ("user", "assistant")
SHAPES = ("bare", "facts", "placebo", "words")
CONTRASTS = (("bare", BLIND), ("facts", "bare"), ("facts", BLIND), ("placebo", "bare"), ("words", "facts"))
"""Arm and baseline within a role; these of both roles are one family for Holm's correction."""
NAMES = {
    "bare": "bare program",
    "facts": "failing checks",
    "placebo": "filler",
    "words": "own words",
    BLIND: "blind draw",
}
RETRY = 2
"""The attempt of a retry; attempt 1 is the failed program."""
PILOT = "pilot.csv"
STUDENT = Path("conf", "model", "dead_units_student.yaml")


@cache
def arms_of(folder: Path) -> Mapping[str, Arm]:
    return {arm.label: arm for arm in load_cases(folder / CASES)}


@cache
def student(folder: Path) -> Mapping[str, Any]:
    config: dict[str, Any] = msgspec.yaml.decode((folder / STUDENT).read_bytes())
    return config


def planted(folder: Path, arm: str) -> float:
    """The chance of a retry, mean over the tasks, by the student's config."""
    config, tasks = student(folder), arms_of(folder)[BLIND].tasks
    shape, _, role = arm.partition("_")
    factor = config["factors"][role][shape] if role else 1.0
    return fmean(min(1.0, factor * chance_of_draw(task, config["mean"], config["spread"])) for task in tasks)


def rates(folder: Path) -> list[dict[str, Any]]:
    """A row per arm: cases whose submission after one retry passes the hidden tests."""
    rows = []
    for name, arm in arms_of(folder).items():
        rate = arm.share(arm.verdicts(RETRY))
        tokens = fmean(sum(tokens_of(each) for each in own[:RETRY]) for own in arm.judged.values())
        numbers = {"value": rate.share, "low": rate.low, "high": rate.high, "planted": planted(folder, name)}
        rows.append({"arm": name, "n": rate.n, **rounded(numbers), "completion_tokens": round(tokens, 1)})
    return rows


def tokens_of(attempt: Any) -> int:
    """Completion tokens of an attempt and of the reflection on it."""
    return sum(usage.completion_tokens for usage in attempt.usage.values())


def contrasts(folder: Path) -> list[dict[str, Any]]:
    """A row per contrast and role, then one per shape for the role of the program, at one retry each."""
    pairs = [(f"{arm}_{role}", of(base, role), role) for role in ROLES for arm, base in CONTRASTS]
    by_role = [(f"{shape}_assistant", f"{shape}_user", "assistant − user") for shape in SHAPES]
    return [*_family(folder, pairs), *_family(folder, by_role)]


def of(shape: str, role: str) -> str:
    return shape if shape == BLIND else f"{shape}_{role}"


def _family(folder: Path, pairs: Sequence[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    arms = arms_of(folder)
    rows = [compare([arms[base], arms[arm]], base).rows[1].differences for arm, base, _ in pairs]
    corrected = holm([differences["equal_attempts"].p_tasks for differences in rows])
    for (arm, base, role), differences, p in zip(pairs, rows, corrected, strict=True):
        one, equal = differences["equal_attempts"], differences["equal_completion_tokens"]
        truth = planted(folder, arm) - planted(folder, base)
        numbers = {"value": one.value, "low": one.low, "high": one.high, "planted": truth}
        tokens = {"tokens_value": equal.value, "tokens_low": equal.low, "tokens_high": equal.high}
        yield {
            "role": role, "arm": arm.partition("_")[0], "baseline": base.partition("_")[0], "n": one.n,
            "tasks": one.tasks, "clusters": one.clusters, **rounded(numbers), "won": one.won, "lost": one.lost,
            "p": float(f"{one.p_tasks:.3g}"), "p_holm": float(f"{p:.3g}"), **rounded(tokens),
        }  # fmt: skip


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


def holds(row: Mapping[str, Any]) -> bool:
    """Whether the interval holds what was planted."""
    return bool(row["low"] - 5e-5 <= row["planted"] <= row["high"] + 5e-5)


def detected(row: Mapping[str, Any]) -> bool:
    return bool(row["p_holm"] < 0.05 and not row["low"] <= 0 <= row["high"])


def at(rows: Sequence[Mapping[str, Any]], role: str, arm: str, baseline: str) -> Mapping[str, Any]:
    return next(row for row in rows if (row["role"], row["arm"], row["baseline"]) == (role, arm, baseline))


def reading(rows: Sequence[Mapping[str, Any]], role: str) -> str:
    """What the contrasts of a role say about the claim that failing checks only repay the harm of the program."""
    harm, repaid, more = (at(rows, role, *pair) for pair in CONTRASTS[:3])
    if not (detected(harm) and harm["value"] < 0):
        return "no harm of the program detected: nothing to repay"
    if not (detected(repaid) and repaid["value"] > 0):
        return "no repair of that harm detected"
    if not detected(more):
        return "failing checks repay the harm, and no gain over the draw is detected"
    return (
        "failing checks do more than repay the harm" if more["value"] > 0 else "failing checks repay a part of the harm"
    )


def cell(row: Mapping[str, Any], prefix: str = "") -> str:
    return points(Estimate.of(row[f"{prefix}value"], row[f"{prefix}low"], row[f"{prefix}high"]))


def signed(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def pilot(folder: Path) -> dict[str, Any]:
    """What replies of the pilot took, and what the study would, at the numbers of study.yaml."""
    study = read(folder / FILE)
    rows: list[dict[str, Any]] = [
        {name: int(text) if text.isdecimal() else text for name, text in row.items()}
        for row in read_rows(folder / PILOT)
    ]
    draws, retries = ([row for row in rows if (row["arm"] == "retry") == is_first] for is_first in (True, False))
    replies = [row for row in retries if not row["given"]]
    words = [row for row in retries if row["reflection_completion_tokens"]]
    tokens = {
        "a draw": [row["prompt_tokens"] + row["completion_tokens"] for row in draws],
        "a retry": [row["prompt_tokens"] + row["completion_tokens"] for row in replies],
        "a reflection": [row["reflection_prompt_tokens"] + row["reflection_completion_tokens"] for row in words],
    }
    cases, shown = study.n_tasks * len(study.seeds), len(study.arms) - 1
    means = {name: fmean(each) for name, each in tokens.items()}
    shown_by = {arm: fmean(row["prompt_tokens"] for row in replies if row["arm"] == f"{arm}_user") for arm in SHAPES}
    total = cases * (3 * means["a draw"] + shown * means["a retry"] + means["a reflection"])
    return {
        "tokens": [{"of": name, "n": len(tokens[name]), "mean": mean} for name, mean in means.items()],
        "tasks": len({row["task"] for row in draws}), "solved": sum(row["passed"] for row in draws),
        "draws": len(draws), "dead": len({row["task"] for row in retries}), "retries": len(replies),
        "repaired": sum(row["passed"] for row in replies), "cut": sum(row["cut"] for row in rows),
        "total": total / 1e6, "n_tasks": study.n_tasks, "seeds": len(study.seeds),
        "facts": shown_by["facts"] - shown_by["bare"], "filler": shown_by["placebo"] - shown_by["bare"],
    }  # fmt: skip


def compute(folder: Path) -> Mapping[str, str]:
    shares, rows = rates(folder), contrasts(folder)
    values = {
        "rates": shares, "rows": rows, "NAMES": NAMES, "cell": cell, "signed": signed, "p_value": p_value, "at": at,
        "held_rates": sum(map(holds, shares)), "held": sum(map(holds, rows)), "detected": detected,
        "readings": {role: reading(rows, role) for role in ROLES}, "student": student(folder),
        "pilot": pilot(folder),
    }  # fmt: skip
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = contrasts(folder)
    harm, repaid, more = (cell(at(rows, "user", *pair)) for pair in CONTRASTS[:3])
    text = (
        f"ready, not registered. For a simulated student: bare program {harm} points against a blind draw, failing "
        f"checks {repaid} against the bare program and {more} against the draw; {sum(map(holds, rows))} of {len(rows)} "
        "intervals hold what was planted"
    )
    return Row(text, f"{rows[0]['tasks']} dead tasks × {rows[0]['n'] // rows[0]['tasks']} seeds, 9 arms")


def draw(folder: Path) -> Sequence[Path]:
    rows = contrasts(folder)
    return save(rows, partial(_draw, rows), folder, salt="dead_units", line_end="\n")


def _draw(rows: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK

    figure.set_size_inches(8.2, 3.4)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, role, colour in zip(panels, ROLES, COLOURS, strict=False):
        own = [at(rows, role, *pair) for pair in CONTRASTS]
        ax.axvline(0, color=FAINT, linewidth=1)
        for place, row in enumerate(own):
            ax.plot([100 * row["low"], 100 * row["high"]], [place] * 2, color=colour, linewidth=2.4, alpha=0.45)
        ax.plot([100 * row["value"] for row in own], range(len(own)), "o", color=colour, label="estimate, 95 %")
        ax.plot([100 * row["planted"] for row in own], range(len(own)), "|", color=INK, markersize=13, label="planted")
        ax.set_title(f"program in a message of the {role}", fontsize=9, color=INK, loc="left")
        ax.set_yticks(range(len(own)), [f"{NAMES[row['arm']]} − {NAMES[row['baseline']]}" for row in own])
        ax.set_ylim(len(own) - 0.5, -0.5)
        ax.set_xlabel("percentage points, one retry each", color=INK)
        plain_axes(ax, grid="x")
    panels[1].legend(frameon=False, fontsize=8, loc="lower right", labelcolor=INK)
    figure.tight_layout()


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
