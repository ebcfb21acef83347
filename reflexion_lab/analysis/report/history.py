"""A task's whole history as HTML: its attempts side by side, each with what it read, wrote and was told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reflexion_lab.analysis.estimators import tokens
from reflexion_lab.analysis.report import pieces
from reflexion_lab.analysis.report import program_diffs as programs
from reflexion_lab.analysis.report.sources import Gift, Sources
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Grade


class Card(NamedTuple):
    """An attempt as it is shown."""

    attempt: Attempt
    before: Attempt | None
    """Whose program its own is shown as a difference to."""
    grade: Grade | None
    """The hidden verdict; None where there is none."""
    is_submitted: bool
    lines: list[programs.Line]
    """Of its program."""
    heading: str
    """What these lines are."""
    turns: list[programs.Turn]
    gifts: list[Gift]
    """What memory gave."""

    @property
    def tokens(self) -> int:
        """Of all roles."""
        return tokens(self.attempt)


def card(
    attempt: Attempt,
    before: Attempt | None = None,
    grade: Grade | None = None,
    sources: Sources | None = None,
    is_submitted: bool = False,
) -> Card:
    trajectory = attempt.trajectory
    turns = list(programs.turns(trajectory.steps))
    old = (before.trajectory.solution, f"attempt {before.number}") if before else ()
    lines, remark = programs.program(trajectory.solution, *old)
    drafts = [turn.number for turn in turns if turn.step.program and turn.step.program == trajectory.solution]
    heading = "; ".join(filter(None, [f"the draft of turn {drafts[-1]}" if drafts else "", remark]))
    gifts = (sources or Sources({attempt.task_id: [attempt]})).gifts(attempt)
    return Card(attempt, before, grade, is_submitted, lines, heading, turns, gifts)


def cards(
    attempts: Sequence[Attempt], grades: Mapping[tuple[str, int], Grade], sources: Sources | None = None
) -> Iterator[Card]:
    """Those of one loop, oldest first; memory's words come from the loop alone where there are no `sources`."""
    sources = sources or Sources({attempts[0].task_id: attempts})
    submitted = submitted_at(attempts).number
    for before, attempt in zip((None, *attempts), attempts, strict=False):
        yield card(attempt, before, grades.get((attempt.task_id, attempt.number)), sources, attempt.number == submitted)


def history(
    attempts: Sequence[Attempt],
    grades: Mapping[tuple[str, int], Grade],
    sources: Sources | None = None,
    label: str = "",
) -> str:
    """The history of one loop, of one attempt or more, called `label`, or by its task."""
    return pieces.macro("records", "history")(list(cards(attempts, grades, sources)), label or attempts[0].task_id)
