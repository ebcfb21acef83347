"""One table of keyed rows that threads and processes share: in a SQLite file, or in PostgreSQL for many machines.

Calls, executions, embeddings and spending are such tables. Statements are written once, in SQL that both databases
know, with `:name` for a value. SQLite is used without SQLAlchemy, which measured 30 us for a look-up against 10 us, and
takes 0.3 s to import; a cached call takes 38 us in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    from reflexion_lab.storage.postgresql import is_url

    if place is not None and is_url(place):
        from reflexion_lab.storage.shared_table import SharedTable

        return SharedTable(str(place), layout, key, readonly=readonly, patience=patience)
    from reflexion_lab.storage.sqlite_file import FileTable

    return FileTable(Path(place) if place else None, layout, readonly=readonly)
