"""The episode buffer against a plain list, and what the four sources ask of it."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.index import Index
from reflexion_lab.records import Episode, Reflection, Search
from reflexion_lab.retrievers.jaccard import Jaccard


def made(name="", agent="a", session="s", task="t", category="", **fields):
    reflection = Reflection(
        reflection_id="r",
        about_attempt=1,
        root_cause="cause",
        what_went_wrong="wrong",
        what_to_change="change",
        confidence=0.5,
        source="llm",
        category=category,
    )
    return Episode(
        episode_id=name,
        agent_id=agent,
        session_id=session,
        task_id=task,
        attempt_number=1,
        code="x",
        test_results="",
        reflection=reflection if category else None,
        passed=False,
        **fields,
    )


def filled(*episodes, capacity=1000, **fields):
    buffer = EpisodeBuffer(capacity, **fields)
    for episode in episodes:
        buffer.store(episode)
    return buffer


def names(episodes):
    return [episode.episode_id for episode in episodes]


@pytest.mark.parametrize(("asked", "capacity"), [(0, 1000), (-5, 1000), (50, 50), (1, 1)])
def test_a_capacity_of_nothing_means_a_thousand(asked, capacity):
    buffer = EpisodeBuffer(asked)
    assert (buffer.capacity, len(buffer), buffer.total) == (capacity, 0, 0)


@pytest.mark.parametrize("wrong", ["5", 2.5, None, True])
def test_a_capacity_that_is_no_int_is_named(wrong):
    with pytest.raises(ValueError, match=r"memory\.max_episodes"):
        EpisodeBuffer(wrong)


def test_a_missing_id_and_timestamp_are_filled_and_given_ones_stay():
    buffer = EpisodeBuffer()
    new, old = buffer.store(made()), buffer.store(made("mine", timestamp=5.0))
    assert new.episode_id.startswith("ep-")
    assert new.timestamp > 1_700_000_000
    assert (old.episode_id, old.timestamp) == ("mine", 5.0)
    assert list(buffer) == [new, old]


def test_ten_thousand_filled_ids_differ():
    buffer = EpisodeBuffer(10_000)
    buffer.extend(made() for _ in range(10_000))
    assert len(set(names(buffer))) == 10_000


def test_an_episode_without_an_agent_is_refused_and_nothing_is_kept():
    buffer = filled(made("ep1"))
    with pytest.raises(ValueError, match="agent_id: '' found"):
        buffer.store(made(agent=""))
    with pytest.raises(ValueError, match=r"ep3 of task 't': agent_id"):
        buffer.extend([made("ep2"), made("ep3", agent="")])
    assert (names(buffer), buffer.total) == (["ep1"], 1)


def test_look_ups_keep_the_order_of_storing():
    stored = [("a", "s1", "t1", ""), ("b", "s2", "t1", "type"), ("a", "", "t2", "type"), ("c", "s1", "t1", "index")]
    buffer = filled(*(made(f"ep{n}", *keys) for n, keys in enumerate(stored, 1)))
    assert names(buffer.by_agent("a")) == ["ep1", "ep3"]
    assert names(buffer.by_session("s1")) == ["ep1", "ep4"]
    assert names(buffer.by_session("")) == ["ep3"]
    assert names(buffer.by_task("t1")) == ["ep1", "ep2", "ep4"]
    assert names(buffer.by_category("type")) == ["ep2", "ep3"]
    assert names(buffer.by_category("")) == ["ep1"]
    assert buffer.by_agent("x") == buffer.by_session("x") == buffer.by_task("x") == buffer.by_category("x") == []


@pytest.mark.parametrize(("n", "expected"), [(3, [5, 4, 3]), (10, [5, 4, 3, 2, 1]), (0, []), (-1, []), (1, [5])])
def test_recent_is_newest_first(n, expected):
    buffer = filled(*(made(f"{number}") for number in range(1, 6)))
    assert names(buffer.recent(n)) == [str(number) for number in expected]
    assert EpisodeBuffer().recent(n) == []


def test_the_oldest_leaves_the_look_ups_and_an_emptied_key_disappears():
    buffer = filled(*(made(f"ep{n}", "a", "s1") for n in range(1, 5)), capacity=3)
    assert names(buffer) == ["ep2", "ep3", "ep4"]
    assert names(buffer.by_agent("a")) == ["ep2", "ep3", "ep4"]
    buffer.extend([made("ep5", "b", "s2"), made("ep6", "b", "s2")])
    assert names(buffer) == ["ep4", "ep5", "ep6"]
    assert names(buffer.by_agent("a")) == names(buffer.by_session("s1")) == ["ep4"]
    assert buffer.keys() == {"agent": ["a", "b"], "session": ["s1", "s2"], "task": ["t"], "category": [""]}
    buffer.store(made("ep7", "b", "s2", category="type"))
    assert buffer.keys() == {"agent": ["b"], "session": ["s2"], "task": ["t"], "category": ["", "type"]}
    assert buffer.total == 7


def test_many_agents_and_sessions_share_one_capacity():
    buffer = filled(*(made(f"ep{n}", f"a{n % 5}", f"s{n % 10}") for n in range(70)), capacity=50)
    assert len(buffer) == 50
    assert names(buffer.recent(5)) == ["ep69", "ep68", "ep67", "ep66", "ep65"]
    assert sum(len(buffer.by_agent(f"a{n}")) for n in range(5)) == 50
    assert names(buffer.by_session("s3")) == ["ep23", "ep33", "ep43", "ep53", "ep63"]


KEYS = st.sampled_from(["", "p", "q", "r"])


@given(
    st.integers(1, 6),
    st.lists(st.one_of(st.tuples(st.sampled_from("ab"), KEYS, KEYS, KEYS), st.just("clear")), max_size=60),
)
def test_every_look_up_agrees_with_a_scan_of_a_plain_list(capacity, steps):
    buffer, kept = EpisodeBuffer(capacity), []
    for number, step in enumerate(steps):
        if step == "clear":
            buffer.clear()
            kept.clear()
            continue
        kept.append(buffer.store(made(f"ep{number}", *step)))
        kept = kept[-capacity:]
    assert list(buffer) == kept
    fields = {"agent": "agent_id", "session": "session_id", "task": "task_id", "category": "category"}
    for name, field in fields.items():
        look_up, found = getattr(buffer, f"by_{name}"), {getattr(episode, field) for episode in kept}
        assert set(buffer.keys()[name]) == found
        for key in ("a", "b", "", "p", "q", "r"):
            assert look_up(key) == [episode for episode in kept if getattr(episode, field) == key]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=80), st.integers(1, 20))
def test_an_index_never_holds_more_dropped_numbers_than_live_ones(keys, window):
    index = Index()
    for number, key in enumerate(keys):
        if number >= window:
            index.drop(str(keys[number - window]), number - window)
        index.add(str(key), number)
        lowest = max(0, number - window + 1)
        for known in map(str, range(3)):
            held = index._numbers.get(known, [])
            live = index.numbers(known, lowest)
            assert bool(live) == bool(held or held == 0)
            assert isinstance(held, int) or len(held) <= 2 * len(live)


def test_a_returned_list_is_the_callers_own():
    buffer = filled(made("ep1"), made("ep2"))
    for returned in (buffer.by_agent("a"), buffer.by_session("s"), buffer.by_task("t"), buffer.recent(2)):
        returned.clear()
    buffer.keys()["agent"].clear()
    assert len(buffer.by_agent("a")) == len(buffer.by_session("s")) == len(buffer.by_task("t")) == 2
    assert buffer.keys()["agent"] == ["a"]


def test_iterating_sees_the_buffer_as_it_stood():
    buffer = filled(made("ep1"), made("ep2"), capacity=2)
    walk = iter(buffer)
    buffer.extend([made("ep3"), made("ep4")])
    assert names(walk) == ["ep1", "ep2"]


def test_clear_empties_every_look_up_and_storing_goes_on():
    buffer = filled(*(made(f"ep{n}") for n in range(5)), capacity=3, retriever=Jaccard())
    buffer.clear()
    assert (len(buffer), list(buffer), buffer.recent(9), buffer.by_agent("a"), buffer.total) == (0, [], [], [], 5)
    assert buffer.keys() == {"agent": [], "session": [], "task": [], "category": []}
    buffer.store(made("new", task_description="a new one"))
    assert names(buffer) == names(buffer.by_agent("a")) == names(buffer.relevant("new one", 3)) == ["new"]


@pytest.fixture
def restless():
    """Threads take turns as often as the interpreter allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
def test_threads_at_once_lose_nothing_and_leave_the_look_ups_consistent():
    buffer = EpisodeBuffer(100)

    def store(thread):
        for n in range(500):
            buffer.store(made(f"ep{thread}-{n}", f"a{thread}", f"s{n % 7}"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store, range(8)))
    kept = list(buffer)
    assert (len(buffer), buffer.total) == (100, 4000)
    assert buffer.recent(100) == kept[::-1]
    for n in range(8):
        assert buffer.by_agent(f"a{n}") == [episode for episode in kept if episode.agent_id == f"a{n}"]
        assert buffer.by_session(f"s{n}") == [episode for episode in kept if episode.session_id == f"s{n}"]


SEARCHED = (
    made("ep1", "a", "s1", "t1", "type", confidence=0.4, failure_analysis="Deadlock in pool"),
    made("ep2", "b", "s1", "t2", "index", confidence=0.7, task_description="a pool of threads"),
    made("ep3", "a", "s2", "t1", "type", confidence=0.9),
)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({}, ["ep3", "ep2", "ep1"]),
        ({"limit": 2}, ["ep3", "ep2"]),
        ({"categories": ("type",)}, ["ep3", "ep1"]),
        ({"categories": ("type", "index")}, ["ep3", "ep2", "ep1"]),
        ({"min_confidence": 0.7}, ["ep3", "ep2"]),
        ({"keywords": ("POOL",)}, ["ep2", "ep1"]),
        ({"keywords": ("pool", "deadlock"), "every_keyword": True}, ["ep1"]),
        ({"agent_id": "a", "session_id": "s1"}, ["ep1"]),
        ({"task_id": "t1", "limit": 1}, ["ep3"]),
        ({"task_id": "t9"}, []),
        ({"passed": True}, []),
    ],
)
def test_search_narrows_by_what_it_names(search, expected):
    assert names(filled(*SEARCHED).search(Search(**search))) == expected


def test_search_does_not_find_what_has_left():
    buffer = filled(*SEARCHED, capacity=2)
    assert names(buffer.search(Search(task_id="t1"))) == ["ep3"]


def test_relevant_finds_near_tasks_best_first_until_they_are_evicted():
    told = ("open database connection", "diagnose database timeout in production", "handle network timeout gracefully")
    stored = [made(f"ep{n}", task_description=text) for n, text in enumerate((*told, "paint the fence"), 1)]
    buffer = filled(*stored, capacity=4, retriever=Jaccard(min_length=3))
    assert names(buffer.relevant("database timeout connection", 5)) == ["ep1", "ep2", "ep3"]
    assert names(buffer.relevant("database timeout connection", 2)) == ["ep1", "ep2"]
    assert names(buffer.relevant("database timeout connection", 5, min_score=0.5)) == ["ep1"]
    assert [buffer.relevant(text, k) for text, k in (("", 5), ("a b c", 5), ("database", 0), ("database", -1))] == [
        []
    ] * 4
    buffer.store(made("ep5", task_description="open the database connection"))
    assert names(buffer.relevant("database timeout connection", 5)) == ["ep5", "ep2", "ep3"]
    assert EpisodeBuffer(retriever=Jaccard()).relevant("database", 5) == []


def test_the_text_that_is_matched_is_chosen_once():
    episode = made("ep1", task_description="sort", failure_analysis="KeyError missing")
    by_task, by_error = filled(episode, retriever=Jaccard()), filled(episode, retriever=Jaccard(), match="task_error")
    assert by_task.relevant("keyerror", 1) == []
    assert names(by_error.relevant("keyerror", 1)) == ["ep1"]


def test_without_a_retriever_relevant_says_what_is_missing():
    with pytest.raises(ValueError, match="no retriever"):
        filled(made()).relevant("text", 3)


class Broken(Jaccard):
    """Raises at a document that says so, as an embedder may that runs out of memory."""

    def add(self, documents):
        if any("broken" in document for document in documents):
            raise ValueError("no vector")
        super().add(documents)


def test_a_retriever_that_fails_leaves_the_buffer_as_it_was():
    buffer = filled(made("ep1", task_description="first"), retriever=Broken())
    broken = [made("ep2", task_description="second"), made("ep3", task_description="broken")]
    for change in (lambda: buffer.extend(broken), lambda: buffer.from_json(filled(*broken).to_json())):
        with pytest.raises(ValueError, match="no vector"):
            change()
        assert names(buffer) == names(buffer.by_agent("a")) == names(buffer.relevant("first", 3)) == ["ep1"]


WHOLE = made(
    "ep1",
    "ä",
    "s\n1",
    "t",
    "type",
    turn_id="1",
    task_description="π\u2028\x00",
    failure_analysis="f",
    improvement="i",
    confidence=0.1,
    reward=1 / 3,
    timestamp=1_700_000_000.123456,
    metadata={"outcome": "fail"},
)


def test_json_brings_everything_back():
    buffer = filled(made("ep0", "b"), WHOLE, made("ep2", "b", "s2"), capacity=2)
    again = EpisodeBuffer(7)
    again.from_json(buffer.to_json())
    assert (again.capacity, again.total, list(again)) == (2, 3, list(buffer))
    assert names(again.by_agent("b")) == names(again.by_session("s2")) == ["ep2"]
    assert again.by_category("type") == [WHOLE]
    assert again.to_json() == buffer.to_json()


def test_json_lines_bring_every_episode_back():
    buffer, again = filled(WHOLE, made("ep2", "b")), filled(made("gone"), capacity=50)
    assert again.from_jsonl(buffer.to_jsonl()) == 0
    assert (list(again), again.capacity, again.by_agent("a")) == (list(buffer), 50, [])
    assert len(buffer.to_jsonl().splitlines()) >= 2
    assert buffer.to_jsonl().count("\n") == 2


def test_what_was_read_is_found_by_the_retriever_and_what_was_there_is_not():
    source = filled(made("ep1", task_description="open a socket"), made("ep2", task_description="close a file"))
    for read in (lambda b: b.from_json(source.to_json()), lambda b: b.from_jsonl(source.to_jsonl())):
        buffer = filled(*(made(task_description="socket file") for _ in range(3)), retriever=Jaccard(), capacity=5)
        read(buffer)
        assert names(buffer.relevant("socket", 9)) == ["ep1"]
        assert names(buffer.relevant("file", 9)) == ["ep2"]


def test_an_over_full_text_is_trimmed_to_the_newest():
    many = filled(*(made(f"ep{n}", task_description="sort") for n in range(9)))
    saved = json.loads(many.to_json()) | {"max_episodes": 4}
    buffer = EpisodeBuffer(100, Jaccard())
    buffer.from_json(json.dumps(saved))
    assert (names(buffer), buffer.capacity, buffer.total) == (["ep5", "ep6", "ep7", "ep8"], 4, 9)
    assert names(buffer.relevant("sort", 9)) == ["ep8", "ep7", "ep6", "ep5"]
    small = EpisodeBuffer(2)
    small.from_jsonl(many.to_jsonl())
    assert (names(small), small.total) == (["ep7", "ep8"], 9)


@pytest.mark.parametrize(
    ("text", "capacity"), [('{"max_episodes": 0}', 1000), ('{"max_episodes": 5, "episodes": null}', 5), ("{}", 1000)]
)
def test_a_text_without_episodes_makes_an_empty_buffer(text, capacity):
    buffer = filled(made("ep1"))
    buffer.from_json(text)
    assert (len(buffer), buffer.capacity, buffer.by_agent("a")) == (0, capacity, [])


NO_AGENT = msgspec.json.encode({"episodes": [{**msgspec.to_builtins(WHOLE), "agent_id": ""}]})


@pytest.mark.parametrize(
    "text",
    ["no json", "", b"\xff\xfe", "[]", '{"episodes": 3}', '{"episodes": [{}]}', '{"max_episodes": "5"}', "[" * 9999]
    + [NO_AGENT, b'{"episodes": [{"agent_id": "\xff"}]}'],
)
def test_a_text_that_is_no_buffer_leaves_the_buffer_untouched(text):
    buffer = filled(made("ep1"), capacity=3)
    with pytest.raises(ValueError, match=r"."):
        buffer.from_json(text)
    assert (names(buffer), buffer.capacity, buffer.total) == (["ep1"], 3, 1)


def test_torn_lines_are_skipped_and_counted_and_nothing_else_is_lost():
    lines = filled(made("ep1"), made("ep2"), made("ep3")).to_jsonl().encode().splitlines()
    text = b"\n".join([lines[0], lines[1][:-7], b"", lines[1], lines[2][:20] + b"\xc3"])
    buffer = EpisodeBuffer()
    assert buffer.from_jsonl(text) == 2
    assert names(buffer) == ["ep1", "ep2"]


def test_every_beginning_of_a_file_gives_its_whole_lines():
    text = filled(made("ep1", task_description="é"), made("ep2")).to_jsonl().encode()
    first = text.index(b"\n")
    for cut in range(first, len(text)):
        buffer = EpisodeBuffer()
        torn = buffer.from_jsonl(text[:cut])
        whole = 2 if cut == len(text) - 1 else 1
        assert (len(buffer), torn) == (whole, int(whole == 1 and cut > first + 1))


@pytest.mark.parametrize("line", ['{"agent_id": 5}', "[]", "no json at all"])
def test_lines_that_are_no_episodes_leave_the_buffer_untouched(line):
    buffer = filled(made("ep1"))
    with pytest.raises(ValueError, match="nothing changed"):
        buffer.from_jsonl(line)
    assert names(buffer) == ["ep1"]


def test_a_wrong_line_among_right_ones_is_named():
    buffer = filled(made("ep1"))
    with pytest.raises(ValueError, match=r"line 2: .*agent_id"):
        buffer.from_jsonl(buffer.to_jsonl() + '{"agent_id": 5}\n')


def test_an_empty_file_makes_an_empty_buffer():
    buffer = filled(made("ep1"))
    assert (buffer.from_jsonl(""), len(buffer)) == (0, 0)
