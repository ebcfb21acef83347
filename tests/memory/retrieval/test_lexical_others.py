"""Hybrid, random and recency: what their formulas and draws promise."""

from collections import Counter

import pytest

from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.controls import Random, Recency
from reflexion_lab.memory.retrieval.hybrid import Hybrid
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.protocols import Hit
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose


class Fixed:
    """Fixed hits."""

    def __init__(self, *numbers):
        self.hits = [Hit(number, 1 / place) for place, number in enumerate(numbers, 1)]

    def add(self, documents):
        pass

    def forget(self, before):
        pass

    def rank(self, query, k):
        return self.hits[:k]


def test_a_hybrid_adds_reciprocal_places_down_to_its_depth_and_equal_sums_tie():
    hits = Hybrid([Fixed(4, 7), Fixed(7, 9)]).rank("q", 5)
    expected = {7: 1 / 62 + 1 / 61, 4: 1 / 61, 9: 1 / 62}
    assert [hit.number for hit in hits] == [7, 4, 9]
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.number] * 61 / 2 for hit in hits])
    hits = Hybrid([Fixed(1, 2, 3), Fixed(2, 3, 1), Fixed(3, 1, 2)]).rank("q", 5)
    assert [hit.number for hit in hits] == [3, 2, 1]
    assert len({hit.score for hit in hits}) == 1
    deep = [Fixed(*range(10)), Fixed(*range(10))]
    assert {hit.number for hit in Hybrid(deep, depth=3).rank("q", 2)} == {0, 1}
    assert Hybrid([Fixed(5, 6), Fixed(6, 5)], depth=1).rank("q", 1)[0].number == 6
    assert len(Hybrid(deep, depth=1).rank("q", 8)) == 8


def test_random_draws_depend_on_seed_and_query_alone():
    def drawn(seed, query):
        retriever = Random(seed)
        retriever.add(["x"] * 1000)
        retriever.rank("another", 3)
        return [hit.number for hit in retriever.rank(query, 5)]

    assert drawn(0, "q") == drawn(0, "q")
    assert len({tuple(drawn(seed, query)) for seed in (0, 1) for query in ("q", "r", "")}) == 6


def test_random_draws_every_document_as_often_at_every_place():
    retriever = Random()
    retriever.add(["x"] * 8)
    retriever.forget(3)
    places = Counter((place, hit.number) for n in range(2000) for place, hit in enumerate(retriever.rank(str(n), 5)))
    assert {number for _, number in places} == {3, 4, 5, 6, 7}
    assert all(330 < count < 470 for count in places.values())
    assert len(places) == 25


def test_recency_is_newest_first_whatever_the_query():
    retriever = Recency()
    retriever.add(["old", "middle", "new", "newest"])
    assert [hit.number for hit in retriever.rank("old", 2)] == [3, 2]
    assert retriever.rank("", 9) == [Hit(3, 1.0), Hit(2, 0.75), Hit(1, 0.5), Hit(0, 0.25)]


@pytest.mark.parametrize(
    ("name", "kind"), [("jaccard", Jaccard), ("tfidf", TfIdf), ("bm25", BM25), ("random", Random), ("recency", Recency)]
)
def test_every_config_makes_its_retriever(name, kind):
    retriever = build(compose(f"retriever={name}").retriever, "retriever")
    retriever.add(["sort a list"])
    assert isinstance(retriever, kind)
    assert [hit.number for hit in retriever.rank("sort", 1)] == [0]


def test_the_config_of_the_hybrid_builds_its_retrievers():
    hybrid = build(compose("retriever=hybrid").retriever, "retriever", {"embedder": object()})
    assert isinstance(hybrid, Hybrid)
    assert [type(part).__name__ for part in hybrid.retrievers] == ["BM25", "EmbeddingRetriever"]
