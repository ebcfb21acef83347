"""The call cache, which is also the recording of a replay, and the ledger of spending: SQLite files, or PostgreSQL.

To read it: `sqlite3 calls.sqlite "select request, completion from calls"` or
`psql URL -c 'select request::json, completion::json from calls'`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError, StoreError
from reflexion_lab.io.files import locked_byte
from reflexion_lab.limits import Count, NotNegative, check_fields
from reflexion_lab.records import Completion, Record
from reflexion_lab.storage.jsonl import locked, write
from reflexion_lab.storage.jsonl import replace as rewrite
from reflexion_lab.storage.table import PATIENCE, Execute, FileTable, Layout, Row, Table, faults, is_url

LAYOUT = Layout(
    name="calls",
    columns="""key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, request TEXT NOT NULL, completion TEXT NOT NULL,
    created_at TEXT NOT NULL""",
    application_id=0x52464C58,
)
PASSING = ("context_overflow", "wrong_model")
"""Finish reasons that depend on the server's setup (context, model); a later reply to the same call replaces them."""
UNSAVED = "unsaved_calls.jsonl"
"""File in the run root with paid calls that the database could not store."""
BATCH = 500

# Text matching, since PostgreSQL's JSON cannot hold NUL. Replies cannot contain the pattern: their quotes are escaped.
_IS_PASSING = " OR ".join(f"""calls.completion LIKE '%"finish_reason":"{reason}"%'""" for reason in PASSING)
_INSERT = f"""INSERT INTO calls VALUES (:key, :fingerprint, :request, :completion, :created_at)
ON CONFLICT (key) DO UPDATE SET completion = excluded.completion, created_at = excluded.created_at
WHERE {_IS_PASSING} RETURNING 1"""
_SELECT = "SELECT completion FROM calls WHERE key = :key"
_FINGERPRINTS = "SELECT DISTINCT fingerprint FROM calls"
_PAGE = f"""SELECT key, fingerprint, request, completion, created_at FROM calls
WHERE key > :after AND fingerprint = :fingerprint ORDER BY key LIMIT {BATCH}"""


class Call(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row."""

    key: str
    fingerprint: str
    request: str
    completion: str
    created_at: str


_CALL, _COMPLETION = msgspec.json.Decoder(Call), msgspec.json.Decoder(Completion)


class CallStore:
    """The call cache at `place`, shared by threads, processes and, in PostgreSQL, machines.

    Parameters
    ----------
    place
        Path of a SQLite file, created by the first call, or a PostgreSQL URL.
    readonly
        The cache must exist, and `put` fails.
    unsaved
        File for paid replies that the server could not store; the next writable cache stores them and removes the file.
        None: such replies are lost.
    patience
        Seconds to wait for an unavailable server.

    Raises
    ------
    ConfigError
        `place` is another URL.
    StoreError
        The cache is damaged, not a call cache of this version, or (`readonly`) missing.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        readonly: bool = False,
        unsaved: Path | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._holds = None if is_url(place) else Path(place).with_name(f".{Path(place).name}.lock")
        self._unsaved = unsaved if is_url(place) and not readonly else None
        self._is_closed = False
        self._table = _table_at(place, LAYOUT, "cache.path", readonly=readonly, patience=patience)
        self.place = self._table.place
        with suppress(OSError):  # a name too long: the first call reports it
            if readonly or is_url(place) or Path(place).exists():  # reports damage now
                self.open()
        if self._unsaved and self._unsaved.is_file():
            self._store_unsaved(self._unsaved)

    def open(self) -> None:
        """Create the cache now instead of at the first call. Raises StoreError."""
        with faults(self._table, StoreError, "cannot be used as a call cache"):
            self._table.open()

    def get(self, key: str) -> Completion | None:
        """The stored reply, with `cached` False; None if missing."""
        rows = self._rows(_SELECT, {"key": key})
        if not rows:
            return None
        try:
            return _COMPLETION.decode(str(rows[0][0]))
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self.place}: the completion of call {key} is damaged ({error})",
                hint=f"delete that row: DELETE FROM calls WHERE key = '{key}'",
            ) from error

    def put(self, key: str, fingerprint: str, request: bytes, completion: Completion) -> Completion:
        """Store a reply unless another process was faster with one that is not of `PASSING`; returns the stored reply.

        Its usage is that of `completion` in any case, since both were paid.
        """
        paid = replace(completion, cached=False)
        call = Call(
            key=key,
            fingerprint=fingerprint,
            request=request.decode(),
            completion=msgspec.json.encode(paid).decode(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            is_stored = self._insert(call)
        except StoreError as problem:
            raise self._set_aside(call, problem) from problem
        return paid if is_stored else replace(self.get(key) or paid, usage=completion.usage)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Hold the call `key` against other threads and processes that use the same file; they wait, however long the
        call takes, or until this process has ended. A PostgreSQL cache holds nothing.
        """
        if self._holds is None:
            yield
            return
        with locked_byte(self._holds, int(key[:15], 16)):
            yield

    def fingerprints(self) -> list[str]:
        """Fingerprints of the models whose replies are stored, sorted."""
        return sorted(str(fingerprint) for (fingerprint,) in self._rows(_FINGERPRINTS, {}))

    def calls(self, fingerprints: Sequence[str]) -> Iterator[Call]:
        """All calls of these models, ordered by model and key."""
        for fingerprint in sorted(set(fingerprints)):
            after = ""
            while rows := self._rows(_PAGE, {"after": after, "fingerprint": fingerprint}):
                yield from (Call(**dict(zip(Call.__struct_fields__, map(str, row), strict=True))) for row in rows)
                after = str(rows[-1][0])

    def close(self) -> None:
        self._is_closed = True
        self._table.close()

    def _insert(self, call: Call) -> bool:
        """Store a call unless its key is taken; returns whether it was stored."""
        return bool(self._rows(_INSERT, msgspec.structs.asdict(call)))

    def _rows(self, statement: str, values: dict[str, object]) -> list[Row]:
        if self._is_closed:
            raise StoreError(f"{self.place}: the call cache is a closed database")
        with faults(self._table, StoreError, "the call cache failed"):
            return self._table.rows(statement, values)

    def _set_aside(self, call: Call, problem: StoreError) -> StoreError:
        """Write a paid reply to the file of unsaved replies; returns the error to raise."""
        if self._unsaved is None:
            return problem
        try:
            self._unsaved.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._unsaved) as (descriptor, size):
                write(descriptor, b"\n" + msgspec.json.encode(call) + b"\n", size)  # the previous line may be torn
                os.fsync(descriptor)
        except OSError as other:
            return StoreError(f"{problem}; the reply is lost, since {self._unsaved} cannot be written ({other})")
        return StoreError(
            f"{problem}; the reply, which is paid for, is kept in {self._unsaved}, and goes into the call cache when a "
            "run with this run_root next opens it"
        )

    def _store_unsaved(self, path: Path) -> None:
        with locked(path):
            unread = []
            for line in path.read_bytes().splitlines():
                try:
                    self._insert(_CALL.decode(line))
                except msgspec.ValidationError:  # of another version
                    unread.append(line)
                except msgspec.DecodeError:  # torn by a crash of the machine
                    continue
            if not unread:
                path.unlink()
                return
            rewrite(path, (line + b"\n" for line in unread))
        warnings.warn(
            f"{path}: {len(unread)} replies of another version of reflexion_lab were not stored in the call cache; "
            "open it with that version",
            stacklevel=3,
        )


SPENDING = Layout(
    name="spending",
    columns="""scope TEXT PRIMARY KEY, calls BIGINT NOT NULL, tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL""",
    application_id=0x52464C53,
    server_schema=2,
)
_LEDGER_FAILURE = "the ledger of spending failed"
_SPENT = "SELECT calls, tokens, cost, seconds FROM spending WHERE scope = :scope"


class Spending(NamedTuple):
    """Calls, tokens, cost and time of all roles."""

    calls: int = 0
    tokens: int = 0
    """Prompt and completion tokens."""
    cost: float = 0.0
    seconds: float = 0.0
    """Wall time, summed over runs."""

    def plus(self, other: Spending, sign: int = 1) -> Spending:
        return Spending(
            self.calls + sign * other.calls,
            self.tokens + sign * other.tokens,
            self.cost + sign * other.cost,
            self.seconds + sign * other.seconds,
        )

    def __str__(self) -> str:
        cost = f", cost {self.cost:.4f}" if self.cost else ""
        return f"{self.calls:,} call{'s' * (self.calls != 1)}, {self.tokens:,} tokens{cost}, {self.seconds:,.0f} s"


class Caps(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on spending; None: no limit. Cached replies are free."""

    calls: Count | None = None
    tokens: Count | None = None
    cost: NotNegative | None = None
    seconds: NotNegative | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def exceeded(self, spending: Spending) -> str:
        """The first cap that `spending` exceeds (seconds: reaches), or ""."""
        for name, amount in spending._asdict().items():
            limit = getattr(self, name)
            if limit is not None and (amount > limit or (name == "seconds" and amount >= limit)):
                return name
        return ""


class Ledger:
    """Spending by scope, in a SQLite file, PostgreSQL (by URL) or, for `place` None, memory. Thread-safe.

    Calls of a killed process count in full.

    Parameters
    ----------
    patience
        Seconds to wait for an unavailable server.

    Raises
    ------
    ConfigError
        `place` is another URL.
    HarnessError
        The database cannot be used. The first call opens it, so a fully cached run creates no ledger.
    """

    def __init__(self, place: str | Path | None, patience: float = PATIENCE) -> None:
        self._table = _table_at(place, SPENDING, "storage.spending", patience=patience)
        larger = self._table.largest
        first = ", ".join(f"{larger}(0, :{name})" for name in Spending._fields)
        later = ", ".join(f"{name} = {larger}(0, spending.{name} + :{name})" for name in Spending._fields)
        self._add = f"""INSERT INTO spending VALUES (:scope, {first}) ON CONFLICT (scope) DO UPDATE SET {later}
        RETURNING calls, tokens, cost, seconds"""

    def add(self, scope: str, amount: Spending, caps: Caps) -> tuple[str, Spending]:
        """Add `amount` unless a cap would be exceeded; returns that cap's name or "", and the scope's new spending,
        0 or more.
        """

        def work(execute: Execute) -> tuple[tuple[str, Spending], bool]:
            # The row stays locked until the transaction ends, so no addition comes between the sum and its check.
            total = _spending(execute(self._add, {"scope": scope, **amount._asdict()}))
            cap = caps.exceeded(total)
            return (cap, total.plus(amount, -1) if cap else total), not cap

        with faults(self._table, HarnessError, _LEDGER_FAILURE):
            return self._table.transaction(work)

    def spent(self, scope: str) -> Spending:
        with faults(self._table, HarnessError, _LEDGER_FAILURE):
            return _spending(self._table.rows(_SPENT, {"scope": scope}))

    def close(self) -> None:
        self._table.close()


def _spending(rows: list[Row]) -> Spending:
    return Spending(*rows[0]) if rows else Spending()  # type: ignore[arg-type]


def _table_at(
    place: str | Path | None, layout: Layout, key: str, *, readonly: bool = False, patience: float = PATIENCE
) -> Table:
    """The table at `place`: a PostgreSQL URL, a SQLite file, or, for None, memory. Raises ConfigError for another URL.

    `key`: of `place` in the config, for errors. `patience`: seconds to wait for an unavailable server.
    """
    if place is not None and is_url(place):
        from reflexion_lab.storage.postgresql import SharedTable

        return SharedTable(str(place), layout, key, readonly=readonly, patience=patience)
    return FileTable(Path(place) if place else None, layout, readonly=readonly)
