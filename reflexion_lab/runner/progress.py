"""Progress of a run: tasks done and passed, attempts/s, tokens/s, cost, time left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from reflexion_lab.records import Grade, Usage

if TYPE_CHECKING:
    from tqdm import tqdm

REFRESH_EVERY = 0.5
"""Seconds between two updates of a bar: each is several messages to a notebook."""
LOG_EVERY = 15.0
"""Seconds between lines where the output is a log: neither a terminal nor a notebook."""


class Progress:
    """A bar in a terminal or a notebook, a line every `LOG_EVERY` seconds in a log. Thread-safe.

    `done`: tasks that a resumed run has finished, `passed` of them passed. `spent`: spending of uncached calls.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        passed: int = 0,
        quiet: bool = False,
        spent: Callable[[], Usage] = Usage,
    ) -> None:
        self.attempts = 0
        self._spent = spent
        self.passed = passed
        self.total = total
        self.done = self._done_before = done
        self._start = self._logged = self._refreshed = time.monotonic()
        self._lock = threading.Lock()
        log = not (sys.stderr.isatty() or in_notebook())
        self._bar = bar(total=total, initial=done, unit="task", disable=quiet or log)
        # Also in a terminal that tells no width, where no bar can be drawn.
        self._lines = not quiet and self._bar.disable

    def attempt(self) -> None:
        """One attempt ended."""
        with self._lock:
            self.attempts += 1
            self._refresh()

    def task(self, grade: Grade) -> None:
        """One task ended, with this hidden verdict."""
        with self._lock:
            self.done += 1
            self.passed += grade.passed
            self._refresh()

    @property
    def line(self) -> str:
        """Text behind the bar."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        usage = self._spent()
        text = f"{self.passed} passed, {self.attempts / seconds:.1f} attempts/s, "
        text += f"{usage.completion_tokens / seconds:.0f} tokens/s"
        return text + (f", cost {usage.cost:.4f}" if usage.cost else "")

    def close(self) -> None:
        with self._lock:
            self._bar.n = self.done  # a notebook's bar that is not at its end stays, in red
            self._bar.close()
            if self._lines:
                self._log()

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._lines and now - self._logged > LOG_EVERY:
            self._log()
        elif not self._bar.disable and now - self._refreshed > REFRESH_EVERY:
            self._refreshed, self._bar.n = now, self.done
            self._bar.set_postfix_str(self.line)

    def _log(self) -> None:
        self._logged = time.monotonic()
        print(f"{self.done}/{self.total} tasks, {self.line}, {self._left()} left", file=sys.stderr, flush=True)

    def _left(self) -> str:
        new = self.done - self._done_before
        if new <= 0:
            return "unknown time"
        seconds = (time.monotonic() - self._start) / new * (self.total - self.done)
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def bar(**options: Any) -> tqdm[Any]:
    """Return a tqdm bar that disappears at its end: widgets where a notebook has them, else characters."""
    if in_notebook() and find_spec("ipywidgets"):
        from tqdm.auto import tqdm as widget_bar

        return widget_bar(dynamic_ncols=True, leave=False, **options)
    from tqdm import tqdm

    return tqdm(dynamic_ncols=True, leave=False, **options)


def in_notebook() -> bool:
    """Whether this process is an interactive one; that some library loaded IPython is not enough."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
