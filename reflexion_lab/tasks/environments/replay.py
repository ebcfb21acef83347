"""Sessions whose failures are errors of the harness, and the verdict on a play: a replay of its actions."""

from __future__ import annotations

import contextlib
import json
import re
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from reflexion_lab.errors import HarnessError
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.loop.deadline import DeadlineError, with_deadline
from reflexion_lab.protocols import Environment, Session
from reflexion_lab.records import Check, Execution, Observation, Task

T = TypeVar("T")
SCORE = re.compile(r"score (\d+)")
"""A goal: this score or more."""
FAILED = "\n# the environment failed twice: "
"""Before the cause, at the end of a solution whose play the environment ended, so that it has no verdict; the whole
solution of a question. No action begins so, and no answer with a blank line.
"""
SUCCESS = "success"
"""The goal that the environment itself calls its success."""


class Guarded:
    """A session, and its newest observation. HarnessError: the environment fails, dies, or exceeds its `seconds`."""

    _session: Session

    def __init__(self, environment: Environment, task: Task) -> None:
        def start() -> None:
            self._session = environment.start(task)

        self._seconds: float | None = None  # what sessions share may take longer than an action
        if ready := getattr(environment, "ready", None):
            self._call("ready", ready)
        self._seconds = environment.seconds
        self._call("start", start, self.close)
        try:
            self.observation = self._observed("observe", lambda: self._session.observe())  # noqa: PLW0108 (may lack it)
        except BaseException:
            self.close()
            raise

    def act(self, action: str) -> Observation:
        self.observation = self._observed(f"act({action[:60]!r})", lambda: self._session.act(action))
        return self.observation

    def close(self) -> None:
        """End the session; an environment that fails at its end has given all its observations."""
        with contextlib.suppress(HarnessError):
            self._call("close", lambda: self._session.close())  # noqa: PLW0108 (it may lack it)

    def _observed(self, name: str, work: Callable[[], Any]) -> Observation:
        """What `work` returns, with types of Python for those of numpy."""
        value = self._call(name, work)
        try:
            fields = {field: getattr(value, field) for field in Observation.__struct_fields__}
            text = json.dumps(fields, default=lambda each: each.tolist(), ensure_ascii=False)
            return msgspec.convert(json.loads(text.encode()), Observation)
        except Exception as problem:
            why = visible(f"returned {type(value).__name__}, no Observation of plain values: {problem}")
            raise HarnessError(f"environment: {name} {why}") from None

    def _call(self, name: str, work: Callable[[], T], if_late: Callable[[], object] = lambda: None) -> T:
        try:
            return with_deadline(self._seconds, work, "it gave no result", if_late)
        except (HarnessError, KeyboardInterrupt):
            raise
        except DeadlineError as problem:
            raise HarnessError(f"environment: {name}: {problem}, which is environment.seconds") from problem
        except BaseException as problem:  # also SystemExit
            frame = traceback.extract_tb(problem.__traceback__)[-1]
            why = visible(f"{type(problem).__name__}: {problem} ({frame.filename}, line {frame.lineno})")
            raise HarnessError(f"environment: {name} raised {why}") from problem


def actions_of(solution: str) -> list[str]:
    """The actions of a play, one a line."""
    return [action for action in solution.split("\n") if action.strip()]


def replayed(environment: Environment, task: Task, solution: str, goals: Sequence[str]) -> Execution:
    """Whether the actions of `solution` reach each of `goals` in a fresh session.

    Actions after the end, and those beyond `environment.max_steps`, are not taken. An environment that fails gives the
    outcome `harness_error`, which is no verdict.
    """
    start, steps = time.monotonic(), 0
    try:
        if why := failure(solution):
            raise HarnessError(why)
        session = Guarded(environment, task)
        try:
            for action in actions_of(solution)[: environment.max_steps]:
                if session.observation.is_over:
                    break
                session.act(action)
                steps += 1
            last = session.observation
        finally:
            session.close()
    except HarnessError as problem:
        return without_verdict(goals, str(problem), time.monotonic() - start)
    where = f"after {steps} actions the score is {last.score:g}" + ", and it is over" * last.is_over
    reached = [(goal, is_reached(goal, last)) for goal in goals]
    checks = [
        Check(name=goal, outcome="pass" if is_pass else "fail", message=where * (not is_pass))
        for goal, is_pass in reached
    ]
    return Execution(checks=tuple(checks), output="", seconds=time.monotonic() - start, cpu_seconds=0.0)


def failure(solution: str) -> str:
    """Why the environment ended this play; "" if it did not."""
    _, mark, cause = solution.rpartition(FAILED)
    return (cause or "no reason") if mark and "\n" not in cause else ""


def without_verdict(names: Sequence[str], why: str, seconds: float = 0.0) -> Execution:
    """Checks that an environment's failure spoilt."""
    checks = tuple(Check(name=name, outcome="harness_error", message=why[:300]) for name in names)
    return Execution(checks=checks, output="", seconds=seconds, cpu_seconds=0.0)


def is_reached(goal: str, last: Observation) -> bool:
    """Whether a goal holds at the end: `success`, or `score N`. Raises HarnessError: it is neither."""
    if goal == SUCCESS:
        return last.is_success
    if score := SCORE.fullmatch(goal):
        return last.score >= int(score[1])
    raise HarnessError(f"goal: got {goal[:60]!r}, expected {SUCCESS!r} or 'score N'")
