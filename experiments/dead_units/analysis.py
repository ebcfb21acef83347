"""Table, figure and README, from `cases.csv.gz` and `pilot.csv` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from experiments._tools.evidence import CASES, Row, read_rows
from experiments._tools.output import plain_axes, save
from experiments._tools.recompute import README, TABLE, csv_text, main, points, readme, share
from experiments.dead_units.student import chance_of_draw
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.comparison.lines import Difference
from reflexion_lab.analysis.report.cells import p_value
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats import power as powers
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.stats.permutation import holm
from reflexion_lab.analysis.stats.power import Design
from reflexion_lab.runner.folder.registration import FILE, Registration, read

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
ASSUMED = 0.08
"""Share of cases that only one arm solves, for which the size in study.yaml was first chosen."""
WIDER = 0.1
"""A margin beside that of study.yaml."""
RETRY = 2
"""The attempt of a retry; attempt 1 is the failed program."""
PILOT, FIRST_STAGE = "pilot.csv", "first_stage.csv"
DRAWS = 8
STUDENT = Path("conf", "model", "dead_units_student.yaml")


@cache
def arms_of(folder: Path) -> Mapping[str, Arm]:
    arms = {arm.label: arm for arm in load_cases(folder / CASES)}
    for arm in arms.values():
        for attempts in arm.attempts.values():  # a file of cases does not tell the given program from a lost reply
            given = replace(attempts[0].trajectory, strategy="given")
            attempts[0] = replace(attempts[0], trajectory=given)
    return arms


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
            "tasks": one.tasks, "clusters": one.clusters, **rounded(numbers), **rounded(of_size(one)),
            "won": one.won, "lost": one.lost,
            "p": float(f"{one.p_tasks:.3g}"), "p_holm": float(f"{p:.3g}"), **rounded(tokens),
        }  # fmt: skip


def of_size(difference: Difference) -> dict[str, float]:
    """The 90 % interval, and the least margin that would show equivalence."""
    return {"low_90": difference.low_90, "high_90": difference.high_90, "largest": difference.largest}


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


def holds(row: Mapping[str, Any]) -> bool:
    """Whether the interval holds what was planted."""
    return bool(row["low"] - 5e-5 <= row["planted"] <= row["high"] + 5e-5)


def detected(row: Mapping[str, Any]) -> bool:
    return bool(row["p_holm"] < 0.05 and not row["low"] <= 0 <= row["high"])


def is_within(row: Mapping[str, Any], margin: float) -> bool:
    """Whether the 90 % interval, and the lab's score limit, lie inside the margin."""
    return bool(row["largest"] < margin)


def at(rows: Sequence[Mapping[str, Any]], role: str, arm: str, baseline: str) -> Mapping[str, Any]:
    return next(row for row in rows if (row["role"], row["arm"], row["baseline"]) == (role, arm, baseline))


def reading(rows: Sequence[Mapping[str, Any]], role: str, margin: float) -> str:
    """What the contrasts of a role say about the claim that failing checks only repay the harm of the program."""
    harm, repaid, more = (at(rows, role, *pair) for pair in CONTRASTS[:3])
    if not (detected(harm) and harm["value"] < 0):
        return "undecided: no harm of the program is detected"
    if not (detected(repaid) and repaid["value"] > 0):
        return "undecided: harm is detected, and no repair of it"
    if detected(more):
        is_gain = more["value"] > 0
        return "failing checks do more than repay the harm" if is_gain else "failing checks repay a part of the harm"
    if is_within(more, margin):
        return f"failing checks repay the harm, to within ±{100 * margin:g} points of the draw"
    return "undecided: failing checks repay at least a part of the harm, and may do more than repay it"


def designs(folder: Path, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the size in study.yaml detects, and shows to be within the margin, by the discordance of each contrast."""
    study = read(folder / FILE)
    own = [at(rows, role, arm, base) for role in ROLES for arm, base in CONTRASTS if base == BLIND]
    cases = [("assumed at first", ASSUMED)]
    cases += [(f"{NAMES[row['arm']]} − {NAMES[BLIND]}, {row['role']}", share_discordant(row)) for row in own]
    return [{"of": name, "discordance": share, **_powers(study, share)} for name, share in cases]


def share_discordant(row: Mapping[str, Any]) -> float:
    return float(round((row["won"] + row["lost"]) / row["n"], 2))


def _powers(study: Registration, discordance: float) -> dict[str, float]:
    design = Design(
        tasks=study.n_tasks,
        seeds=len(study.seeds),
        discordance=discordance,
        agreement=study.agreement,
        clusters=study.clusters,
        cluster_agreement=study.cluster_agreement,
        comparisons=len(study.arms) - 1,
    )
    effect, margin = study.minimum_detectable_effect, study.equivalence_margin
    return {
        "detected": powers.detected(replace(design, difference=effect)).share,
        "within": powers.equivalent(design, margin).share,
        "doubled": powers.equivalent(replace(design, seeds=2 * design.seeds), margin).share,
        "wider": powers.equivalent(design, WIDER).share,
    }


def cell(row: Mapping[str, Any], prefix: str = "", suffix: str = "") -> str:
    return points(Estimate.of(row[f"{prefix}value"], row[f"{prefix}low{suffix}"], row[f"{prefix}high{suffix}"]))


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
    cases, retried = study.n_tasks * len(study.seeds), len(study.arms) - 1
    means = {name: fmean(each) for name, each in tokens.items()}
    shown_by = {
        shape: fmean(row["prompt_tokens"] for row in replies if row["arm"].partition("_")[0] == shape)
        for shape in SHAPES
    }
    total = cases * (3 * means["a draw"] + retried * means["a retry"] + means["a reflection"])
    return {
        "tokens": [{"of": name, "n": len(tokens[name]), "mean": mean} for name, mean in means.items()],
        "tasks": len({row["task"] for row in draws}), "solved": sum(row["passed"] for row in draws),
        "draws": len(draws), "dead": len({row["task"] for row in retries}), "retries": len(replies),
        "repaired": sum(row["passed"] for row in replies), "cut": sum(row["cut"] for row in rows),
        "total": total / 1e6, "n_tasks": study.n_tasks, "seeds": len(study.seeds),
        "facts": shown_by["facts"] - shown_by["bare"], "filler": shown_by["placebo"] - shown_by["bare"],
    }  # fmt: skip


class Hazard(NamedTuple):
    """The draws of a number, at the tasks that all earlier ones failed: those that pass their visible tests."""

    draw: int
    passed: Rate
    """Over templates."""
    left: int
    """Tasks without a pass yet."""


def first_stage(folder: Path) -> list[Hazard]:
    """By number of the draw, from the evidence that `pilot` wrote of the run with eight draws."""
    by_draw: dict[int, list[tuple[str, bool]]] = {}
    for row in read_rows(folder / FIRST_STAGE):
        by_draw.setdefault(int(row["attempt"]), []).append((row["task"].rpartition("/")[0], row["passed"] == "1"))
    rates_ = {number: bootstrap.rate(own) for number, own in sorted(by_draw.items())}
    return [Hazard(number, passed, passed.n - passed.k) for number, passed in rates_.items()]


def room(folder: Path) -> Rate:
    """Pass rate of the last three draws, at tasks that every earlier one failed: the most that a retry can lose."""
    rows = [row for row in read_rows(folder / FIRST_STAGE) if int(row["attempt"]) > DRAWS - 3]
    return bootstrap.rate((row["task"].rpartition("/")[0], row["passed"] == "1") for row in rows)


def compute(folder: Path) -> Mapping[str, str]:
    shares, rows, margin = rates(folder), contrasts(folder), read(folder / FILE).equivalence_margin
    values = {
        "rates": shares, "rows": rows, "NAMES": NAMES, "cell": cell, "signed": signed, "p_value": p_value, "at": at,
        "held_rates": sum(map(holds, shares)), "held": sum(map(holds, rows)), "detected": detected,
        "readings": {role: reading(rows, role, margin) for role in ROLES}, "student": student(folder),
        "pilot": pilot(folder), "margin": margin, "wider": WIDER, "study": read(folder / FILE),
        "stage": first_stage(folder), "room": room(folder),
        "designs": designs(folder, rows),
        "blind": next(row for row in shares if row["arm"] == BLIND),
    }  # fmt: skip
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = contrasts(folder)
    harm, repaid, more = (cell(at(rows, "user", *pair)) for pair in CONTRASTS[:3])
    text = (
        f"not with SmolLM2: where five draws failed, the next pass in {share(room(folder))}, so there is no room for "
        "a harm of 6 points; file and keys stand for another model. For a simulated student: bare "
        f"program {harm} points against a blind draw, failing checks {repaid} against the bare program and {more} "
        f"against the draw; {sum(map(holds, rows))} of {len(rows)} "
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
        ax.plot(
            [100 * row["value"] for row in own],
            range(len(own)),
            "o",
            color=colour,
            label="estimate, 95 % (dot and line)",
        )
        ax.plot([100 * row["planted"] for row in own], range(len(own)), "|", color=INK, markersize=13, label="planted")
        ax.set_title(f"program in a message of the {role}", fontsize=9, color=INK, loc="left")
        ax.set_yticks(range(len(own)), [f"{NAMES[row['arm']]} − {NAMES[row['baseline']]}" for row in own])
        ax.set_ylim(len(own) - 0.5, -0.5)
        ax.set_xlabel("percentage points, one retry each", color=INK)
        plain_axes(ax, grid="x")
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    handles, labels = panels[0].get_legend_handles_labels()
    look: dict[str, Any] = {"loc": "upper right", "ncols": 2, "frameon": False, "fontsize": 8, "labelcolor": INK}
    figure.legend(handles, labels, **look)


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
