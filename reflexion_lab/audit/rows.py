"""Lines of a log, read with errors that name file, line and field."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import GZIP, content, gunzipped
from reflexion_lab.records import Record


class Row(Record, frozen=True, kw_only=True):
    """One JSON object of a file."""

    file: str
    line: int
    fields: dict[str, Any]

    def text(self, name: str, default: str | None = None) -> str:
        """The text of a field; `default` where it is absent or null.

        Raises
        ------
        DataError
            It is no text, or absent with nothing to stand in.
        """
        value: object = self.fields.get(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise self.wrong(name, "nothing" if value is None else repr(value)[:60], "text")
        return value

    def verdict(self, name: str) -> bool | None:
        """True, False, or None where the field is absent or null."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, repr(value)[:60], "true, false or null")
        return value

    def wrong(self, name: str, got: str, expected: str) -> DataError:
        return DataError(f"{self.file}, line {self.line}, field {name}", got, expected)


def read_rows(path: Path) -> Iterator[Row]:
    """The objects of a `.jsonl` file, gzipped or not; blank lines are skipped.

    Raises
    ------
    DataError
        The file cannot be read or unpacked, or a line is no JSON object.
    """
    for number, line in enumerate(_unpacked(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as problem:
            reason = str(problem)[:120]
            raise DataError(f"{path}, line {number}", f"no JSON ({reason})", "one JSON object a line") from None
        if not isinstance(fields, dict):
            raise DataError(f"{path}, line {number}", f"a {type(fields).__name__}", "one JSON object a line")
        yield Row(file=str(path), line=number, fields=fields)


def _unpacked(path: Path) -> bytes:
    data = content(path, "rows of a log (.jsonl, .jsonl.gz)")
    try:
        return (gunzipped(data) if data.startswith(GZIP) else data).removeprefix(codecs.BOM_UTF8)
    except ValueError as problem:
        raise DataError(path, problem, "a whole gzip file") from None
