"""Spending and caps of runs and sweeps, shared by threads, processes and machines."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reflexion_lab.errors import HarnessError
from reflexion_lab.limits import Count, NotNegative, check_fields
from reflexion_lab.records import Record
from reflexion_lab.storage.table import PATIENCE, Execute, Layout, Row, faults, table_at

LAYOUT = Layout(
    name="spending",
    columns="""scope TEXT PRIMARY KEY, calls BIGINT NOT NULL, tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL""",
    application_id=0x52464C53,
    server_schema=2,
)
_FAILURE = "the ledger of spending failed"
_SPENT = "SELECT calls, tokens, cost, seconds FROM spending WHERE scope = :scope"


class Spending(NamedTuple):
    """Calls, tokens, cost and time of all roles."""

    calls: int = 0
    tokens: int = 0
    """Prompt and completion tokens."""
    cost: float = 0.0
    seconds: float = 0.0
    """Wall time, summed over runs."""

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
    """Limits on spending; None: no limit. Cached replies are free."""

    calls: Count | None = None
    tokens: Count | None = None
    cost: NotNegative | None = None
    seconds: NotNegative | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def exceeded(self, spending: Spending) -> str:
        """The first cap that `spending` exceeds (seconds: reaches), or ""."""
        for name, amount in spending._asdict().items():
            limit = getattr(self, name)
            if limit is not None and (amount > limit or (name == "seconds" and amount >= limit)):
                return name
        return ""


class Ledger:
    """Spending by scope, in a SQLite file, PostgreSQL (by URL) or, for `place` None, memory. Thread-safe.

    Calls of a killed process count in full.

    Parameters
    ----------
    patience
        Seconds to wait for an unavailable server.

    Raises
    ------
    ConfigError
        `place` is another URL.
    HarnessError
        The database cannot be used. The first call opens it, so a fully cached run creates no ledger.
    """

    def __init__(self, place: str | Path | None, patience: float = PATIENCE) -> None:
        self._table = table_at(place, LAYOUT, "storage.spending", patience=patience)
        larger = self._table.largest
        first = ", ".join(f"{larger}(0, :{name})" for name in Spending._fields)
        later = ", ".join(f"{name} = {larger}(0, spending.{name} + :{name})" for name in Spending._fields)
        self._add = f"""INSERT INTO spending VALUES (:scope, {first}) ON CONFLICT (scope) DO UPDATE SET {later}
        RETURNING calls, tokens, cost, seconds"""

    def add(self, scope: str, amount: Spending, caps: Caps) -> tuple[str, Spending]:
        """Add `amount` unless a cap would be exceeded; returns that cap's name or "", and the scope's new spending,
        0 or more.
        """

        def work(execute: Execute) -> tuple[tuple[str, Spending], bool]:
            # The row stays locked until the transaction ends, so no addition comes between the sum and its check.
            total = _spending(execute(self._add, {"scope": scope, **amount._asdict()}))
            cap = caps.exceeded(total)
            return (cap, total.plus(amount, -1) if cap else total), not cap

        with faults(self._table, HarnessError, _FAILURE):
            return self._table.transaction(work)

    def spent(self, scope: str) -> Spending:
        with faults(self._table, HarnessError, _FAILURE):
            return _spending(self._table.rows(_SPENT, {"scope": scope}))

    def close(self) -> None:
        self._table.close()


def _spending(rows: list[Row]) -> Spending:
    return Spending(*rows[0]) if rows else Spending()  # type: ignore[arg-type]
