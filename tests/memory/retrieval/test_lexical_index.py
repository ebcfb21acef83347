"""The best scores of a block-wise search, and the bound of an index."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.retrieval import corpus
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf


@pytest.fixture(autouse=True, scope="module")
def small():
    """Many blocks of few scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BLOCK", 3)
        yield


@given(scores=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0]), max_size=60), k=st.integers(1, 70))
@settings(deadline=None)
def test_the_best_are_those_of_a_full_sort(scores, k):
    import numpy as np

    hits = corpus.best(np.array(scores), k, first=7)
    expected = sorted(((score, 7 + row) for row, score in enumerate(scores) if score > 0), reverse=True)[:k]
    assert [(hit.score, hit.number) for hit in hits] == expected


@pytest.mark.parametrize("make", [Jaccard, BM25, TfIdf])
def test_a_bounded_index_keeps_neither_documents_nor_words(make):
    retriever = make()
    for number in range(500):
        retriever.add([f"word{number} of the day"])
        retriever.forget(number - 9)
        hits = retriever.rank(f"day word{number - 9}", 20)
        assert len(hits) == min(number + 1, 10)
    assert hits[0].number == 490
    held = ("_columns", "_ends", "_counts", "_frequencies") if make is TfIdf else ("_postings", "_sizes")
    assert all(len(getattr(retriever, name)) < 40 for name in held)
