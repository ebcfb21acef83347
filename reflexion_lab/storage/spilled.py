"""Records in a temporary file instead of memory, for what one process remembers."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

import msgspec

from reflexion_lab.records import Record

K = TypeVar("K")
R = TypeVar("R", bound=Record)
_SIZE_BITS = 32


class Spilled(MutableMapping[K, R]):
    """Records of one `kind` by key, in order of arrival. Memory holds a position each, about 100 bytes.

    The file has no name and ends with the object. Space of replaced and removed records is not used again. Not
    thread-safe, except for iterators of `snapshot`.
    """

    def __init__(self, kind: type[R]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._places: dict[K, int] = {}
        """Offset and size in one number, which takes half the memory of a pair."""
        self._kept: list[R] = []
        """Records that no file can hold; their places are negative."""
        self._file: int | None = None
        self._end = 0

    def __setitem__(self, key: K, record: R) -> None:
        """Raises OSError: the folder for temporary files is full or may not be written."""
        try:
            body = msgspec.json.encode(record)
        except UnicodeEncodeError:  # half of a character, as in a log by hand
            self._kept.append(record)
            self._places[key] = -len(self._kept)
            return
        try:
            file = self._opened()
            if (written := os.pwrite(file, body, self._end)) < len(body):
                os.pwrite(file, body[written:], self._end + written)  # for its error: the disk is full
        except OSError as problem:
            failure = OSError(
                f"{tempfile.gettempdir()}: shared memory cannot be written ({problem.strerror}); free some space or "
                "set TMPDIR to another folder, then resume"
            )
            failure.errno = problem.errno
            raise failure from None
        self._places[key] = self._end << _SIZE_BITS | len(body)
        self._end += len(body)

    def __getitem__(self, key: K) -> R:
        return self._read(self._places[key])

    def __delitem__(self, key: K) -> None:
        del self._places[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def snapshot(self) -> Iterator[R]:
        """The records at the time of the call, without those stored later."""
        return map(self._read, list(self._places.values()))

    def _read(self, place: int) -> R:
        if place < 0:
            return self._kept[-place - 1]
        size, offset = place & (1 << _SIZE_BITS) - 1, place >> _SIZE_BITS
        return self._decode(os.pread(self._opened(), size, offset))

    def _opened(self) -> int:
        if self._file is None:
            descriptor, path = tempfile.mkstemp()
            os.unlink(path)  # noqa: PTH108
            self._file = descriptor
            weakref.finalize(self, os.close, descriptor)
        return self._file
