"""Caps on new spending, which roles, cells and processes share: each call is admitted before it is paid."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from reflexion_lab.agent.models.marks import is_counted
from reflexion_lab.agent.models.prices import FREE, Price
from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.errors import CapReached, HarnessError
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.storage.call_store import UNLIMITED, Caps, Ledger, Spending

UNDER_WAY = "under way: "
"""Prefix of the ledger row with a scope's open reservations, which the row of the scope itself includes."""
PAUSE = 0.05
"""Polling interval for the reservations of other processes, in seconds."""
TEMPLATE = 64, 16
"""Tokens that a server's chat template may add to a prompt, and to each of its messages."""


class Meter:
    """Admits a call only if its largest possible spending stays within `caps`. Thread-safe.

    `place`: the ledger: a file, a PostgreSQL URL, or None for memory only. `scope`: name under which spending is
    shared: a sweep or a run. May be set until the first call. `patience`: seconds to wait for calls of other processes
    while none of them begins or ends. After that those processes count as killed: their reservations stay spent, and
    later meters of the scope do not wait for them.
    """

    def __init__(
        self,
        caps: Caps | None = None,
        place: str | Path | None = None,
        scope: str = "",
        clock: Callable[[], float] = time.monotonic,
        patience: float = 300.0,
    ) -> None:
        self.caps = caps or UNLIMITED
        self.scope = scope
        self._ledger = Ledger(place)
        self._clock = clock
        self._patience = patience
        self._seen = clock()
        self._under_way = 0
        self._unwritten = Spending()
        self._reached: tuple[str, str] | None = None
        """Message and override of the cap that was reached."""
        self._is_announced = False
        self._settled = threading.Condition()

    def reserve(self, most: Spending) -> None:
        """Reserve `most` before a call. If it does not fit, wait for the open calls of all processes, which usually
        spend less than they reserved.

        Raises CapReached: the call cannot fit. All later calls raise it too.
        """
        last, since = Spending()[:3], time.monotonic()
        with self._settled:
            while not self._reached:
                # Before the scope's own row, so that no process mistakes a reservation for spending.
                self._reserve(most)
                unwritten, self._unwritten = self._unwritten, Spending()
                cap, total = self._ledger.add(self.scope, self._timed(most).plus(unwritten), self.caps)
                if not cap:
                    self._seen = self._clock()
                    self._under_way += 1
                    return
                under_way = self._reserve(most, -1)
                if total[:3] != last:  # failed attempts of waiting processes do not change it
                    last, since = total[:3], time.monotonic()
                is_patient = time.monotonic() - since < self._patience
                # A call may spend less than its reservation, but never less than one call.
                needed = total.plus(under_way._replace(calls=0), -1).plus(self._timed(most))
                others = under_way.calls - self._under_way
                if self._under_way and cap != "seconds":
                    self._settled.wait(PAUSE if others > 0 else None)
                elif others > 0 and is_patient and not self.caps.exceeded(needed):
                    self._announce(cap, others)
                    self._settled.wait(PAUSE)
                else:
                    if not is_patient and not self._under_way:
                        self._reserve(under_way, -1)  # stale; later cells do not wait for it
                    total = self._ledger.add(self.scope, self._timed(Spending()), UNLIMITED)[1]
                    self._seen = self._clock()
                    self._reached = self._message(cap, total, most)
                    self._settled.notify_all()
            raise CapReached(*self._reached)

    def _announce(self, cap: str, calls: int) -> None:
        if not self._is_announced:
            self._is_announced = True
            print(
                f"caps.{cap}={getattr(self.caps, cap):g} is nearly reached: waiting for calls of other processes "
                f"({calls}), which may take less than they reserved; until {self._patience:g} s pass in which none of "
                "them begins or ends",
                file=sys.stderr,
            )

    def _reserve(self, most: Spending, sign: int = 1) -> Spending:
        """Add `most` to, or subtract it from, the open reservations; return their sum. Does nothing without caps."""
        if self.caps == UNLIMITED:
            return Spending()
        amount = Spending().plus(most._replace(seconds=0.0), sign)
        return self._ledger.add(UNDER_WAY + self.scope, amount, UNLIMITED)[1]

    def settle(self, most: Spending, spent: Spending) -> None:
        """Record the spending of a call that had reserved `most`; without caps, by the next `reserve` or by `close`."""
        with self._settled:
            self._unwritten = self._unwritten.plus(self._timed(spent.plus(most, -1)))
            self._seen = self._clock()
            if self.caps != UNLIMITED:
                self._write(most)
            self._under_way -= 1
            self._settled.notify_all()

    def _write(self, most: Spending) -> None:
        """Write what was settled. If the ledger fails, only warn, since replies are paid: they count as `most`."""
        unwritten, self._unwritten = self._unwritten, Spending()
        try:
            self._ledger.add(self.scope, unwritten, UNLIMITED)
            self._reserve(most, -1)
        except HarnessError as problem:
            warnings.warn(f"{problem}; a call counts as the most that it could take", RuntimeWarning, stacklevel=3)

    def recover(self, recorded: Callable[[], Spending]) -> None:
        """Count what earlier starts have `recorded`, where the ledger has no call of theirs: it is lost, or another."""
        if self.caps == UNLIMITED or self.spent.calls:
            return
        missing = recorded().plus(self.spent, -1).positive()
        if missing.calls:
            self._ledger.add(self.scope, missing, UNLIMITED)
            print(f"warning: the ledger of caps lacks {missing} of earlier starts; they count", file=sys.stderr)

    @property
    def spent(self) -> Spending:
        """Spending of the scope, including open reservations."""
        return self._ledger.spent(self.scope).plus(self._unwritten).positive()

    def close(self) -> None:
        if self._unwritten != Spending():
            self._write(Spending())
        self._ledger.close()

    def _timed(self, amount: Spending) -> Spending:
        return amount._replace(seconds=self._clock() - self._seen)

    def _message(self, cap: str, spent: Spending, most: Spending) -> tuple[str, str]:
        limit, needed = getattr(self.caps, cap), getattr(spent, cap) + getattr(most, cap)
        next_call = str(Spending(*most[:3])).removesuffix(", 0 s")
        more = "" if cap == "seconds" else f"; the next call may take {next_call}"
        raised = f"caps.{cap}={2 * max(limit, needed):.6g}"
        state = "is reached" if getattr(spent, cap) >= limit else "allows no further call"
        text = f"caps.{cap}={limit:g} {state}: spent so far {spent}{more}; finished work is kept. To continue, "
        return f"{text}raise it, such as {raised}", raised


class CappedModel(WrappedModel):
    """`model`, with every call admitted by `meter`. Thread-safe.

    A call that fails, or whose server counts no tokens of its prompt or reply, counts as its upper bound: one token per
    byte of the prompt, the tokens of a chat template, and the longest reply allowed. Tokens that a server adds beyond
    that, and charges for failed requests that were sent again, are not capped. `longest_reply`: largest number of reply
    tokens if it can exceed `sampling.max_tokens`; else 0.
    """

    def __init__(self, model: Model, meter: Meter, price: Price = FREE, longest_reply: int = 0) -> None:
        super().__init__(model)
        self._meter = meter
        self._price = price
        self._longest = longest_reply

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Raises CapReached, and what the model raises."""
        spent = most = self._most(messages, sampling)
        self._meter.reserve(most)
        try:
            completion = super().complete(messages, sampling=sampling, sample=sample)
            usage = completion.usage
            if usage.refused:
                spent = Spending(1)
            elif is_counted(completion):
                spent = Spending(1, usage.tokens, usage.cost)
        finally:
            self._meter.settle(most, spent)
        return completion

    def _most(self, messages: Sequence[Message], sampling: Sampling) -> Spending:
        prompt = TEMPLATE[0] + sum(TEMPLATE[1] + len(m.content.encode(errors="replace")) for m in messages)
        reply = (max(sampling.max_tokens or 0, self._longest) or sampling.longest) + getattr(self._model, "room", 0)
        if self.context:
            prompt, reply = min(prompt, self.context), min(reply, self.context)
        tokens = min(prompt + reply, self.context) if self.context else prompt + reply
        return Spending(1, tokens, self._price.cost(prompt, reply))
