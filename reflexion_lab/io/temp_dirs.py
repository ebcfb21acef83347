"""Temporary folders that a later process removes when their own process was killed.

The process holds a lock (`flock`) on its folder, which ends with the process; a folder without a lock is stale.
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
"""What follows the prefix: a user's `reflexion-lab-runs` does not match."""
remove = partial(shutil.rmtree, ignore_errors=True)


class Scratch:
    """A folder that is gone at `close`, or when the process ends.

    Parameters
    ----------
    place
        Where it is made; the system's folder for temporary files, when left out. What killed processes left
        there is removed once a process.
    prefix
        Of its name, and of what is looked for there.
    mode
        Who may use it.
    remove
        Removes it with all that it holds; never raises.
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
        self.path, hold = _created(place, prefix, mode)
        self._end = weakref.finalize(self, _closed, str(self.path), hold, remove)

    def close(self) -> None:
        """Safe to call twice. A folder that was given another name meanwhile stays."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _created(place: Path, prefix: str, mode: int) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock."""
    while True:
        path = place / f"{prefix}{secrets.token_hex(4)}"
        path.mkdir(mode)
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process that cleans up was faster
                os.close(hold)
                continue
            except OSError:  # a file system without locks: no process cleans up there
                return path, hold
            if os.path.samestat(os.fstat(hold), path.stat()):
                return path, hold
            os.close(hold)
        except FileNotFoundError:
            continue


def _closed(path: str, hold: int, remove: Callable[[str], object]) -> None:
    remove(path)
    os.close(hold)


@cache
def _clear(place: Path, prefix: str, remove: Callable[[str], object]) -> None:
    """Remove stale folders; links, other users' folders and other names stay."""
    for path in place.glob(prefix + DRAWN):
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(hold).st_uid == os.geteuid():
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(str(path))
        except OSError:  # in use
            continue
        finally:
            os.close(hold)
