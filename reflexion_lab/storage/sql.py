"""The store in a database: a SQLite file, or PostgreSQL by URL; one table a kind, a row a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.errors import StoreError
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Mistake, Search
from reflexion_lab.storage.databases import connected, faults, parsed, without_password, writing
from reflexion_lab.storage.kinds import KIND_OF, KINDS, Line, collector_paused, matches, prepared, searched

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select, TableClause

ROWS = 500
"""Fetched, or written, at once."""
LONGEST = 200
"""Characters of a column that searches narrow by; an index of PostgreSQL takes 2,700 bytes."""


class Sql:
    """Records in the database at `url`: `postgresql://user:password@host/database`, `sqlite:///path`, or the Path of a
    SQLite file, which belongs on a local disk.

    `append` keeps all of its records or none, in one transaction. When it returns, they survive a killed process and,
    in PostgreSQL, a crash of the machine; SQLite may lose the last transactions then, never older ones.
    Writers of one database take turns. Any number of processes may open a new one at once.

    Raises
    ------
    ValueError
        `url` is none of these.
    StoreError
        The database cannot be had, is damaged, another program's or a newer version's.
    """

    def __init__(self, url: str | Path) -> None:
        parts = parsed(url)
        self.place = without_password(parts)
        self._json = parts.get_backend_name() == "postgresql"
        with faults(self.place, "opened"):
            self._engine = connected(parts)
        self._tables = {kind.name: _table(kind.record) for kind in KINDS}
        # As text, since SQLAlchemy's own handling of parameters takes longer than SQLite's of the row.
        self._upserts = {name: str(self._upsert(name).compile(self._engine)) for name in self._tables}

    def append(self, records: Sequence[Stored]) -> None:
        """Raises ValueError, too, as `kinds.prepared` does."""
        rows: dict[str, dict[str, dict[str, object]]] = {}
        for line in prepared(records):
            # One row an id, in the place of the first and with the words of the last.
            rows.setdefault(line.kind.name, {})[line.id] = _row(line, self._json)
        with faults(self.place, "appended to"), writing(self._engine) as connection:
            self._lock(connection, [kind.name for kind in KINDS if kind.name in rows])
            for name, by_id in rows.items():
                connection.exec_driver_sql(self._upserts[name], list(by_id.values()))

    def read(self, kind: type[S]) -> Iterator[S]:
        table = self._tables[KIND_OF[kind].name]
        return self._records(self._bodies(table).order_by(table.c.seq), kind)

    def search(self, search: Search) -> list[Episode]:
        episodes: list[Episode] = []
        # The database narrows the search; the rule of all stores decides.
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

    def close(self) -> None:
        self._engine.dispose()

    def _lock(self, connection: Connection, names: list[str]) -> None:
        # Two writers that upsert the same ids in different orders would wait for each other for ever.
        if self._json and names:
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(names)} IN SHARE ROW EXCLUSIVE MODE")

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
        except (msgspec.DecodeError, TypeError) as problem:  # a damaged file gives NULL where none can be
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
    # JSONB has neither NUL nor a negative zero.
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
    """`text` as every database takes it: equal texts stay equal, and a part of a text stays a part of it."""
    plain = text if text.isascii() else text.encode(errors="replace").decode()
    return plain.replace("\0", "\ufffd")
