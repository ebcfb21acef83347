"""The call cache in PostgreSQL, for many machines; and which cache a place means.

`psql URL -c 'select request::json, completion::json from calls'`.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ModelError
from reflexion_lab.records import Completion, Record
from reflexion_lab.storage.call_store import IS_PASSING, CallStore
from reflexion_lab.storage.postgresql import is_url, read, shown
from reflexion_lab.storage.shared_table import PATIENCE, Layout, SharedTable, faults

LAYOUT = Layout(
    name="calls",
    schema=1,
    table="""CREATE TABLE calls (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, request TEXT NOT NULL,
    completion TEXT NOT NULL, created_at TEXT NOT NULL)""",
)
UNSAVED = "unsaved_calls.jsonl"
"""In the run root: calls that were paid for while the database was away."""
BATCH = 500


class Call(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row."""

    key: str
    fingerprint: str
    request: str
    completion: str
    created_at: str


_CALL, _COMPLETION = msgspec.json.Decoder(Call), msgspec.json.Decoder(Completion)


class SharedCalls:
    """The call cache in the database at `url`, shared by threads, processes and machines. A stored call survives the
    death of all of them.

    Args:
        unsaved: a file for replies that could not be stored, since they are paid for; whoever next opens the cache for
            writing stores them and removes it. None: such a reply is lost.
        patience: seconds to wait for a server that has gone.

    Raises:
        ModelError: the database cannot be had, or holds no call cache of this version.
    """

    def __init__(
        self, url: str, *, readonly: bool = False, unsaved: Path | None = None, patience: float = PATIENCE
    ) -> None:
        self._unsaved = unsaved
        self.place = shown(read(url, "cache.path"))
        with faults(f"{self.place}: it cannot be used as a call cache", ModelError):
            self._table = SharedTable(url, LAYOUT, "cache.path", readonly=readonly, patience=patience)
        if unsaved and not readonly and unsaved.is_file():
            self._take_in(unsaved)

    def open(self) -> None:
        """As with a file, of which nothing is made before; here the table is laid out already."""

    def get(self, key: str) -> Completion | None:
        """The reply stored under `key`, with `cached` False as when it was paid; None when there is none."""
        with faults(f"{self.place}: the call cache failed", ModelError):
            rows = self._table.rows("SELECT completion FROM calls WHERE key = %s", key)
        try:
            return _COMPLETION.decode(str(rows[0][0])) if rows else None
        except msgspec.DecodeError as error:
            raise ModelError(
                f"{self.place}: the completion of call {key} is damaged ({error}); delete that row"
            ) from error

    def put(self, key: str, fingerprint: str, request: bytes, completion: Completion) -> Completion:
        """Store a reply and return the one that stands: the first that is not of `PASSING`, if another process was
        faster.

        Its usage is that of `completion` even then, since both were paid.
        """
        call = Call(
            key=key,
            fingerprint=fingerprint,
            request=request.decode(),
            completion=msgspec.json.encode(replace(completion, cached=False)).decode(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            stands_now = self._insert(call)
        except ModelError as problem:
            raise self._kept(call, problem) from problem
        stands = completion if stands_now else self.get(key) or completion
        return replace(stands, usage=completion.usage, cached=False)

    def fingerprints(self) -> list[str]:
        """Fingerprints of the models whose replies are stored, sorted."""
        with faults(f"{self.place}: the call cache failed", ModelError):
            return sorted(str(row[0]) for row in self._table.rows("SELECT DISTINCT fingerprint FROM calls"))

    def calls(self, fingerprints: Sequence[str]) -> Iterator[Call]:
        """Every call of these models, by key."""
        after = ""
        columns = ", ".join(Call.__struct_fields__)
        statement = f"SELECT {columns} FROM calls WHERE key > %s AND fingerprint = ANY(%s) ORDER BY key LIMIT {BATCH}"
        while True:
            with faults(f"{self.place}: the call cache failed", ModelError):
                rows = self._table.rows(statement, after, list(fingerprints))
            for row in rows:
                yield Call(**dict(zip(Call.__struct_fields__, map(str, row), strict=True)))
            if len(rows) < BATCH:
                return
            after = str(rows[-1][0])

    def close(self) -> None:
        self._table.close()

    def _insert(self, call: Call) -> bool:
        """Whether it stands for its key."""
        values = msgspec.structs.astuple(call)
        insert = f"""INSERT INTO calls VALUES (%s, %s, %s, %s, %s) ON CONFLICT (key) DO UPDATE SET
            completion = excluded.completion, created_at = excluded.created_at
            WHERE {IS_PASSING} RETURNING 1"""
        with faults(f"{self.place}: the call cache failed", ModelError):
            return bool(self._table.rows(insert, *values))

    def _kept(self, call: Call, problem: ModelError) -> ModelError:
        if self._unsaved is None:
            return problem
        try:
            with _held(self._unsaved) as file:
                file.write(b"\n" + msgspec.json.encode(call) + b"\n")  # the line before may be torn
                file.flush()
                os.fsync(file.fileno())
        except OSError as other:
            return ModelError(f"{problem}; the reply is lost, since {self._unsaved} cannot be written ({other})")
        return ModelError(
            f"{problem}; the reply, which is paid for, is kept in {self._unsaved}, and goes into the call cache when a "
            "run with this run_root next opens it"
        )

    def _take_in(self, path: Path) -> None:
        with _held(path) as file:
            file.seek(0)
            unread = []
            for line in file.read().splitlines():
                try:
                    self._insert(_CALL.decode(line))
                except msgspec.ValidationError:  # of another version, which may read it
                    unread.append(line)
                except msgspec.DecodeError:  # torn when the machine went down: no whole reply
                    continue
            if not unread:
                path.unlink()
                return
            draft = path.with_name(f"{path.name}.draft")
            with draft.open("wb") as rest:
                rest.write(b"".join(line + b"\n" for line in unread))
                rest.flush()
                os.fsync(rest.fileno())
            draft.replace(path)
        warnings.warn(
            f"{path}: {len(unread)} replies of another version of reflexion_lab are not in the call cache; open it "
            "with that version",
            stacklevel=3,
        )


def opened(place: str | Path, *, readonly: bool = False, unsaved: Path | None = None) -> CallStore | SharedCalls:
    """The call cache at `place`: PostgreSQL by its URL, else an SQLite file.

    Raises:
        ValueError: `place` is a URL of something else.
        ModelError: the cache cannot be used, or (`readonly`) is missing.
    """
    if is_url(place):
        return SharedCalls(str(place), readonly=readonly, unsaved=unsaved)
    return CallStore(place, readonly=readonly)


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """The file, made where it is missing, for one process and thread at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # else somebody has removed or replaced it meanwhile
                yield file
                return
