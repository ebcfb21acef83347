"""PostgreSQL: URLs, connections, errors, and a `Table` that waits for an unavailable server."""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.secrets import without_logins
from reflexion_lab.storage.table import PATIENCE, Execute, Layout, Row, T

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

VARIABLE = "REFLEXION_LAB_DATABASE"
"""Environment variable with the URL for storage=postgres."""
EXPECTED = "postgresql://user:password@host:5432/database"
LOCK = 0x52464C4D
"""Key of the advisory lock for creating tables."""
ALIVE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""A vanished machine closes no connection; after a minute of silence a connection counts as lost."""
ADVICE = (
    (("full", "no space", "disk i/o", "extend file"), "free some space and try again"),
    (("readonly", "read-only", "permission", "unable to open"), "name a writable place"),
    (("not a database", "malformed"), "restore a backup, or move it away to start a new one"),
    (("locked",), "another process is using it; try again later"),
    (("connect", "refused", "terminated", "closed"), "is the server up, and are host, user and password right?"),
    (("already exists", "no such column", "does not exist"), "the database is another program's; name another one"),
)


def read(url: str, key: str, expected: str = EXPECTED) -> URL:
    """The parsed URL. Raises ConfigError for the config `key`, without `url`, which may contain a password."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(f"{key}: the URL cannot be read", expected=expected) from None
    return parts.set(drivername="postgresql+psycopg") if parts.drivername == "postgresql" else parts


def without_password(parts: URL) -> str:
    """The URL for messages, without any password; the path of a SQLite file."""
    if parts.get_backend_name() == "sqlite":
        return str(parts.database)
    return parts.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def with_login(url: str) -> str:
    """A manifest's URL, which has no log-in, with the log-in of the environment's URL if both name the same place."""
    known = os.environ.get(VARIABLE, "")
    return known if known and without_logins(known) == url else url


def engine(parts: URL, connect_args: Mapping[str, object] | None = None, **options: object) -> Engine:
    """An engine whose connections detect a vanished server."""
    from sqlalchemy import create_engine

    alive = {name: value for name, value in ALIVE.items() if name not in parts.query}
    return create_engine(parts, connect_args={**alive, **(connect_args or {})}, **options)


def reason_and_advice(error: BaseException) -> tuple[str, str]:
    """A database error's reason, on one line, and advice."""
    from sqlalchemy.exc import DBAPIError

    inner = error.orig if isinstance(error, DBAPIError) and error.orig else error
    reason = " ".join(str(inner).split())[:300]
    if isinstance(inner, ImportError):
        return reason, "pip install 'reflexion_lab[postgresql]'"
    folded = reason.casefold()
    return reason, next(
        (advice for signs, advice in ADVICE if any(sign in folded for sign in signs)), "check the database"
    )


CONNECTIONS = 4
"""Maximum connections per `SharedTable`."""
PAUSES = 0.05, 2.0
"""Seconds before the first retry, and the maximum before later ones."""
UNPREPARED = {"prepare_threshold": None}
"""Connection poolers may not support prepared statements."""
BUSY = ("too many", "remaining connection slots", "starting up", "shutting down", "not yet accepting", "recovery")
"""Phrases in the errors of a server that will soon accept connections."""
LAYOUTS = "CREATE TABLE IF NOT EXISTS layouts (name TEXT PRIMARY KEY, schema INTEGER NOT NULL)"
MARKS = "CREATE TABLE IF NOT EXISTS marks (mark UUID PRIMARY KEY)"
MARKED = """WITH known AS (DELETE FROM marks WHERE mark = ANY(%s::uuid[])) INSERT INTO marks VALUES (%s)
ON CONFLICT DO NOTHING RETURNING set_config('idle_in_transaction_session_timeout', '60000', true)"""
"""Returns no row if the mark exists, after waiting for an earlier transaction with that mark. The locks of a client
that vanished within a transaction are released after a minute."""
HAS_LAYOUTS = "SELECT 1 FROM pg_class WHERE relname = 'layouts' AND pg_table_is_visible(oid)"


class LayoutError(RuntimeError):
    """The table is missing, or of another version."""


class SharedTable:
    """A `Table` in the PostgreSQL database `url`.

    Lost connections are replaced. While the server is unavailable, callers wait, until `patience` seconds after its
    first failure.
    """

    largest = "GREATEST"

    def __init__(
        self, url: str, layout: Layout, key: str, *, readonly: bool = False, patience: float = PATIENCE
    ) -> None:
        self._url = read(url, key)
        if self._url.get_backend_name() != "postgresql":
            raise ConfigError(key, f"{self._url.drivername}://", f"a path, or {EXPECTED}")
        self.place = without_password(self._url)
        self._layout = layout
        self._readonly = readonly
        self._patience = patience
        self._failed_at = 0.0
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._marks: list[UUID] = []
        self._engine: Engine | None = None

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        from sqlalchemy.exc import SQLAlchemyError

        return LayoutError, SQLAlchemyError, ImportError

    def described(self, error: Exception) -> str:
        if isinstance(error, LayoutError):
            return f": {error}"
        reason, advice = reason_and_advice(error)
        return f" ({reason}); {advice}"

    def open(self) -> None:
        self._opened()

    def rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        engine = _autocommit(self._opened())

        def work() -> list[Row]:
            with engine.connect() as connection:
                return _rows(connection, statement, values)

        return self._waiting(work)

    def transaction(self, work: Callable[[Execute], tuple[T, bool]]) -> T:
        # The transaction stores a mark, so that a retry detects a commit whose confirmation was lost. (PostgreSQL's own
        # transaction id may be reused after a crash.)
        engine, mark = self._opened(), uuid4()
        with self._lock:
            marks, self._marks = self._marks, []

        def attempt() -> tuple[T, bool]:
            with engine.connect() as connection, connection.begin() as transaction:
                if connection.exec_driver_sql(MARKED, (marks, mark)).first() is None:
                    return results[-1]
                results.append(work(functools.partial(_rows, connection)))
                if not results[-1][1]:
                    transaction.rollback()
            return results[-1]

        results: list[tuple[T, bool]] = []
        pending = [*marks, mark]
        try:
            result, commit = self._waiting(attempt)
            pending = [mark] if commit else marks
            return result
        finally:
            with self._lock:
                self._marks += pending

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    def _waiting(self, work: Callable[[], T], is_transient: Callable[[BaseException], bool] | None = None) -> T:
        from sqlalchemy.exc import DBAPIError

        pause = PAUSES[0]
        while True:
            try:
                result = work()
            except DBAPIError as problem:
                if not (is_transient or _is_lost)(problem):
                    self._failed_at = 0.0  # the server has answered
                    raise
                with self._lock:
                    now = time.monotonic()
                    self._failed_at = self._failed_at or now
                    if now - self._failed_at >= self._patience:
                        raise
            else:
                self._failed_at = 0.0
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))  # jitter, so that clients do not retry together
            pause = min(2 * pause, PAUSES[1])

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is None:
                pool = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": None, "pool_use_lifo": True}
                new = engine(self._url, UNPREPARED, **pool)
                try:
                    self._create(new)
                except BaseException:
                    new.dispose()
                    raise
                self._engine = new
            return self._engine

    def _create(self, engine: Engine) -> None:
        layout = self._layout
        if self._readonly:
            from sqlalchemy import event

            event.listen(engine, "connect", _read_only)

        def read_schema() -> int | None:
            with _autocommit(engine).connect() as connection:
                return self._schema_on(connection)

        schema = self._waiting(read_schema, _is_busy)
        if schema is None and self._readonly:
            raise LayoutError(f"no table {layout.name} of reflexion_lab; record with cache.mode=read-write first")
        if schema is None:
            schema = self._create_table(engine)
        if schema != layout.server_schema:
            raise LayoutError(
                f"its table {layout.name} has schema {schema}, this version reads {layout.server_schema}; use the "
                "version of reflexion_lab that wrote it, or a database of its own"
            )

    def _schema_on(self, connection: Connection) -> int | None:
        """Version of the table; None if missing."""
        # Not `to_regclass`, which may have cached that the table was missing before another process created it.
        if connection.exec_driver_sql(HAS_LAYOUTS).one_or_none() is None:
            return None
        rows = connection.exec_driver_sql("SELECT schema FROM layouts WHERE name = %s", (self._layout.name,))
        return rows.scalar_one_or_none()

    def _create_table(self, engine: Engine) -> int:
        layout = self._layout
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
            schema = self._schema_on(connection)
            if schema is not None:
                return schema
            connection.exec_driver_sql(LAYOUTS)
            connection.exec_driver_sql(MARKS)
            connection.exec_driver_sql(f"CREATE TABLE {layout.name} ({layout.columns})")
            connection.exec_driver_sql("INSERT INTO layouts VALUES (%s, %s)", (layout.name, layout.server_schema))
        return layout.server_schema


def _autocommit(engine: Engine) -> Engine:
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _rows(connection: Connection, statement: str, values: Mapping[str, object]) -> list[Row]:
    from sqlalchemy import text

    result = connection.execute(text(statement), values)
    return [tuple(row) for row in result] if result.returns_rows else []


def _read_only(connection: object, _: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    connection.commit()  # type: ignore[attr-defined]


def _is_lost(problem: BaseException) -> bool:
    """Whether the server or the connection failed, not the statement."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    if isinstance(problem, DBAPIError) and problem.connection_invalidated:
        return True
    state = str(getattr(getattr(problem, "orig", None), "sqlstate", "") or "")
    return isinstance(problem, OperationalError | InterfaceError) and state[:2] in ("", "08", "53", "57")


def _is_busy(problem: BaseException) -> bool:
    return _is_lost(problem) and any(sign in str(problem).casefold() for sign in BUSY)
