"""The contract of `Retriever`, for all retrievers."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.retrieval import corpus
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.controls import Random, Recency
from reflexion_lab.memory.retrieval.embedding import EmbeddingRetriever
from reflexion_lab.memory.retrieval.hybrid import Hybrid
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.text.replies.tokens import tokens

TEXTS = [
    "Return the sum of a list of numbers.", "Reverse a string, word by word.", "Return the largest number of a list.",
    "Count the vowels of a string.", "Return the sum of the squares of a list of numbers.",
    "Check whether a string reads the same from both ends: a palindrome.", "",
    "Return the n-th number of a sequence in which each number is the sum of two.",
    "Return the sum of a list of numbers.", "Sort a list of numbers.",
]  # fmt: skip
QUERIES = ["the sum of all numbers of a list", "reverse the words of a string", "palindrome", "numbers"]


class Letters:
    """Embeds a text as the signs that a hash gives its words, summed."""

    fingerprint = "letters"
    dimensions = 64

    def embed(self, texts, kind="document"):
        vectors = np.full((len(texts), self.dimensions), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in tokens(text):
                bits = np.frombuffer(hashlib.sha256(word.encode()).digest()[:8], np.uint8)
                vectors[row] += 2.0 * np.unpackbits(bits) - 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


FACTORIES = {
    "jaccard": Jaccard, "jaccard_min3": lambda: Jaccard(min_length=3), "tfidf": TfIdf, "bm25": BM25,
    "embedding": lambda: EmbeddingRetriever(Letters()),
    "hybrid": lambda: Hybrid([BM25(), EmbeddingRetriever(Letters()), Jaccard()]), "random": lambda: Random(seed=3),
    "recency": Recency,
}  # fmt: skip
WORDS_ONLY = ("jaccard", "jaccard_min3", "tfidf", "bm25")
READERS = (*WORDS_ONLY, "embedding", "hybrid")


@pytest.fixture(params=FACTORIES)
def make(request):
    return FACTORIES[request.param]


def filled(make, texts=TEXTS):
    retriever = make()
    retriever.add(texts)
    return retriever


def test_an_empty_index_or_a_k_of_zero_or_less_gives_no_hits_and_any_text_will_do(make):
    assert make().rank("numbers", 5) == filled(make, []).rank("numbers", 5) == []
    retriever = filled(make)
    assert [retriever.rank("numbers", k) for k in (0, -1, -1000)] == [[], [], []]
    for query in ("", "\0", "\ud800 half a character", "İ ﬁ 数 e\u0301", "word " * 2000):
        hits = filled(make, [*TEXTS, query]).rank(query, 100)
        assert {hit.number for hit in hits} <= set(range(len(TEXTS) + 1)), query[:30]


def test_hits_are_best_first_in_range_and_each_document_once(make):
    for query in QUERIES:
        retriever = filled(make)
        hits = retriever.rank(query, 100)
        assert hits
        assert all(0 < hit.score <= 1 and type(hit.score) is float and type(hit.number) is int for hit in hits)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, -hit.number))
        assert len({hit.number for hit in hits}) == len(hits) <= len(TEXTS)
        assert [retriever.rank(query, k) for k in range(1, 11)] == [hits[:k] for k in range(1, 11)]


@pytest.mark.parametrize("name", READERS)
def test_of_equal_documents_the_newer_comes_first(name):
    retriever = filled(FACTORIES[name], ["sort a list", *["reverse a string"] * 700, "sort words"])
    assert [hit.number for hit in retriever.rank("reverse strings, reverse a string", 3)] == [700, 699, 698]


@pytest.mark.parametrize("name", READERS)
def test_the_same_text_is_nearest(name):
    retriever = filled(FACTORIES[name])
    for number in (1, 3, 5, 9):
        assert retriever.rank(TEXTS[number], 1)[0].number == number


WORDS = st.lists(st.sampled_from(["red", "blue", "green", "sort", "list", "x", "the"]), max_size=8).map(" ".join)
BATCHES = st.lists(WORDS, max_size=6)
FORGET = st.integers(-2, 40)
SHALLOW = FACTORIES | {"hybrid": lambda: Hybrid([BM25(), Jaccard()], depth=4)}


@pytest.fixture(autouse=True, scope="module")
def small():
    """Many blocks of few scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BLOCK", 3)
        yield


def played(make, steps, query):
    """A retriever after every step, a query after many, and the documents that are left, with the first's number."""
    retriever, texts, first = make(), [], 0
    for step in steps:
        if isinstance(step, int):
            first = max(first, min(step, len(texts)))
            retriever.forget(step)
        else:
            texts += step
            retriever.add(tuple(step))
        if len(texts) % 3:
            retriever.rank(query, 2)
    return retriever, texts[first:], first


@pytest.mark.parametrize("name", SHALLOW)
@given(steps=st.lists(BATCHES | FORGET, max_size=14), query=WORDS.map(lambda text: f"red {text}"), k=st.integers(1, 20))
@settings(deadline=None)
def test_any_history_equals_adding_the_remaining_documents(name, steps, query, k):
    retriever, texts, first = played(SHALLOW[name], steps, query)
    hits, others = retriever.rank(query, k), filled(SHALLOW[name], texts).rank(query, k)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, -hit.number))
    assert all(0 < hit.score <= 1 and first <= hit.number < first + len(texts) for hit in hits)
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in others], abs=1e-6)
    if name != "random":  # it draws numbers, which are others after a `forget`
        assert [hit.number - first for hit in hits] == [hit.number for hit in others]
    if not any(isinstance(step, int) for step in steps):
        assert hits == others
    if name in WORDS_ONLY:
        scores = {}  # documents of the same words tie
        for hit in retriever.rank(query, len(texts)):
            words = " ".join(sorted(texts[hit.number - first].split()))
            assert scores.setdefault(words, hit.score) == hit.score


def test_eight_threads_get_what_an_equal_retriever_gets_alone(make):
    alone, shared = filled(make), filled(make)
    with ThreadPoolExecutor(8) as pool:
        hits = list(pool.map(lambda query: shared.rank(query, 5), QUERIES * 16))
    assert hits == [alone.rank(query, 5) for query in QUERIES] * 16


@pytest.mark.parametrize("name", WORDS_ONLY)
def test_only_documents_that_share_a_word_are_found(name):
    assert {hit.number for hit in filled(FACTORIES[name]).rank("palindrome vowels", 100)} == {3, 5}
    for query in ("", "  \n", "?!", "to be or not to be, that is it; is it not?", "unheard of"):
        assert filled(FACTORIES[name]).rank(query, 5) == [], query
