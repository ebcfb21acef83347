"""The contracts of call caches and ledgers, for SQLite and a real PostgreSQL, started here."""

import itertools
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reflexion_lab
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.caps import CappedModel, Meter
from reflexion_lab.agent.models.replay import ReplayModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import HarnessError, ModelError, StoreError
from reflexion_lab.records import Completion, Sampling, Usage
from reflexion_lab.storage.call_store import CallStore, Caps, Ledger, Spending
from tests.builders import says

BOTH = ("sqlite", "postgresql")
PASSWORD = "planted-0123456789"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}
PAID = Completion(text="paid", model="m", usage=Usage(calls=1, prompt_tokens=3, seconds=1.0))
SCRIPT = """
import sys
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Message, Sampling
what, place, prefix = sys.argv[1:]
def reply(messages):
    if what == "hang" and messages[-1].content == "1":
        print("under way", flush=True)
        sys.stdin.read()
    return prefix + messages[-1].content
print("ready", flush=True)
sys.stdin.readline()
model = CachedModel(ScriptedModel(reply), place)
for number in range(25):
    print(model.complete([Message(role="user", content=str(number))], sampling=Sampling()).text, flush=True)
print(model.misses)
"""


@pytest.fixture
def place_of(schema, tmp_path):
    """Gives a new, empty place of the kind."""
    numbers = itertools.count()

    def place(kind):
        return str(tmp_path / f"{next(numbers)}.sqlite") if kind == "sqlite" else schema()

    return place


@pytest.fixture(params=BOTH)
def place(request, place_of):
    return place_of(request.param)


@pytest.fixture
def url(place_of):
    return place_of("postgresql")


@pytest.fixture
def back(server):
    """Starts the server again, while the caller goes on; at the latest when the test is over."""
    started = []

    def start():
        started.append(threading.Thread(target=server.start))
        started[-1].start()

    yield start
    for thread in started:
        thread.join()


def execute(place, statement):
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


# Calls


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])) | st.just("%s %(x)s \0 '' \u2028 \U0001f40d"),
    reason=st.sampled_from(["stop", "length", ""]),
    counts=st.tuples(*[st.integers(0, 10**9)] * 3),
    seconds=st.floats(0, 1e6),
)
def test_any_completion_comes_back_without_loss(place, text, reason, counts, seconds):
    prompt, written, retries = counts
    usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=written, retries=retries, seconds=seconds)
    paid = Completion(text=text, model=text, finish_reason=reason, usage=usage)
    with closing(CallStore(place)) as calls:
        assert calls.put(repr(paid), "m", b'{"%s": "\\u0000"}', paid) == paid
        assert calls.get(repr(paid)) == paid


def test_the_first_reply_stands_and_ours_was_paid(place):
    theirs, ours = PAID, Completion(text="ours", model="m", usage=Usage(calls=1, seconds=2.0), cached=True)
    with closing(CallStore(place)) as calls, closing(CallStore(place)) as others:
        assert others.put("key", "m", b"{}", theirs) == theirs
        assert calls.put("key", "n", b"{}", ours) == Completion(text="paid", model="m", usage=ours.usage)
        assert calls.get("key") == others.get("key") == theirs and calls.get("another") is None
        assert calls.fingerprints() == ["m"]


@pytest.mark.parametrize("text", ["a\0b", '{"finish_reason":"wrong_model"}'])
def test_any_text_of_a_reply_can_be_stored_twice_and_stands(place, text):
    """PostgreSQL's JSON has no NUL; the second `put` failed, and with it every later opening of the cache."""
    with closing(CallStore(place)) as calls:
        first = calls.put("k", "m", b"{}", Completion(text=text, model="m"))
        assert calls.put("k", "m", b"{}", PAID).text == first.text == text
        for passing in ("context_overflow", "wrong_model"):
            calls.put(passing, "m", b"{}", Completion(text=text, model="m", finish_reason=passing))
            assert calls.put(passing, "m", b"{}", PAID) == PAID


def test_a_cache_for_reading_makes_nothing_and_writes_nothing(place):
    with pytest.raises(StoreError, match=r"no (such file|table calls)"):
        CallStore(place, readonly=True)
    assert not Path(place).exists()
    with closing(CallStore(place)) as calls:
        calls.put("key", "m", b"{}", PAID)
    with closing(CallStore(place, readonly=True)) as calls:
        assert calls.get("key") == PAID
        with pytest.raises(StoreError, match=r"read.?only"):
            calls.put("other", "m", b"{}", PAID)
        assert calls.get("other") is None


def test_a_damaged_reply_is_named_by_its_key(place):
    with closing(CallStore(place)) as calls:
        calls.put("the-key", "m", b"{}", PAID)
        execute(place, "UPDATE calls SET completion = '{\"text\": 3}'")
        with pytest.raises(StoreError, match=r"completion of call the-key is damaged.*delete that row"):
            calls.get("the-key")


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_processes_that_open_a_new_cache_at_once_agree_on_every_reply(place):
    processes = [started("call", place, f"{name}-") for name in "abcd"]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert len({tuple(replies) for *replies, _ in printed}) == 1
    assert execute(place, "SELECT count(*) FROM calls") == [(25,)]
    assert sum(int(misses) for *_, misses in printed) == 25


def started(what, place, prefix):
    """A process that makes calls as soon as it reads a line."""
    command, pipe = [sys.executable, "-c", SCRIPT, what, place, prefix], subprocess.PIPE
    process = subprocess.Popen(command, env=ENVIRONMENT, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def begun(what, place, prefix):
    """A process that has begun to make calls."""
    process = started(what, place, prefix)
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_call_of_another_process_is_waited_for_until_that_ends(place, is_killed):
    with begun("hang", place, "first ") as first:
        assert [first.stdout.readline() for _ in range(2)] == ["first 0\n", "under way\n"]
        with begun("call", place, "second ") as second:
            assert second.stdout.readline() == "first 0\n"  # from here on, it waits
            first.kill() if is_killed else first.stdin.close()
            replies = [second.stdout.readline() for _ in range(2)]
            assert replies[0] == ("second 1\n" if is_killed else "first 1\n") and second.wait() == 0
            second.stdout.read()


def test_models_of_one_process_share_calls_by_their_place(place):
    asked = []

    def reply(messages):
        asked.append(messages[-1].content)
        both.wait(60)
        return "reply"

    both = threading.Event()
    models = [CachedModel(ScriptedModel(reply), place) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(model.complete, says(str(n)), sampling=Sampling()) for n in range(2) for model in models]
        both.set()
        assert {call.result().text for call in calls} == {"reply"}
    assert sorted(asked) == ["0", "1"] and sum(model.misses for model in models) == 2
    for model in models:
        model.close()


def test_a_finished_call_outlives_kill_9(place):
    with begun("hang", place, "paid ") as process:
        assert [process.stdout.readline() for _ in range(2)] == ["paid 0\n", "under way\n"]
        process.send_signal(signal.SIGKILL)
    with closing(ReplayModel(place)) as replay:
        assert replay.complete(says("0"), sampling=Sampling()).text == "paid 0"
        with pytest.raises(ModelError, match="holds no reply to draw 0 of the call whose last message begins 'else'"):
            replay.complete(says("else"), sampling=Sampling())
    assert execute(place, "SELECT count(*) FROM calls") == [(1,)]


# Databases that are not ours


def test_a_table_of_another_version_or_program_is_refused(place):
    execute(place, "CREATE TABLE calls (number TEXT)")
    with pytest.raises(StoreError, match=r"table calls is of another version of reflexion_lab or program"):
        CallStore(place)


@pytest.mark.parametrize("make", [CallStore, lambda url: Ledger(url).spent("run")])
def test_errors_give_advice_but_no_password(make):
    wrong = {
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/database": "is the server up, and are host, user and password",
        f"postgresql://user@127.0.0.1:1/database?password={PASSWORD}": "postgresql://user@127.0.0.1:1/database:",
        f"postgresql://user:{PASSWORD}@127.0.0.1:port/database": "the URL cannot be read; expected a path",
        f"mysql://user:{PASSWORD}@localhost/database": "mysql://, expected a path, sqlite:///path or postgresql://",
    }
    for url, advice in wrong.items():
        with pytest.raises((StoreError, HarnessError, ValueError)) as caught:
            make(url)
        assert advice in str(caught.value)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


# A server that goes away


def test_a_call_waits_for_a_server_that_restarts(server, url, back):
    with closing(CallStore(url)) as calls:
        calls.put("before", "m", b"{}", PAID)
        server.stop("immediate")
        back()
        assert calls.put("during", "m", b"{}", PAID) == PAID
        execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
        assert calls.get("before") == calls.get("during") == PAID


# Ledgers


def test_threads_add_up_and_exceed_no_cap(place):
    with closing(Ledger(place)) as ledger, ThreadPoolExecutor(8) as pool:
        caps = Caps(calls=50, cost=1e9)
        adds = [pool.submit(ledger.add, "sweep", Spending(1, 10, 0.25, 0.5), caps) for _ in range(80)]
        caught = [add.result()[0] for add in adds]
        assert (caught.count(""), caught.count("calls")) == (50, 30)
        assert ledger.spent("sweep") == Spending(50, 500, 12.5, 25.0)
        assert ledger.add("sweep", Spending(-1, -10), Caps()) == ("", Spending(49, 490, 12.5, 25.0))
        assert ledger.add("sweep", Spending(2), caps) == ("calls", Spending(49, 490, 12.5, 25.0))
        assert ledger.spent("another") == Spending()
        assert ledger.add("sweep", Spending(-50, 0, -13.0), Caps()) == ("", Spending(0, 490, 0.0, 25.0))


def test_both_ledgers_say_the_same(place_of):
    draw = random.Random(8)
    amounts = [Spending(draw.randrange(9), draw.randrange(9), draw.random() * 9) for _ in range(40)]
    totals = []
    for kind in BOTH:
        with closing(Ledger(place_of(kind))) as ledger:
            totals.append([ledger.add("sweep", amount, Caps(calls=60, tokens=70, cost=80.0)) for amount in amounts])
    sqlite, postgresql = totals
    assert [cap for cap, _ in sqlite] == [cap for cap, _ in postgresql]
    assert {cap for cap, _ in sqlite} > {""}
    assert [tuple(spent) for _, spent in sqlite] == [pytest.approx(tuple(spent)) for _, spent in postgresql]


@pytest.mark.parametrize("caps", [Caps(), Caps(calls=9)])
@pytest.mark.parametrize("kind", BOTH)
def test_a_failing_ledger_loses_no_reply_and_blocks_nobody(server, place_of, kind, caps):
    place = place_of(kind)
    meter = Meter(caps, place, "run")
    if kind == "postgresql":
        meter._ledger._database.patience = 0.0

    def reply(messages):
        if kind == "postgresql":
            server.stop("immediate")
        else:
            execute(place, "DROP TABLE spending")
        return "paid"

    model = CappedModel(ScriptedModel(reply), meter)
    try:
        warned = pytest.warns(RuntimeWarning, match="ledger of spending.*counts as the most that it could take")
        with warned if caps.calls else nullcontext():  # without caps the next call writes it
            assert model.complete(says("hi"), sampling=Sampling()).text == "paid"
        with pytest.raises(HarnessError, match="cannot be used as the ledger of spending"):
            model.complete(says("hi"), sampling=Sampling())
    finally:
        if kind == "postgresql":
            server.start()
    meter.close()


def test_spending_that_is_no_number_is_refused():
    ledger = Ledger(None)
    ledger.add("a", Spending(cost=0.9), Caps())
    with pytest.raises(HarnessError, match="no number"):
        ledger.add("a", Spending(cost=math.nan), Caps())
    assert ledger.spent("a").cost == 0.9
