"""Embeddings of a server: batches, order, refused answers, keys."""

import hashlib
import json

import numpy as np
import pytest
from model_server import ModelServer

import reflexion_lab as rl
from reflexion_lab.errors import ModelError
from reflexion_lab.memory.embedders.openai import OpenAIEmbedder

KEY = "sk-planted-0123456789abcdef"
MEMORY = ("model=simulated", "model.first=0.3", "benchmark.limit=4", "memory.shared.round_size=2", "tracker=none")
MEMORY += ("retriever=embedding", "recall=similar", "recall.min_score=0", "embedder=openai", "embedder.model=small")


def vector(text):
    return [3.0 + byte for byte in hashlib.sha256(text.encode()).digest()[:4]]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    requests, faults = [], []

    def respond(body, headers):
        requests.append((body, headers["Authorization"]))
        rows = [{"index": number, "embedding": vector(text)} for number, text in enumerate(body["input"])]
        return faults.pop(0) if faults else (200, {"object": "list", "data": rows[::-1], "model": "small"})

    with ModelServer(respond) as server:
        server.requests, server.faults = requests, faults
        yield server


def test_texts_are_asked_for_in_batches_and_come_back_in_order(server):
    embedder = OpenAIEmbedder("small", server.url, batch_size=2, query_prefix="query: ", extra_body={"dimensions": 4})
    texts = ["one", "two", "", "\ud800", "five"]
    expected = np.array([vector(f"query: {text}") for text in ["one", "two", "", "?", "five"]], np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert embedder.embed(texts, "query") == pytest.approx(expected)
    assert [len(body["input"]) for body, _ in server.requests] == [2, 2, 1]
    assert {body["dimensions"] for body, _ in server.requests} == {4}
    assert embedder.embed([""]).shape == (1, embedder.dimensions) == (1, 4)
    assert embedder.embed([]).shape == (0, 4)
    assert embedder.fingerprint != OpenAIEmbedder("small", server.url).fingerprint


def test_a_text_is_paid_once_across_runs_which_hold_no_key(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.faults += [(503, {}), (200, {"error": {"message": "overloaded"}})]
    run = rl.run(*MEMORY, f"embedder.base_url={server.url}", quiet=True)
    asked = [text for body, _ in server.requests[2:] for text in body["input"]]
    assert len(asked) > 4
    assert {key for _, key in server.requests} == {f"Bearer {KEY}"}
    rl.run(*MEMORY, f"embedder.base_url={server.url}", "arm=again", "embedder.timeout=60", quiet=True)
    assert [text for body, _ in server.requests[2:] for text in body["input"]] == asked
    origin = json.loads((run.path / "manifest.json").read_text())["provenance"]
    assert origin["embedder_fingerprint"] == f"openai:{server.url}:small"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def of_two(**second):
    first = {"index": 0, "embedding": [1.0, 2.0]}
    return 200, {"data": [first, first | {"index": 1} | second]}, r"2 vectors came for 2 texts; expected one per text"


@pytest.mark.parametrize(("status", "body", "words"), [
    of_two(index=0), of_two(embedding=[1.0]), of_two(embedding=[float("nan"), 1.0]), of_two(embedding=[0.0, 0.0]),
    of_two(embedding="AACAPwAAAEA="), of_two(embedding=[None, 1.0]),
    (200, {"data": []}, "embedder.model: 0 vectors came for 2 texts"), (404, {}, "see whether embedder.model is right"),
    (401, {}, "the key was refused; put a valid one into the environment variable OPENAI_API_KEY"),
    (400, {"error": {"message": f"too long for {KEY}"}}, r"too long for \[key\].*base_url and embedder\.extra_body"),
    (429, {}, "; raise embedder.retries, or see"), (200, {"error": {"code": "context_length_exceeded"}}, "begins 'one"),
    (413, {"error": "a model.gguf, model.name"}, r"a model\.gguf, model\.name\); .* embedder\.model, .* begins 'one'"),
    (200, {"data": [{"index": float("inf"), "embedding": [1.0]}]}, "no list of embeddings"),
    (200, {"object": "list"}, r"no list of embeddings, .* sent 3 times\); .* raise embedder\.timeout or retries"),
])  # fmt: skip
def test_a_wrong_answer_is_refused_by_the_embedders_keys_without_a_secret(server, status, body, words):
    server.faults += [(status, body)] * 3
    with pytest.raises(ModelError, match=words) as caught:
        OpenAIEmbedder("small", server.url, retries=2).embed(["one", "two"])
    assert KEY not in str(caught.value)


def test_a_refused_batch_is_asked_in_halves(server):
    server.faults += [(413, {})] * 2
    texts = ["one", "two", "three", "four", "five"]
    vectors = OpenAIEmbedder("small", server.url).embed(texts)
    assert [body["input"] for body, _ in server.requests[1:]] == [texts[:2], texts[:1], texts[1:2], texts[2:]]
    assert vectors == pytest.approx(OpenAIEmbedder("small", server.url).embed(texts))


def test_extra_fields_may_name_the_model_and_another_one_has_a_warning(server):
    OpenAIEmbedder("name", server.url, extra_body={"model": "small", "input": []}).embed(["one"])
    assert [(body["model"], body["input"]) for body, _ in server.requests] == [("small", ["one"])]
    embedder = OpenAIEmbedder("large", server.url)
    with pytest.warns(UserWarning, match="embedder.model: large was asked, and 'small' answered;") as caught:
        embedder.embed(["one"])
        embedder.embed(["two"])
    assert len(caught) == 1
