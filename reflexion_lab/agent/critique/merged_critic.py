"""Merged critiques of several critics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated

from msgspec import Meta

from reflexion_lab.errors import CritiqueError, ModelError, ModelNotFound, Unanswered
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Critic
from reflexion_lab.records import Critique, Mistake, Task, Usage


class Merged:
    """Several critics of the same draft, called in order.

    Severity: the highest. Issues and suggestions: concatenated without duplicates. Score: the mean, weighted by
    confidence. Confidence: the highest of the critics with a score. Rank: that of the first critic that ran tests.
    Critics of confidence 0, such as tests for a task without tests, count only if there are no others.

    A critic that fails is skipped; its reply and cost are recorded. If all fail, CritiqueError is raised.
    """

    @validated
    def __init__(self, critics: Annotated[Sequence[Critic], Meta(min_length=1)]) -> None:
        self.critics = tuple(critics)

    @property
    def reads_mistakes(self) -> bool:
        return any(getattr(critic, "reads_mistakes", False) for critic in self.critics)

    def critique(self, task: Task, program: str, mistakes: Sequence[Mistake] = ()) -> Critique:
        critiques: list[Critique] = []
        errors: list[CritiqueError] = []
        for critic in self.critics:
            try:
                critiques.append(critique_by(critic, task, program, mistakes))
            except CritiqueError as error:
                errors.append(error)
            except (Unanswered, ModelNotFound):
                raise
            except ModelError as error:
                errors.append(CritiqueError(str(error), Usage()))
        if not critiques:
            reply = "\n\n".join(error.reply for error in errors if error.reply)
            raise CritiqueError("; ".join(map(str, errors)), _cost(errors), reply)
        return _merged(critiques, errors)


def critique_by(critic: Critic, task: Task, program: str, mistakes: Sequence[Mistake]) -> Critique:
    """The critique of `critic`, with `mistakes` if it reads them."""
    if mistakes and getattr(critic, "reads_mistakes", False):
        return critic.critique(task, program, mistakes)  # type: ignore[call-arg]  # the capability says that it may
    return critic.critique(task, program)


def _merged(critiques: Sequence[Critique], errors: Sequence[CritiqueError]) -> Critique:
    sure = [critique for critique in critiques if critique.confidence > 0] or critiques
    scored = [(critique.score, critique.confidence) for critique in sure if critique.score is not None]
    weights = sum(confidence for _, confidence in scored)
    replies = [critique.reply for critique in critiques] + [f"{error}\n{error.reply}".strip() for error in errors]
    return Critique(
        severity=max(critique.severity for critique in sure),
        issues=_joined(critique.issues for critique in sure),
        suggestions=_joined(critique.suggestions for critique in sure),
        score=sum(score * confidence for score, confidence in scored) / weights if weights else None,
        confidence=max([confidence for _, confidence in scored] or [critique.confidence for critique in sure]),
        rank=next((critique.rank for critique in sure if critique.rank), None),
        source="+".join(critique.source for critique in critiques),
        messages=tuple(message for critique in critiques for message in critique.messages),
        reply="\n\n".join(filter(None, replies)),
        usage=_cost([*critiques, *errors]),
        seconds=sum(critique.seconds for critique in critiques),
    )


def _joined(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All texts in order, without duplicates up to case and white space."""
    texts: dict[str, str] = {}
    for text in chain.from_iterable(lists):
        texts.setdefault(" ".join(text.casefold().split()), text)
    return tuple(texts.values())


def _cost(calls: Iterable[Critique | CritiqueError]) -> Usage:
    return sum((call.usage for call in calls), Usage())
