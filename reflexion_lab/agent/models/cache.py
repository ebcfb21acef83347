"""The call cache: equal calls are one call, within a process, between runs and between processes."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.prices import FREE, Price
from reflexion_lab.errors import ModelError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import Completion, Message, Record, Sampling, Usage
from reflexion_lab.storage.call_store import PASSING, CallStore

Mode = Literal["off", "read-write", "replay-only"]
_PAID_AGAIN: set[tuple[str, str]] = set()
"""Place and key of the calls that this process asked again after a `wrong_model` reply."""


class Counts(NamedTuple):
    """Calls of one model, and what those took that it answered."""

    hits: int
    misses: int
    coalesced: int
    spent: Usage


class _Request(Record, frozen=True, kw_only=True):
    fingerprint: str
    messages: tuple[Message, ...]
    sampling: Sampling
    sample: int


_DECODER = msgspec.json.Decoder(_Request)


def _canonical(request: _Request) -> bytes:
    # Decoding once makes 0 and 0.0, lists and tuples equal; a config file may hold either.
    try:
        checked = _DECODER.decode(msgspec.json.encode(request))
    except UnicodeEncodeError as problem:
        raise ModelError(
            f"a message cannot be sent: {problem.reason} at {problem.start}", expected="text that UTF-8 can hold"
        ) from None
    return msgspec.json.encode(checked, order="sorted")


def call_key(fingerprint: str, messages: Sequence[Message], sampling: Sampling, sample: int) -> str:
    """SHA-256, in hex, of the call as JSON with sorted fields. A cache file holds that JSON as `request`.

    Raises
    ------
    ModelError
        A message is no text that UTF-8 can hold.
    """
    request = _Request(fingerprint=fingerprint, messages=tuple(messages), sampling=sampling, sample=sample)
    return hashlib.sha256(_canonical(request)).hexdigest()


def unseen(place: str, messages: Sequence[Message], sample: int) -> ModelError:
    """The error for a call that the cache does not hold."""
    last = messages[-1].content[:80] if messages else ""
    return ModelError(
        f"{place} holds no reply to draw {sample} of the call whose last message begins {last!r}; record it "
        "with cache.mode=read-write, or use the model, prompts, sampling and seed of the recording"
    )


class CachedModel:
    """`model`, asked once for every call; later equal calls are answered from the cache at `path`: an SQLite file, or
    PostgreSQL by its URL.

    Equal calls that are under way at once in this process become one call too; when it fails, all of them
    fail alike and nothing is stored. Two processes that ask the same at once both pay, and both get the reply
    of the first. Thread-safe.

    Parameters
    ----------
    price
        Price of its tokens, put on replies that were stored without one.
    mode
        `off` asks `model` every time and opens no file; `read-write` answers from the file and adds to it, and
        asks again what a server refused (`call_store.PASSING`): a `context_overflow`, which is free, every
        time; a `wrong_model`, which is paid again, once a process and call; `replay-only` never asks `model`.
    unsaved
        A file for paid replies that the database could not store.

    Raises
    ------
    ConfigError
        `mode` is none of these, or `path` is another URL.
    StoreError
        The cache cannot be used, or a reply cannot be stored; `replay-only` and it is missing.
    ModelError
        `replay-only`, and the cache does not hold a call.
    """

    hits: int
    """Calls answered from the cache."""
    misses: int
    """Cache misses."""
    coalesced: int
    """Calls that waited for an equal one under way."""
    spent: Usage
    """Usage of the calls that `model` answered."""

    @validated
    def __init__(
        self,
        model: Model,
        path: str | Path,
        mode: Mode = "read-write",
        price: Price = FREE,
        unsaved: Path | None = None,
    ) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self.price = price
        self.hits = self.misses = self.coalesced = 0
        self.spent = Usage()
        self._model = model
        self._mode = mode
        self._store = None if mode == "off" else CallStore(path, readonly=mode == "replay-only", unsaved=unsaved)
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Completion]] = {}

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """A stored reply, or a waited-for one, comes back with `cached` True."""
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
        is_passing = stored is not None and stored.finish_reason in PASSING
        is_paid_again = stored is not None and stored.finish_reason == "wrong_model"
        if is_passing and self._mode == "read-write" and not (is_paid_again and (store.place, key) in _PAID_AGAIN):
            stored = None
        with self._lock:
            self.hits += stored is not None
            self.misses += stored is None
        if stored is not None:
            return replace(self.price.put_on(stored), cached=True)
        if self._mode == "replay-only":
            raise unseen(store.place, request.messages, request.sample)
        completion = self._ask(request.messages, request.sampling, request.sample)
        if is_paid_again:
            _PAID_AGAIN.add((store.place, key))
        return store.put(key, self.fingerprint, body, completion)

    def _ask(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        completion = self._model.complete(messages, sampling=sampling, sample=sample)
        with self._lock:
            self.spent += completion.usage
        return completion

    def taken(self) -> Counts:
        """The counts since the last call of this method."""
        with self._lock:
            counts = Counts(self.hits, self.misses, self.coalesced, self.spent)
            self.hits = self.misses = self.coalesced = 0
            self.spent = Usage()
        return counts

    def add(self, counts: Counts) -> None:
        """Add counts of the same model from another process."""
        with self._lock:
            self.hits += counts.hits
            self.misses += counts.misses
            self.coalesced += counts.coalesced
            self.spent += counts.spent

    def open(self) -> None:
        """Create the cache file now instead of with the first call. Raises StoreError."""
        if self._store is not None:
            self._store.open()

    def close(self) -> None:
        """Close the cache, which holds every finished call."""
        if self._store is not None:
            self._store.close()


SUITE_DRAWS = 1_000_000
"""Index of the first draw for a task's own tests, beyond those of any loop."""


def draw_seed(messages: Sequence[Message], sampling: Sampling, sample: int) -> int:
    """The seed in [0, 2**31) that a server gets for draw `sample` of a call.

    Every call has a stream of its own. With the run's seed itself, the first random number was the same at every
    prompt: one seed of three ended half of all replies at their first token, and retries, whose later draws had other
    seeds, looked better than any method whose prompts change. Equal calls have equal seeds, whatever the arm.
    """
    return int(call_key("", messages, sampling, sample)[:8], 16) % 2**31


class Draws:
    """`model` for one task's loop: the n-th equal call of the loop is draw n, counted from 0.

    Loops with equal calls in the same order share draws in a cache; two draws of one loop never collapse.

    Parameters
    ----------
    model : Model
    asked : Counter of str, optional
        Calls so far, by key; shared by the models of a loop's roles.
    first : int
        Index of the first draw.
    """

    def __init__(self, model: Model, counts: Counter[str] | None = None, first: int = 0) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._first = first
        self._asked = Counter[str]() if counts is None else counts

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`sample` is ignored: the count takes its place."""
        key = call_key(self.fingerprint, messages, sampling, 0)
        self._asked[key] += 1
        return self._model.complete(messages, sampling=sampling, sample=self._first + self._asked[key] - 1)
