"""The seal of a finished run: SHA-256 and number of lines of every file that its records are in.

It tells a change from what the run wrote, even where no figure moves. It is no signature: whoever can write the records
can write another seal.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from reflexion_lab.errors import FolderError
from reflexion_lab.records import Record
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder

FILE = "digests.json"
SEALED = (
    "manifest.json",
    "attempts.jsonl",
    "results.jsonl",
    "grades.jsonl",
    "written_tests.jsonl",
    "suite_verdicts.jsonl",
    "set_aside.jsonl",
    "resumptions.jsonl",
    "memory.json",
    "recorded.json",
    registration.FILE,
)
"""Of these, the files that a run has; all else in its folder is a view of them."""


class Digest(Record, frozen=True, kw_only=True):
    """One file."""

    sha256: str
    """In hex."""
    lines: int
    """Line breaks."""


_DECODER = msgspec.json.Decoder(dict[str, Digest])


def seal(folder: RunFolder) -> None:
    """Write the digests of a finished run. A run that was finished before, and added nothing, keeps those that it has:
    a second look may not bless what was changed meanwhile.
    """
    if folder.is_untouched and is_sealed(folder):
        return
    folder.write_json(FILE, msgspec.to_builtins(digests(folder.path)))


def is_sealed(folder: RunFolder) -> bool:
    """Whether the run was finished once."""
    return (folder.path / FILE).exists()


def digests(folder: Path) -> dict[str, Digest]:
    """Current digests of the files of a run, by name."""
    return {name: _digest(folder / name) for name in SEALED if (folder / name).is_file()}


def sealed(folder: Path) -> dict[str, Digest] | None:
    """Digests of the files at the end of the run, by name; None if they were not recorded.

    Raises
    ------
    FolderError
        The seal cannot be read.
    """
    path = folder / FILE
    try:
        return _DECODER.decode(path.read_bytes()) if path.exists() else None
    except msgspec.MsgspecError as problem:
        raise FolderError(f"{path}: {problem}", expected="sha256 and lines of each file of records") from None


def _digest(path: Path) -> Digest:
    sha256, lines = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            sha256.update(part)
            lines += part.count(b"\n")
    return Digest(sha256=sha256.hexdigest(), lines=lines)
