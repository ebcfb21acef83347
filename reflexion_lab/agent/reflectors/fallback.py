"""Fallback for a failed reflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.agent.reflectors.llm import ReflectionError, kind_of
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.errors import CapReached, ConfigError, HarnessError, Unanswered
from reflexion_lab.limits import Above0, validated
from reflexion_lab.loop.deadline import with_deadline
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task, Usage

OnFailure = Literal["fallback", "skip", "set_aside"]
NEVER_REPLACED = (CapReached, ConfigError, HarnessError)
"""Errors that a user has to fix."""
LATE = "reflector.timeout: no reflection"


class WithFallback:
    """`first`, with a replacement for its failed reflections.

    A replacement is named as one (`source`, `problem`) and keeps the failed reply and its cost. Raises Unanswered:
    `first` gave no reply in time, with `on_failure="set_aside"`. `on_failure`: `set_aside` (default): rules replace a
    reply that was withheld or cannot be read. Where the model gave no reply at all, its error is raised: the loop is
    set aside or the run stops, so that no result depends on a server. `fallback`: rules replace any failed reflection.
    `skip`: a reflection without words, of source `failed`, replaces it. `timeout`: seconds for `first`, above 0; a
    later reply is discarded, although it is paid. Default None: no limit.
    """

    @validated
    def __init__(
        self, first: Reflector, rules: Rules, on_failure: OnFailure = "set_aside", timeout: Above0 | None = None
    ) -> None:
        self.first = first
        self.rules = rules
        self.on_failure = on_failure
        self.timeout = timeout

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        reply, usage = "", Usage()
        try:
            return with_deadline(self.timeout, lambda: self.first.reflect(task, attempt, episodes), LATE)
        except NEVER_REPLACED:
            raise
        except ReflectionError as problem:
            why, reply, usage = f"{problem.kind}: {problem}", problem.text, problem.usage
        except Exception as problem:
            if self.on_failure == "set_aside":
                if isinstance(problem, TimeoutError):
                    raise Unanswered(str(problem) or "the model did not answer in time", "timeout") from problem
                raise
            why = f"{kind_of(problem)}: {str(problem) or type(problem).__name__}"
        if self.on_failure == "skip":
            replacement = reflection_on(attempt, "failed")
        else:
            reflection = self.rules.reflect(task, attempt, episodes)
            replacement = replace(reflection, source=reflection.source.replace("rules", "fallback", 1))
        return replace(replacement, problem=why, text=reply, usage=usage)
