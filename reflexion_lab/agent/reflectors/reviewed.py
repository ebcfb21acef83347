"""Quality review: flags every reflection before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.agent.reflectors.quality import FLAGS, flags
from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task

ReviewPolicy = Literal["flag", "retry", "reject"]
SEVERE = ("no_action", "generic", "duplicate")


class Reviewed:
    """Sets `Reflection.flags` of the reflections of `first`, and acts where one of them is severe.

    A model that failed without rules to step in leaves a reflection without texts, of source `failed`: neither the
    attempt nor its cost is lost. What no model wrote is flagged alone: rules would repeat themselves, and an improved
    control would be none.

    Parameters
    ----------
    first : Reflector
    policy : str
        `flag`: nothing else happens.
        `retry`: `first` is asked once more, as another draw, and the reflection with fewer severe flags is taken, the
        earlier on a tie; both are paid for. Rules that step in for a failed second reply never replace the first. At
        temperature 0 most models repeat themselves.
        `reject`: nobody reads the reflection. Its texts are empty, `problem` says why, and `text` has the reply;
        confidence and cost stay.
    severe : sequence of str
        Names of `quality.FLAGS`.
    """

    @validated
    def __init__(self, first: Reflector, policy: ReviewPolicy = "flag", severe: Sequence[str] = SEVERE) -> None:
        if unknown := sorted(set(severe) - FLAGS.keys()):
            raise ConfigError("quality.severe", ", ".join(unknown), f"some of {', '.join(FLAGS)}")
        self.first = first
        self.policy = policy
        self.severe = tuple(severe)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        try:
            reflection = self._flagged(task, attempt, episodes)
        except ReflectionError as error:
            problem = f"{error.kind}: {error}"
            return reflection_on(attempt, "failed", text=error.text, problem=problem, usage=error.usage)
        if reflection is None or not self._faults(reflection) or reflection.source != "llm":
            return reflection
        if self.policy == "retry":
            return self._again(reflection, task, attempt, episodes)
        return _rejected(reflection, self._faults(reflection)) if self.policy == "reject" else reflection

    def _flagged(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        reflection = self.first.reflect(task, attempt, episodes)
        return reflection and replace(reflection, flags=flags(reflection, attempt, episodes))

    def _faults(self, reflection: Reflection) -> tuple[str, ...]:
        return tuple(name for name in reflection.flags if name in self.severe)

    def _again(self, first: Reflection, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        try:
            second = self._flagged(task, attempt, episodes)
        except ReflectionError as error:
            return replace(first, usage=first.usage + error.usage)
        if second is None:
            return first
        is_better = second.source == "llm" and len(self._faults(second)) < len(self._faults(first))
        return replace(second if is_better else first, usage=first.usage + second.usage)


def _rejected(reflection: Reflection, faults: Sequence[str]) -> Reflection:
    words = (
        reflection.root_cause,
        reflection.what_went_wrong,
        reflection.what_to_change,
        reflection.what_worked,
        *reflection.action_items,
    )
    why = f"rejected: {', '.join(faults)}"
    return replace(
        reflection,
        root_cause="",
        what_went_wrong="",
        what_to_change="",
        what_worked="",
        key_insight="",
        action_items=(),
        lessons=(),
        text=reflection.text or "\n".join(filter(None, words)),
        problem="; ".join(filter(None, (reflection.problem, why))),
    )
