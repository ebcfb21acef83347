"""One contract for all embedders: what `Embedder` promises, whoever keeps it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reflexion_lab.memory.embedders.cached import CachedEmbedder
from reflexion_lab.memory.embedders.minilm import MiniLM
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer

TEXTS = [
    "Return the largest number of a list.", "Find the maximum of some numbers.",
    "The loop stops one element too early, so the last character is never compared.", "The",
    'def double(x):\n    """Twice x.\n    >>> double(2)\n    4\n    """\n',
]  # fmt: skip
MAKE = {
    "minilm": lambda folder: MiniLM(),
    "sentence_transformer": lambda folder: SentenceTransformer(batch_size=1),
    "cached": lambda folder: CachedEmbedder(MiniLM(), folder / "embeddings.sqlite"),
    "cached_without_a_path": lambda folder: CachedEmbedder(MiniLM(), None),
}


REAL_WEIGHTS = pytest.param("sentence_transformer", marks=pytest.mark.slow)
"""In fp32, through PyTorch, which takes seconds to import."""
CHOICES = [REAL_WEIGHTS if name == "sentence_transformer" else name for name in MAKE]


@pytest.fixture(scope="module", params=CHOICES)
def make(request, tmp_path_factory):
    return lambda: MAKE[request.param](tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def embedder(make):
    return make()


@pytest.fixture(scope="module")
def vectors(embedder):
    return embedder.embed(TEXTS)


def test_rows_are_float32_of_length_one_and_none_for_no_texts(embedder, vectors):
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), embedder.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_a_vector_depends_on_its_text_alone_and_like_texts_are_near(embedder, vectors):
    assert np.array_equal(embedder.embed(TEXTS[::-1]), vectors[::-1])
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)
    assert np.array_equal(embedder.embed([TEXTS[1], TEXTS[0], TEXTS[1]]), vectors[[1, 0, 1]])
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_equal_fingerprints_give_equal_vectors(make, embedder, vectors):
    other = make()
    assert other.fingerprint == embedder.fingerprint != ""
    assert np.array_equal(other.embed(TEXTS[:2]), vectors[:2])


def test_threads_that_embed_at_once_get_what_one_gets(make, vectors):
    fresh = make()  # its weights are loaded by whichever thread comes first
    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(lambda _: fresh.embed(TEXTS), range(4)):
            assert np.array_equal(rows, vectors)


def test_any_text_has_a_vector_and_one_that_is_too_long_is_cut_not_refused(embedder):
    for text in ("", " \n", "\ud800 half a character", "\0", "数の和", "x" * 3000):
        assert np.linalg.norm(embedder.embed([text])[0]) == pytest.approx(1, abs=1e-5), text[:30]
    begins_alike = [" ".join(["number"] * 400 + [end]) for end in ("here", "there")]
    first, second = embedder.embed(begins_alike)
    assert np.array_equal(first, second)
