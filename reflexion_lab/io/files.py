"""Whole files: read where they are regular files and refused otherwise; replaced in one step."""

from __future__ import annotations

import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reflexion_lab.errors import ConfigError, DataError

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder may raise for bytes from elsewhere."""
DRAFT = ".draft"
"""How the name of a file ends while it is written."""


def content(path: Path | str, expected: str) -> bytes:
    """The bytes of a file.

    Raises
    ------
    DataError
        It is a folder, a pipe, a device or missing, or may not be read; `expected` says what it should be.
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
    """Raises DataError unless `path` is a regular file: a pipe or a device may never end."""
    file = Path(path)
    try:
        if file.is_file():
            return
        kind = "a folder" if file.is_dir() else "a pipe or a device" if file.exists() else "no file"
    except (OSError, ValueError) as problem:  # a name too long, or with a NUL; links in a circle
        kind = f"no file ({getattr(problem, 'strerror', None) or problem})"
    raise DataError(repr(str(path)[:200]), kind, expected)


def replace(path: Path, parts: Iterable[bytes], draft: Path | None = None) -> None:
    """Write `parts` to `path` in one step: a reader sees the old file or the new one, and so does the disk after a
    crash.

    Parameters
    ----------
    draft
        The file to write first, in the same folder, for a caller who alone writes `path`: what a killed process left
        there is overwritten. None: a name of its own, which ends in `DRAFT`.
    """
    draft = draft or path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with draft.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


SMALL = 64 << 20
"""Bytes to which any file may expand."""
RATIO = 200
"""Largest ratio of expanded to packed bytes: JSON shrinks to a tenth, repeated prompts to a fiftieth."""
LARGEST = 4 << 30
GZIP = b"\x1f\x8b"
_READ = 1 << 16


def gunzipped(data: bytes) -> bytes:
    """The expanded `data`, of one member or several.

    Raises
    ------
    DataError
        It is no whole gzip file, or expands beyond the bounds.
    """
    parts: list[bytes] = []
    size, place = 0, 0
    while place < len(data):
        member = zlib.decompressobj(wbits=31)
        while not member.eof and (place < len(data) or member.unconsumed_tail):
            chunk = member.unconsumed_tail or data[place : place + _READ]
            place += 0 if member.unconsumed_tail else len(chunk)
            try:
                parts.append(member.decompress(chunk, SMALL))
            except zlib.error as problem:
                raise DataError(f"a damaged gzip file: {problem}") from None
            size += len(parts[-1])
            if size > min(LARGEST, max(SMALL, RATIO * place)):
                raise DataError(f"{len(data):,} bytes that unpack to more than {size:,}, as no text does")
        if not member.eof:
            raise DataError("a gzip file that breaks off")
        place -= len(member.unused_data)
        if not data[place:].strip(b"\0"):
            break
    return b"".join(parts)
