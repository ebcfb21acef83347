"""The terminal: termination signals, and the progress of a run."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

from reflexion_lab.records import Grade, Usage

if TYPE_CHECKING:
    from tqdm import tqdm


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; a cluster's scheduler; a closed terminal."""


class Terminated(KeyboardInterrupt):
    """A termination signal was received. `code`: the exit code, as a shell has it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.code = 128 + number


@contextmanager
def signals_handled() -> Iterator[None]:
    """Handle `SIGNALS` within the block: the first raises `Terminated` in the main thread, so that running tasks can
    end; a Ctrl-C after it exits at once, whatever threads wait for; other repetitions are ignored.

    Signals ignored, as by `nohup`, or handled outside of Python stay so. Outside the main thread, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_second = False
    terminals = list(filter(os.isatty, (0, 1, 2)))

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal is_second
        if number == signal.SIGHUP:
            nowhere = os.open(os.devnull, os.O_RDWR)  # printing to a closed terminal would raise
            for descriptor in terminals:
                os.dup2(nowhere, descriptor)
            os.close(nowhere)
        if not is_second:
            is_second = True
            raise Terminated(number)
        if number == signal.SIGINT:
            with suppress(OSError):
                os.write(2, b"\nstopped at once; what had finished is written\n")
            os._exit(128 + number)  # the sandbox's servers end with the connection to this process

    previous = {number: signal.getsignal(number) for number in SIGNALS}
    previous = {number: handler for number, handler in previous.items() if handler not in (signal.SIG_IGN, None)}
    for number in previous:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def ended(futures: Iterable[Future[None]]) -> Iterator[Future[None]]:
    """Yield each future as it ends; waits in steps of half a second.

    An endless wait can miss a signal: Python handles signals between two instructions of the main thread, and nothing
    wakes that thread when the signal went to another one, or came just before the wait began.
    """
    waiting = set(futures)
    while waiting:
        over, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
        yield from over


REFRESH_EVERY = 0.5
"""Seconds between two updates of a bar; each is several messages to a notebook."""
LOG_EVERY = 15.0
"""Seconds between lines in a log: output that is neither a terminal nor a notebook."""


class Progress:
    """A bar in a terminal or a notebook, a line every `LOG_EVERY` seconds in a log. Thread-safe.

    `done`: tasks that a resumed run has finished, `passed` of them passed. `spent`: spending of uncached calls.
    """

    def __init__(
        self, total: int, finished: int = 0, passed: int = 0, quiet: bool = False, spent: Callable[[], Usage] = Usage
    ) -> None:
        self.attempts = 0
        self._spent = spent
        self.passed = passed
        self.total = total
        self.finished = self._finished_before = finished
        self._start = self._logged = self._refreshed = time.monotonic()
        self._lock = threading.Lock()
        log = not (sys.stderr.isatty() or in_notebook())
        self._bar = bar(total=total, initial=finished, unit="task", disable=quiet or log)
        # Also in a terminal of unknown width, where no bar can be drawn.
        self._lines = not quiet and self._bar.disable

    def attempt(self) -> None:
        with self._lock:
            self.attempts += 1
            self._refresh()

    def task(self, grade: Grade) -> None:
        """Count a task that has ended with this hidden verdict."""
        with self._lock:
            self.finished += 1
            self.passed += grade.passed
            self._refresh()

    @property
    def line(self) -> str:
        """Text after the bar."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        usage = self._spent()
        text = f"{self.passed} passed, {self.attempts / seconds:.1f} attempts/s, "
        text += f"{usage.completion_tokens / seconds:.0f} tokens/s"
        return text + (f", cost {usage.cost:.4f}" if usage.cost and not usage.uncounted else "")

    def close(self) -> None:
        with self._lock:
            self._bar.n = self.finished  # a notebook keeps an incomplete bar, in red
            self._bar.close()
            if self._lines:
                self._log()

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._lines and now - self._logged > LOG_EVERY:
            self._log()
        elif not self._bar.disable and now - self._refreshed > REFRESH_EVERY:
            self._refreshed, self._bar.n = now, self.finished
            self._bar.set_postfix_str(self.line)

    def _log(self) -> None:
        self._logged = time.monotonic()
        print(f"{self.finished}/{self.total} tasks, {self.line}, {self._left()} left", file=sys.stderr, flush=True)

    def _left(self) -> str:
        new = self.finished - self._finished_before
        if new <= 0:
            return "unknown time"
        seconds = (time.monotonic() - self._start) / new * (self.total - self.finished)
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def bar(**options: Any) -> tqdm[Any]:
    """Return a tqdm bar that disappears at its end: widgets where a notebook has them, else characters."""
    if in_notebook() and find_spec("ipywidgets"):
        from tqdm.auto import tqdm as widget_bar

        return widget_bar(dynamic_ncols=True, leave=False, **options)
    from tqdm import tqdm

    return tqdm(dynamic_ncols=True, leave=False, **options)


def columns() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def in_notebook() -> bool:
    """Whether this process is an interactive one; that some library loaded IPython is not enough."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
