"""The retrievers of the comparison, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.embedders.cached import CachedEmbedder
from reflexion_lab.memory.embedders.minilm import MiniLM
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.controls import Random, Recency
from reflexion_lab.memory.retrieval.embedding import EmbeddingRetriever
from reflexion_lab.memory.retrieval.hybrid import Hybrid
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.protocols import Retriever

NAMES = ("jaccard", "tfidf", "bm25", "embedding", "hybrid", "random", "recency")
"""The last two ignore the documents."""
EMBEDDING = ("embedding", "hybrid")


class Contestants(NamedTuple):
    making: Mapping[str, Callable[[], Retriever]]
    """Constructors of empty retrievers."""
    unseen: Mapping[str, Callable[[str], object]]
    """Cost of a new query text besides its ranking: an embedding that is not in the cache."""


def contestants(names: Sequence[str] = NAMES, *, seed: int = 0, embeddings: Path | str | None = None) -> Contestants:
    """Retrievers by name; `hybrid` fuses BM25 and embeddings.

    Parameters
    ----------
    embeddings : path, optional
        File that caches embeddings between comparisons.

    Raises ConfigError: a name is not in `NAMES`. ModelError: the weights for embeddings are not installed.
    """
    if unknown := [name for name in names if name not in NAMES]:
        raise ConfigError("retriever", repr(unknown[0]), f"one of {', '.join(NAMES)}")
    making: dict[str, Callable[[], Retriever]] = {
        "jaccard": Jaccard,
        "tfidf": TfIdf,
        "bm25": BM25,
        "random": lambda: Random(seed),
        "recency": Recency,
    }
    unseen: dict[str, Callable[[str], object]] = {}
    if any(name in EMBEDDING for name in names):
        model = MiniLM()
        known = CachedEmbedder(model, embeddings)
        making["embedding"] = lambda: EmbeddingRetriever(known)
        making["hybrid"] = lambda: Hybrid([BM25(), EmbeddingRetriever(known)])
        unseen = {name: lambda text: model.embed([text]) for name in EMBEDDING}
    return Contestants({name: making[name] for name in names}, unseen)
