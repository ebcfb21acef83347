"""Records, calls, spending and caches in SQL, by SQLAlchemy Core: a SQLite file, or a server's database by its URL.

A dialect needs `INSERT … ON CONFLICT`, as SQLite and PostgreSQL have it. Committed rows survive a killed process.
SQLite files need a local disk: their write-ahead log does not work over a network file system. One file: what differs
between dialects stands side by side.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.pool import PoolProxiedConnection

from reflexion_lab.errors import ConfigError, LabError, StoreError
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KIND_OF, Line, collector_paused, failure, matches, prepared, searched

T = TypeVar("T")
Values: TypeAlias = "Mapping[str, object] | Sequence[Mapping[str, object]]"
EXPECTED = "a path, sqlite:///path or postgresql://user:password@host/database"
PATIENCE = 60.0
"""Seconds to wait for a server that restarts."""
BUSY_SECONDS = 30.0
"""Wait for another process that writes to a SQLite file."""
ATTEMPTS = 20
"""To create tables that other processes create, too."""
ROWS = 500
"""Rows per fetch."""
LONGEST = 200
"""Maximum characters of an indexed column; a PostgreSQL index entry holds 2,700 bytes."""
ADVICE = (
    (("full", "no space", "disk i/o", "extend file"), "free some space and try again"),
    (("readonly", "read-only", "permission", "unable to open"), "name a writable place"),
    (("not a database", "malformed"), "restore a backup, or move it away to start a new one"),
    (("locked",), "another process is using it; try again later"),
    (("connect", "refused", "terminated", "closed"), "is the server up, and are host, user and password right?"),
)

METADATA = sa.MetaData()


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **options)


def _records(name: str, *columns: sa.Column[Any] | sa.Index) -> sa.Table:
    """`exact` is a record's text where JSONB would alter it, else NULL. `seq` orders records without a sort."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Table(
        name,
        METADATA,
        sa.Column("seq", number, sa.Identity(always=True), primary_key=True),
        _column("id", sa.Text, unique=True),
        _column("body", sa.Text().with_variant(JSONB(), "postgresql")),
        sa.Column("exact", sa.Text),
        *columns,
    )


# `words` is the text for keyword search, casefolded by Python, since the databases' lower() differ.
RECORDS = {
    "episodes": _records(
        "episodes",
        _column("timestamp", sa.Double, index=True),
        *(_column(name, sa.Text) for name in ("session_id", "task_id", "agent_id", "category", "words")),
        _column("passed", sa.Boolean),
        _column("confidence", sa.Double),
        sa.Index("episodes_by_task", "task_id", "seq"),
        sa.Index("episodes_by_session", "session_id", "seq"),
        sa.Index("episodes_by_agent", "agent_id", "seq"),
        sa.Index("episodes_by_category", "category", "seq"),
    ),
    "wisdom": _records("wisdom"),
    "items": _records("items"),
}
CALLS = sa.Table(
    "calls",
    METADATA,
    _column("key", sa.Text, primary_key=True),
    # Text, since JSONB holds no NUL
    *(_column(name, sa.Text) for name in ("fingerprint", "request", "completion", "created_at")),
)
SPENDING = sa.Table(
    "spending",
    METADATA,
    _column("scope", sa.Text, primary_key=True),
    *(_column(name, sa.BigInteger) for name in ("calls", "tokens")),
    *(_column(name, sa.Double) for name in ("cost", "seconds")),
)
EXECUTIONS = sa.Table("executions", METADATA, _column("key", sa.Text, primary_key=True), _column("execution", sa.Text))
EMBEDDINGS = sa.Table(
    "embeddings",
    METADATA,
    _column("fingerprint", sa.Text, primary_key=True),
    _column("digest", sa.LargeBinary, primary_key=True),
    _column("vector", sa.LargeBinary),
    _column("checksum", sa.BigInteger),
)
"""`digest`: SHA-256 of the text; `vector`: little-endian float32; `checksum`: CRC-32 of `vector`."""


def parsed(place: str | Path, key: str) -> sa.URL:
    """The URL of a place. Raises ConfigError for the config `key`, without the URL, which may contain a password."""
    if isinstance(place, Path) or ":/" not in place:
        return sa.URL.create("sqlite", database=str(place))
    try:
        url = sa.make_url(place)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError(f"{key}: the URL cannot be read", expected=EXPECTED) from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        url.get_dialect()
        has_upsert = hasattr(_dialect(url.get_backend_name()).Insert, "on_conflict_do_update")
    except (ImportError, AttributeError, sa.exc.ArgumentError):
        has_upsert = False
    if not has_upsert:
        raise ConfigError(key, f"{url.drivername}://", EXPECTED)
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError(f"{key}: a SQLite store is a file", expected='sqlite:///path, or "" to keep all in memory')
    return url


def without_password(url: sa.URL) -> str:
    """The URL for messages, without any password; the path of a SQLite file."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def _dialect(name: str) -> Any:
    return import_module(f"sqlalchemy.dialects.{name}")


class Statement(NamedTuple):
    """A compiled statement, whose values are given by name."""

    text: str
    constants: dict[str, object]


Execute: TypeAlias = Callable[[Statement, Values], list[Any]]
"""Runs a statement in a transaction, once for each of several values; returns its rows."""


class Database:
    """Some `tables` at `place`, a path or URL, opened and created by their first use. Thread-safe.

    A server that restarts is waited for, from the first failure after the tables were opened on. Raises ConfigError:
    `place` is a URL of a database without upsert. `key`: config key of the place, for errors. `error`: what is raised
    for an unusable database. `readonly`: the tables must exist, and nothing is written.
    """

    def __init__(
        self,
        place: str | Path,
        tables: Sequence[sa.Table],
        key: str = "store.place",
        *,
        error: type[LabError] = StoreError,
        readonly: bool = False,
    ) -> None:
        self.url = parsed(place, key)
        self.place = without_password(self.url)
        self.is_file = self.url.get_backend_name() == "sqlite"
        self.path = Path(self.place).absolute() if self.is_file else Path()
        """Of a file, which is opened later, perhaps from another folder."""
        self.patience = PATIENCE
        self._tables = tables
        self._error, self._readonly = error, readonly
        self._lock, self._opening = threading.Lock(), threading.Lock()
        dialect: Any = self.url.get_dialect()
        self._dialect = dialect(paramstyle="named" if self.is_file else "pyformat")
        self._engine: sa.Engine | None = None
        self._mine = threading.local()
        self._one: PoolProxiedConnection | None = None
        """The connection to a file: with a connection each, threads contend for locks of the file."""

    def open(self) -> None:
        """Create missing tables now."""
        with self.faults("opened"):
            self._opened()

    def close(self) -> None:
        """The next use opens the database again."""
        with self._opening:
            if self._one is not None:
                with self._lock:
                    self._one.close()
            if self._engine is not None:
                self._engine.dispose()
            self._engine = self._one = None

    def compiled(self, statement: sa.ClauseElement, names: Sequence[str] | None = None) -> Statement:
        """A statement without lists of values; `names` are the columns that it sets. It is executed by the driver:
        SQLAlchemy takes ten times as long as SQLite.
        """
        whole = statement.compile(dialect=self._dialect, column_keys=names)
        return Statement(str(whole), {name: value for name, value in whole.params.items() if value is not None})

    def inserted(
        self,
        table: sa.Table,
        where: Any = None,
        returns: Iterable[Any] = (),
        replaced_by: Mapping[str, Any] | None = None,
    ) -> Statement:
        """Insert rows; stored ones of the same key that fit `where` take the new values, or those of `replaced_by`."""
        names = [column.name for column in table.c if column.name != "seq"]
        key = ["id"] if "id" in table.c else [column.name for column in table.primary_key]
        insertion = _dialect(self.url.get_backend_name()).insert(table)
        others = replaced_by or {name: insertion.excluded[name] for name in names if name not in key}
        statement = insertion.on_conflict_do_update(index_elements=key, set_=others, where=where)
        return self.compiled(statement.returning(*returns) if returns else statement, names)

    def transaction(self, work: Callable[[Execute], T], verb: str = "used", *, is_repeatable: bool = True) -> T:
        """The result of `work` in a transaction. On a server it is done again if the connection was lost; once it was
        sent to be committed, only if it `is_repeatable`, since only its confirmation may have been lost.
        """
        sent: list[T] = []

        def committed(execute: Execute) -> T:
            sent.append(work(execute))
            return sent[-1]

        def attempt() -> T:
            engine = self._opened()
            if self._one is not None:
                with self._lock:
                    return _transacted(self._one, committed)
            if mine := getattr(self._mine, "connection", None):
                try:  # who holds a call needs no second connection, which a full server would refuse
                    return _transacted(mine, committed)
                except engine.dialect.loaded_dbapi.OperationalError:
                    self._mine.connection = None
                    raise
            connection = engine.raw_connection()
            try:
                return _transacted(connection, committed)
            except engine.dialect.loaded_dbapi.OperationalError:
                connection.invalidate()
                raise
            finally:
                connection.close()

        with self.faults(verb):
            return self._again(attempt, lambda: is_repeatable or not sent)

    def rows(self, statement: Statement, values: Values, verb: str = "used") -> list[Any]:
        return self.transaction(lambda execute: execute(statement, values), verb)

    def stream(self, statement: sa.Executable, verb: str = "read") -> Iterator[Sequence[Any]]:
        """The rows in parts, as they are stored now."""

        def begun() -> tuple[sa.Connection, Any]:
            connection = self._opened().connect()
            try:
                return connection, connection.execution_options(yield_per=ROWS).execute(statement)
            except BaseException:
                connection.close()
                raise

        with self.faults(verb):
            connection, rows = self._again(begun)
            with connection:
                yield from rows.partitions()

    def selected(self, statement: sa.Executable) -> list[Any]:
        return [row for rows in self.stream(statement) for row in rows]

    @contextmanager
    def claimed(self, key: str) -> Iterator[None]:
        """Hold `key` on a server; who else claims it waits until this ends, or its process."""

        def hold() -> sa.Connection:
            connection = self._opened().connect().execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()  # closing it releases the lock
            try:
                connection.execute(sa.select(sa.func.pg_advisory_lock(int(key[:15], 16))))
            except BaseException:
                connection.close()
                raise
            return connection

        with self.faults("used"):
            connection = self._again(hold)
        self._mine.connection = connection.connection
        try:
            yield
        finally:
            self._mine.connection = None
            with suppress(sa.exc.SQLAlchemyError):  # a lost connection has ended the transaction, too
                connection.close()

    @contextmanager
    def faults(self, verb: str) -> Iterator[None]:
        """Convert a database error: the place cannot be `verb`."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, OSError, ImportError, self._driver.Error) as problem:
            inner = problem.orig if isinstance(problem, sa.exc.DBAPIError) and problem.orig else problem
            reason = " ".join(str(inner).split())[:300]
            signs = ((sign, advice) for words, advice in ADVICE for sign in words)
            advice = next((advice for sign, advice in signs if sign in reason.casefold()), "check the database")
            if isinstance(inner, ImportError):
                advice = "pip install 'reflexion_lab[postgresql]'"
            raise self._error(str(failure(self.place, verb, reason, advice))) from problem

    def _again(self, work: Callable[[], T], may: Callable[[], bool] = lambda: True) -> T:
        since = 0.0
        while True:
            try:
                return work()
            except (sa.exc.OperationalError, self._driver.OperationalError):
                since = since or time.monotonic()
                if self.is_file or self._engine is None or not may() or time.monotonic() - since >= self.patience:
                    raise
            time.sleep(random.uniform(0.05, 0.5))  # so that clients do not return together

    @property
    def _driver(self) -> Any:
        return self._engine.dialect.loaded_dbapi if self._engine else sqlite3

    def _opened(self) -> sa.Engine:
        with self._opening:
            if self._engine is None:
                engine = self._connectable()
                try:
                    self._create(engine)
                    self._one = engine.raw_connection() if self.is_file else None
                except BaseException:
                    engine.dispose()
                    raise
                self._engine = engine
            return self._engine

    def _connectable(self) -> sa.Engine:
        if not self.is_file:
            engine = sa.create_engine(
                self.url,
                max_overflow=-1,
                json_serializer=str,
                json_deserializer=_same,
                connect_args={name: value for name, value in ALIVE.items() if name not in self.url.query},
            )
            sa.event.listen(engine, "connect", _alive)
            return engine
        path, is_uri = self.path, "uri" in self.url.query
        url = self.url if is_uri else self.url.set(database=str(path))
        if not self._readonly:
            if not is_uri:
                path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            raise FileNotFoundError("no such file")
        elif not os.access(path.parent, os.W_OK, effective_ids=True) and not Path(f"{path}-wal").exists():
            # readers of a write-ahead log write a file next to it
            url = sa.URL.create("sqlite", database=path.as_uri(), query={"immutable": "1", "uri": "true"})
        arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
        engine = sa.create_engine(url, max_overflow=-1, connect_args=arguments)
        sa.event.listen(engine, "connect", _read_only if self._readonly else _prepare)
        return engine

    def _create(self, engine: sa.Engine) -> None:
        """Create the missing tables, perhaps while other processes do."""
        for attempt in range(1, ATTEMPTS + 1):
            if not (missing := self._missing(engine)):
                return
            try:
                if self.is_file:
                    with engine.connect() as connection:
                        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                METADATA.create_all(engine, missing)
            except (sa.exc.OperationalError, sa.exc.ProgrammingError, sa.exc.IntegrityError):
                if attempt == ATTEMPTS:
                    raise
                time.sleep(random.uniform(0.01, 0.1))

    def _missing(self, engine: sa.Engine) -> list[sa.Table]:
        with engine.connect() as connection:
            known = sa.inspect(connection)
            present = set(known.get_table_names())
            for table in self._tables:
                if table.name in present and {it["name"] for it in known.get_columns(table.name)} != {*table.c.keys()}:
                    raise self._refused(f"its table {table.name} is of another version of reflexion_lab or program")
        missing = [table for table in self._tables if table.name not in present]
        if missing and self._readonly:
            raise self._refused(f"it has no table {missing[0].name}")
        if self.is_file and present and len(missing) == len(self._tables):
            raise self._refused("it is the SQLite file of another program")
        return missing

    def _refused(self, reason: str) -> LabError:
        return self._error(f"{self.place}: cannot be used: {reason}; name another place, or move it away")


def _transacted(connection: PoolProxiedConnection, work: Callable[[Execute], T]) -> T:
    cursor = connection.cursor()

    def execute(statement: Statement, values: Values) -> list[Any]:
        if isinstance(values, Mapping):
            cursor.execute(statement.text, {**statement.constants, **values})
        else:
            cursor.executemany(statement.text, values)
        return list(cursor.fetchall()) if cursor.description else []

    try:
        result = work(execute)
        connection.commit()
    except BaseException:
        with suppress(Exception):  # the connection is lost
            connection.rollback()
        raise
    finally:
        cursor.close()
    return result


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    # Each checkpoint waits for the disk: with SQLite's default of 1,000 pages, batches take twice as long.
    connection.execute("PRAGMA wal_autocheckpoint = 16000")


NARROWING = 1000
"""Characters of a keyword by which a server preselects; SQLite refuses patterns of 50,000."""
ALIVE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""A vanished machine closes no connection; after a minute of silence a connection counts as lost, on both sides."""


def _alive(connection: Any, _: object) -> None:
    for name in ("keepalives_idle", "keepalives_interval", "keepalives_count", "user_timeout"):
        connection.execute(f"SET tcp_{name} = {ALIVE.get(name, ALIVE.get('tcp_' + name))}")
    connection.commit()


def _read_only(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA query_only = ON")


def _same(text: bytes | str) -> bytes | str:
    return text


class Sql:
    """Records in a database: a path of a SQLite file, or a URL. One table per kind, one row per record.

    `append` is one transaction. Raises ConfigError: `place` is a URL of no such database; StoreError: the database is
    unavailable, damaged, or another program's.
    """

    def __init__(self, place: str | Path) -> None:
        self._database = Database(place, [*RECORDS.values()])
        self.place = self._database.place
        self._upserts = {name: self._database.inserted(table) for name, table in RECORDS.items()}
        self._alone = self._database.compiled(sa.select(sa.func.pg_advisory_xact_lock(1)))
        self._database.open()

    def append(self, records: Sequence[Stored]) -> None:
        """Also raises DataError, as `kinds.prepared`."""
        rows: dict[str, dict[str, dict[str, object]]] = {}
        for line in prepared(records):
            # One row per id: the last record, in the first one's place.
            rows.setdefault(line.kind, {})[line.id] = _row(line)

        def work(execute: Execute) -> None:
            if not self._database.is_file:  # two writers that upsert the same ids in different orders would deadlock
                execute(self._alone, {})
            for name, by_id in rows.items():
                execute(self._upserts[name], list(by_id.values()))

        if rows:
            self._database.transaction(work, "appended to")

    def read(self, kind: type[S]) -> Iterator[S]:
        table = RECORDS[KIND_OF[kind]]
        return self._records(_bodies(table).order_by(table.c.seq), kind)

    def search(self, search: Search) -> list[Episode]:
        episodes: list[Episode] = []
        # The query preselects; `matches` decides, as in all stores.
        for episode in self._records(_narrowed(search), Episode):
            if matches(search, episode):
                episodes.append(episode)
                if len(episodes) == search.limit:
                    break
        return episodes

    def prune(self, before: float) -> int:
        table = RECORDS["episodes"]
        old = sa.delete(table).where(table.c.timestamp <= sa.bindparam("before")).returning(table.c.seq)
        return len(self._database.rows(self._database.compiled(old), {"before": before}, "pruned"))

    def clear(self) -> None:
        def work(execute: Execute) -> None:
            for table in RECORDS.values():
                execute(self._database.compiled(sa.delete(table)), {})

        self._database.transaction(work, "cleared")

    def close(self) -> None:
        self._database.close()

    def _records(self, statement: sa.Select[Any], kind: type[S]) -> Iterator[S]:
        decoder = msgspec.json.Decoder(kind)
        for rows in self._database.stream(statement):
            with collector_paused():
                records = [self._record(body if exact is None else exact, decoder) for body, exact in rows]
            yield from records

    def _record(self, body: str | bytes, decoder: msgspec.json.Decoder[S]) -> S:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, TypeError) as problem:  # TypeError: NULL in a damaged file
            text = str(body)[:80]
            raise StoreError(
                f"{self.place}: {problem} in {text}; was it written by another version, or damaged?"
            ) from None


def _bodies(table: sa.Table) -> sa.Select[Any]:
    return sa.select(table.c.body, table.c.exact)


def _narrowed(search: Search) -> sa.Select[Any]:
    columns = RECORDS["episodes"].c
    wanted = {"task_id": search.task_id, "session_id": search.session_id, "agent_id": search.agent_id}
    clauses: list[Any] = [columns[name] == _narrow(value) for name, value in wanted.items() if value]
    if search.categories:
        clauses.append(columns.category.in_([_narrow(category) for category in search.categories]))
    if search.passed is not None:
        clauses.append(columns.passed == search.passed)
    if search.min_confidence:
        clauses.append(columns.confidence >= search.min_confidence)
    if search.keywords:
        holds = [columns.words.contains(_plain(key.casefold())[:NARROWING], autoescape=True) for key in search.keywords]
        clauses.append((sa.and_ if search.every_keyword else sa.or_)(*holds))
    return _bodies(RECORDS["episodes"]).where(*clauses).order_by(columns.seq.desc())


def _row(line: Line) -> dict[str, object]:
    body, record = line.body.decode(), line.record
    row: dict[str, object] = {"id": line.id, "body": body, "exact": None}
    # JSONB cannot hold NUL or negative zero.
    if "\\u0000" in body or "-0.0" in body:
        row["body"], row["exact"] = body.replace("\\u0000", "\\ufffd"), body
    if isinstance(record, Episode):
        row["timestamp"] = record.timestamp
        row["session_id"], row["task_id"] = _narrow(record.session_id), _narrow(record.task_id)
        row["agent_id"], row["category"] = _narrow(record.agent_id), _narrow(record.category)
        row["passed"], row["confidence"], row["words"] = record.passed, record.confidence, _plain(searched(record))
    return row


def _narrow(text: str) -> str:
    return _plain(text)[:LONGEST]


def _plain(text: str) -> str:
    """`text` as every database accepts it; equality and substrings are preserved."""
    plain = text if text.isascii() else text.encode(errors="replace").decode()
    return plain.replace("\0", "\ufffd")
