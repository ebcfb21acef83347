"""Key-value tables shared by threads and processes, in a SQLite file, or by machines, in PostgreSQL.

Calls, executions, embeddings and spending are such tables. Statements use SQL common to both databases, with `:name`
for a value. SQLite is used without SQLAlchemy, which takes 0.3 s to import and 30 µs per look-up instead of 10 µs; a
cached call takes 38 µs in all. Committed rows survive a killed process. SQLite files need a local disk: the write-ahead
log does not work over a network file system.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from reflexion_lab.errors import LabError

T = TypeVar("T")
Row = tuple[object, ...]
PATIENCE = 60.0
"""Seconds to wait for an unavailable server to restart or be replaced."""


class Layout(NamedTuple):
    """Schema of a table."""

    name: str
    columns: str
    """Column definitions of `CREATE TABLE`."""
    application_id: int
    """SQLite header field that identifies the lab's files."""
    schema: int = 1
    """Version in SQLite files."""
    server_schema: int = 1
    """Version in PostgreSQL."""


class Execute(Protocol):
    """Run one statement in a transaction; return its rows."""

    def __call__(self, statement: str, values: Mapping[str, object]) -> list[Row]: ...


class Table(Protocol):
    """A table, opened by its first statement. Thread-safe; processes may create it concurrently."""

    place: str
    """The path, or the URL without its password."""
    largest: str
    """Name of the SQL function for the larger of two values."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions of an unusable database."""

    def described(self, error: Exception) -> str:
        """The reason and advice, to append to a message."""

    def open(self) -> None:
        """Create the table if missing."""

    def rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        """Run one statement, repeated if the connection is lost; return its rows."""

    def transaction(self, work: Callable[[Execute], tuple[T, bool]]) -> T:
        """Run `work` in a transaction, committed at most once; `work` returns its result and whether to commit. The
        rows that it reads or writes are locked.
        """

    def close(self) -> None:
        """The next statement reopens the table."""


@contextmanager
def faults(table: Table, error: type[LabError], failure: str) -> Iterator[None]:
    """Convert the table's errors to `error`, with place, reason and advice."""
    try:
        yield
    except table.errors as problem:
        raise error(f"{table.place}: {failure}{table.described(problem)}") from problem


def is_url(place: object) -> bool:
    """Whether `place` is meant as a URL, not as a path."""
    return "://" in str(place)


BUSY_SECONDS = 30.0
"""Wait for another process's lock."""


FAULTS = (sqlite3.Error, OSError)
"""Errors of an unusable file."""


class FileTable:
    """A `Table` in the SQLite file `path`; None: in memory."""

    # One connection with a lock takes 12 µs per look-up with 16 threads; a connection per thread takes 21 µs, since the
    # threads contend for the interpreter lock.

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
            return f" ({error}); is its disk full, or is another process using it?"
        return f" ({error}); move it away to start a new one, or name another file"

    def open(self) -> None:
        with self._lock:
            self._opened()

    def rows(self, statement: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
        """As `Table.rows`; also with positional values for `?`."""
        with self._lock:
            return self._opened().execute(statement, values).fetchall()

    def transaction(self, work: Callable[[Execute], tuple[T, bool]]) -> T:
        with self._lock:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # rolls back on an error
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
    # Autocommit: a call is stored before its reply is returned.
    return sqlite3.connect(target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)


def connect(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open `path` for reading and writing; create the table in a new file.

    Raises
    ------
    sqlite3.Error, OSError
        The file cannot be opened, is damaged, another program's or of another schema.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return _checked(path.absolute().as_uri(), layout)


def connect_readonly(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open an existing file for reading; raises as `connect`."""
    if not path.is_file():
        raise FileNotFoundError("no such file")
    uri = path.absolute().as_uri()
    try:
        return _checked(f"{uri}?mode=rw", layout, readonly=True)
    except sqlite3.OperationalError as error:
        # Readers of a write-ahead log write a file next to it. In a read-only folder, the file is opened as immutable,
        # unless that would ignore a log.
        log = Path(f"{path}-wal")
        readonly = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not readonly or (log.exists() and log.stat().st_size):
            raise
    return _checked(f"{uri}?immutable=1", layout, readonly=True)


def _checked(target: str, layout: Layout, readonly: bool = False) -> sqlite3.Connection:
    connection = _open(target)
    try:
        if readonly:
            connection.execute("PRAGMA query_only = ON")
        elif not connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall():
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


def set_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for this lock, and several processes may create a file concurrently.
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
    # Reads the whole file, 0.7 ms per megabyte, to find damage before a run starts.
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged: {verdict.splitlines()[-1]}")
