"""Files that a user names: read in whole where they are files, and else refused, before anybody waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reflexion_lab.errors import ConfigError, DataError

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises of bytes that anybody may have written."""


def content(path: Path | str, expected: str) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: it is a folder, a pipe, a device or not there, or may not be read; `expected` is what it should be.
    """
    check(path, expected)
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise DataError(path, f"a file that cannot be read ({problem.strerror})", expected) from None


@contextmanager
def writable(key: str, path: Path | str, expected: str) -> Iterator[None]:
    """Raises ConfigError where what is written within meets an OSError: the option `key` names a `path` that is there
    as something else, that lies in no folder, or that may not be written.
    """
    try:
        yield
    except OSError as problem:
        raise ConfigError(key, f"{str(path)!r} ({problem.strerror})", expected, "name another") from None


def check(path: Path | str, expected: str) -> None:
    """Raises DataError: `path` is no file. Of a pipe or a device nobody knows whether it ends."""
    file = Path(path)
    try:
        if file.is_file():
            return
        found = "a folder" if file.is_dir() else "a pipe or a device" if file.exists() else "no file"
    except (OSError, ValueError) as problem:  # a name too long, or with a NUL; links in a circle
        found = f"no file ({getattr(problem, 'strerror', None) or problem})"
    raise DataError(repr(str(path)[:200]), found, expected)
