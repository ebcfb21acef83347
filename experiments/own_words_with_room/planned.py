"""Table, figure and README of this experiment, from `cases.csv.gz` and the calibration alone; `--check` compares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from experiments._tools import studies
from experiments._tools.evidence import Row
from experiments._tools.recompute import main, percent, points, share
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.lines import Difference, compared
from reflexion_lab.analysis.metrics import timeouts

CHECKS, OWN, FILLER = "feedback_only", "reflexion", "length_matched"
CALIBRATION = ("calibration", "smollm2.json")
CALIBRATED = 2
"""Attempts of a calibration."""


class Prediction(NamedTuple):
    """A figure of the calibration beside that of the study, cut at as many attempts."""

    name: str
    predicted: str
    observed: str
    is_inside: bool | None
    """Whether the study's figure lies in the predicted 95 % interval; None without one."""


def paired(arm: Arm, baseline: Arm, attempts: int | None = None) -> Difference:
    """Difference of the submissions after that many attempts, with a p without correction: exploratory."""
    return compared(arm.verdicts(attempts), baseline.verdicts(attempts), clusters=baseline.clusters)


def cause(own: Difference, filler: Difference, content: Difference) -> str:
    """Whether own words harm, and what a harm goes with; written before any result was read.

    `own`, `filler`: against failing checks alone. `content`: own words against filler of the same length.
    """
    if own.high >= 0:
        return "words do more than checks alone" if own.low > 0 else "no harm detected"
    if content.high < 0:
        return "they harm, and more than filler of the same length does: their content does"
    if filler.high < 0:
        return "they harm, and so does filler of the same length; a difference of content is not detected"
    return "they harm, but length and content cannot be told apart"


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
    """The figures of `calibrate` that this study also measures."""
    figures = json.loads(folder.parent.joinpath(*CALIBRATION).read_text())["figures"]
    checks, own = arms[CHECKS], arms[OWN]
    first = checks.share(checks.verdicts(1))
    room = compared(checks.verdicts(CALIBRATED), checks.verdicts(1), clusters=checks.clusters)
    words = paired(own, checks, CALIBRATED)
    observed = {
        "first attempt": (first.share, share(first)),
        "room (most harm)": (room.value, points(room)),
        "own words - checks": (words.value, points(words)),
    }
    for name, (value, text) in observed.items():
        figure = figures[name]
        is_inside = figure["value"]["low"] <= value <= figure["value"]["high"]
        yield Prediction(name, figure["text"].replace("-", "−"), text, is_inside)
    differing = f"{words.won + words.lost} of {words.n} cases differ"
    planned = figures["own words - checks"]["value"]
    yield Prediction(
        "discordance", f"{planned['won'] + planned['lost']} of {planned['n']} cases differ", differing, None
    )
    spent = f"failing checks {tokens(checks, CALIBRATED):.0f}; own words {tokens(own, CALIBRATED):.0f}"
    yield Prediction("tokens a task", figures["tokens a task"]["text"], spent, None)


def contents(folder: Path) -> dict[str, Difference]:
    """Own words against filler of the same length by number of attempts: exploratory."""
    arms = {arm.label: arm for arm in studies.read(folder).arms}
    return {str(number): paired(arms[OWN], arms[FILLER], number) for number in (2, 3)}


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    arms = {arm.label: arm for arm in study.arms}
    rows = {arm: study.row(arm).differences["equal_attempts"] for arm in (OWN, FILLER)}
    content = contents(folder)
    values = {
        "content": content["3"],
        "content_at_two": content["2"],
        "cause": cause(rows[OWN], rows[FILLER], content["3"]),
        "predictions": list(predictions(folder, arms)),
        "executed": json.loads((folder / "executions.json").read_text()),
        "timeouts": sum(timeouts(*pair) for arm in study.arms for pair in arm.graded),
        "reflections": arms[OWN].reflections,
        "by_attempt": {arm.label: list(repaired(arm)) for arm in study.arms},
    }
    return studies.page(folder, study, **values)


def repaired(arm: Arm) -> Iterator[str]:
    """By attempt from the second, the share of cases still unsolved that it solves, over clusters of tasks."""
    for number in range(2, arm.max_attempts + 1):
        solved = {case: grades[number].passed for case, grades in arm.grades.items() if number in grades}
        rate = arm.share(solved)
        yield f"{share(rate)}, {rate.k} of {rate.n}"


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study, content = studies.read(folder), contents(folder)["3"]
    own, filler, retry = (study.row(arm).differences["equal_attempts"] for arm in (OWN, FILLER, "retry"))
    text = (
        f"{cause(own, filler, content)}: own words {points(own)} points against failing checks alone "
        f"({studies.claim(own)}; {own.won} won, {own.lost} lost; room {percent(own.room or 0)}), filler of the same "
        f"length {points(filler)}, plain retry {points(retry)}; own words against filler "
        f"{points(content)} (exploratory)"
    )
    return Row(text, f"{own.n} in {own.clusters} templates")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
