"""A file that many processes append to and any of them may rewrite: one writer at a time, and readers of whole writes.

Locks are `flock`, taken on a descriptor of their own: they keep threads apart as well as processes, and go with the
process that held them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reflexion_lab.errors import StoreError
from reflexion_lab.io import files
from reflexion_lab.io.jsonl_log import FULL


@contextmanager
def locked(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and size of the file, made if it is missing, with no other writer about."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A process that rewrote the file while we waited has replaced it.
            if _stands(path, descriptor):
                yield descriptor, os.fstat(descriptor).st_size
                return
        finally:
            # Closing alone would not do: a process that was forked meanwhile has the descriptor too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _stands(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


@contextmanager
def snapshot(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and size as no writer is in the midst of a write; others may append on. Size 0 for a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield -1, 0
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        size = os.fstat(descriptor).st_size
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        yield descriptor, size
    finally:
        os.close(descriptor)


def write(descriptor: int, text: bytes, size: int) -> None:
    """Append all of `text` to a file of `size` bytes, or nothing."""
    rest = memoryview(text)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        os.ftruncate(descriptor, size)
        raise


def replace(path: Path, parts: Iterable[bytes]) -> None:
    """Replace `path`, of which the caller holds the lock, in one step; it is on the disk when this returns."""
    files.replace(path, parts, path.with_name(f".{path.name}{files.DRAFT}"))
    sync(path.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def faults(path: Path, verb: str) -> Iterator[None]:
    """An OSError within becomes a StoreError: `path` cannot be `verb`."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        advice = "free some space and try again" if full else "name a place that you may use, and see what is there"
        raise StoreError(
            f"{path}: it cannot be {verb} ({error.strerror}); {advice}; what it kept before stands"
        ) from error
