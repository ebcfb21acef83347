"""The text of a file of records: a header that names kind and schema, then one record a line."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from reflexion_lab.errors import StoreError
from reflexion_lab.records import SCHEMA_VERSION, Record
from reflexion_lab.storage.kinds import Kind

BLOCK = 1 << 22
"""Bytes read at once."""


class Header(Record, frozen=True, kw_only=True):
    """The first line of a file of records."""

    kind: str
    schema: int


def header(kind: Kind) -> bytes:
    return msgspec.json.encode(Header(kind=kind.name, schema=SCHEMA_VERSION)) + b"\n"


def blocks(descriptor: int, size: int) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of the first `size` bytes, without their breaks, some thousands at once behind the number of the first;
    numbers begin at 1. The last line of all may lack its break.
    """
    rest, offset, number = b"", 0, 1
    while offset < size and (block := os.pread(descriptor, min(BLOCK, size - offset), offset)):
        offset += len(block)
        whole = (rest + block).split(b"\n")
        rest = whole.pop()
        yield number, whole
        number += len(whole)
    if rest:
        yield number, [rest]


def lines(descriptor: int, size: int) -> Iterator[bytes]:
    """The same lines, one by one."""
    for _, block in blocks(descriptor, size):
        yield from block


def header_number(where: object, kind: Kind, descriptor: int, size: int) -> int:
    """The number, from 1, of the line that is the header; 0 where no line can be read at all, since the very first
    write was torn.

    Raises
    ------
    StoreError
        The first line that can be read is no header, or that of another kind or schema.
    """
    for number, line in enumerate(lines(descriptor, size), 1):
        try:
            check_header(f"{where}, line {number}", line, kind.name)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return number
    return 0


def check_header(where: str, line: bytes, name: str) -> None:
    """Raises StoreError unless `line` is the header of a file of `name`; a decoder's error when it is torn."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.ValidationError:
        raise StoreError(
            where,
            "no header",
            header_text(name),
            "a file of records from elsewhere goes in by `reflexion-lab memory import`",
        ) from None
    if header.kind != name:
        raise StoreError(where, f"a file of {header.kind!r}", name, "give the file its own name back")
    check_schema(where, header.schema)


def check_schema(where: str, schema: int) -> None:
    if schema == SCHEMA_VERSION:
        return
    advice = "use the version of reflexion_lab that wrote it" + (", or a newer one" if schema > SCHEMA_VERSION else "")
    raise StoreError(where, f"schema {schema}", f"schema {SCHEMA_VERSION}", advice)


def header_text(name: str) -> str:
    return msgspec.json.encode(Header(kind=name, schema=SCHEMA_VERSION)).decode()


def other_version(where: str, problem: object) -> StoreError:
    return StoreError(f"{where}: {problem}; was it written by another version? Correct or remove that line")
