"""Table, figure and README of this experiment, from its evidence alone; `--check` names what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments._tools import studies
from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import main, percent, points
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.lines import Difference
from reflexion_lab.analysis.stats.intervals import Rate

TUNING = "tuning.csv"
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


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    by_attempt = {arm.label: list(repaired(arm)) for arm in study.arms}
    tuned = tuning(folder)
    stopped = min(tuned, key=lambda row: row["tasks"])
    values = {"tuning": tuned, "stopped": stopped, "by_attempt": by_attempt, "own_words": against_checks(study)}
    return studies.page(folder, study, **values)


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    row, words = study.row("reflexion"), against_checks(study)["equal_attempts"]
    attempts, tokens = row.differences["equal_attempts"], row.differences["equal_tokens"]
    text = (
        f"Reflexion {points(attempts)} points against plain retry at three attempts each "
        f"({studies.claim(attempts)}), {points(tokens)} at equal tokens ({tokens.conclusion}); "
        f"{points(words)} against failing checks alone, {words.won} won, {words.lost} lost (exploratory)"
    )
    return Row(text, str(attempts.n))


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
