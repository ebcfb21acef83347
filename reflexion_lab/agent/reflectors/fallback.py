"""Rules step in where the model gives no usable reflection."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task


class WithFallback:
    """`first`, and after a `ReflectionError` alone the rules.

    Their reflection says so (`source`, `problem`) and has the failed reply and its cost.
    """

    def __init__(self, first: Reflector, rules: Rules) -> None:
        self.first = first
        self.rules = rules

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        try:
            return self.first.reflect(task, attempt, episodes)
        except ReflectionError as error:
            reflection = self.rules.reflect(task, attempt, episodes)
            return replace(
                reflection,
                source=reflection.source.replace("rules", "fallback", 1),
                problem=f"{error.kind}: {error}",
                text=error.text,
                usage=error.usage,
            )
