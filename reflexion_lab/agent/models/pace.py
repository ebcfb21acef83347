"""A rate limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Spaces calls evenly, at most `per_minute` a minute; None: no limit. Thread-safe."""

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = float("-inf")

    def wait(self) -> None:
        """Sleep until this caller's turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._free_at)
            self._free_at = turn + self._interval
        if turn > now:
            self._sleep(turn - now)
