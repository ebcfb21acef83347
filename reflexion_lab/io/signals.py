"""Termination signals. The first lets running tasks end; a second Ctrl-C exits at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from types import FrameType

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; a cluster's scheduler; a terminal that was closed."""


class Asked(KeyboardInterrupt):
    """A termination signal was received. `code`: the exit code, as a shell has it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.code = 128 + number


@contextmanager
def signals_handled() -> Iterator[None]:
    """Within, the first of `HEEDED` raises `Asked` in the main thread. After it a Ctrl-C ends the process at once,
    whatever its threads wait for; the others are taken as repetitions.

    A signal that is ignored, as by `nohup`, or handled outside of Python, stays so. In another thread than the main
    one, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    was_asked = False
    terminals = [descriptor for descriptor in (0, 1, 2) if _is_terminal(descriptor)]

    def heed(number: int, _frame: FrameType | None) -> None:
        nonlocal was_asked
        if number == signal.SIGHUP:
            _silence(terminals)
        if not was_asked:
            was_asked = True
            raise Asked(number)
        if number == signal.SIGINT:
            with suppress(OSError):
                os.write(2, b"\nstopped at once; what had finished is written\n")
            os._exit(128 + number)  # the sandbox's servers end with the connection to this process

    former = {number: signal.getsignal(number) for number in HEEDED}
    former = {number: handler for number, handler in former.items() if handler not in (signal.SIG_IGN, None)}
    for number in former:
        signal.signal(number, heed)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def ended(futures: Iterable[Future[None]]) -> Iterator[Future[None]]:
    """Each future as it ends, waited for in steps of half a second.

    A wait without an end can miss a signal: Python handles signals between two instructions of the main thread, and
    nothing wakes that thread when the signal went to another one, or came just before the wait began.
    """
    waiting = set(futures)
    while waiting:
        over, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
        yield from over


def _is_terminal(descriptor: int) -> bool:
    with suppress(OSError):
        return os.isatty(descriptor)
    return False


def _silence(terminals: list[int]) -> None:
    """Printing to a closed terminal would be an error."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
