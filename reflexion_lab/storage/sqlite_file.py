"""One SQLite file, shared by threads and processes, that survives the death of any of them.

It belongs on a local disk, since SQLite's write-ahead log does not work over a network file system.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

BUSY_SECONDS = 30.0
"""How long to wait for another process."""


class Layout(NamedTuple):
    """What a kind of file looks like."""

    application_id: int
    """Stands in the file's header, so that another program's SQLite file is not taken for ours."""
    schema: int
    table: str
    """The statement that creates its table."""


def _open(target: str) -> sqlite3.Connection:
    # Autocommit: a call is on its way to the file before its reply is handed on.
    return sqlite3.connect(target, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)


def connect(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open `path` for reading and writing, and lay it out if it is new.

    Raises:
        sqlite3.Error, OSError: the file is damaged, another program's, of another schema, or cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = _open(path.absolute().as_uri())
    try:
        if _is_empty(connection):
            set_wal(connection)
            connection.executescript(
                f"BEGIN IMMEDIATE; {layout.table}; PRAGMA application_id = {layout.application_id}; "
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
