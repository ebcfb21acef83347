"""The SQL store, in SQLite or PostgreSQL: one table per kind, one row per record."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Mistake, Search
from reflexion_lab.storage import postgresql
from reflexion_lab.storage.kinds import KIND_OF, KINDS, Line, collector_paused, failure, matches, prepared, searched
from reflexion_lab.storage.table import BUSY_SECONDS, set_wal

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Select, TableClause

ROWS = 500
"""Rows per fetch."""
LONGEST = 200
"""Maximum characters of an indexed column; a PostgreSQL index entry holds 2,700 bytes."""


class Sql:
    """Records in the database `url`: `postgresql://user:password@host/database`, `sqlite:///path`, or the Path of a
    SQLite file on a local disk.

    `append` is one transaction. Committed records survive a killed process and, in PostgreSQL, a crash of the machine,
    in which SQLite may lose the last transactions. Processes may create one database concurrently.

    Raises
    ------
    ConfigError
        `url` is none of these.
    StoreError
        The database is unavailable, damaged, another program's or a newer version's.
    """

    def __init__(self, url: str | Path) -> None:
        parts = parsed(url)
        self.place = postgresql.without_password(parts)
        self._json = parts.get_backend_name() == "postgresql"
        with faults(self.place, "opened"):
            self._engine = connected(parts)
        self._tables = {kind.name: _table(kind.record) for kind in KINDS}
        # As text: SQLAlchemy's parameter handling takes longer than SQLite's insertion of the row.
        self._upserts = {name: str(self._upsert(name).compile(self._engine)) for name in self._tables}

    def append(self, records: Sequence[Stored]) -> None:
        """Also raises DataError, as `kinds.prepared`."""
        rows: dict[str, dict[str, dict[str, object]]] = {}
        for line in prepared(records):
            # One row per id: the last record, in the first one's place.
            rows.setdefault(line.kind.name, {})[line.id] = _row(line, self._json)
        names = ", ".join(kind.name for kind in KINDS if kind.name in rows)
        with faults(self.place, "appended to"), writing(self._engine) as connection:
            if self._json and names:  # two writers that upsert the same ids in different orders would deadlock
                connection.exec_driver_sql(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
            for name, by_id in rows.items():
                connection.exec_driver_sql(self._upserts[name], list(by_id.values()))

    def read(self, kind: type[S]) -> Iterator[S]:
        table = self._tables[KIND_OF[kind].name]
        return self._records(self._bodies(table).order_by(table.c.seq), kind)

    def search(self, search: Search) -> list[Episode]:
        episodes: list[Episode] = []
        # The query preselects; `matches` decides, as in all stores.
        for episode in self._records(self._narrowed(search), Episode):
            if matches(search, episode):
                episodes.append(episode)
                if len(episodes) == search.limit:
                    break
        return episodes

    def prune(self, before: float) -> int:
        from sqlalchemy import delete

        tables = [self._tables[KIND_OF[kind].name] for kind in (Episode, Mistake)]
        with faults(self.place, "pruned"), writing(self._engine) as connection:
            return sum(
                connection.execute(delete(table).where(table.c.timestamp <= before)).rowcount for table in tables
            )

    def clear(self) -> None:
        from sqlalchemy import delete

        with faults(self.place, "cleared"), writing(self._engine) as connection:
            for table in self._tables.values():
                connection.execute(delete(table))

    def close(self) -> None:
        self._engine.dispose()

    def _upsert(self, name: str) -> Any:
        from sqlalchemy import Text, bindparam, cast
        from sqlalchemy.dialects import postgresql, sqlite

        table = self._tables[name]
        insert = (postgresql if self._json else sqlite).insert(table)
        body = bindparam("body", type_=Text)
        names = [column.name for column in table.c if column.name not in ("seq", "body")]
        values: dict[str, Any] = {column: bindparam(column) for column in names}
        statement = insert.values(body=cast(body, postgresql.JSONB) if self._json else body, **values)
        return statement.on_conflict_do_update(
            index_elements=["id"], set_={column: statement.excluded[column] for column in ("body", *names)}
        )

    def _bodies(self, table: TableClause) -> Select[Any]:
        from sqlalchemy import Text, cast, func, select

        return select(func.coalesce(table.c.exact, cast(table.c.body, Text)))

    def _narrowed(self, search: Search) -> Select[Any]:
        from sqlalchemy import and_, func, or_

        table = self._tables["episodes"]
        wanted = {"task_id": search.task_id, "session_id": search.session_id, "agent_id": search.agent_id}
        clauses: list[Any] = [table.c[name] == _narrow(value) for name, value in wanted.items() if value]
        if search.categories:
            clauses.append(table.c.category.in_([_narrow(category) for category in search.categories]))
        if search.passed is not None:
            clauses.append(table.c.passed == search.passed)
        if search.min_confidence:
            clauses.append(table.c.confidence >= search.min_confidence)
        if search.keywords:
            place = func.strpos if self._json else func.instr
            holds = [place(table.c.words, _plain(keyword.casefold())) > 0 for keyword in search.keywords]
            clauses.append((and_ if search.every_keyword else or_)(*holds))
        return self._bodies(table).where(*clauses).order_by(table.c.seq.desc())

    def _records(self, statement: Select[Any], kind: type[S]) -> Iterator[S]:
        decode = msgspec.json.Decoder(kind).decode
        with faults(self.place, "read"), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=ROWS).execute(statement)
            for bodies in rows.scalars().partitions():
                with collector_paused():
                    records = [self._record(body, decode) for body in bodies]
                yield from records

    def _record(self, body: str, decode: Callable[[str], S]) -> S:
        try:
            return decode(body)
        except (msgspec.DecodeError, TypeError) as problem:  # TypeError: NULL in a damaged file
            raise StoreError(
                f"{self.place}: {problem} in {str(body)[:80]}; was it written by another version, or damaged?"
            ) from None


def _table(record: type[Any]) -> TableClause:
    from sqlalchemy import Boolean, Double, Text, column, table

    narrow: dict[str, Any] = {"timestamp": Double} if record is Mistake else {}
    if record is Episode:
        narrow = {"timestamp": Double, "passed": Boolean, "confidence": Double}
        narrow |= dict.fromkeys(("session_id", "task_id", "agent_id", "category", "words"), Text)
    plain: tuple[Any, ...] = (column("seq"), column("id", Text), column("body"), column("exact", Text))
    return table(KIND_OF[record].name, *plain, *(column(name, kind()) for name, kind in narrow.items()))


def _row(line: Line, json: bool) -> dict[str, object]:
    body, record = line.body.decode(), line.record
    row: dict[str, object] = {"id": line.id, "body": body, "exact": None}
    # JSONB cannot hold NUL or negative zero.
    if json and ("\\u0000" in body or "-0.0" in body):
        row["body"], row["exact"] = body.replace("\\u0000", "\\ufffd"), body
    if isinstance(record, Episode | Mistake):
        row["timestamp"] = record.timestamp
    if isinstance(record, Episode):
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


APPLICATION_ID = 0x52464C4D
"""SQLite header field that identifies the lab's files."""
EXPECTED = "postgresql://user:password@host:5432/database or sqlite:///path/to/file.sqlite"


def parsed(url: str | Path) -> URL:
    """The parsed URL. Raises ConfigError, without `url`, which may contain a password."""
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


def connected(parts: URL) -> Engine:
    """An engine whose database is migrated to the current schema.

    Raises
    ------
    StoreError
        The database is another program's, or a newer version's.
    SQLAlchemyError
        The database cannot be opened, or is damaged.
    """
    place, is_file = postgresql.without_password(parts), parts.get_backend_name() == "sqlite"
    # pool_pre_ping replaces connections that the server has dropped.
    engine = _file_engine(parts) if is_file else postgresql.engine(parts, pool_pre_ping=True, max_overflow=-1)
    with engine.connect() as connection:
        if is_file:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
            if tables and application != APPLICATION_ID:
                got = f"{place}, the SQLite file of another program"
                raise StoreError("store.place", got, "a file of the lab, or a new one")
        schema = schema_version(connection)
    if schema > len(MIGRATIONS):
        hint = "use the version of reflexion_lab that wrote it, or a newer one"
        raise StoreError(place, f"schema {schema}", f"{len(MIGRATIONS)} or less", hint)
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


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    # `_begin` starts transactions, not the driver.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -8192")
    # Each checkpoint waits for the disk: with SQLite's default of 1,000 pages, batches take twice as long.
    connection.execute("PRAGMA wal_autocheckpoint = 16000")


def _begin(connection: Connection) -> None:
    # A transaction that begins as a reader cannot wait for a writer.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A write transaction."""
    with engine.execution_options(immediate=True).begin() as connection:
        yield connection


@contextmanager
def faults(place: str, verb: str) -> Iterator[None]:
    """Convert a database error to a StoreError: `place` cannot be `verb`."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, OSError, ImportError) as error:
        reason, advice = postgresql.reason_and_advice(error)
        raise failure(place, verb, reason, advice) from error


# `exact` is a record's text where JSONB would alter it, else NULL. `words` is the text for keyword search, casefolded
# by Python, since the databases' lower() differ.
TABLES = (
    """CREATE TABLE episodes (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT,
    timestamp DOUBLE PRECISION NOT NULL, session_id TEXT NOT NULL, task_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    category TEXT NOT NULL, passed BOOLEAN NOT NULL, confidence DOUBLE PRECISION NOT NULL, words TEXT NOT NULL)""",
    "CREATE TABLE wisdom (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT)",
    """CREATE TABLE mistakes (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT,
    timestamp DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE sessions (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT)",
)

# `seq` gives the newest first without a sort. No query reads a body, so bodies are not indexed.
INDEXES = (
    "CREATE INDEX episodes_by_task ON episodes (task_id, seq)",
    "CREATE INDEX episodes_by_session ON episodes (session_id, seq)",
    "CREATE INDEX episodes_by_agent ON episodes (agent_id, seq)",
    "CREATE INDEX episodes_by_category ON episodes (category, seq)",
    "CREATE INDEX episodes_by_timestamp ON episodes (timestamp)",
    "CREATE INDEX mistakes_by_timestamp ON mistakes (timestamp)",
)

ITEMS = ("CREATE TABLE items (seq {number} PRIMARY KEY, id TEXT NOT NULL UNIQUE, body {json} NOT NULL, exact TEXT)",)

MIGRATIONS = (TABLES, INDEXES, ITEMS)
"""Step n migrates version n - 1 to version n."""

TYPES = {
    "sqlite": {"number": "INTEGER", "json": "TEXT"},
    "postgresql": {"number": "BIGINT GENERATED ALWAYS AS IDENTITY", "json": "JSONB"},
}


def schema_version(connection: Connection) -> int:
    """The number of applied migration steps; 0 without the lab's tables."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one() or 0)


def migrate(connection: Connection, upto: int = len(MIGRATIONS)) -> None:
    """Apply the missing steps. The caller holds the lock and the transaction."""
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
