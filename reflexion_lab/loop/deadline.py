"""The loop's time budget for user-defined parts, whose calls neither a model nor the sandbox bounds or counts."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import NoneType
from typing import Any, TypeVar

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError, Unanswered
from reflexion_lab.records import Evaluation, Reflection, Trajectory

T = TypeVar("T")


class DeadlineError(TimeoutError):
    """Work took longer than its time limit."""


def with_deadline(
    seconds: float | None, work: Callable[[], T], late: str, if_late: Callable[[], object] = lambda: None
) -> T:
    """The result of `work`, or its exception; `work` is called in a thread of its own. None: no limit.

    Raises DeadlineError: `work` took more than `seconds` of wall time; the message begins with `late`. Its thread
    continues, its result is dropped, and `if_late` is called after it.
    """
    if seconds is None:
        return work()
    future = Future[T]()

    def run() -> None:
        try:
            result = work()
        except BaseException as problem:
            future.set_exception(problem)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True, name="deadline").start()
    if not wait([future], min(seconds, threading.TIMEOUT_MAX)).done:
        future.add_done_callback(lambda _: if_late())
        raise DeadlineError(f"{late} within {seconds:g} s")
    return future.result()


def awaited(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`; if it is async, one that waits for it, in a thread and an event loop of its own."""
    if not inspect.iscoroutinefunction(call):
        return call

    @functools.wraps(call)
    def wait(*values: Any, **named: Any) -> Any:
        return with_deadline(threading.TIMEOUT_MAX, lambda: asyncio.run(call(*values, **named)), "no result")

    return wait


class Budgeted:
    """A user-defined part whose `method` may take at most `seconds` of wall time per call (None: any), and must return
    one of `kinds`; an async one is waited for; other attributes pass through.

    A call that takes longer sets the loop aside, like a missing answer of the model: it is no failed attempt. The
    wall time of a call counts towards the loop's budget where its result states no seconds.
    """

    def __init__(self, part: Any, method: str, seconds: float | None, kinds: tuple[type, ...] = (object,)) -> None:
        self._part = part
        self._name: str = part._name if isinstance(part, Budgeted) else f"{type(part).__name__}.{method}"
        self._method = method
        self._seconds = seconds
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._budgeted(awaited(value)) if name == self._method else value

    def _budgeted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def budgeted(*values: Any, **named: Any) -> Any:
            name, start = self._name, time.monotonic()
            try:
                late = f"loop.timeout: {name} gave no result"
                result = with_deadline(self._seconds, lambda: call(*values, **named), late)
            except DeadlineError as problem:
                raise Unanswered(f"{problem}; give it more where it is merely slow", "timeout") from problem
            if not isinstance(result, self._kinds):
                expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in self._kinds)
                raise ConfigError(f"{name}(…)", f"a {type(result).__name__} as its result", expected)
            return _timed(result, time.monotonic() - start)

        return budgeted


def _timed(result: Any, seconds: float) -> Any:
    """The result with its wall time, unless it states its own."""
    if isinstance(result, Evaluation):
        return result if result.seconds else replace(result, seconds=seconds)
    if isinstance(result, (Trajectory, Reflection)) and not result.usage.seconds:
        return replace(result, usage=replace(result.usage, seconds=seconds))
    return result
