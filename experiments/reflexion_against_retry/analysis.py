"""Table, figure and README of this experiment, from its evidence alone; `--check` names what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments._tools import studies
from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import csv_text, main, percent, points
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.lines import Difference, compared
from reflexion_lab.analysis.stats.intervals import Rate

TUNING = "tuning.csv"
OMEGA = ("omega.yaml", "omega.csv.gz")
"""A second study on these loops: Ω = 0 is `retry` with three attempts, Ω = 1 is `reflexion`, Ω = 2 is new."""
LAST = 3
"""Attempts at which the arms are compared."""


def tuning(folder: Path) -> list[dict[str, Any]]:
    """Tasks solved within `LAST` attempts by arm and temperature, on the other templates."""
    solved: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in read_rows(folder / TUNING):
        of_task = solved[row["arm"], row["temperature"]][row["task"]]
        if row["hidden"] == "1" and int(row["attempt"]) <= LAST:
            of_task.add(int(row["attempt"]))
    return [
        {
            "arm": arm,
            "temperature": temperature,
            "tasks": len(tasks),
            "first": sum(1 in attempts for attempts in tasks.values()),
            "solved": sum(bool(attempts) for attempts in tasks.values()),
        }
        for (arm, temperature), tasks in sorted(solved.items())
    ]


def repaired(arm: Arm) -> Iterator[str]:
    """By attempt from the second, the share of cases still unsolved that it solves."""
    for number in range(2, LAST + 1):
        tried = [grades[number].passed for grades in arm.grades.values() if number in grades]
        rate = Rate.over(tried)
        yield f"{percent(rate.share)} % [{percent(rate.low)}, {percent(rate.high)}] ({rate.k} of {rate.n})"


def against_checks(study: studies.Study) -> Mapping[str, Difference]:
    """Reflexion less failing checks alone by budget: not registered, with Holm's correction for two arms."""
    comparison = compare(study.arms, "feedback_only")
    return next(row.differences for row in comparison.rows if row.arm == "reflexion")


def repeated(folder: Path) -> Difference:
    """The same difference in its registered repetition, `own_words_with_room`."""
    return studies.read(folder.parent / "own_words_with_room").row("reflexion").differences["equal_attempts"]


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    by_attempt = {arm.label: list(repaired(arm)) for arm in study.arms}
    tuned = tuning(folder)
    stopped = min(tuned, key=lambda row: row["tasks"])
    omega = studies.read(folder, *OMEGA)
    verdicts = {arm.label: arm.verdicts() for arm in omega.arms}
    wider = compared(verdicts["omega_2"], verdicts["omega_1"], clusters=omega.arms[0].clusters)
    values: dict[str, Any] = {"wider": wider, "omega_2": omega.row("omega_2").differences}
    values |= {"omega_row": list(studies.table(omega))[-1], "omega_design": studies.design(omega)}
    values |= {"tuning": tuned, "stopped": stopped, "by_attempt": by_attempt, "own_words": against_checks(study)}
    values["again"] = repeated(folder)
    return {**studies.page(folder, study, **values), "omega_table.csv": csv_text(studies.published(omega))}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    row, words = study.row("reflexion"), against_checks(study)["equal_attempts"]
    attempts, tokens = row.differences["equal_attempts"], row.differences["equal_tokens"]
    wider = studies.read(folder, *OMEGA).row("omega_2").differences["equal_attempts"]
    text = (
        f"Reflexion {points(attempts)} points against plain retry at three attempts each "
        f"({studies.claim(attempts)}), {points(tokens)} at equal tokens ({tokens.conclusion}); "
        f"{points(words)} against failing checks alone, {words.won} won, {words.lost} lost (exploratory; "
        f"{points(repeated(folder))} in a [registered repetition](own_words_with_room/README.md)); with the "
        f"last two attempts in the prompt {points(wider)} against retry ({studies.claim(wider)})"
    )
    return Row(text, str(attempts.n))


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
