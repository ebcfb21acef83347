import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError, StoreError
from reflexion_lab.records import Completion, Message, Sampling, Usage
from reflexion_lab.storage.call_store import CallStore

GREEDY = Sampling()


def says(text):
    return [Message(role="user", content=text)]


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


def start(script, path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)


PROLOGUE = """
import os, random, sys, time
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Message, Sampling
def ask(model, text):
    return model.complete([Message(role="user", content=text)], sampling=Sampling())
"""


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
        ("model", says("hi"), GREEDY, 0),
        ("model", says("hi"), GREEDY, 1),
        ("model", says("hi!"), GREEDY, 0),
        ("model", [Message(role="system", content="hi")], GREEDY, 0),
        ("model", says("hi") * 2, GREEDY, 0),
        ("other", says("hi"), GREEDY, 0),
    ]
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


def test_a_message_that_is_no_text_is_refused_in_words(cached):
    with pytest.raises(ModelError, match="a message cannot be sent: surrogates not allowed"):
        cached.complete([Message(role="user", content="\ud800")], sampling=Sampling())


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


class Ends:
    """Every reply ends in `reason`."""

    fingerprint, slots, context = "ends", 1, 0

    def __init__(self, reason):
        self.reason, self.calls = reason, 0

    def complete(self, messages, *, sampling, sample=0):
        self.calls += 1
        return Completion(text="", model="other", finish_reason=self.reason)


@pytest.mark.parametrize(("reason", "calls"), [("wrong_model", 2), ("context_overflow", 5), ("stop", 1)])
def test_a_paid_wrong_model_reply_is_retried_once(path, reason, calls):
    """A prompt that was refused as too long costs nothing, and is asked again every time."""
    model = Ends(reason)
    for _ in range(5):
        cell = CachedModel(model, path)
        assert cell.complete(says("hi"), sampling=GREEDY).finish_reason == reason
        cell.close()
    assert model.calls == calls


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = CallStore(tmp_path_factory.mktemp("any") / "calls.sqlite")
    yield store
    store.close()


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    finish_reason=st.sampled_from(["stop", "length", ""]),
    counts=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    seconds=st.floats(0, 1e6),
)
def test_any_completion_comes_back_without_loss(store, text, finish_reason, counts, seconds):
    usage = Usage(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1], seconds=seconds)
    paid = Completion(text=text, model="m", finish_reason=finish_reason, usage=usage)
    key = repr(paid)
    assert store.put(key, "m", b"{}", paid) == paid
    assert store.get(key) == paid


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


def until(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)


@pytest.mark.parametrize("is_failing", [False, True])
def test_equal_concurrent_calls_share_one_reply_or_error(path, is_failing):
    def reply(messages):
        until(lambda: model.coalesced == 7)
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


def test_different_calls_do_not_wait_for_each_other(path):
    together = threading.Barrier(8, timeout=30)

    def reply(messages):
        together.wait()
        return echo(messages)

    model = CachedModel(ScriptedModel(reply), path)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: model.complete(says(str(i)), sampling=GREEDY).text, range(8)))
    assert replies == [f"echo {i}" for i in range(8)]
    model.close()


def test_counters_add_up_under_threads(cached):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: cached.complete(says(str(i % 10)), sampling=GREEDY), range(400)))
    assert cached.misses == 10
    assert cached.hits + cached.misses + cached.coalesced == 400


# Processes


def test_four_processes_on_one_new_file_lose_nothing_and_agree(path):
    # Every process has other replies in mind; they agree because the first one stored stands for all.
    script = PROLOGUE + (
        "print('ready', flush=True); sys.stdin.readline()\n"
        "model = CachedModel(ScriptedModel(lambda m: f'{m[-1].content} by {os.getpid()}'), sys.argv[1])\n"
        "for text in random.sample(range(100), 100): ask(model, str(text))\n"
        "print(sorted(ask(model, str(text)).text for text in range(100)))\n"
    )
    processes = [start(script, path) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    replies = {process.communicate(timeout=120)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(replies) == 1
    assert len(rows(path)) == 100


def test_the_first_stored_reply_counts_and_both_are_paid(path):
    store = CallStore(path)
    theirs = Completion(text="theirs", model="m", usage=Usage(calls=1, seconds=1.0))
    ours = Completion(text="ours", model="m", usage=Usage(calls=1, seconds=2.0))
    assert store.put("key", "m", b"{}", theirs) == theirs
    assert store.put("key", "m", b"{}", ours) == Completion(text="theirs", model="m", usage=ours.usage)
    assert store.get("key") == theirs
    store.close()


def test_a_finished_call_survives_the_kill_of_its_process(path, scripted):
    script = PROLOGUE + (
        "def reply(messages):\n"
        "    if messages[-1].content == 'second': print('under way', flush=True); time.sleep(600)\n"
        "    return 'paid'\n"
        "model = CachedModel(ScriptedModel(reply), sys.argv[1])\n"
        "ask(model, 'first'); ask(model, 'second')\n"
    )
    process = start(script, path)
    assert process.stdout.readline() == "under way\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    later = CachedModel(scripted, path)
    assert later.complete(says("first"), sampling=GREEDY).text == "paid"
    assert later.complete(says("second"), sampling=GREEDY).text == "echo second"
    assert (later.hits, later.misses) == (1, 1)
    later.close()


# Files that cannot be used


def text_file(path, whole):
    path.write_text("task,passed\n" * 100)


def torn_file(path, whole):
    path.write_bytes(whole[: len(whole) // 2])


def shorter_than_a_header(path, whole):
    path.write_bytes(whole[:50])


def file_with_lost_pages(path, whole):
    middle = len(whole) // 2 // 4096 * 4096
    path.write_bytes(whole[:middle] + b"\xa5" * 8192 + whole[middle + 8192 :])


def file_of_another_program(path, whole):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE calls (name TEXT)")
    connection.execute("PRAGMA user_version = 1")
    connection.close()


def file_of_a_later_version(path, whole):
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize("mode", ["read-write", "replay-only"])
@pytest.mark.parametrize(
    "spoil",
    [
        text_file,
        torn_file,
        shorter_than_a_header,
        file_with_lost_pages,
        file_of_another_program,
        file_of_a_later_version,
    ],
)
def test_a_spoilt_file_is_refused_by_name_and_left_alone(scripted, tmp_path, spoil, mode):
    good, bad = CachedModel(scripted, tmp_path / "good"), tmp_path / "bad"
    for number in range(50):
        good.complete(says(f"{number} {'x' * 3000}"), sampling=GREEDY)
    good.close()
    spoil(bad, (tmp_path / "good").read_bytes())
    before = bad.read_bytes()
    with pytest.raises(StoreError, match=r"cannot be used as a call cache \(.*name another file") as caught:
        CachedModel(scripted, bad, mode)
    assert str(bad) in str(caught.value)
    assert bad.read_bytes() == before


@pytest.mark.parametrize("mode", ["read-write", "replay-only"])
def test_a_folder_is_refused_by_name(scripted, tmp_path, mode):
    with pytest.raises(StoreError, match="cannot be used as a call cache") as caught:
        CachedModel(scripted, tmp_path, mode)
    assert str(tmp_path) in str(caught.value)


def test_a_store_opened_for_reading_cannot_be_written(path):
    begun = CallStore(path)
    begun.open()
    begun.close()
    store = CallStore(path, readonly=True)
    with pytest.raises(StoreError, match="readonly"):
        store.put("key", "m", b"{}", Completion(text="", model="m"))
    store.close()
    assert rows(path) == []


def test_replay_only_does_not_create_the_file_it_misses(scripted, path):
    with pytest.raises(StoreError, match="no such file"):
        CachedModel(scripted, path, "replay-only")
    assert not path.exists()


def test_a_damaged_reply_is_named_by_its_key(cached, path):
    cached.complete(says("hi"), sampling=GREEDY)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE calls SET completion = '{\"text\": 3}'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=call_key(cached.fingerprint, says("hi"), GREEDY, 0)):
        cached.complete(says("hi"), sampling=GREEDY)


def test_a_closed_cache_says_so(scripted, path):
    model = CachedModel(scripted, path)
    model.close()
    model.close()
    with pytest.raises(StoreError, match="closed database"):
        model.complete(says("hi"), sampling=GREEDY)
