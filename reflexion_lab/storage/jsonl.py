"""The store that a person can read: a folder of JSON lines, one file a kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, prepared
from reflexion_lab.storage.locked_file import faults
from reflexion_lab.storage.record_file import RecordFile
from reflexion_lab.storage.search import matching


class Jsonl:
    """Records in the folder `path`, which is made if it is missing: episodes.jsonl, wisdom.jsonl, mistakes.jsonl and
    sessions.jsonl, each a header and then one record a line.

    `append` returns when the operating system has the records: they outlive a killed process, and a crash of the
    machine once `close` or `sync` has returned. What it appends of one kind is kept whole, or, on a full disk, not at
    all; a kill in its midst may keep the first of the records. Newer versions of a record are added behind the older
    ones, which `prune` removes. The folder belongs on a disk whose file system knows `flock`.

    Raises
    ------
    StoreError
        The folder cannot be used, or a file in it is not of this version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with faults(self.path, "used as a folder of records"):
            self.path.mkdir(parents=True, exist_ok=True)
        self._files = {kind.name: RecordFile(self.path / f"{kind.name}.jsonl", kind) for kind in KINDS}
        self._appended: set[str] = set()
        for file in self._files.values():
            file.check()

    @property
    def skipped(self) -> int:
        """Lines that could not be read, at the last whole reading of each file. A warning has named them."""
        return sum(len(file.skipped) for file in self._files.values())

    def append(self, records: Sequence[Stored]) -> None:
        """Raises ValueError, too, as `kinds.prepared` does."""
        texts: dict[str, list[bytes]] = {}
        for line in prepared(records):
            texts.setdefault(line.kind.name, []).append(line.body + b"\n")
        for name, text in texts.items():
            self._files[name].append(b"".join(text))
            self._appended.add(name)

    def read(self, kind: type[S]) -> Iterator[S]:
        return cast(Iterator[S], self._files[KIND_OF[kind].name].read())

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        return sum(file.prune(before) for file in self._files.values())

    def sync(self) -> None:
        """Force what was appended so far to the disk."""
        for name in sorted(self._appended):
            self._files[name].sync()

    def close(self) -> None:
        self.sync()
