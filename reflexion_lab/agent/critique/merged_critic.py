"""Several critics as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta

from reflexion_lab.errors import CritiqueError, ModelError, Unanswered
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Critic
from reflexion_lab.records import Critique, Task, Usage


class Merged:
    """All of `critics`, asked in order, each of the same draft.

    Severity: the highest. Issues and suggestions: joined, equal ones once, in order. Score: the mean over the critics
    that give one, weighted by confidence, which the source systems lack. Confidence: the highest of those; the score
    stands as firmly as the surest critic in it, the others having pulled it less. Critics of confidence 0, such as
    tests of a task without any, are heard only where there is no other. Rank: of the first critic that ran tests.

    One that fails is left out, its words and its cost are kept; if all fail, that is a CritiqueError.
    """

    @validated
    def __init__(self, critics: Annotated[Sequence[Critic], Meta(min_length=1)]) -> None:
        self.critics = tuple(critics)

    def critique(self, task: Task, program: str) -> Critique:
        heard: list[Critique] = []
        failed: list[CritiqueError] = []
        for critic in self.critics:
            try:
                heard.append(critic.critique(task, program))
            except CritiqueError as error:
                failed.append(error)
            except Unanswered:
                raise
            except ModelError as error:
                failed.append(CritiqueError(str(error), Usage()))
        if not heard:
            reply = "\n\n".join(error.reply for error in failed if error.reply)
            raise CritiqueError("; ".join(map(str, failed)), _cost(failed), reply)
        return _merged(heard, failed)


def _merged(heard: Sequence[Critique], failed: Sequence[CritiqueError]) -> Critique:
    sure = [critique for critique in heard if critique.confidence > 0] or heard
    scored = [(critique.score, critique.confidence) for critique in sure if critique.score is not None]
    weights = sum(confidence for _, confidence in scored)
    replies = [critique.reply for critique in heard] + [f"{error}\n{error.reply}".strip() for error in failed]
    return Critique(
        severity=max(critique.severity for critique in sure),
        issues=_joined(critique.issues for critique in sure),
        suggestions=_joined(critique.suggestions for critique in sure),
        score=sum(score * confidence for score, confidence in scored) / weights if weights else None,
        confidence=max([confidence for _, confidence in scored] or [critique.confidence for critique in sure]),
        rank=next((critique.rank for critique in sure if critique.rank), None),
        source="+".join(critique.source for critique in heard),
        messages=tuple(message for critique in heard for message in critique.messages),
        reply="\n\n".join(filter(None, replies)),
        usage=_cost([*heard, *failed]),
        seconds=sum(critique.seconds for critique in heard),
    )


def _joined(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for text in (text for texts in lists for text in texts):
        kept.setdefault(" ".join(text.casefold().split()), text)
    return tuple(kept.values())


def _cost(asked: Iterable[Critique | CritiqueError]) -> Usage:
    return sum((one.usage for one in asked), Usage())
