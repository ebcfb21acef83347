"""Which store a place means."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import Store
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.sql import Sql

DAY = 24 * 60 * 60
PLACES = 'a folder, a file *.sqlite or *.db, sqlite:///path, postgresql://user:password@host/database, or "" for none'


@validated
def opened(place: str | Path, retention_days: Above0 | None = None) -> Store:
    """The store at `place`: JSON lines in a folder, a SQLite file, PostgreSQL, or, for "", one that the process takes
    with it. Records older than `retention_days` are removed at once; None keeps all.

    Raises
    ------
    ConfigError
        `place` is none of these, or `retention_days` is not above 0.
    StoreError
        The store cannot be opened.
    """
    store = _store(str(place))
    if retention_days is not None and (removed := store.prune(time.time() - retention_days * DAY)):
        warnings.warn(
            f"store.retention_days: {removed:,} episodes and mistakes older than {retention_days:g} days were removed; "
            "if this machine's clock is ahead, take the store back from a copy",
            RuntimeWarning,
            stacklevel=2,
        )
    return store


def _store(place: str) -> Store:
    if not place:
        return InMemory()
    if "://" in place:
        return Sql(place)
    path = Path(place)
    if path.suffix in (".sqlite", ".db"):
        return Sql(path)
    if path.is_file() or path.suffix in (".json", ".jsonl"):
        raise ConfigError(
            "store.place",
            f"{place}, a file",
            PLACES,
            "records in a file go in by `reflexion-lab memory import`",
        )
    return Jsonl(path)
