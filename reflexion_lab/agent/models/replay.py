"""Replay of recorded calls: no weights, no network, no cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.agent.models.cache import call_key, missing_call
from reflexion_lab.errors import ModelError
from reflexion_lab.limits import Count, Parallel, validated
from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.storage.call_store import CallStore


class ReplayModel:
    """Replies from the call cache at `path` (a file or a database URL), read-only; `cached` is True for all.

    Raises ModelError: the cache cannot be used, or does not contain the model or a call. `fingerprint`: fingerprint of
    the recorded model; "" if the cache contains only one. `slots`: concurrent calls, 1 or more. `context`: context of
    the recorded model in tokens, to which prompts are cut; 0: unknown.
    """

    @validated
    def __init__(self, path: str | Path, fingerprint: str = "", slots: Parallel = 64, context: Count = 0) -> None:
        self.slots = slots
        self.context = context
        self._store = CallStore(path, readonly=True)
        self.fingerprint = self._choose(fingerprint)

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = self._store.get(call_key(self.fingerprint, messages, sampling, sample))
        if completion is None:
            raise missing_call(self._store.place, messages, sample)
        return replace(completion, cached=True)

    def close(self) -> None:
        self._store.close()

    def _choose(self, fingerprint: str) -> str:
        recorded = self._store.fingerprints()
        if fingerprint in recorded:
            return fingerprint
        if len(recorded) == 1 and not fingerprint:
            return recorded[0]
        self.close()
        wanted = f"none of {fingerprint}" if fingerprint else "no single model's"
        raise ModelError(
            f"{self._store.place} holds replies of {', '.join(recorded) or 'no model'}, {wanted}; "
            "set model.fingerprint to one it holds"
        )
