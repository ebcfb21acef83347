"""One table of keyed rows that threads and processes share: in a SQLite file, or in PostgreSQL for many machines.

Calls, executions, embeddings and spending are such tables. Statements are written once, in SQL that both databases
know, with `:name` for a value. SQLite is used without SQLAlchemy, which measured 30 us for a look-up against 10 us, and
takes 0.3 s to import; a cached call takes 38 us in all. What a SQLite file stores survives the death of any process;
it belongs on a local disk, since SQLite's write-ahead log does not work over a network file system.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[object, ...]
PATIENCE = 60.0
"""Seconds to wait for a server that has gone: it restarts, or another takes its place."""


class Layout(NamedTuple):
    """Name, columns and versions of a table."""

    name: str
    columns: str
    """As `CREATE TABLE` has them."""
    application_id: int
    """Stands in a SQLite file's header, so that another program's SQLite file is not taken for ours."""
    schema: int = 1
    """Of a SQLite file."""
    server_schema: int = 1
    """Of a table in PostgreSQL."""


class Execute(Protocol):
    """Run one statement within a transaction; return its rows."""

    def __call__(self, statement: str, values: Mapping[str, object]) -> list[Row]: ...


class Table(Protocol):
    """Thread-safe; any number of processes may create it at once. It is opened by its first statement."""

    place: str
    """The path, or the URL without its password."""
    largest: str
    """The SQL function that returns the larger of two values."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that the methods raise when the database cannot be used."""

    def described(self, error: Exception) -> str:
        """The reason and what to do about it, to follow the name of what failed."""

    def open(self) -> None:
        """Create the table where it is missing."""

    def rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        """Run a single statement, which may be repeated when a connection is lost; return its rows."""

    def transaction(self, work: Callable[[Execute], tuple[T, bool]]) -> T:
        """Run `work` in one transaction, which takes effect at most once. `work` returns its result and whether to
        commit. No other writer of the rows that it reads or writes is at work meanwhile.
        """

    def close(self) -> None:
        """The next statement opens it again."""


def is_url(place: object) -> bool:
    """Whether `place` is meant as a URL, not as a path."""
    return "://" in str(place)


def table_at(
    place: str | Path | None, layout: Layout, key: str, *, readonly: bool = False, patience: float = PATIENCE
) -> Table:
    """The table at `place`: PostgreSQL by its URL, else a SQLite file; None: in this process alone.

    Parameters
    ----------
    key
        The config key that `place` comes from, for errors.
    readonly
        Create and write nothing.
    patience
        Seconds to wait for a server that is away.

    Raises
    ------
    ConfigError
        `place` is a URL of something else.
    """
    if place is not None and is_url(place):
        from reflexion_lab.storage.postgresql import SharedTable

        return SharedTable(str(place), layout, key, readonly=readonly, patience=patience)
    return FileTable(Path(place) if place else None, layout, readonly=readonly)


BUSY_SECONDS = 30.0
"""How long to wait for another process."""


FAULTS = (sqlite3.Error, OSError)
"""Errors of reading and writing a file."""


class FileTable:
    """The `Table` in the SQLite file at `path`; in memory without a path."""

    # One connection under one lock: measured at 12 us a look-up with 16 threads, against 21 us with a
    # connection per thread, which fight for the interpreter lock instead.

    errors = FAULTS
    largest = "max"

    def __init__(self, path: Path | None, layout: Layout, *, readonly: bool = False) -> None:
        self.place = str(path)
        self._path = path
        self._layout = layout
        self._readonly = readonly
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def described(self, error: Exception) -> str:
        busy = isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in ("locked", "disk"))
        if busy or self._connection is not None:
            return f" ({error}); is its disk full, or another process at it?"
        return f" ({error}); move it away to begin a new one, or name another file"

    def open(self) -> None:
        with self._lock:
            self._opened()

    def rows(self, statement: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
        """As `Table.rows`; values may also be positional, for `?`."""
        with self._lock:
            return self._opened().execute(statement, values).fetchall()

    def transaction(self, work: Callable[[Execute], tuple[T, bool]]) -> T:
        with self._lock:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # rolls back what failed
                result, commit = work(lambda statement, values: connection.execute(statement, values).fetchall())
                if not commit:
                    connection.rollback()
        return result

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path is None:
                self._connection = _open(":memory:")
                self._connection.execute(_creation(self._layout))
            else:
                self._connection = (connect_readonly if self._readonly else connect)(self._path, self._layout)
        return self._connection


def _creation(layout: Layout) -> str:
    return f"CREATE TABLE IF NOT EXISTS {layout.name} ({layout.columns})"


def _open(target: str) -> sqlite3.Connection:
    # Autocommit: a call is on its way to the file before its reply is handed on.
    return sqlite3.connect(target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)


def connect(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open `path` for reading and writing, and lay it out if it is new.

    Raises
    ------
    sqlite3.Error, OSError
        The file is damaged, another program's, of another schema, or cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = _open(path.absolute().as_uri())
    try:
        if _is_empty(connection):
            set_wal(connection)
            connection.executescript(
                f"BEGIN IMMEDIATE; {_creation(layout)}; PRAGMA application_id = {layout.application_id}; "
                f"PRAGMA user_version = {layout.schema}; COMMIT"
            )
        _check(connection, layout)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_readonly(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open an existing file for reading; raises as `connect` does."""
    if not path.is_file():
        raise FileNotFoundError("no such file")
    uri = path.absolute().as_uri()
    try:
        return _checked_reader(f"{uri}?mode=rw", layout)
    except sqlite3.OperationalError as error:
        # A reader of a write-ahead log needs to write beside it. In a read-only folder the file is taken as
        # it stands, unless a log that cannot be read would be left out.
        log = Path(f"{path}-wal")
        readonly = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not readonly or (log.exists() and log.stat().st_size):
            raise
    return _checked_reader(f"{uri}?immutable=1", layout)


def _checked_reader(target: str, layout: Layout) -> sqlite3.Connection:
    connection = _open(target)
    try:
        connection.execute("PRAGMA query_only = ON")
        _check(connection, layout)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()


def set_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for this one lock by itself, and several processes may open a new file at once.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _check(connection: sqlite3.Connection, layout: Layout) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != layout.application_id:
        raise sqlite3.DatabaseError("it is the SQLite file of another program")
    if schema != layout.schema:
        raise sqlite3.DatabaseError(f"its schema is {schema}, this version reads {layout.schema}")
    # Reads the whole file, 0.7 ms a megabyte: a torn file is found before a run, not in its midst.
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged: {verdict.splitlines()[-1]}")
