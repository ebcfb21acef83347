import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.cache import CachedModel, Draws, call_key
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError, StoreError
from reflexion_lab.records import Message, Sampling
from tests.builders import Replies, says

GREEDY = Sampling()


def echo(messages):
    return f"echo {messages[-1].content}"


def rows(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT key, request, completion FROM calls").fetchall()
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "calls.sqlite"


@pytest.fixture
def scripted():
    return ScriptedModel(echo)


@pytest.fixture
def cached(scripted, path):
    model = CachedModel(scripted, path)
    yield model
    model.close()


# Keys


def test_numbers_that_are_equal_give_equal_keys():
    whole = Sampling(temperature=1, top_p=1, stop=["end"])
    real = Sampling(temperature=1.0, top_p=1.0, stop=("end",))
    assert call_key("model", says("hi"), whole, 0) == call_key("model", tuple(says("hi")), real, 0)


def test_whatever_shapes_a_reply_is_in_the_key():
    changes = {
        "temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "stop": ("x",), "seed": 1, "grammar": "root ::= x",
    }  # fmt: skip
    assert set(changes) == set(Sampling.__struct_fields__)
    calls = [("model", says("hi"), Sampling(**{field: value}), 0) for field, value in changes.items()]
    calls += [
        ("model", says("hi"), GREEDY, 0), ("model", says("hi"), GREEDY, 1), ("model", says("hi!"), GREEDY, 0),
        ("model", [Message(role="system", content="hi")], GREEDY, 0), ("model", says("hi") * 2, GREEDY, 0),
        ("other", says("hi"), GREEDY, 0),
    ]  # fmt: skip
    assert len({call_key(*call) for call in calls}) == len(calls)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_the_border_between_two_messages_is_in_the_key(first, other):
    joined = call_key("model", says(first + other), GREEDY, 0)
    assert joined != call_key("model", says(first) + says(other), GREEDY, 0)


def test_the_stored_request_is_what_the_key_digests(cached, path):
    cached.complete(says("hi"), sampling=GREEDY, sample=3)
    ((key, request, completion),) = rows(path)
    assert key == call_key(cached.fingerprint, says("hi"), GREEDY, 3)
    assert msgspec.json.decode(request) == {
        "fingerprint": "scripted:scripted",
        "messages": [{"content": "hi", "role": "user"}],
        "sample": 3,
        "sampling": msgspec.to_builtins(GREEDY) | {"stop": []},
    }
    fields = list(msgspec.json.decode(request)["sampling"])
    assert fields == sorted(fields)
    assert msgspec.json.decode(completion)["text"] == "echo hi"


# Hits and misses


def test_an_equal_call_is_made_once_in_this_and_later_runs(cached, scripted, path):
    first, again, other = (cached.complete(says("hi"), sampling=GREEDY, sample=sample) for sample in (0, 0, 1))
    assert (first.cached, again.cached, other.cached) == (False, True, False)
    assert msgspec.structs.replace(again, cached=False) == first
    assert (cached.hits, cached.misses, cached.coalesced) == (1, 2, 0)
    later = CachedModel(scripted, path)
    assert later.complete(says("hi"), sampling=GREEDY).cached
    assert len(scripted.received) == 2
    later.close()


def test_a_message_that_is_no_text_is_refused_in_words(cached, scripted):
    for model in (cached, Draws(scripted)):
        with pytest.raises(ModelError, match="a message cannot be sent: surrogates not allowed"):
            model.complete(says("\ud800"), sampling=GREEDY)


def test_a_failed_call_is_not_stored_and_is_asked_again(path):
    answers = iter(["", "late but good"])

    def reply(messages):
        if not (answer := next(answers)):
            raise ModelError("the server is away")
        return answer

    model = CachedModel(ScriptedModel(reply), path)
    with pytest.raises(ModelError, match="the server is away"):
        model.complete(says("hi"), sampling=GREEDY)
    assert rows(path) == []
    assert model.complete(says("hi"), sampling=GREEDY).text == "late but good"
    model.close()


@pytest.mark.parametrize(("reason", "calls"), [("wrong_model", 2), ("context_overflow", 5), ("stop", 1)])
def test_a_paid_wrong_model_reply_is_retried_once(path, reason, calls):
    """A prompt that was refused as too long costs nothing, and is asked again every time."""
    model = Replies("", finish_reason=reason)
    for _ in range(5):
        cell = CachedModel(model, path)
        assert cell.complete(says("hi"), sampling=GREEDY).finish_reason == reason
        cell.close()
    assert len(model.requests) == calls


def test_off_asks_every_time_and_opens_no_file(scripted, path):
    model = CachedModel(scripted, path, "off")
    replies = [model.complete(says("hi"), sampling=GREEDY) for _ in range(2)]
    model.close()
    assert [reply.cached for reply in replies] == [False, False]
    assert len(scripted.received) == 2
    assert not path.parent.exists()


def test_replay_only_never_asks_the_model(cached, scripted, path):
    cached.complete(says("hi"), sampling=GREEDY)
    replay = CachedModel(scripted, path, "replay-only")
    assert replay.complete(says("hi"), sampling=GREEDY).text == "echo hi"
    with pytest.raises(ModelError) as caught:
        replay.complete(says("y" * 100), sampling=GREEDY)
    assert str(path) in str(caught.value)
    assert f"'{'y' * 80}'" in str(caught.value)
    assert "cache.mode=read-write" in str(caught.value)
    assert len(scripted.received) == 1
    replay.close()


# Threads


def ask_together(model, count):
    with ThreadPoolExecutor(count) as pool:
        return [pool.submit(model.complete, says("hi"), sampling=GREEDY) for _ in range(count)]


@pytest.mark.parametrize("is_failing", [False, True])
def test_equal_concurrent_calls_share_one_reply_or_error(path, is_failing):
    def reply(messages):
        deadline = time.monotonic() + 30
        while model.coalesced < 7 and time.monotonic() < deadline:
            time.sleep(0.001)
        if is_failing:
            raise ModelError("the server is away")
        return "once"

    scripted = ScriptedModel(reply)
    model = CachedModel(scripted, path)
    futures = ask_together(model, 8)
    if is_failing:
        assert [str(future.exception()) for future in futures] == ["the server is away"] * 8
        assert rows(path) == []
    else:
        completions = [future.result() for future in futures]
        assert {completion.text for completion in completions} == {"once"}
        assert sorted(completion.cached for completion in completions) == [False] + [True] * 7
    assert (len(scripted.received), model.hits, model.misses, model.coalesced) == (1, 0, 1, 7)
    model.close()


# Files that cannot be used


MODES = ("read-write", "replay-only")


@pytest.mark.parametrize("content", [b"task,passed\n" * 100, b"SQLite format 3\0\x10\0\2\2", None])
@pytest.mark.parametrize("mode", MODES)
def test_a_spoilt_file_or_a_folder_is_refused_by_name_and_left_alone(scripted, tmp_path, mode, content):
    bad = tmp_path / "bad"
    bad.mkdir() if content is None else bad.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot be (opened|used)") as caught:
        CachedModel(scripted, bad, mode)
    assert str(bad) in str(caught.value)
    assert content is None or bad.read_bytes() == content


def test_a_closed_cache_says_so(scripted, path):
    model = CachedModel(scripted, path)
    model.close()
    model.close()
    with pytest.raises(StoreError, match="closed database"):
        model.complete(says("hi"), sampling=GREEDY)
