"""The numbered steps that create a record store's tables. A released step is never changed; new ones are added."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reflexion_lab.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection

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


def version(connection: Connection) -> int:
    """The number of steps that a database has taken; 0 where it has none of our tables."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one() or 0)


def check(place: str, version: int) -> None:
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
    present = version(connection)
    if present == 0:
        connection.execute(
            text("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL)")
        )
    for number in range(present + 1, upto + 1):
        for statement in MIGRATIONS[number - 1]:
            connection.execute(text(statement.format(**types)))
        connection.execute(text("INSERT INTO schema_version VALUES (:n, :t)"), {"n": number, "t": time.time()})
