"""The ledger of spending in PostgreSQL: caps that hold over many machines; and which ledger a place means."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.errors import HarnessError
from reflexion_lab.storage.ledger import Caps, Ledger, Spending
from reflexion_lab.storage.postgresql import is_url, read, shown
from reflexion_lab.storage.shared_table import PATIENCE, Layout, SharedTable, faults

if TYPE_CHECKING:
    from sqlalchemy import Connection

LAYOUT = Layout(
    name="spending",
    schema=2,
    table="""CREATE TABLE spending (scope TEXT PRIMARY KEY, calls BIGINT NOT NULL, tokens BIGINT NOT NULL,
    cost DOUBLE PRECISION NOT NULL, seconds DOUBLE PRECISION NOT NULL)""",
)
ADD = """INSERT INTO spending AS was VALUES (%s, %s, %s, %s, %s) ON CONFLICT (scope) DO UPDATE SET
calls = GREATEST(0, was.calls + excluded.calls), tokens = GREATEST(0, was.tokens + excluded.tokens),
cost = GREATEST(0, was.cost + excluded.cost), seconds = GREATEST(0, was.seconds + excluded.seconds)
RETURNING calls, tokens, cost, seconds"""


class SharedLedger:
    """What each scope has spent, in the database at `url`, which machines share. Thread-safe.

    It does what `Ledger` does. While the server is away, callers wait, `patience` seconds at most.

    Raises:
        ValueError: `url` is none.
        HarnessError: the database cannot be used.
    """

    def __init__(self, url: str, patience: float = PATIENCE) -> None:
        self.place = shown(read(url, "storage.spending"))
        self._url = url
        self._patience = patience
        self._lock = threading.Lock()
        self._table: SharedTable | None = None

    def add(self, scope: str, amount: Spending, caps: Caps) -> tuple[str, Spending]:
        """Add `amount` unless that would exceed a cap: its name, or "", and what the scope has spent now (>= 0)."""

        def work(connection: Connection) -> tuple[tuple[str, Spending], bool]:
            # The row is this transaction's from here to its end: nobody adds between the sum and the verdict on it.
            added = Spending(*connection.exec_driver_sql(ADD, (scope, *amount)).one())
            cap = caps.exceeded(added)
            return (cap, added.plus(amount, -1) if cap else added), not cap

        with faults(f"{self.place}: the ledger of spending failed", HarnessError):
            cap, spent = self._opened().once(work)
        return cap, spent

    def spent(self, scope: str) -> Spending:
        with faults(f"{self.place}: the ledger of spending failed", HarnessError):
            rows = self._opened().rows("SELECT calls, tokens, cost, seconds FROM spending WHERE scope = %s", scope)
        return Spending._make(rows[0]) if rows else Spending()

    def close(self) -> None:
        with self._lock:
            if self._table:
                self._table.close()
                self._table = None

    def _opened(self) -> SharedTable:
        # At the first call, as with a file: a run that is answered by the cache asks for no ledger.
        with self._lock:
            self._table = self._table or SharedTable(self._url, LAYOUT, "storage.spending", patience=self._patience)
            return self._table


def opened(place: str | Path | None) -> Ledger | SharedLedger:
    """The ledger at `place`: PostgreSQL by its URL, or an SQLite file; for None one that the process takes with it."""
    if place is not None and is_url(place):
        return SharedLedger(str(place))
    return Ledger(Path(place) if place else None)
