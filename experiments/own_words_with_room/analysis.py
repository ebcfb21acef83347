"""Table, figure and README of this experiment, from `cases.csv.gz` and the calibration alone; `--check` compares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from experiments._tools import studies
from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import main, percent, points, share
from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.comparison.lines import Difference, compared
from reflexion_lab.analysis.metrics import timeouts
from reflexion_lab.analysis.stats.intervals import TOLERANCE, Estimate, Rate
from reflexion_lab.analysis.stats.permutation import holm
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics

CHECKS, OWN, FILLER, RETRY = "feedback_only", "reflexion", "length_matched", "retry"
EARLIER = "reflexion_against_retry"
CALIBRATION = ("calibration", "smollm2.json")
CALIBRATED = 2
"""Attempts of a calibration."""
RETRIES, COMPLETE = "retries.csv", "complete.csv.gz"
"""`COMPLETE`: the same runs from their recorded calls, without the time limit that ended some loops early."""
SIGNIFICANT = 0.05 + TOLERANCE


class Prediction(NamedTuple):
    """A figure of the calibration, that of the study cut at as many attempts, and their difference."""

    name: str
    predicted: str
    observed: str
    difference: str


def paired(arm: Arm, baseline: Arm, attempts: int | None = None, **fields: Any) -> Difference:
    """Difference of the submissions after that many attempts, with a p without correction."""
    return compared(arm.verdicts(attempts), baseline.verdicts(attempts), clusters=baseline.clusters, **fields)


def verdict(own: Difference, filler: Difference, content: Difference) -> str:
    """The answer in words, written before any result was read.

    `own`, `filler`: against failing checks alone. `content`: own words against filler, which is tested only after a
    loss of own words was detected, so that both registered hypotheses together stay at 5 %.
    """
    if not own.is_loss:
        if own.detected:
            return "own words solve more tasks than failing checks alone"
        if own.room is not None and own.margin is not None and own.room <= own.margin:
            return "too little room to tell"
        return "own words lose less than 5 points, if any" if own.is_equivalent else "undecided whether own words lose"
    return f"own words solve fewer tasks than failing checks alone{beside_filler(filler, content)}"


def beside_filler(filler: Difference, content: Difference) -> str:
    """Whether a loss of own words goes with their length or their content."""
    if content.p_tasks < SIGNIFICANT and content.high < 0:
        too = ", which loses, too" if filler.is_loss else ""
        return f", and fewer than filler of their length{too}: it is not their length alone"
    if content.p_tasks < SIGNIFICANT and content.low > 0:
        return ", filler of their length fewer still"
    if filler.is_loss and content.is_equivalent:
        return ", as many as filler of their length to within 5 points: no sign that their content matters"
    return "; whether by their length or their content is undecided"


def hypotheses(own: Difference, content: Difference) -> tuple[str, str]:
    """What came of each registered hypothesis; the second is tested only after the first was detected."""
    first = "detected" if own.is_loss else "not detected"
    second = "detected" if own.is_loss and content.p_tasks < SIGNIFICANT else "not detected"
    return first, second if own.is_loss else "uncorrected, so exploratory"


def tokens(arm: Arm, attempts: int) -> float:
    """Mean tokens of a case until attempt `attempts` is judged: the reflection after it is left out."""
    spent = [
        usage.tokens
        for own in arm.attempts.values()
        for attempt in own[:attempts]
        for role, usage in attempt.usage.items()
        if role == "actor" or attempt.number < attempts
    ]
    return sum(spent) / len(arm.attempts)


def predictions(folder: Path, arms: Mapping[str, Arm]) -> Iterator[Prediction]:
    """The figures of `calibrate` that this study also measures; intervals of differences add both variances."""
    figures = json.loads(folder.parent.joinpath(*CALIBRATION).read_text())["figures"]
    checks, own = arms[CHECKS], arms[OWN]
    first = checks.share(checks.verdicts(1))
    room = compared(checks.verdicts(CALIBRATED), checks.verdicts(1), clusters=checks.clusters)
    words = paired(own, checks, CALIBRATED)
    observed = {
        "first attempt": (Estimate.of(first.share, first.low, first.high), share(first)),
        "room (most harm)": (Estimate.of(room.value, room.low, room.high), points(room)),
        "own words - checks": (Estimate.of(words.value, words.low, words.high), points(words)),
    }
    for name, (here, text) in observed.items():
        planned = figures[name]["value"]
        value = here.value - planned.get("share", planned.get("value"))
        half = hypot((here.high - here.low) / 2, (planned["high"] - planned["low"]) / 2)
        difference = points(Estimate.of(value, value - half, value + half))
        yield Prediction(name, figures[name]["text"].replace("-", "−"), text, difference)
    planned = figures["own words - checks"]["value"]
    differing = Rate.of(words.won + words.lost, words.n)
    before = Rate.of(planned["won"] + planned["lost"], planned["n"])
    predicted, here_too = (f"{share(rate)}, {rate.k} of {rate.n}" for rate in (before, differing))
    yield Prediction("discordance", predicted, here_too, "")
    spent = f"failing checks {tokens(checks, CALIBRATED):.0f}; own words {tokens(own, CALIBRATED):.0f}"
    yield Prediction("tokens a task", figures["tokens a task"]["text"], spent, "")


class Retried(NamedTuple):
    """What the retries of an arm are: shares over clusters of tasks."""

    second: Rate
    """Attempts 2 that pass; every arm makes them after the same first attempts."""
    third: Rate
    repeats: Rate
    """Retries with the program of the attempt before."""
    empty: Rate
    prompt_tokens: float
    """Of a retry, mean."""
    timeouts: int
    """Attempts with a check that timed out."""


def retried(arm: Arm, repeats: Mapping[tuple[str, int, str, int], bool]) -> Retried:
    def passing(number: int) -> Rate:
        return arm.share({case: own[number].passed for case, own in arm.grades.items() if number in own})

    retries = [(case, attempt) for case, own in arm.attempts.items() for attempt in own[1:]]
    same = [repeats[arm.label, case.seed, case.task_id, attempt.number] for case, attempt in retries]
    return Retried(
        passing(2),
        passing(3),
        Rate.over(same),
        Rate.over(not attempt.trajectory.solution.strip() for _, attempt in retries),
        fmean(attempt.usage["actor"].prompt_tokens for _, attempt in retries),
        sum(timeouts(*pair) for pair in arm.graded),
    )


def repeated(folder: Path) -> dict[tuple[str, int, str, int], bool]:
    rows = read_rows(folder / RETRIES)
    return {(row["arm"], int(row["seed"]), row["task"], int(row["attempt"])): row["repeats"] == "1" for row in rows}


def firsts(arms: Mapping[str, Arm]) -> int:
    """Cases whose first attempt has another hidden verdict in some arm than in the baseline."""
    verdicts = [arm.verdicts(1) for arm in arms.values()]
    return sum(len({own[case] for own in verdicts}) > 1 for case in verdicts[0])


def broken(arm: Arm) -> int:
    """Cases with a right program that was retried, since its visible tests failed."""
    return sum(grades[number].passed for grades in arm.grades.values() for number, _ in pairwise(sorted(grades)))


def parts(folder: Path, own: Arm, checks: Arm) -> dict[str, Difference]:
    """Own words less checks by seed, and on the templates of the earlier study and the others: exploratory."""
    earlier = {arm.clusters.get(task, task) for arm in studies.read(folder.parent / EARLIER).arms for task in arm.tasks}

    def over(cases: set[Case]) -> Difference:
        sides = [{case: passed for case, passed in arm.verdicts().items() if case in cases} for arm in (own, checks)]
        return compared(sides[0], sides[1], clusters=checks.clusters)

    every = set(checks.verdicts())
    old = {case for case in every if checks.clusters.get(case.task_id, case.task_id) in earlier}
    by_seed = {f"seed {seed}": over({case for case in every if case.seed == seed}) for seed in checks.seeds}
    return {**by_seed, "templates of the earlier study": over(old), "the other templates": over(every - old)}


def sentence(task: Task) -> str:
    """What the docstring says before its examples."""
    return " ".join(task.prompt.split('"""')[1].partition(">>>")[0].split())


def unchanged(seeds: Sequence[int]) -> list[int]:
    """By template, the number of `seeds` at which its sentence is that of seed 0."""
    first, *others = ({task.task_id: sentence(task) for task in basics(n=138, seed=seed)} for seed in (0, *seeds))
    return [sum(own[name] == text for own in others) for name, text in first.items()]


def contents(study: studies.Study) -> Difference:
    """Own words less filler of the same length, at the registered margin."""
    arms = {arm.label: arm for arm in study.arms}
    return paired(arms[OWN], arms[FILLER], margin=study.registration.equivalence_margin)


def completed(folder: Path, study: studies.Study) -> tuple[dict[str, int], dict[str, Difference]]:
    """Loops by arm that have more attempts without the time limit, and the differences of these runs: exploratory."""
    arms = {arm.label: arm for arm in load_cases(folder / COMPLETE)}
    longer = {
        arm.label: sum(len(own) < len(arms[arm.label].attempts[case]) for case, own in arm.attempts.items())
        for arm in study.arms
    }
    pairs = {"own words": (OWN, CHECKS), "filler": (FILLER, CHECKS), "plain retry": (RETRY, CHECKS)}
    pairs["own words against filler"] = (OWN, FILLER)
    return longer, {name: paired(arms[arm], arms[baseline]) for name, (arm, baseline) in pairs.items()}


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    arms = {arm.label: arm for arm in study.arms}
    equal = {arm: study.row(arm).differences["equal_attempts"] for arm in (OWN, FILLER, RETRY)}
    priced = {arm: study.row(arm).differences["equal_tokens"] for arm in equal}
    content, checks = contents(study), arms[CHECKS]
    room = compared(checks.verdicts(), checks.verdicts(1), clusters=checks.clusters)
    family = [difference.p_tasks for difference in (*equal.values(), *priced.values())]
    both = dict(zip((*equal, *(f"{arm}_tokens" for arm in priced)), holm(family), strict=True))
    earlier = studies.read(folder.parent / EARLIER)
    compared_before = compare(earlier.arms, CHECKS)
    repeats = repeated(folder)
    cut, complete = completed(folder, study)
    values = {
        "cut": cut,
        "complete": complete,
        "equal_tokens": priced,
        "equal": equal,
        "priced": {arm: priced[arm].verdict_beside(equal[arm]).replace("-", "−") for arm in equal},
        "content": content,
        "verdict": verdict(equal[OWN], equal[FILLER], content),
        "hypotheses": hypotheses(equal[OWN], content),
        "added": room.value,
        "room": room,
        "both": both,
        "beside_retry": next(row.differences for row in compare(study.arms, RETRY).rows if row.arm == OWN),
        "firsts": firsts(arms),
        "broken": sum(map(broken, study.arms)),
        "before": next(row.differences for row in compared_before.rows if row.arm == OWN)["equal_attempts"],
        "parts": parts(folder, arms[OWN], arms[CHECKS]),
        "predictions": list(predictions(folder, arms)),
        "retried": {label: retried(arm, repeats) for label, arm in arms.items()},
        "at_two": paired(arms[OWN], arms[CHECKS], CALIBRATED),
        "sources": arms[OWN].reflections,
        "plan": study.registration,
        "unchanged": unchanged(study.registration.seeds),
        "executed": json.loads((folder / "executions.json").read_text()),
    }
    return studies.page(folder, study, **values)


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    content = contents(study)
    own, filler, retry = (study.row(arm).differences["equal_attempts"] for arm in (OWN, FILLER, RETRY))
    priced = study.row(OWN).differences["equal_tokens"]
    claims = {
        difference: f"{points(difference)} ({studies.claim(difference)})" for difference in (priced, filler, retry)
    }
    text = (
        f"{verdict(own, filler, content)}, of {percent(own.room or 0)} that they could lose: {points(own)} points "
        f"({studies.claim(own)}; {own.won} won, {own.lost} lost), at equal tokens {claims[priced]}; filler of their "
        f"length {claims[filler]}, plain retry {claims[retry]}; own words against filler {points(content)}, "
        f"p {content.p_tasks:.2g} (uncorrected, exploratory)"
    )
    return Row(text, f"{own.n} in {own.clusters} templates")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
