"""What stands in for a reflection that could not be had."""

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
"""What a user has to decide or to fix."""
LATE = "reflector.timeout: no reflection"


class WithFallback:
    """`first`, and where it gives no reflection what `on_failure` says.

    What stands in says so (`source`, `problem`) and has the failed reply and its cost.

    Parameters
    ----------
    first : Reflector
    rules : Rules
    on_failure : str
        `set_aside` (default): rules stand in for a reply that cannot be read, and for a request that the server
        rejects (any 4xx but 404); otherwise, where no reply was had or `first` broke, its exception is raised, and
        the loop is set aside, so that no result depends on a server's health.
        `fallback`: rules stand in, whatever happened.
        `skip`: a reflection without words stands in, of source `failed`.
    timeout : float, optional
        Seconds for `first`, above 0; a later reply is not read, though it is paid. Default None: no limit of its own.

    Raises
    ------
    Unanswered
        `first` took more than `timeout`, with `on_failure="set_aside"`.
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
