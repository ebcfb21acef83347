"""With what the runs of an arm began, where equal configs do not say it: memory, prices, and code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Beginning
from reflexion_lab.runner.folder.manifest import differences

MEMORY = "MEMORY AT THE START"
AGAIN = "one sweep over all seeds (run -m ... seed=0,1,2) runs the others again"
ADVICE = {MEMORY: AGAIN, "CODE": AGAIN, "PRICE": "its cost adds these lists; --unit tokens compares without"}
"""By what may differ, what helps."""
Began = dict[str, dict[str, tuple[int, ...]]]
"""By key of `ADVICE`, the seeds by what their runs began with, in words."""


def began(logs: Sequence[Log]) -> Began:
    """What the runs of an arm began with; without a store there is no memory to speak of."""
    known: dict[str, dict[str, dict[int, None]]] = {kind: {} for kind in ADVICE}
    for log in logs:
        for kind, words in log.began or facts(log, logs[0]):
            known[kind].setdefault(words, {})[log.manifest.seed] = None
    return {kind: {words: tuple(seeds) for words, seeds in values.items()} for kind, values in known.items()}


def listed(values: dict[str, tuple[int, ...]]) -> str:
    """`26 episodes (3f2a) at seeds 2, 3; nothing at seed 0`."""
    each = ((fact, "seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds))) for fact, seeds in values.items())
    return "; ".join(f"{words} at {noun} {seeds}" for words, noun, seeds in each)


def facts(log: Log, first: Log) -> Iterator[tuple[str, str]]:
    """Key of `ADVICE`, and words, of a run whose arm has `first`."""
    manifest = log.manifest
    for changed in ({}, *(resumption.prices for resumption in log.resumptions)):
        yield "PRICE", ", ".join(dict.fromkeys((manifest.prices | changed).values())) or "unknown"
    names = differences(first.manifest, manifest)
    sources = [name for name in names if name.startswith("source of ") or name == "prompt_digests"]
    yield "CODE", ", ".join(sources) + " changed" if sources else "the first"
    start = (log.beginning or Beginning()).of_store
    if manifest.provenance.items and log.beginning and log.beginning.stored is UNSET:  # items of another run
        start = replace(start, items=())
    counts = {"episodes": start.episodes, "wisdom": len(start.wisdom)}
    words = ", ".join(f"{n} {name}" for name, n in (counts | {"items": len(start.items)}).items() if n)
    if words or manifest.provenance.store:
        yield MEMORY, f"{words} ({hashlib.sha256(msgspec.json.encode(start)).hexdigest()[:4]})" if words else "nothing"
