"""Bounded gunzip: a small file from elsewhere may expand without end."""

from __future__ import annotations

import zlib

from reflexion_lab.errors import DataError

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
