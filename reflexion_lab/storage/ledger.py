"""What runs and sweeps have newly spent, in a file that threads and processes share, and the caps on it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.errors import HarnessError
from reflexion_lab.limits import Count, NotNegative, check_fields
from reflexion_lab.records import Record
from reflexion_lab.storage.sqlite_file import Layout, connect

LAYOUT = Layout(
    application_id=0x52464C53,
    schema=1,
    table="""CREATE TABLE IF NOT EXISTS spending (scope TEXT PRIMARY KEY, calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL, cost REAL NOT NULL, seconds REAL NOT NULL)""",
)


class Spending(NamedTuple):
    """What calls took, all roles together."""

    calls: int = 0
    tokens: int = 0
    """Of prompts and replies."""
    cost: float = 0.0
    seconds: float = 0.0
    """Wall time of the runs; those of runs at the same time add up."""

    def plus(self, other: Spending, sign: int = 1) -> Spending:
        return Spending(
            self.calls + sign * other.calls,
            self.tokens + sign * other.tokens,
            self.cost + sign * other.cost,
            self.seconds + sign * other.seconds,
        )

    def __str__(self) -> str:
        cost = f", cost {self.cost:.4f}" if self.cost else ""
        return f"{self.calls:,} calls, {self.tokens:,} tokens{cost}, {self.seconds:,.0f} s"


class Caps(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be newly spent, of each kind; None: no limit. Replies from the cache are free."""

    calls: Count | None = None
    tokens: Count | None = None
    cost: NotNegative | None = None
    seconds: NotNegative | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def exceeded(self, spending: Spending) -> str:
        """The first cap that `spending` is above, for seconds also at; "" for none."""
        for name, found in spending._asdict().items():
            limit = getattr(self, name)
            if limit is not None and (found > limit or (name == "seconds" and found >= limit)):
                return name
        return ""


class Ledger:
    """What each scope has spent, in a file that processes share; in memory alone without a path. Thread-safe.

    What was taken stands until it is given back: the calls of a killed process count in full.

    Raises:
        HarnessError: the file cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def add(self, scope: str, amount: Spending, caps: Caps) -> tuple[str, Spending]:
        """Add `amount` unless that would exceed a cap: its name, or "", and what the scope has spent now (>= 0)."""
        with self._lock:
            try:
                connection = self._opened()
                connection.execute("BEGIN IMMEDIATE")
                with connection:  # commits, or rolls back what failed
                    spent = self._read(connection, scope)
                    cap = caps.exceeded(spent.plus(amount))
                    if not cap:
                        spent = Spending._make(max(0, value) for value in spent.plus(amount))
                        connection.execute("INSERT OR REPLACE INTO spending VALUES (?, ?, ?, ?, ?)", (scope, *spent))
            except (sqlite3.Error, OSError) as problem:
                raise self._failed(problem) from None
        return cap, spent

    def spent(self, scope: str) -> Spending:
        with self._lock:
            try:
                return self._read(self._opened(), scope)
            except (sqlite3.Error, OSError) as problem:
                raise self._failed(problem) from None

    def _failed(self, problem: Exception) -> HarnessError:
        return HarnessError(f"{self.path}: the ledger of spending failed ({problem}); is its disk full?")

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        # At the first call: a run that is answered by the cache leaves no ledger.
        if self._connection is None and self.path:
            self._connection = connect(self.path, LAYOUT)
        elif self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.execute(LAYOUT.table)
        return self._connection

    def _read(self, connection: sqlite3.Connection, scope: str) -> Spending:
        row = connection.execute(
            "SELECT calls, tokens, cost, seconds FROM spending WHERE scope = ?", (scope,)
        ).fetchone()
        return Spending(*row) if row else Spending()
