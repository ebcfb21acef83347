"""The tasks of a run as stories to choose among: how each loop came out, and what happened on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from reflexion_lab.analysis.report.page import TaskLine, task_lines
from reflexion_lab.analysis.report.sheets import NONE, Sheet, listed
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Attempt

ANY = "any"
"""Option of a filter that matches all tasks."""


class Story:
    """One task's loop: its line, and its attempts."""

    def __init__(self, line: TaskLine, attempts: Sequence[Attempt]) -> None:
        self.task_id = line.task_id
        self.result = line.result
        """One of `views.tasks.RESULTS`."""
        self.submitted = line.submitted
        self.strip = "".join(marks for marks, _ in line.marks)
        """Hidden verdicts, attempt by attempt: ✗✗✓."""
        self.attempts = attempts

    @cached_property
    def outcomes(self) -> frozenset[str]:
        """Outcomes of its attempts, by the feedback tests."""
        return frozenset(attempt.evaluation.outcome for attempt in self.attempts)

    @cached_property
    def categories(self) -> frozenset[str]:
        """Failure categories named in its reflections."""
        return frozenset(attempt.reflection.category for attempt in self.attempts if attempt.reflection)

    @cached_property
    def text(self) -> str:
        """Searchable text, casefolded."""
        return "\n".join((self.task_id, *(part for attempt in self.attempts for part in _texts(attempt)))).casefold()

    def fits(
        self, result: str = ANY, outcome: str = ANY, category: str = ANY, attempts: int = 0, text: str = ""
    ) -> bool:
        """Whether it has this result, such an attempt, such a reflection, this number of attempts (0 for any), and
        holds `text` in its name, programs, replies, failing checks or reflections; case does not matter.
        """
        return (
            result in (ANY, self.result)
            and (outcome == ANY or outcome in self.outcomes)
            and (category == ANY or category in self.categories)
            and attempts in (0, len(self.attempts))
            and (not text.strip() or text.strip().casefold() in self.text)
        )


def stories(log: Log) -> list[Story]:
    """The hardest first, as `task_lines` has them."""
    return [Story(line, log.attempts[line.task_id]) for line in task_lines(log)]


def overview(title: str, chosen: Sequence[Story], feedback_source: str) -> Sheet:
    """A row a task."""
    rows = (
        (
            visible(story.task_id),
            story.result,
            story.strip,
            str(story.submitted),
            listed(sorted(story.categories)) or NONE,
        )
        for story in chosen
    )
    return Sheet(
        title=title,
        columns=("task", "result", "hidden verdicts", "submitted", "categories"),
        rows=tuple(rows),
        caption=f"Feedback source: {feedback_source}. ✓ ✗: the hidden tests on each attempt, ? no verdict.",
        names=5,
    )


def _texts(attempt: Attempt) -> Iterator[str]:
    yield from (attempt.trajectory.solution, attempt.trajectory.reply, attempt.trajectory.rationale)
    for check in attempt.evaluation.failures:
        yield from (check.name, check.error_type, check.message)
    if words := attempt.reflection:
        yield from (words.root_cause, words.what_went_wrong, words.what_to_change, words.text)
