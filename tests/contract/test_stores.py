"""The contract of `Store`, for all stores. PostgreSQL is a real server, started here."""

import itertools
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import reflexion_lab
from reflexion_lab.records import Check, Episode, Item, Reflection, Results, Search, Usage, Wisdom
from reflexion_lab.storage.kinds import matching
from reflexion_lab.storage.place import dump, load, opened
from tests import builders

STORES = ("memory", "jsonl", "sqlite", "postgresql")
LASTING = STORES[1:]
KINDS = (Episode, Wisdom, Item)
NASTY = "NUL \0, \"quotes\" \\u0000, 'it''s', %s :name, line\nbreak\r\u2028, \U0001f40d, İ ß ſ ﬁ, -0.0 }{"
SLOW_MACHINE = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}
WRITER = """
import sys
from reflexion_lab.records import Episode
from reflexion_lab.storage.place import opened
place, name, count, batch, before = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
sys.stdin.readline()
store = opened(place)
for first in range(0, count, batch):
    if before:
        old = Episode(episode_id=f"{name}-old-{first}", agent_id=name, task_id="t", attempt_number=1, code="",
                      test_results="", reflection=None, passed=False, timestamp=1.0)
        store.append([old])
    ids = [f"{name}-{n}" for n in range(first, first + batch)]
    store.append([
        Episode(episode_id=i, agent_id=name, task_id="t", attempt_number=1, code="x" * 500, test_results="",
                reflection=None, passed=False, timestamp=100.0) for i in ids])
    for i in ids:
        print(i, flush=True)
    if before:
        store.prune(float(before))
"""


@pytest.fixture
def place_of(schema, tmp_path):
    """Gives a new, empty place for a store of the name."""
    numbers = itertools.count()

    def place(name):
        if name == "postgresql":
            return schema()
        number = next(numbers)
        places = {"memory": "", "jsonl": f"folder{number}", "sqlite": f"file{number}.sqlite"}
        return places[name] and str(tmp_path / places[name])

    return place


@pytest.fixture(params=STORES)
def store(request, place_of):
    with closing(opened(place_of(request.param))) as opened_store:
        yield opened_store


@pytest.fixture(params=LASTING)
def place(request, place_of):
    return place_of(request.param)


def reflection(**fields):
    texts = {"root_cause": "off by one", "what_went_wrong": "f(2) gave 1", "what_to_change": "use <="}
    return builders.reflection(**texts | fields)


def episode(name, **fields):
    defaults = {"task_id": "t", "timestamp": 100.0, "code": "c", "test_results": "r", "reflection": None}
    return builders.episode(episode_id=name, **defaults | fields)


def wisdom(name, frequency=2):
    return Wisdom(wisdom_id=name, pattern="p", frequency=frequency, impact=0.1, domain="code", tags=("x", "y"))


def ids(records):
    return [getattr(record, record.__struct_fields__[0]) for record in records]


def exactly(records):
    return [msgspec.json.encode(record, order="deterministic") for record in records]


def everything(store):
    return {kind: exactly(store.read(kind)) for kind in KINDS}


def full_world():
    """One record of every kind with every field filled and every text nasty."""
    about = Reflection(
        reflection_id=NASTY, about_attempt=1, root_cause=NASTY, what_went_wrong=NASTY, what_to_change=NASTY,
        confidence=-0.0, source="llm", category=NASTY, lessons=(NASTY, ""),
        usage=Usage(calls=1, seconds=1e-320, cost=1e300),
    )  # fmt: skip
    results = Results(total=1, failing=(Check(name="x", outcome="fail"),), components={"tests": 1 / 3}, issues=(NASTY,))
    metadata = {"z": NASTY, "a": "", "longer": "x"}
    return [
        episode("e", session_id=NASTY, agent_id=NASTY, task_id=NASTY, task_description=NASTY, failure_analysis=NASTY,
                reflection=about, confidence=1e-17, results=results, metadata=metadata),
        wisdom("w"),
        Item(item_id="i", text=NASTY, key=NASTY, section=NASTY, outcome=False, counts={NASTY: -1, "a": 2**60},
             links=(NASTY,), sources=(NASTY, "")),
    ]  # fmt: skip


def test_every_kind_comes_back_to_the_byte(store):
    store.append(full_world())
    assert [exactly(store.read(kind))[0] for kind in KINDS] == exactly(full_world())
    assert store.search(Search(session_id=NASTY, keywords=(NASTY,))) == full_world()[:1]


def test_records_come_in_the_order_of_their_first_append_once_and_with_the_later_words(store):
    names = [f"e{n}" for n in (3, 1, 2)]
    for name in names:
        store.append([episode(name)])
    store.append([episode("e1", passed=True), episode("e0")])
    assert ids(store.read(Episode)) == ["e3", "e1", "e2", "e0"]
    assert [record.episode_id for record in store.read(Episode) if record.passed] == ["e1"]
    store.append([wisdom("w", 1), wisdom("v", 5), wisdom("w", 2)])
    assert [(entry.wisdom_id, entry.frequency) for entry in store.read(Wisdom)] == [("w", 2), ("v", 5)]


def test_an_episode_without_id_or_time_gets_them(store):
    store.append([episode("", timestamp=0.0), episode("", timestamp=0.0), episode("mine")])
    first, second, mine = store.read(Episode)
    assert first.episode_id.startswith("ep-") and second.episode_id.startswith("ep-")
    assert first.episode_id != second.episode_id and first.timestamp > 1.7e9
    assert (mine.episode_id, mine.timestamp) == ("mine", 100.0)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (episode("e7", agent_id=""), "'e7'.*agent_id"), (episode("", agent_id=""), "record 2 of 2.*agent_id"),
        (episode("e7", confidence=float("nan")), "e7"), (episode("e7", reward="high"), "e7.*reward"),
        (episode("e7", code="\ud800"), "e7"), (wisdom(""), "wisdom_id"), (Item(item_id="a\0b", text="x"), "item_id"),
        (wisdom("s" * 501), "wisdom_id"),
    ],
)  # fmt: skip
def test_a_bad_record_is_named_and_nothing_of_its_batch_is_kept(store, bad, named):
    with pytest.raises(ValueError, match=named):
        store.append([episode("good"), bad])
    assert not any(everything(store).values())


def test_prune_removes_episodes_up_to_a_time(store):
    store.append([episode(f"e{t}", timestamp=t) for t in (30.0, 10.0, 20.0)])
    store.append([wisdom("w"), Item(item_id="i", text="x")])
    assert store.prune(20.0) == 2
    assert [ids(store.read(kind)) for kind in KINDS] == [["e30.0"], ["w"], ["i"]]
    assert store.prune(20.0) == 0


def test_a_cleared_store_is_empty_and_goes_on(store):
    store.append([episode("e"), wisdom("w"), Item(item_id="i", text="x")])
    store.clear()
    store.append([])
    assert not any(everything(store).values())
    store.append([episode("later")])
    assert ids(store.read(Episode)) == ["later"]


def test_prune_judges_an_episode_by_its_newest_version(store):
    store.append([episode("old", timestamp=1.0), episode("renewed", timestamp=1.0)])
    store.append([episode("renewed", timestamp=50.0)])
    assert store.prune(20.0) == 1 and ids(store.read(Episode)) == ["renewed"]
    store.append([episode("old")])
    assert ids(store.read(Episode)) == ["renewed", "old"]


def test_reads_and_writes_do_not_block_each_other(store):
    store.append([episode(f"e{n}") for n in range(3000)])
    reading, abandoned = store.read(Episode), store.read(Episode)
    first = next(reading)
    next(abandoned)
    store.append([episode("late"), episode("e1", passed=True)])
    rest = ids(reading)
    assert [first.episode_id, *rest][:3000] == [f"e{n}" for n in range(3000)]
    assert ids(store.read(Episode))[-1] == "late"
    abandoned.close()
    assert store.prune(1e9) == 3001


def test_threads_append_at_once(store):
    def work(agent):
        for n in range(20):
            store.append([episode(f"{agent}-{n}", agent_id=str(agent)), episode("shared", agent_id=str(agent))])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    stored = ids(store.read(Episode))
    assert sorted(stored) == sorted([*(f"{agent}-{n}" for agent in range(8) for n in range(20)), "shared"])


def test_writers_of_the_same_records_in_different_orders_all_end(store):
    def work(seed):
        order = [f"e{n}" for n in range(40)]
        random.Random(seed).shuffle(order)
        for _ in range(15):
            store.append([episode(name, agent_id=str(seed)) for name in order])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(set(ids(store.read(Episode)))) == len(list(store.read(Episode))) == 40


texts = st.sampled_from(
    ["", "a", "b", "Straße", "STRASSE", "ſ", "K", "k", "ﬁ", "fi", "x\0y", "%", "_", "İ", "a\nb", "'"]
)
floats = st.sampled_from([0.0, 0.3, 0.5, 1.0])
episodes = st.builds(
    lambda task, session, agent, category, passed, confidence, words, has: episode(
        "", session_id=session, agent_id=agent or "a", task_id=task, passed=passed, confidence=confidence,
        task_description=words[0], failure_analysis=words[1],
        reflection=reflection(category=category, root_cause=words[2], lessons=tuple(words[3:])) if has else None,
    ),
    texts, texts, texts, texts, st.booleans(), floats, st.lists(texts, min_size=4, max_size=5), st.booleans(),
)  # fmt: skip
searches = st.builds(
    Search,
    categories=st.lists(texts, max_size=2).map(tuple), min_confidence=floats,
    keywords=st.lists(texts | st.sampled_from(["\ud800", "a\nb"]), max_size=3).map(tuple), every_keyword=st.booleans(),
    task_id=texts | st.just(""), session_id=st.just("") | texts, agent_id=st.just("") | texts,
    passed=st.sampled_from([None, None, True, False]), limit=st.integers(-1, 3),
)  # fmt: skip


@SLOW_MACHINE
@given(world=st.lists(episodes, max_size=12), wanted=st.lists(searches, min_size=8, max_size=8))
def test_a_search_finds_what_matching_does(store, world, wanted):
    store.prune(1e9)
    store.append([replace(record, episode_id=f"e{n}") for n, record in enumerate(world)])
    items = list(store.read(Episode))
    for search in wanted:
        assert store.search(search) == matching(search, items), search


def test_ids_that_differ_late_are_searched_apart(store):
    long = random.Random("long").randbytes(4000).hex()  # which no index could shorten
    store.append([episode("one", task_id=long + "1"), episode("two", task_id=long + "2")])
    assert ids(store.search(Search(task_id=long + "2"))) == ["two"]


names = st.sampled_from("abcd")
times = st.sampled_from([-5.0, 10.0, 20.0, 30.0])
one_record = st.one_of(
    st.builds(lambda name, time, task: episode(name, timestamp=time, task_id=task), names, times, texts),
    st.builds(wisdom, names, st.integers(1, 9)),
)
operations = st.lists(st.lists(one_record, max_size=5) | times, max_size=8)


@SLOW_MACHINE
@given(steps=operations)
def test_all_stores_hold_the_same_bytes_after_the_same_steps(place_of, steps):
    stores = [opened(place_of(name)) for name in STORES]
    for step in steps:
        counts = {store.prune(step) if isinstance(step, float) else store.append(step) for store in stores}
        assert len(counts) == 1
    worlds = [everything(store) for store in stores]
    assert all(world == worlds[0] for world in worlds)
    for store in stores:
        store.close()


def test_what_was_kept_is_there_when_opened_again(place):
    with closing(opened(place)) as store:
        store.append(full_world())
    with closing(opened(place)) as store:
        assert [exactly(store.read(kind))[0] for kind in KINDS] == exactly(full_world())


def test_retention_is_enforced_at_open(place):
    with closing(opened(place)) as store:
        store.append([episode("old"), episode("older", timestamp=1.0), episode("new", timestamp=9e9)])
    with pytest.warns(RuntimeWarning, match="2 episodes older than 30 days were removed"):
        store = opened(place, retention_days=30)
    with closing(store):
        assert ids(store.read(Episode)) == ["new"]


@pytest.mark.parametrize("name", ["all.jsonl", "all.json"])
@pytest.mark.slow
def test_an_export_goes_into_any_store_without_loss(store, place_of, tmp_path, name):
    store.append([*full_world(), *(episode(f"e{n}", timestamp=float(n + 1)) for n in range(1500))])
    expected = {"episodes": 1501, "wisdom": 1, "items": 1}
    assert dump(store, tmp_path / name) == expected
    for other in STORES:
        with closing(opened(place_of(other))) as copy:
            assert load(copy, tmp_path / name) == expected and everything(copy) == everything(store)


def start(place, name, count, batch, before=0):
    command = [sys.executable, "-c", WRITER, place, name, str(count), str(batch), str(before)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(*writers):
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()


SQLITE_FIRST = pytest.mark.parametrize(
    "place",
    ["sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in LASTING if name != "sqlite")],
    indirect=True,
)


@SQLITE_FIRST
@pytest.mark.parametrize(("count", "batch", "before"), [(60, 3, 0), (30, 1, 50)], ids=["new place", "beside prunes"])
def test_concurrent_processes_lose_and_double_nothing(place, count, batch, before):
    writers = [start(place, f"w{n}", count, batch, before) for n in range(4)]
    go(*writers)
    printed = [writer.communicate()[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    with closing(opened(place)) as store:
        records = list(store.read(Episode))
    for number, names in enumerate(printed):
        assert [record.episode_id for record in records if record.agent_id == f"w{number}"] == names
    assert len(records) == 4 * count


def test_what_append_returned_from_outlives_kill_9(place):
    writer = start(place, "w", 1_000_000, 7)
    go(writer)
    returned = [writer.stdout.readline().strip() for _ in range(70)]
    writer.kill()
    # Not `communicate`, which reads past what `readline` has buffered, and so would lose lines of it.
    returned += writer.stdout.read().split("\n")[:-1]
    writer.wait()
    with closing(opened(place)) as store:
        # First, since it waits for what a server still does on behalf of the dead.
        store.append([episode("after")])
        *kept, last = ids(store.read(Episode))
        assert kept[: len(returned)] == returned and kept == [f"w-{n}" for n in range(len(kept))]
        assert last == "after"
