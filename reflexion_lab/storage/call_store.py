"""The call cache, which is also the recording of a replay, and the ledger of spending.

To read it: `sqlite3 calls.sqlite "select request, completion from calls"` or
`psql URL -c 'select request::json, completion::json from calls'`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError, StoreError
from reflexion_lab.io.files import locked_byte
from reflexion_lab.limits import Count, NotNegative, check_fields
from reflexion_lab.records import Completion, Record, Usage

if TYPE_CHECKING:
    from reflexion_lab.storage.sql import Execute, Statement

PASSING = ("context_overflow", "refused", "wrong_model")
"""Finish reasons that depend on the server's setup (context, model); a later reply to the same call replaces them."""

LEDGER = "used as the ledger of spending"
_COMPLETION = msgspec.json.Decoder(Completion)


class CallStore:
    """The call cache at `place`, shared by threads, processes and, on a server, machines.

    `place`: path of a SQLite file, created by the first call, or a database URL. `readonly`: the cache must exist, and
    `put` fails. Raises ConfigError: `place` is a URL of no such database; StoreError: the cache is no database, not a
    call cache of this version, or (`readonly`) missing.
    """

    def __init__(self, place: str | Path, *, readonly: bool = False) -> None:
        from sqlalchemy import bindparam, or_, select

        from reflexion_lab.storage.sql import CALLS, Database

        self._database = Database(place, [CALLS], "cache.path", readonly=readonly)
        self.place = self._database.place
        self._is_closed, self._readonly = False, readonly
        # Replies cannot contain the pattern: their quotes are escaped.
        texts = [f'"finish_reason":"{reason}"' for reason in PASSING]
        is_passing = or_(*(CALLS.c.completion.contains(text, autoescape=True) for text in texts))
        self._put = self._database.inserted(CALLS, where=is_passing, returns=CALLS.primary_key)
        self._get = self._database.compiled(select(CALLS.c.completion).where(CALLS.c.key == bindparam("key")))
        self._fingerprints = self._database.compiled(select(CALLS.c.fingerprint).distinct())
        with suppress(OSError):  # a name too long: the first call reports it
            if readonly or not self._database.is_file or self._database.path.exists():
                self.open()

    def open(self) -> None:
        """Create the cache now instead of at the first call. Raises StoreError."""
        self._database.open()

    def get(self, key: str) -> Completion | None:
        """The stored reply, with `cached` False; None if missing."""
        rows = self._rows(self._get, {"key": key})
        if not rows:
            return None
        try:
            return _COMPLETION.decode(rows[0][0])
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self.place}: the completion of call {key} is damaged ({error})",
                hint=f"delete that row: DELETE FROM calls WHERE key = '{key}'",
            ) from error

    def put(self, key: str, fingerprint: str, request: bytes, completion: Completion) -> Completion:
        """Store a reply unless another process was faster with one that is not of `PASSING`; returns the stored reply.

        Its usage is that of `completion` in any case, since both were paid.
        """
        if self._readonly:
            raise StoreError(f"{self.place}: the call cache was opened read-only")
        paid = replace(completion, cached=False)
        call = {
            "key": key,
            "fingerprint": fingerprint,
            "request": request.decode(),
            "completion": msgspec.json.encode(paid).decode(),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return paid if self._rows(self._put, call) else replace(self.get(key) or paid, usage=completion.usage)

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Hold the call `key` against all who share the cache; they wait for the call, or until this process ends."""
        if self._database.is_file:  # a transaction would hold the whole file
            return locked_byte((path := self._database.path).with_name(f".{path.name}.lock"), int(key[:15], 16))
        return self._database.claimed(key)

    def fingerprints(self) -> list[str]:
        """Fingerprints of the models whose replies are stored, sorted."""
        return sorted(fingerprint for (fingerprint,) in self._rows(self._fingerprints, {}))

    def close(self) -> None:
        self._is_closed = True
        self._database.close()

    def _rows(self, statement: Statement, values: Mapping[str, object]) -> list[Any]:
        if self._is_closed:
            raise StoreError(f"{self.place}: the call cache is a closed database")
        return self._database.rows(statement, values, "used as a call cache")


class Spending(NamedTuple):
    """Calls, tokens, cost and time of all roles."""

    calls: int = 0
    tokens: int = 0
    """Prompt and completion tokens."""
    cost: float = 0.0
    seconds: float = 0.0
    """Wall time, summed over runs."""

    @classmethod
    def of(cls, usage: Usage, at_once: int) -> Spending:
        """From the usage of calls of which so many were made at once."""
        return cls(usage.calls, usage.tokens, usage.cost, usage.seconds / at_once)

    def plus(self, other: Spending, sign: int = 1) -> Spending:
        return Spending(
            self.calls + sign * other.calls,
            self.tokens + sign * other.tokens,
            self.cost + sign * other.cost,
            self.seconds + sign * other.seconds,
        )

    def positive(self) -> Spending:
        return Spending(max(0, self.calls), max(0, self.tokens), max(0.0, self.cost), max(0.0, self.seconds))

    def __str__(self) -> str:
        cost = f", cost {self.cost:.4f}" if self.cost else ""
        return f"{self.calls:,} call{'s' * (self.calls != 1)}, {self.tokens:,} tokens{cost}, {self.seconds:,.0f} s"


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


UNLIMITED = Caps()


class Ledger:
    """Spending by scope, in a SQLite file, on a server (by URL) or, for `place` None, in memory. Thread-safe.

    Calls of a killed process count in full, and so may an addition twice whose confirmation a server could not send.
    Raises ConfigError: `place` is a URL of no such database; HarnessError: the database cannot be used. The first call
    opens it, so a fully cached run creates no ledger.
    """

    def __init__(self, place: str | Path | None) -> None:
        self._lock, self._here = threading.Lock(), dict[str, Spending]()
        self._database = None
        if place is not None:
            from sqlalchemy import bindparam, case, literal_column

            from reflexion_lab.storage.sql import SPENDING, Database

            self._database = database = Database(place, [SPENDING], "storage.spending", error=HarnessError)
            self._get = database.compiled(SPENDING.select().where(SPENDING.c.scope == bindparam("of")))
            sums = {each.name: each + bindparam(f"more_{each.name}", type_=each.type) for each in [*SPENDING.c][1:]}
            zero: Any = literal_column("0")
            totals = {name: case((total > zero, total), else_=zero) for name, total in sums.items()}
            self._add = database.inserted(SPENDING, returns=SPENDING.c, replaced_by=totals)

    def add(self, scope: str, amount: Spending, caps: Caps) -> tuple[str, Spending]:
        """Add `amount` unless that exceeds a cap; returns the cap's name or "", and the scope's spending, 0 or more."""
        if not all(map(math.isfinite, amount)):
            raise HarnessError(f"spending of {tuple(amount)} is no number")

        def after(before: Spending) -> tuple[str, Spending]:
            total = before.plus(amount).positive()
            cap = caps.exceeded(total)
            return cap, before if cap else total

        def work(execute: Execute) -> tuple[str, Spending]:
            def added(amount: Spending) -> Spending:
                more = {f"more_{name}": value for name, value in amount._asdict().items()}
                ((_, *total),) = execute(self._add, {"scope": scope, **amount.positive()._asdict(), **more})
                return Spending(*total)

            cap = after(added(Spending()))[0] if caps != UNLIMITED else ""  # locks the row
            return cap, added(Spending() if cap else amount)

        if self._database is None:
            with self._lock:
                cap, self._here[scope] = after(self.spent(scope))
                return cap, self._here[scope]
        return self._database.transaction(work, LEDGER, is_repeatable=False)

    def spent(self, scope: str) -> Spending:
        if self._database is None:
            return self._here.get(scope, Spending())
        if self._database.is_file and not self._database.path.exists():
            return Spending()
        rows = self._database.rows(self._get, {"of": scope}, LEDGER)
        return Spending(*rows[0][1:]) if rows else Spending()

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
