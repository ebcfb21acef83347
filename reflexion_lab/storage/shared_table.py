"""One table of PostgreSQL, shared by threads, processes and machines: laid out, used, and waited for when the server is
away.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import UUID, uuid4

from reflexion_lab.errors import ConfigError
from reflexion_lab.storage.postgresql import EXPECTED, LOCK, engine, read, said, shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for a server that has gone: it restarts, or another takes its place."""
CONNECTIONS = 4
"""Of one `SharedTable`, at most; opened as threads need them."""
PAUSES = 0.05, 2.0
"""Seconds before the first try again, and at most before a later one."""
UNPREPARED = {"prepare_threshold": None}
"""Poolers between here and the server may not know statements that were prepared on it."""
BUSY = ("too many", "remaining connection slots", "starting up", "shutting down", "not yet accepting", "recovery")
"""What a server says that is there, and will take connections soon."""
LAYOUTS = "CREATE TABLE IF NOT EXISTS layouts (name TEXT PRIMARY KEY, schema INTEGER NOT NULL)"
MARKS = "CREATE TABLE IF NOT EXISTS marks (mark UUID PRIMARY KEY)"
MARKED = """WITH known AS (DELETE FROM marks WHERE mark = ANY(%s::uuid[])) INSERT INTO marks VALUES (%s)
ON CONFLICT DO NOTHING RETURNING set_config('idle_in_transaction_session_timeout', '60000', true)"""
"""Gives no row where the mark is there: after an earlier transaction with it has ended, which it waits for. The rows of
a client that vanished within one are free after a minute."""
IS_LAID_OUT = "SELECT 1 FROM pg_class WHERE relname = 'layouts' AND pg_table_is_visible(oid)"


class Layout(NamedTuple):
    """What a kind of table looks like."""

    name: str
    schema: int
    table: str
    """The statement that creates it."""


class LayoutError(RuntimeError):
    """The database holds no such table, or that of another version: what was found, what to do."""


@contextmanager
def faults(what: str, kind: type[Exception]) -> Iterator[None]:
    """A fault of the table within becomes one of `kind`: `what`, why, and what to do."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except LayoutError as error:
        raise kind(f"{what}: {error}") from None
    except (SQLAlchemyError, ImportError) as error:
        reason, advice = said(error)
        raise kind(f"{what} ({reason}); {advice}") from None


class SharedTable:
    """The table that `layout` describes, in the database at `url`. Thread-safe; any number of processes may lay it out
    at once.

    A lost connection is replaced. While the server is away, callers wait, for `patience` seconds from when it was first
    missed, all together.

    Args:
        key: the config's, for errors.
        readonly: nothing is laid out or written.

    Raises:
        ConfigError: `url` is none.
        LayoutError: the table is not there, or another version's.
        SQLAlchemyError, ImportError: the database cannot be had; `said` has the words for it.
    """

    def __init__(
        self, url: str, layout: Layout, key: str, *, readonly: bool = False, patience: float = PATIENCE
    ) -> None:
        parts = read(url, key)
        if parts.get_backend_name() != "postgresql":
            raise ConfigError(key, f"{parts.drivername}://", f"a path, or {EXPECTED}")
        self.place = shown(parts)
        self._patience = patience
        self._missed = 0.0
        self._lock = threading.Lock()
        self._known: list[UUID] = []
        pool = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": None, "pool_use_lifo": True}
        self._engine = engine(parts, UNPREPARED, **pool)
        self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            self._open(layout, readonly)
        except BaseException:
            self._engine.dispose()
            raise

    def rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """What a single statement gives. It may be carried out twice, when the connection is lost before its answer."""

        def work() -> list[tuple[object, ...]]:
            with self._single.connect() as connection:
                found = connection.exec_driver_sql(statement, values)
                return [tuple(row) for row in found] if found.returns_rows else []

        return self._waiting(work)

    def once(self, work: Callable[[Connection], tuple[T, bool]]) -> T:
        """What `work` returns, whose second word is whether to keep what it did: in one transaction, which is carried
        out exactly once. It leaves a mark, by which a further try sees that only the answer to a commit was lost.
        (PostgreSQL's own number of a transaction will not do: after a crash another gets it.)
        """
        mark = uuid4()
        with self._lock:
            known, self._known = self._known, []

        def attempt() -> tuple[T, bool]:
            with self._engine.connect() as connection, connection.begin() as transaction:
                if connection.exec_driver_sql(MARKED, (known, mark)).first() is None:
                    return found[-1]
                found.append(work(connection))
                if not found[-1][1]:
                    transaction.rollback()
            return found[-1]

        found: list[tuple[T, bool]] = []
        left = [*known, mark]
        try:
            result, keep = self._waiting(attempt)
            left = [mark] if keep else known
            return result
        finally:
            with self._lock:
                self._known += left

    def close(self) -> None:
        self._engine.dispose()

    def _waiting(self, work: Callable[[], T], is_passing: Callable[[BaseException], bool] | None = None) -> T:
        from sqlalchemy.exc import DBAPIError

        pause = PAUSES[0]
        while True:
            try:
                result = work()
            except DBAPIError as problem:
                if not (is_passing or _is_lost)(problem):
                    self._missed = 0.0  # it has answered
                    raise
                if self._given_up():
                    raise
            else:
                self._missed = 0.0
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))  # apart, or all clients would come back at once
            pause = min(2 * pause, PAUSES[1])

    def _given_up(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._missed = self._missed or now
            return now - self._missed >= self._patience

    def _open(self, layout: Layout, readonly: bool) -> None:
        if readonly:
            from sqlalchemy import event

            event.listen(self._engine, "connect", _read_only)
        found = self._waiting(lambda: self._schema(layout), _is_busy)
        if found is None and readonly:
            raise LayoutError(
                f"there is no table {layout.name} of reflexion_lab; record with cache.mode=read-write first"
            )
        if found is None:
            found = self._laid_out(layout)
        if found != layout.schema:
            raise LayoutError(
                f"its table {layout.name} has schema {found}, this version reads {layout.schema}; use the version of "
                "reflexion_lab that wrote it, or a database of its own"
            )

    def _schema(self, layout: Layout, connection: Connection | None = None) -> int | None:
        """The version of what is laid out; None where nothing is."""
        if connection is None:
            with self._single.connect() as own:
                return self._schema(layout, own)
        # Not `to_regclass`, which may still remember that nothing was there before another process had the lock.
        if connection.exec_driver_sql(IS_LAID_OUT).one_or_none() is None:
            return None
        asked = connection.exec_driver_sql("SELECT schema FROM layouts WHERE name = %s", (layout.name,))
        return asked.scalar_one_or_none()

    def _laid_out(self, layout: Layout) -> int:
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
            found = self._schema(layout, connection)
            if found is None:
                connection.exec_driver_sql(LAYOUTS)
                connection.exec_driver_sql(MARKS)
                connection.exec_driver_sql(layout.table)
                connection.exec_driver_sql("INSERT INTO layouts VALUES (%s, %s)", (layout.name, layout.schema))
            return layout.schema if found is None else found


def _read_only(connection: object, _: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    connection.commit()  # type: ignore[attr-defined]


def _is_lost(problem: BaseException) -> bool:
    """The server is away, or the connection to it; not what was asked of it."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    if isinstance(problem, DBAPIError) and problem.connection_invalidated:
        return True
    state = str(getattr(getattr(problem, "orig", None), "sqlstate", "") or "")
    return isinstance(problem, OperationalError | InterfaceError) and state[:2] in ("", "08", "53", "57")


def _is_busy(problem: BaseException) -> bool:
    return _is_lost(problem) and any(sign in str(problem).casefold() for sign in BUSY)
