"""Call cache: equal calls are made once, within a process, across runs and across processes."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.marks import marked
from reflexion_lab.agent.models.prices import FREE, Price
from reflexion_lab.agent.models.wrapped import Refusals, WrappedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Record, Sampling, Usage
from reflexion_lab.storage.call_store import PASSING, CallStore

Mode = Literal["off", "read-write", "replay-only"]
_PAID_AGAIN: set[tuple[str, str]] = set()
"""(cache, key) of calls that this process repeated after a `wrong_model` reply."""


class _Request(Record, frozen=True, kw_only=True):
    fingerprint: str
    messages: tuple[Message, ...]
    sampling: Sampling
    sample: int


_DECODER = msgspec.json.Decoder(_Request)


def _canonical(request: _Request) -> bytes:
    # Decoding once normalizes 0 and 0.0, lists and tuples: a config file may contain either.
    try:
        checked = _DECODER.decode(msgspec.json.encode(request))
    except UnicodeEncodeError as problem:
        raise ModelError(
            f"a message cannot be sent: {problem.reason} at {problem.start}", expected="text that UTF-8 can hold"
        ) from None
    return msgspec.json.encode(checked, order="sorted")


def call_key(fingerprint: str, messages: Sequence[Message], sampling: Sampling, sample: int) -> str:
    """SHA-256 (hex) of the call as JSON with sorted fields. Cache files store that JSON as `request`.

    Raises ModelError: a message cannot be encoded as UTF-8.
    """
    request = _Request(fingerprint=fingerprint, messages=tuple(messages), sampling=sampling, sample=sample)
    return hashlib.sha256(_canonical(request)).hexdigest()


def missing_call(place: str, messages: Sequence[Message], sample: int) -> ModelError:
    """Error for a call that the cache does not contain."""
    last = messages[-1].content[:80] if messages else ""
    return ModelError(
        f"{place} holds no reply to draw {sample} of the call whose last message begins {last!r}; record it "
        "with cache.mode=read-write, or use the model, prompts, sampling and seed of the recording"
    )


class CachedModel(WrappedModel):
    """`model` with a call cache: a SQLite file, or a database URL.

    Equal concurrent calls are made once. Those of this object raise the same error if the call fails; others that share
    the cache then make the call themselves, as they do when the calling process is killed. Thread-safe. `price`: token
    prices, applied to stored replies that have no cost. `mode`: `off`: no cache. `read-write`: use and extend the
    cache, but repeat calls that a server refused (`call_store.PASSING`): those without a reply, which are free, every
    time; a `wrong_model`, which is paid again, once per process and call. `replay-only`: never call `model`. Raises
    ConfigError: unknown `mode`, or unsupported URL; StoreError: the cache cannot be used, is missing in `replay-only`,
    or a reply cannot be stored; ModelError: `replay-only`, and the cache does not contain a call.
    """

    hits: int
    """Calls answered from the cache."""
    misses: int
    """Cache misses."""
    coalesced: int
    """Calls that waited for an equal concurrent call."""
    spent: Usage
    """Usage of the misses."""

    @validated
    def __init__(self, model: Model, path: str | Path, mode: Mode = "read-write", price: Price = FREE) -> None:
        super().__init__(model)
        self.price = price
        self.hits = self.misses = self.coalesced = 0
        self.spent = Usage()
        self._mode = mode
        self._store = None if mode == "off" else CallStore(path, readonly=mode == "replay-only")
        if self._store and mode == "replay-only":
            weights = [name for name in self._store.fingerprints() if f"{name}=".startswith(f"{model.fingerprint}=")]
            if len(weights) > 1:
                problem = f"{self._store.place} has replies of {', '.join(weights)}"
                raise ModelError(problem, hint="model=replay model.path=… model.fingerprint=… selects one")
            self.fingerprint = weights[0] if weights else model.fingerprint
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Completion]] = {}

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`cached` is True for a stored reply and for the reply of an equal concurrent call; its usage is `marked`."""
        if self._store is None:
            with self._lock:
                self.misses += 1
            return self._ask(messages, sampling, sample)
        request = _Request(fingerprint=self.fingerprint, messages=tuple(messages), sampling=sampling, sample=sample)
        body = _canonical(request)
        key = hashlib.sha256(body).hexdigest()
        with self._lock:
            waited_for = self._under_way.get(key)
            if waited_for is None:
                future = self._under_way[key] = Future[Completion]()
            else:
                self.coalesced += 1
        if waited_for is not None:
            return replace(waited_for.result(), cached=True)
        try:
            future.set_result(self._answer(self._store, key, body, request))
        except BaseException as error:
            future.set_exception(error)
        finally:
            with self._lock:
                del self._under_way[key]
        return future.result()

    def _answer(self, store: CallStore, key: str, body: bytes, request: _Request) -> Completion:
        stored = store.get(key)
        if stored is not None and self._stands(store, key, stored):
            return self._hit(stored, request)
        if self._mode == "replay-only":
            with self._lock:
                self.misses += 1
            raise missing_call(store.place, request.messages, request.sample)
        with store.claimed(key):
            stored = store.get(key)  # another process may have made the call meanwhile
            if stored is not None and self._stands(store, key, stored):
                return self._hit(stored, request)
            with self._lock:
                self.misses += 1
            completion = self._ask(request.messages, request.sampling, request.sample)
            if stored is not None and stored.finish_reason == "wrong_model":
                _PAID_AGAIN.add((store.place, key))
            return store.put(key, self.fingerprint, body, completion)

    def _stands(self, store: CallStore, key: str, stored: Completion) -> bool:
        """Whether a stored reply answers the call."""
        is_passing = self._mode == "read-write" and stored.finish_reason in PASSING
        return not is_passing or (stored.finish_reason == "wrong_model" and (store.place, key) in _PAID_AGAIN)

    def _hit(self, stored: Completion, request: _Request) -> Completion:
        with self._lock:
            self.hits += 1
        return replace(marked(self.price.with_cost(stored), request.messages, request.sampling), cached=True)

    def _ask(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        completion = marked(super().complete(messages, sampling=sampling, sample=sample), messages, sampling)
        with self._lock:
            self.spent += completion.usage
        return completion

    def open(self) -> None:
        """Create the cache file now instead of at the first call. Raises StoreError."""
        if self._store is not None:
            self._store.open()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


SUITE_DRAWS = 1_000_000
"""Index of the first draw for generated tests, above the draws of any loop."""


def draw_seed(messages: Sequence[Message], sampling: Sampling, sample: int) -> int | None:
    """The seed in [0, 2**31) that is sent to a server for draw `sample` of a call; None if the sampling has none.

    Each call has its own random stream; equal calls have equal seeds in every arm. Sending the run's seed itself gave
    every prompt the same first random number: one seed in three ended half of all replies at their first token, and
    retries, whose later draws had other seeds, looked better than any method that changes the prompt.
    """
    return None if sampling.seed is None else int(call_key("", messages, sampling, sample)[:8], 16) % 2**31


class Draws(WrappedModel):
    """`model` for one task's loop: the n-th equal call of the loop is draw n, counted from 0.

    Loops that make equal calls in the same order share draws in the cache; two draws of one loop are always distinct.
    `counts`: calls so far, by key; one for the models of a loop's roles, by which `refusals` tell loops apart. `first`:
    index of the first draw. `refusals`: of the role, shared by all loops.
    """

    def __init__(
        self, model: Model, counts: Counter[str] | None = None, first: int = 0, refusals: Refusals | None = None
    ) -> None:
        self._first = first
        self._counts = Counter[str]() if counts is None else counts
        super().__init__(model, refusals or Refusals(), loop=self._counts)

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`sample` is ignored and replaced by the count."""
        key = call_key(self.fingerprint, messages, sampling, 0)
        self._counts[key] += 1
        return super().complete(messages, sampling=sampling, sample=self._first + self._counts[key] - 1)
