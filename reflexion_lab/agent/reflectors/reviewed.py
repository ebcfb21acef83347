"""Looks at every reflection before anybody reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.agent.reflectors.quality import FLAGS, flags
from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task

ReviewPolicy = Literal["flag", "retry", "reject"]
SEVERE = ("no_action", "generic", "duplicate")


class Reviewed:
    """Fills `Reflection.flags` of what `first` says, and acts where one of them is in `severe`.

    `flag` lets the words pass. `retry` asks `first` once more, as another draw, and takes the answer with fewer
    severe flags, the earlier on a tie; both are paid for. Rules that step in for a second reply that failed never
    replace the model's first. At temperature 0 most models repeat themselves. `reject` keeps the words from
    everybody: the fields are empty, `problem` says why, and what was said stands in `text`; confidence and cost
    stay.

    A model that failed where no rules step in leaves a reflection without words, `failed`: neither the attempt is lost
    nor what was paid. What no model said is only flagged: rules would say the same again, and to improve a control
    would undo it.
    """

    @validated
    def __init__(self, first: Reflector, policy: ReviewPolicy = "flag", severe: Sequence[str] = SEVERE) -> None:
        if strange := sorted(set(severe) - FLAGS.keys()):
            raise ConfigError("quality.severe", ", ".join(strange), f"some of {', '.join(FLAGS)}")
        self.first = first
        self.policy = policy
        self.severe = tuple(severe)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        try:
            said = self._flagged(self.first.reflect(task, attempt, episodes), attempt, episodes)
        except ReflectionError as error:
            return _failed(error, task, attempt)
        if said is None or not self._faults(said) or said.source != "llm":
            return said
        if self.policy == "retry":
            return self._again(said, task, attempt, episodes)
        return _rejected(said, self._faults(said)) if self.policy == "reject" else said

    def _flagged(self, said: Reflection | None, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        return said and replace(said, flags=flags(said, attempt, episodes))

    def _faults(self, said: Reflection) -> tuple[str, ...]:
        return tuple(name for name in said.flags if name in self.severe)

    def _again(self, said: Reflection, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        try:
            second = self._flagged(self.first.reflect(task, attempt, episodes), attempt, episodes)
        except ReflectionError as error:
            return replace(said, usage=said.usage + error.usage)
        if second is None:
            return said
        is_better = second.source == "llm" and len(self._faults(second)) < len(self._faults(said))
        return replace(second if is_better else said, usage=said.usage + second.usage)


def _failed(error: ReflectionError, task: Task, attempt: Attempt) -> Reflection:
    return Reflection(
        reflection_id=f"{task.task_id}#{attempt.number}",
        about_attempt=attempt.number,
        root_cause="",
        what_went_wrong="",
        what_to_change="",
        confidence=0.0,
        confidence_source="none",
        source="failed",
        category=classify_evaluation(attempt.evaluation)[0],
        text=error.text,
        problem=f"{error.kind}: {error}",
        usage=error.usage,
    )


def _rejected(said: Reflection, faults: Sequence[str]) -> Reflection:
    words = (said.root_cause, said.what_went_wrong, said.what_to_change, said.what_worked, *said.action_items)
    why = f"rejected: {', '.join(faults)}"
    return replace(
        said,
        root_cause="",
        what_went_wrong="",
        what_to_change="",
        what_worked="",
        key_insight="",
        action_items=(),
        lessons=(),
        text=said.text or "\n".join(filter(None, words)),
        problem="; ".join(filter(None, (said.problem, why))),
    )
