"""Opening a record store's database, SQLite or PostgreSQL; its transactions and errors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.storage import postgresql
from reflexion_lab.storage.table import BUSY_SECONDS, set_wal

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

APPLICATION_ID = 0x52464C4D
"""Stands in a SQLite file's header, so that another program's file is not taken for ours."""
EXPECTED = "postgresql://user:password@host:5432/database or sqlite:///path/to/file.sqlite"


def parsed(url: str | Path) -> URL:
    """`url`, or that of a SQLite file. Raises ConfigError, which does not repeat `url`: it may hold a password."""
    from sqlalchemy import URL

    if isinstance(url, Path):
        return URL.create("sqlite", database=str(url))
    parts = postgresql.read(url, "store.place", EXPECTED)
    if parts.get_backend_name() not in TYPES:
        raise ConfigError("store.place", f"{parts.drivername}://", "sqlite:/// or postgresql://")
    if parts.get_backend_name() == "sqlite" and parts.database in (None, "", ":memory:"):
        raise ConfigError(
            "store.place: a SQLite store is a file", expected='sqlite:///path, or "" to keep all in memory'
        )
    return parts


def without_password(parts: URL) -> str:
    """The place for messages: without a password, wherever it stands in the URL."""
    if parts.get_backend_name() == "sqlite":
        return str(parts.database)
    return postgresql.without_password(parts)


def connected(parts: URL) -> Engine:
    """An engine whose database has all tables, at the present version.

    Raises
    ------
    StoreError
        The database is another program's, or a newer version's.
    SQLAlchemyError
        The database cannot be opened or is damaged.
    """
    place, is_file = without_password(parts), parts.get_backend_name() == "sqlite"
    # A connection that the server has dropped since its last use is replaced.
    engine = _file_engine(parts) if is_file else postgresql.engine(parts, pool_pre_ping=True, max_overflow=-1)
    with engine.connect() as connection:
        if is_file:
            _refuse_strangers(place, connection)
        schema = schema_version(connection)
    check_version(place, schema)
    if schema < len(MIGRATIONS):
        if is_file:
            with closing(engine.raw_connection()) as raw:
                set_wal(cast(sqlite3.Connection, raw.driver_connection))
        with writing(engine) as connection:
            lock = f"SELECT pg_advisory_xact_lock({postgresql.LOCK})"
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}" if is_file else lock)
            migrate(connection)
    return engine


def _file_engine(parts: URL) -> Engine:
    from sqlalchemy import create_engine, event

    if not str(parts.database).startswith("file:"):
        Path(str(parts.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parts, max_overflow=-1, paramstyle="named", connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _refuse_strangers(place: str, connection: Connection) -> None:
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if tables and application != APPLICATION_ID:
        raise StoreError(
            "store.place", f"{place}, the SQLite file of another program", "a file of the lab, or a new one"
        )


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin where `_begin` says, not where the driver guesses.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -65536")
    # Fewer, larger checkpoints, each of which waits for the disk: with SQLite's default of 1,000 batches take twice
    # as long.
    connection.execute("PRAGMA wal_autocheckpoint = 16000")


def _begin(connection: Connection) -> None:
    # A writer that begins as a reader cannot wait for another writer to end.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes."""
    with engine.execution_options(immediate=True).begin() as connection:
        yield connection


@contextmanager
def faults(place: str, verb: str) -> Iterator[None]:
    """A database's error within becomes a StoreError: `place` cannot be `verb`."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, OSError, ImportError) as error:
        reason, advice = postgresql.reason_and_advice(error)
        raise StoreError(f"{place}: it cannot be {verb} ({reason}); {advice}; what it kept before stands") from error


# `exact` holds a record's text where JSONB would alter it, NULL elsewhere. `words` is what keywords are looked for in,
# casefolded as Python does it: no database's own lower() knows the same letters.
TABLES = (
    """CREATE TABLE episodes (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT,
    timestamp DOUBLE PRECISION NOT NULL, session_id TEXT NOT NULL, task_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    category TEXT NOT NULL, passed BOOLEAN NOT NULL, confidence DOUBLE PRECISION NOT NULL, words TEXT NOT NULL)""",
    "CREATE TABLE wisdom (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT)",
    """CREATE TABLE mistakes (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT,
    timestamp DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE sessions (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT)",
)

# `seq` in them gives the newest first without a sort. Nothing looks into a body, so that none is indexed.
INDEXES = (
    "CREATE INDEX episodes_by_task ON episodes (task_id, seq)",
    "CREATE INDEX episodes_by_session ON episodes (session_id, seq)",
    "CREATE INDEX episodes_by_agent ON episodes (agent_id, seq)",
    "CREATE INDEX episodes_by_category ON episodes (category, seq)",
    "CREATE INDEX episodes_by_timestamp ON episodes (timestamp)",
    "CREATE INDEX mistakes_by_timestamp ON mistakes (timestamp)",
)

MIGRATIONS = (TABLES, INDEXES)
"""Step n brings a database from version n - 1 to version n."""

TYPES = {
    "sqlite": {"number": "INTEGER", "json": "TEXT"},
    "postgresql": {"number": "BIGINT GENERATED ALWAYS AS IDENTITY", "json": "JSONB"},
}


def schema_version(connection: Connection) -> int:
    """The number of steps that a database has taken; 0 where it has none of our tables."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one() or 0)


def check_version(place: str, version: int) -> None:
    """Raises StoreError for a database that a newer version wrote."""
    if version > len(MIGRATIONS):
        raise StoreError(
            place,
            f"schema {version}",
            f"{len(MIGRATIONS)} or less",
            "use the version of reflexion_lab that wrote it, or a newer one",
        )


def migrate(connection: Connection, upto: int = len(MIGRATIONS)) -> None:
    """Take every step that is missing. The caller holds the lock and the transaction."""
    from sqlalchemy import text

    types = TYPES[connection.dialect.name]
    present = schema_version(connection)
    if present == 0:
        connection.execute(
            text("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL)")
        )
    for number in range(present + 1, upto + 1):
        for statement in MIGRATIONS[number - 1]:
            connection.execute(text(statement.format(**types)))
        connection.execute(text("INSERT INTO schema_version VALUES (:n, :t)"), {"n": number, "t": time.time()})
