"""Deadlines for user-defined parts, whose calls neither a model nor the sandbox bounds."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from reflexion_lab.errors import Unanswered

T = TypeVar("T")


class DeadlineError(TimeoutError):
    """Work took longer than its time limit."""


def within(seconds: float | None, work: Callable[[], T], late: str = "no result") -> T:
    """The result of `work`, or its exception. `seconds` None: no limit.

    Raises
    ------
    DeadlineError
        `work` took more than `seconds`; the message begins with `late`. Its thread continues, and its result is
        dropped.
    """
    if seconds is None:
        return work()
    results: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((work(), None))
        except BaseException as problem:
            results.put((None, problem))

    threading.Thread(target=run, daemon=True, name="deadline").start()
    try:
        result, problem = results.get(timeout=seconds)
    except queue.Empty:
        raise DeadlineError(f"{late} within {seconds:g} s") from None
    if problem is not None:
        raise problem
    return result  # type: ignore[return-value]  # it is None where `work` returns None


class Deadline:
    """A part whose `method` may take at most `seconds` of wall time per call; other attributes pass through.

    A call that takes longer defers the loop like a missing answer of the model: it is no failed attempt.
    """

    def __init__(self, part: Any, method: str, seconds: float) -> None:
        self._part = part
        self._method = method
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._bounded(value) if name == self._method else value

    def _bounded(self, call: Callable[..., T]) -> Callable[..., T]:
        def bounded(*values: Any, **named: Any) -> T:
            late = f"loop.timeout: {type(self._part).__name__}.{self._method} gave no result"
            try:
                return within(self._seconds, lambda: call(*values, **named), late)
            except DeadlineError as problem:
                raise Unanswered(f"{problem}; give it more where it is merely slow", "timeout") from problem

        return bounded
