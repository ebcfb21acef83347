"""Append-only JSON-lines files of one folder, written by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reflexion_lab.errors import FolderError
from reflexion_lab.io import files

LOCK = ".lock"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderLost(FolderError):
    """A file or its folder is no longer there, or is another one: what would be written is lost."""


class Held(Exception):
    """Another process, or another thread, is at the folder."""


class Appended:
    """Thread-safe. A line is with the operating system when `append` returns; `sync` forces it to the disk.

    A line that could be written in part only is taken back, so that the next one begins a line of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}
        self._hold: int | None = None

    @property
    def is_untouched(self) -> bool:
        """Nothing was appended, since it was made or closed."""
        return not self._open

    def append(self, name: str, line: bytes) -> None:
        """Raises FolderLost; OSError: the disk is full, the file may not be written."""
        with self._lock:
            try:
                if name not in self._open:
                    self._open[name] = open_for_append(self.folder / name)
                self._check(name)
                _write(self._open[name], line)
            except OSError as problem:
                raise self._failed(name, problem) from None

    def replace(self, name: str, text: str) -> None:
        """Put `text` in the place of the file `name` in one step: a reader sees the old text or the new one."""
        try:
            files.replace(self.folder / name, [text.encode()])
        except OSError as problem:
            raise self._failed(name, problem) from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Exclusive use of the folder; a nested hold of this object is the same hold. Drafts of killed processes are
        removed.

        Raises
        ------
        Held
            Somebody is.
        """
        if self._hold is not None:
            yield
            return
        with (self.folder / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Held from None
            for draft in self.folder.glob(f".*{files.DRAFT}"):
                draft.unlink(missing_ok=True)
            self._hold = file.fileno()
            try:
                yield
            finally:
                self._hold = None

    def sync(self) -> None:
        """Raises as `append`."""
        with self._lock:
            opened = dict(self._open)
        for name, descriptor in opened.items():
            try:
                self._check(name)
                os.fsync(descriptor)
            except OSError as problem:
                raise self._failed(name, problem) from None

    def close(self) -> None:
        with self._lock:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def _check(self, name: str) -> None:
        """Raises FolderLost when `name` or the lock file was moved, deleted or replaced."""
        opened = {name: self._open[name], **({} if self._hold is None else {LOCK: self._hold})}
        for file, descriptor in opened.items():
            try:
                stands = os.path.samestat(os.stat(f"{self.folder}/{file}"), os.fstat(descriptor))  # noqa: PTH116
            except OSError:
                stands = False
            if not stands:
                raise self._lost(file)

    def _failed(self, name: str, problem: OSError) -> Exception:
        if isinstance(problem, FileNotFoundError):
            return self._lost(name)
        advice = "free some space" if problem.errno in FULL else "see what is there, and who may write"
        failed = OSError(
            f"{self.folder / name} cannot be written ({problem.strerror}); {advice}, then resume; what had finished "
            "before stands"
        )
        failed.errno = problem.errno
        return failed

    def _lost(self, name: str) -> FolderLost:
        return FolderLost(
            f"{self.folder}: {name} was deleted, moved or replaced while the run was writing; put it back and resume, "
            "or begin anew with the same command: replies that were paid for are in the call cache"
        )


def open_for_append(path: Path) -> int:
    """A descriptor, behind a line break if a kill left the last line torn."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor


def _write(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written == len(line):
        return
    with suppress(OSError):
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
