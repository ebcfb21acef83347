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
from reflexion_lab.loop.deadline import DeadlineError, within
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task

OnFailure = Literal["fallback", "skip", "set_aside"]
NEVER_REPLACED = (CapReached, ConfigError, HarnessError)
"""Errors that need a decision or a fix by the user."""
LATE = "reflector.timeout: no reflection"


class WithFallback:
    """Reflects with `first`; on failure, applies `on_failure`.

    A substitute has its own `source`, names the `problem`, and records the failed reply and its cost.

    Parameters
    ----------
    first : Reflector
    rules : Rules
    on_failure : str
        `set_aside` (default): rules replace an unreadable reply, and the reply to a request that the server rejects
        (any 4xx but 404). If there was no reply, or `first` raised another error, the error is raised and the loop is
        deferred, so that results do not depend on a server's health. `fallback`: rules replace every failure. `skip`:
        an empty reflection of source `failed` replaces every failure.
    timeout : float, optional
        Seconds for `first`, above 0; a later reply is discarded, although it is paid. Default None: no limit.

    Raises
    ------
    Unanswered
        `first` exceeded `timeout`, and `on_failure` is `set_aside`.
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
        try:
            return within(self.timeout, lambda: self.first.reflect(task, attempt, episodes), LATE)
        except NEVER_REPLACED:
            raise
        except Exception as problem:
            error = problem if isinstance(problem, ReflectionError) else _as_reflection_error(problem)
            if self.on_failure == "set_aside" and error is not problem:
                if isinstance(problem, DeadlineError):
                    raise Unanswered(str(problem), "timeout") from problem
                raise
        if self.on_failure == "skip":
            stand_in = reflection_on(attempt, "failed")
        else:
            reflection = self.rules.reflect(task, attempt, episodes)
            stand_in = replace(reflection, source=reflection.source.replace("rules", "fallback", 1))
        return replace(stand_in, problem=f"{error.kind}: {error}", text=error.text, usage=error.usage)


def _as_reflection_error(problem: Exception) -> ReflectionError:
    return ReflectionError(kind_of(problem), str(problem) or type(problem).__name__)
