"""However documents come and go, the lexical retrievers answer as if those that are left had been added at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.retrieval import corpus
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.hybrid import Hybrid
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf

MAKERS = [Jaccard, TfIdf, BM25, lambda: Hybrid([BM25(), Jaccard()], depth=4)]
TEXTS = st.lists(st.sampled_from(["red", "blue", "green", "sort", "list", "x", "the"]), max_size=8).map(" ".join)
BATCHES = st.lists(TEXTS, max_size=6)
FORGET = st.integers(0, 40)
QUERY = TEXTS.map(lambda text: f"red {text}")


@pytest.fixture(autouse=True, scope="module")
def small():
    """Many blocks of few scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BLOCK", 3)
        yield


def played(make, steps, query):
    """A retriever after every step, a query after each, and the documents that are left, with the first's number."""
    retriever, texts, first = make(), [], 0
    for step in steps:
        if isinstance(step, int):
            first = max(first, min(step, len(texts)))
            retriever.forget(step)
        else:
            texts += step
            retriever.add(step)
        if len(texts) % 3:
            retriever.rank(query, 2)
    return retriever, texts[first:], first


def assert_alike(hits, others, first):
    assert [hit.number - first for hit in hits] == [hit.number for hit in others]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in others], abs=1e-11)


@pytest.mark.parametrize("make", MAKERS)
@given(steps=st.lists(BATCHES | FORGET, max_size=14), query=QUERY, k=st.integers(1, 20))
@settings(deadline=None)
def test_any_history_equals_adding_the_remaining_documents(make, steps, query, k):
    retriever, texts, first = played(make, steps, query)
    at_once = make()
    at_once.add(texts)
    hits = retriever.rank(query, k)
    assert_alike(hits, at_once.rank(query, k), first)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, -hit.number))
    assert all(0 < hit.score <= 1 and first <= hit.number < first + len(texts) for hit in hits)
    if not any(isinstance(step, int) for step in steps):
        assert hits == at_once.rank(query, k)
    if not isinstance(retriever, Hybrid):
        scores = {}  # documents of the same words tie
        for hit in retriever.rank(query, len(texts)):
            words = " ".join(sorted(texts[hit.number - first].split()))
            assert scores.setdefault(words, hit.score) == hit.score


@given(scores=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0]), max_size=60), k=st.integers(1, 70))
@settings(deadline=None)
def test_the_best_are_those_of_a_full_sort(scores, k):
    import numpy as np

    hits = corpus.best(np.array(scores), k, first=7)
    expected = sorted(((score, 7 + row) for row, score in enumerate(scores) if score > 0), reverse=True)[:k]
    assert [(hit.score, hit.number) for hit in hits] == expected


def test_a_bounded_jaccard_index_keeps_neither_documents_nor_words():
    retriever = Jaccard()
    for number in range(500):
        retriever.add([f"word{number} of the day"])
        retriever.forget(number - 9)
        hits = retriever.rank(f"day word{number - 9}", 20)
        assert len(hits) == min(number + 1, 10)
    assert hits[0].number == 490
    assert len(retriever._postings) < 30 and len(retriever._sizes) < 30
