"""Deadlines for user-defined parts, whose calls neither a model nor the sandbox bounds."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

from reflexion_lab.errors import ConfigError, Unanswered

T = TypeVar("T")
STEP = 0.5
"""Seconds between looks at signals, which a long wait can miss."""


QUIET = 30.0
"""Seconds of waiting before a message is printed."""


class DeadlineError(TimeoutError):
    """Work took longer than its time limit."""


def with_deadline(seconds: float | None, work: Callable[[], T], late: str = "no result", waits_for: str = "") -> T:
    """The result of `work`, or its exception.

    Parameters
    ----------
    seconds : float or None
        Limit of wall time; None: no limit.
    work : callable
        Called in a thread of its own.
    late : str
        Beginning of the message of DeadlineError.
    waits_for : str
        Name of the awaited part, printed after `QUIET` seconds; "" prints nothing.

    Raises
    ------
    DeadlineError
        `work` took more than `seconds`. Its thread continues, and its result is dropped.
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
    began = time.monotonic()
    while True:
        try:
            result, problem = results.get(timeout=max(0.0, min(STEP, began + seconds - time.monotonic())))
            break
        except queue.Empty:
            waited = time.monotonic() - began
            if waited >= seconds:
                raise DeadlineError(f"{late} within {seconds:g} s") from None
            if waits_for and waited >= QUIET:
                print(f"still waiting for {waits_for}, at most {seconds:g} s; Ctrl-C stops", file=sys.stderr)
                waits_for = ""
    if problem is not None:
        raise problem
    return result  # type: ignore[return-value]  # it is None where `work` returns None


class Deadline:
    """A user-defined part whose `method` may take at most `seconds` of wall time per call, and must return one of
    `kinds`; other attributes pass through.

    A call that takes longer sets the loop aside, like a missing answer of the model: it is no failed attempt.
    """

    def __init__(self, part: Any, method: str, seconds: float, kinds: tuple[type, ...] = (object,)) -> None:
        self._part = part
        self._method = method
        self._seconds = seconds
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._bounded(value) if name == self._method else value

    def _bounded(self, call: Callable[..., T]) -> Callable[..., T]:
        def bounded(*values: Any, **named: Any) -> T:
            name = f"{type(self._part).__name__}.{self._method}"
            try:
                result = with_deadline(
                    self._seconds, lambda: call(*values, **named), f"loop.timeout: {name} gave no result"
                )
            except DeadlineError as problem:
                raise Unanswered(f"{problem}; give it more where it is merely slow", "timeout") from problem
            if not isinstance(result, self._kinds):
                expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in self._kinds)
                raise ConfigError(f"{name}(…)", f"a {type(result).__name__} as its result", expected)
            return result

        return bounded
