"""Stands in for the module `_multiprocessing` in a candidate, which may not create semaphores of the system.

`multiprocessing.dummy` and thread pools need them, although all their workers are threads. Standard library only.
"""

from typing import Any

flags: dict[str, int] = {}


class SemLock:
    """A semaphore or recursive lock between threads, with the interface of `_multiprocessing.SemLock`."""

    SEM_VALUE_MAX = 2**31 - 1
    handle = 0
    name = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        import threading

        self.kind, self.maxvalue = kind, maxvalue
        self._value, self._depth, self._owner = value, 0, 0
        self._changed, self._thread = threading.Condition(), threading.get_ident

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        with self._changed:
            if not (self.kind == 0 and self._is_mine()):
                if not self._changed.wait_for(lambda: self._value > 0, timeout if block else 0):
                    return False
                self._value -= 1
            self._owner, self._depth = self._thread(), self._depth + 1
            return True

    def release(self) -> None:
        with self._changed:
            if self.kind == 0 and not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self.kind and self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._depth -= 1
            if self.kind or not self._depth:
                self._value += 1
            self._changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()

    def _count(self) -> int:
        return max(0, self._depth)

    def _is_mine(self) -> bool:
        return self._depth > 0 and self._owner == self._thread()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        self._depth = 0


def sem_unlink(name: str) -> None:
    """Nothing to remove: no semaphore has a name."""
