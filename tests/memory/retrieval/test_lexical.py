"""Jaccard, TF-IDF and BM25 against their definitions, on the prompts of HumanEval."""

import itertools
import math
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.text.replies.tokens import tokens

PROMPTS = [task.prompt for task in humaneval()]
QUERIES = [*PROMPTS[::15], "sort the list of numbers, sort it", "is the number prime?", "prime unheardof"]
CUTS = (0, 1, 2, 3, 60, 61, 110, 150, len(PROMPTS))


def grown(retriever, forget=0):
    """The prompts, added in many batches with queries between them; the first ones forgotten on the way."""
    for start, end in itertools.pairwise(CUTS):
        retriever.add(PROMPTS[start:end])
        retriever.rank(QUERIES[0], 3)
        retriever.forget(min(forget, start))
    return retriever


def best(scores, first, k=10):
    """The order that hits must have, given every living document's score."""
    pairs = [(score, first + row) for row, score in enumerate(scores) if score > 0]
    return sorted(pairs, key=lambda pair: (-pair[0], -pair[1]))[:k]


def scored(retriever, query, *documents):
    retriever.add(documents)
    return [(documents[hit.number], hit.score) for hit in retriever.rank(query, len(documents))]


def test_jaccard_is_the_share_of_common_words_and_can_ignore_short_ones():
    connection, timeout = "open database connection", "diagnose database timeout in production"
    handle = "handle network timeout gracefully"
    hits = scored(Jaccard(min_length=3), "database timeout connection", handle, "sort a list", timeout, connection)
    assert hits == [(connection, 2 / 4), (timeout, 2 / 5), (handle, 1 / 6)]
    assert scored(Jaccard(min_length=3), "a b c", "a b c") == []
    assert scored(Jaccard(min_length=3), "go to 15 prime", "go up prime") == [("go up prime", 1.0)]


@pytest.mark.parametrize(
    ("query", "document", "score"),
    [
        ("What is 15 * 23?", "Calculate 15 * 23", 2 / 3),
        ("Calculate 15 multiplication 23", "How do I calculate 15 times 23?", 1 / 2),
        ("Search, search; SEARCH", "(Search)", 1.0),
        ("search in the straße", "STRASSE", 1 / 2),
        ("one two", "one two", 1.0),
    ],
)
def test_jaccard_ignores_case_order_and_repeats(query, document, score):
    assert scored(Jaccard(), query, document) == [(document, score)]


@pytest.mark.parametrize("forget", [0, 59, 100])
def test_jaccard_is_its_definition(forget):
    documents, ours = [set(tokens(prompt)) for prompt in PROMPTS[forget:]], grown(Jaccard(), forget)
    for query in QUERIES:
        words = set(tokens(query))
        scores = [len(words & document) / len(words | document) for document in documents]
        hits = ours.rank(query, 10)
        assert [(hit.score, hit.number) for hit in hits] == best(scores, forget)


@pytest.mark.parametrize("forget", [0, 59])
def test_tfidf_is_that_of_scikit_learn_fitted_on_the_living_documents(forget):
    from sklearn.feature_extraction.text import TfidfVectorizer  # a second of every process that collects

    vectorizer, ours = TfidfVectorizer(analyzer=tokens), grown(TfIdf(), forget)
    matrix = vectorizer.fit_transform(PROMPTS[forget:])
    for query in QUERIES:
        cosines = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
        hits = ours.rank(query, 10)
        expected = best(cosines.round(12).tolist(), forget)
        assert [hit.number for hit in hits] == [number for _, number in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for score, _ in expected], abs=1e-11)


@pytest.mark.parametrize(
    ("forget", "parameters"),
    [(0, {}), (59, {"k1": 0.9, "b": 0.4}), (100, {"k1": 0}), (0, {"k1": 3, "b": 1}), (59, {"b": 0})],
)
def test_bm25_has_the_proportions_of_bm25s_over_the_living_documents(forget, parameters):
    import bm25s

    peer, ours = bm25s.BM25(method="lucene", **{"k1": 1.5, "b": 0.75} | parameters), grown(BM25(**parameters), forget)
    peer.index([tokens(prompt) for prompt in PROMPTS[forget:]], show_progress=False)
    for query in QUERIES[:-1]:
        scores, hits = peer.get_scores(tokens(query)), ours.rank(query, 50)
        expected = sorted(scores / scores.max())[:-51:-1]
        assert [hit.score / hits[0].score for hit in hits] == pytest.approx([s for s in expected if s > 0], rel=1e-5)


def lucene(documents, words, k1=1.5, b=0.75):
    """BM25 by document, divided by its bound."""
    mean, bound, scores = sum(map(len, documents)) / len(documents), 0.0, Counter()
    for word in words:
        holding = {number: document for number, document in enumerate(documents) if word in document}
        idf = math.log(1 + (len(documents) - len(holding) + 0.5) / (len(holding) + 0.5))
        bound += idf
        for number, document in holding.items():
            tf = document.count(word)
            scores[number] += idf * tf / (tf + k1 * (1 - b + b * len(document) / mean))
    return {number: score / bound for number, score in scores.items()}


def cosine(documents, words):
    """Cosine of TF-IDF vectors by document."""
    frequencies = Counter(word for document in documents for word in set(document))
    idf = {word: math.log((1 + len(documents)) / (1 + n)) + 1 for word, n in frequencies.items()}

    def vector(words):
        weights = {word: n * idf[word] for word, n in Counter(words).items() if word in idf}
        return {word: weight / math.hypot(*weights.values()) for word, weight in weights.items()}

    query, vectors = vector(words), map(vector, documents)
    return {n: math.fsum(query.get(word, 0.0) * w for word, w in each.items()) for n, each in enumerate(vectors)}


WORDS = ["red", "blue", "Straße", "İ", "数列", "…", "x", "the", "\ud800"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@pytest.mark.parametrize(("make", "formula"), [(BM25, lucene), (TfIdf, cosine)])
@given(steps=st.lists(st.lists(TEXTS, max_size=5) | st.integers(-1, 30), max_size=12), query=TEXTS, k=st.integers(1, 9))
@settings(deadline=None)
def test_scores_are_the_formula_over_the_documents_that_are_left_at_every_step(make, formula, steps, query, k):
    retriever, texts, first = make(), [], 0
    for step in steps:
        if isinstance(step, int):
            first = max(first, min(step, len(texts)))
            retriever.forget(step)
        else:
            texts += step
            retriever.add(step)
        scores = formula([tokens(text) for text in texts[first:]] or [[]], tokens(query))
        hits = retriever.rank(query, len(texts) + 1)
        expected = {first + n: score for n, score in scores.items() if score > 0}
        assert {hit.number: hit.score for hit in hits} == pytest.approx(expected, rel=0, abs=1.01e-12)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, -hit.number))
        assert retriever.rank(query, k) == hits[:k]


@pytest.mark.parametrize("make", [Jaccard, BM25, TfIdf])
def test_the_calls_of_a_round_do_not_grow_with_the_corpus(make):
    calls = []
    for copies in (1, 5):
        retriever = make()
        retriever.add(PROMPTS * copies)
        retriever.rank(QUERIES[0], 3)
        sys.setprofile(lambda *_, n=copies: calls.append(n))
        retriever.add(PROMPTS[:16])
        retriever.rank(QUERIES[0], 3)
        sys.setprofile(None)
    assert calls.count(5) < 1.1 * calls.count(1)


@pytest.mark.parametrize("make", [Jaccard, TfIdf, BM25])
def test_a_chinese_or_japanese_sentence_is_found_by_its_words(make):
    retriever = make()
    retriever.add(["返回列表中最大的数", "文字列を逆順にする関数", "sum of a list"])
    assert [retriever.rank(question, 1)[0].number for question in ("列表最大的数是什么", "逆順の文字列")] == [0, 1]
    assert tokens("Python程序 of x") == ["python", "程序", "x"]


def test_an_exception_of_a_query_that_someone_keeps_breaks_no_later_document(monkeypatch):
    retriever = grown(TfIdf())
    kept = []
    with monkeypatch.context() as patch:
        patch.setattr("numpy.linalg.norm", lambda *_: 1 / 0)
        try:
            retriever.rank(QUERIES[0], 3)
        except ZeroDivisionError as problem:
            kept.append(problem)  # as a notebook keeps the last one
    retriever.add(["prime numbers of a novel kind"])
    again = grown(TfIdf())
    again.add(["prime numbers of a novel kind"])
    assert kept and retriever.rank("novel prime", 5) == again.rank("novel prime", 5) != []


def test_bm25_keeps_the_order_of_weak_matches():
    retriever, documents = BM25(), [f"common{' filler' * (number % 50)}" for number in range(3000)]
    retriever.add(documents)
    hits = retriever.rank(" ".join(["common", *(f"unknown{number}" for number in range(300))]), 3000)
    lengths = [len(documents[hit.number].split()) for hit in hits]
    assert lengths == sorted(lengths) and hits[-1].score < 1e-6
