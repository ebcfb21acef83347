"""Hard caps on what is newly spent, shared by the roles of a run, the cells of a sweep, threads and processes."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reflexion_lab.agent.models.prices import FREE, Price
from reflexion_lab.errors import CapReached, ConfigError, HarnessError
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.storage.ledger import Caps, Ledger, Spending

UNDER_WAY = "under way: "
"""Before a scope: the row of the ledger with what calls under way may take; the scope's own row has it, too."""
PAUSE = 0.05
"""Seconds between two looks at what other processes have under way."""
TEMPLATE = 64, 16
"""Tokens that a server's chat template may add to a prompt, and to each of its messages."""


class Meter:
    """Lets calls through as long as the most that they can take stays within `caps`. Thread-safe.

    Parameters
    ----------
    place
        Of the ledger, a file or PostgreSQL's URL; None keeps none.
    scope
        What shares the caps: a sweep, or a run. May be set until the first call.
    patience
        Seconds to wait for calls of other processes while none of them begins or ends. After that they count as
        killed: their reservations stay spent, and later meters of the scope do not wait for them.
    """

    def __init__(
        self,
        caps: Caps | None = None,
        place: str | Path | None = None,
        scope: str = "",
        clock: Callable[[], float] = time.monotonic,
        patience: float = 300.0,
    ) -> None:
        self.caps = caps or Caps()
        self.scope = scope
        self._ledger = Ledger(place)
        self._clock = clock
        self._patience = patience
        self._seen = clock()
        self._under_way = 0
        self._reached = ""
        self._is_announced = False
        self._settled = threading.Condition()

    def reserve(self, most: Spending) -> None:
        """Take `most` before a call. Where that is too much it waits for the calls under way, those of other processes
        as well, which take less in the end.

        Raises
        ------
        CapReached
            It is too much, and always will be; from then on for every call.
        """
        last, since = Spending()[:3], time.monotonic()
        with self._settled:
            while not self._reached:
                # First, so that no process takes a reservation for spending.
                self._reserve(most)
                cap, total = self._ledger.add(self.scope, self._timed(most), self.caps)
                if not cap:
                    self._seen = self._clock()
                    self._under_way += 1
                    return
                under_way = self._reserve(most, -1)
                if total[:3] != last:  # failed attempts of waiting processes do not change it
                    last, since = total[:3], time.monotonic()
                is_patient = time.monotonic() - since < self._patience
                # A call takes less than its reservation, but never less than one call.
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
                    self._reached = self._message(cap, total, most)
                    self._settled.notify_all()
            raise CapReached(self._reached)

    def _announce(self, cap: str, calls: int) -> None:
        if not self._is_announced:
            self._is_announced = True
            print(
                f"caps.{cap}={getattr(self.caps, cap):g} is nearly reached: waiting for {calls} calls of other "
                f"processes, which may take less than they reserved; until {self._patience:g} s pass in which none of "
                "them begins or ends",
                file=sys.stderr,
            )

    def _reserve(self, most: Spending, sign: int = 1) -> Spending:
        """The most that all calls under way may take, after adding or subtracting `most`; not needed without caps."""
        if self.caps == Caps():
            return Spending()
        return self._ledger.add(UNDER_WAY + self.scope, Spending().plus(most._replace(seconds=0.0), sign), Caps())[1]

    def settle(self, most: Spending, spent: Spending) -> None:
        """Record the spending of a call that had reserved `most`. If the ledger fails, the call
        counts as `most` and the next `reserve` raises: the reply has been paid for, and must not be lost here.
        """
        with self._settled:
            try:
                self._ledger.add(self.scope, self._timed(spent.plus(most, -1)), Caps())
                self._reserve(most, -1)
                self._seen = self._clock()
            except HarnessError as problem:
                warnings.warn(f"{problem}; a call counts as the most that it could take", RuntimeWarning, stacklevel=2)
            finally:
                self._under_way -= 1
                self._settled.notify_all()

    @property
    def spent(self) -> Spending:
        """So far, by all that share the scope; with the most that calls under way can take."""
        return self._ledger.spent(self.scope)

    def close(self) -> None:
        self._ledger.close()

    def _timed(self, amount: Spending) -> Spending:
        return amount._replace(seconds=self._clock() - self._seen)

    def _message(self, cap: str, spent: Spending, most: Spending) -> str:
        limit, needed = getattr(self.caps, cap), getattr(spent, cap) + getattr(most, cap)
        more = (
            "" if cap == "seconds" else f", and the next call may take {Spending(*most[:3], 0.0)}".removesuffix(", 0 s")
        )
        return (
            f"caps.{cap}={limit:g} is reached: newly spent are {spent}{more}; what had finished is kept. To go on, "
            f"raise it, such as caps.{cap}={2 * max(limit, needed):.6g}"
        )


class CappedModel:
    """`model`, whose calls `meter` lets through. Thread-safe.

    A call that fails, or whose server counts no tokens, counts as the most that it could have taken: a token for every
    byte of the prompt, those of a chat template, and the longest reply allowed. What a server adds beyond that, or
    charges for requests that failed and were sent again, no cap can hold.

    Parameters
    ----------
    longest_reply
        Tokens, where the model may write more than `sampling.max_tokens`.
    """

    def __init__(self, model: Model, meter: Meter, price: Price = FREE, longest_reply: int = 0) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._meter = meter
        self._price = price
        self._longest = longest_reply

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Raises CapReached, and what the model raises."""
        spent = most = self._most(messages, sampling)
        self._meter.reserve(most)
        try:
            completion = self._model.complete(messages, sampling=sampling, sample=sample)
            spent = _spent(completion, most)
        finally:
            self._meter.settle(most, spent)
        return completion

    def _most(self, messages: Sequence[Message], sampling: Sampling) -> Spending:
        prompt = TEMPLATE[0] + sum(TEMPLATE[1] + len(m.content.encode(errors="replace")) for m in messages)
        reply = max(sampling.max_tokens, self._longest)
        if self.context:
            prompt, reply = min(prompt, self.context), min(reply, self.context)
        tokens = min(prompt + reply, self.context) if self.context else prompt + reply
        return Spending(1, tokens, self._price.cost(prompt, reply))


def _spent(completion: Completion, most: Spending) -> Spending:
    usage = completion.usage
    if usage.refused:
        return Spending(1)
    return Spending(1, usage.tokens, usage.cost) if usage.tokens else most


def longest_reply(node: Mapping[str, Any], caps: Caps) -> int:
    """Tokens that a model of this config may write, where its own request fields say so; 0 where they do not.

    Raises
    ------
    ConfigError
        They take the limit away, and there is a cap on tokens or cost.
    """
    extra = node.get("extra_body") or {}
    limits = [int(extra[name]) for name in ("max_tokens", "max_completion_tokens") if extra.get(name)]
    if "max_tokens" in extra and not limits and (caps.tokens, caps.cost) != (None, None):
        raise ConfigError(
            "model.extra_body",
            "no max_tokens",
            "max_completion_tokens in its place, since a cap on tokens or cost needs a limit",
        )
    return max(limits, default=0)
