"""Folders of a process's own, which the next process removes where this one was killed.

Whoever makes one holds a lock on it (`flock`) that falls with the process: one that nobody holds is nobody's.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "reflexion-lab-"
DRAWN = "[0-9a-f]" * 8
"""Behind a prefix, as `secrets` draws it: a user's `reflexion-lab-runs` is no folder of ours."""
remove = partial(shutil.rmtree, ignore_errors=True)


class Scratch:
    """A folder that is gone at `close`, or when the process ends.

    Args:
        place: where it is made; the system's folder for temporary files, when left out. What killed processes left
            there is removed once a process.
        prefix: of its name, and of what is looked for there.
        mode: who may use it.
        remove: removes it with all that it holds; never raises.
    """

    def __init__(
        self,
        place: Path | None = None,
        prefix: str = PREFIX,
        mode: int = 0o700,
        remove: Callable[[str], object] = remove,
    ) -> None:
        place = (place or Path(tempfile.gettempdir())).absolute()
        _clear(place, prefix, remove)
        self.path, hold = _made(place, prefix, mode)
        self._end = weakref.finalize(self, _ended, str(self.path), hold, remove)

    def close(self) -> None:
        """Safe to call twice. A folder that was given another name meanwhile stays."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _made(place: Path, prefix: str, mode: int) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds it."""
    while True:
        path = place / f"{prefix}{secrets.token_hex(4)}"
        path.mkdir(mode)
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process, which clears up, was faster than the lock
                os.close(hold)
                continue
            except OSError:  # a file system without locks: nobody clears up there either
                return path, hold
            if os.path.samestat(os.fstat(hold), path.stat()):
                return path, hold
            os.close(hold)
        except FileNotFoundError:
            continue


def _ended(path: str, hold: int, remove: Callable[[str], object]) -> None:
    remove(path)
    os.close(hold)


@cache
def _clear(place: Path, prefix: str, remove: Callable[[str], object]) -> None:
    """Remove what nobody holds; links, other users' folders and names that are none of ours stay."""
    for path in place.glob(prefix + DRAWN):
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(hold).st_uid == os.geteuid():
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(str(path))
        except OSError:  # somebody's
            continue
        finally:
            os.close(hold)
