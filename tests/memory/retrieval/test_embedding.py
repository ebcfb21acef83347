"""Retrieval by vectors."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.retrieval.embedding import EmbeddingRetriever, Vectors

DIMENSIONS = 48


class Hashed:
    """Unit vectors drawn from a text's hash; "-x" points away from "x"."""

    fingerprint = "hashed"
    dimensions = DIMENSIONS

    def __init__(self):
        self.batches = []

    def embed(self, texts, kind="document"):
        self.batches.append(list(texts))
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        if text.startswith("-"):
            return -self.vector(text[1:])
        seed = list(hashlib.sha256(text.encode()).digest())
        return unit(np.random.default_rng(seed).standard_normal(self.dimensions))


def unit(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def drawn(count, seed=0, dimensions=DIMENSIONS):
    return unit(np.random.default_rng(seed).standard_normal((count, dimensions)))


def brute_force(rows, query, k, first=0):
    scores = np.clip(rows[first:].astype(np.float64) @ query.astype(np.float64), 0, 1)
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], -place))
    return [(first + place, scores[place]) for place in order[:k] if scores[place] > 0]


def same(hits, expected):
    """Whether `hits` are the expected ones. Only among scores nearer to each other than 1e-6 may documents change
    places: which of them has the greater float32 depends on the processor.
    """
    scores, last = dict(expected), expected[-1][1] if expected else 0.0
    return (
        len(hits) == len(expected)
        and hits == sorted(hits, key=lambda hit: (-hit.score, -hit.number))
        and np.allclose([hit.score for hit in hits], [score for _, score in expected], rtol=0, atol=1e-6)
        and all(abs(hit.score - scores.get(hit.number, last)) <= 1e-6 for hit in hits)
        and {number for number, score in expected if score > last + 1e-6} <= {hit.number for hit in hits}
    )


# Texts


def test_documents_are_embedded_together_a_query_alone_and_what_points_away_is_not_found():
    embedder = Hashed()
    retriever = EmbeddingRetriever(embedder)
    retriever.add(["a", "b", "c"])
    retriever.add([])
    retriever.rank("d", 2)
    assert embedder.batches == [["a", "b", "c"], ["d"]]
    retriever = EmbeddingRetriever(Hashed())
    retriever.add(["a", "-a"])
    assert [hit.number for hit in retriever.rank("a", 5)] == [0]
    assert [hit.number for hit in retriever.rank("-a", 5)] == [1]


def test_nothing_is_embedded_where_nothing_can_be_found():
    embedder = Hashed()
    retriever = EmbeddingRetriever(embedder)
    assert retriever.rank("a", 3) == []
    retriever.add(["a"])
    assert retriever.rank("a", 0) == retriever.rank("a", -1) == []
    retriever.forget(1)
    assert retriever.rank("a", 3) == []
    assert embedder.batches == [["a"]]


# Exact search


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=20), st.integers(1, 8))
def test_adding_and_forgetting_in_any_order_keeps_numbers_and_hits(steps, k):
    rows, vectors, added, first = drawn(8000), Vectors(), 0, 0
    for more, gone in steps:
        vectors.add(rows[added : added + more])
        added += more
        first = min(first + gone, added)
        vectors.forget(first)
        assert (len(vectors), vectors.total) == (added - first, added)
    assert same(vectors.rank(rows[-1], k), brute_force(rows[:added], rows[-1], k, first))


def test_a_fifo_of_vectors_does_not_grow_with_what_passed_through_it():
    rows, vectors, capacity = drawn(500), Vectors(), 1500
    for number in range(100):
        vectors.add(rows)
        vectors.forget(500 * (number + 1) - capacity)
    assert len(vectors) == capacity
    assert [hit.number for hit in vectors.rank(rows[7], 3)] == [49_507, 49_007, 48_507]
    assert sum(map(len, vectors._rows)) == capacity


@pytest.mark.parametrize("count", [7, 1001, 12_000])
def test_equal_documents_score_equally_and_the_newest_come_first(count):
    # A matrix product rounds differently at the end of its blocks; a tie has to be one all the same.
    rows, vectors = np.repeat(drawn(1, dimensions=384), count, axis=0), Vectors()
    vectors.add(rows)
    for query in drawn(20, seed=2, dimensions=384):
        if rows[0] @ query > 0:
            hits = vectors.rank(query, 5)
            assert [hit.number for hit in hits] == list(range(count - 1, count - 6, -1))
            assert len({hit.score for hit in hits}) == 1


def test_better_documents_stand_before_any_number_of_equal_ones():
    query = drawn(1)[0]
    tied, better = unit(query + drawn(1, seed=1)[0]), unit(query + 0.1 * drawn(1, seed=2)[0])
    vectors = Vectors()
    vectors.add(np.stack([better, *[tied] * (8_000), query]))
    last = 8_000 + 1
    assert [hit.number for hit in vectors.rank(query, 4)] == [last, 0, last - 1, last - 2]
