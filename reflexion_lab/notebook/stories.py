"""The tasks of a run as stories to choose among: how each loop came out, and what happened on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from reflexion_lab.analysis.estimators import submitted_at
from reflexion_lab.analysis.log import Log
from reflexion_lab.records import UNKNOWN, Attempt, Grade
from reflexion_lab.reports.sheets import NONE, Sheet, listed, visible

ENDS = ("right at first", "repaired", "damaged", "never solved", "no verdict")
"""Of what was submitted against attempt 1, by hidden verdicts: stayed right, became right, became wrong, stayed wrong;
and where a verdict is missing or says nothing."""
ANY = "any"
"""What does not narrow a choice."""
SIGNS = {True: "✓", False: "✗", None: "?"}


class Story:
    """One task's loop.

    Args:
        attempts: one at least.
        grades: hidden verdicts by attempt number; missing ones are no verdict.
    """

    def __init__(self, attempts: Sequence[Attempt], grades: dict[int, Grade]) -> None:
        self.task_id = attempts[0].task_id
        self.attempts = attempts
        self.grades = grades
        self.submitted = submitted_at(attempts).number

    def verdict(self, number: int) -> bool | None:
        """Of the hidden tests on attempt `number`; None where there is none that says anything of the program."""
        grade = self.grades.get(number)
        return None if grade is None or grade.outcome in UNKNOWN else grade.passed

    @property
    def end(self) -> str:
        """One of `ENDS`."""
        first, last = self.verdict(1), self.verdict(self.submitted)
        if first is None or last is None:
            return "no verdict"
        return {(True, True): "right at first", (False, True): "repaired", (True, False): "damaged"}.get(
            (first, last), "never solved"
        )

    @cached_property
    def outcomes(self) -> frozenset[str]:
        """In which its attempts ended, by the feedback tests."""
        return frozenset(attempt.evaluation.outcome for attempt in self.attempts)

    @cached_property
    def categories(self) -> frozenset[str]:
        """Of failure, as its reflections name them."""
        return frozenset(attempt.reflection.category for attempt in self.attempts if attempt.reflection)

    @property
    def strip(self) -> str:
        """Hidden verdicts, attempt by attempt: ✗✗✓."""
        return "".join(SIGNS[self.verdict(attempt.number)] for attempt in self.attempts)

    @cached_property
    def text(self) -> str:
        """All that can be searched for, casefolded."""
        return "\n".join((self.task_id, *(part for attempt in self.attempts for part in _texts(attempt)))).casefold()

    def fits(self, end: str = ANY, outcome: str = ANY, category: str = ANY, attempts: int = 0, text: str = "") -> bool:
        """Whether it came out so, had such an attempt, such a reflection, so many attempts (0 for any number), and
        holds `text` in its name, programs, replies, failing checks or reflections; case does not matter.
        """
        return (
            end in (ANY, self.end)
            and (outcome == ANY or outcome in self.outcomes)
            and (category == ANY or category in self.categories)
            and attempts in (0, len(self.attempts))
            and (not text.strip() or text.strip().casefold() in self.text)
        )


def stories(log: Log) -> list[Story]:
    """Sorted by task, numbers in names by their size."""
    grades: dict[str, dict[int, Grade]] = {}
    for (task_id, number), grade in log.grades.items():
        grades.setdefault(task_id, {})[number] = grade
    return [Story(log.attempts[task_id], grades.get(task_id, {})) for task_id in sorted(log.attempts, key=_natural)]


def overview(title: str, chosen: Sequence[Story], feedback_source: str) -> Sheet:
    """A row a task."""
    rows = (
        (visible(one.task_id), one.end, one.strip, str(one.submitted), listed(sorted(one.categories)) or NONE)
        for one in chosen
    )
    return Sheet(
        title=title,
        columns=("task", "end", "hidden verdicts", "submitted", "categories"),
        rows=tuple(rows),
        caption=f"Feedback source: {feedback_source}. {SIGNS[True]} {SIGNS[False]}: the hidden tests on each attempt.",
        names=5,
    )


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _texts(attempt: Attempt) -> Iterator[str]:
    yield from (attempt.trajectory.solution, attempt.trajectory.reply, attempt.trajectory.rationale)
    for check in attempt.evaluation.failures:
        yield from (check.name, check.error_type, check.message)
    if words := attempt.reflection:
        yield from (words.root_cause, words.what_went_wrong, words.what_to_change, words.text)
