"""The episode buffer against a plain list, and what the four sources ask of it."""

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from tests import builders


def entry(name="", agent="a", task="t", **fields):
    defaults = {"code": "x", "reflection": None}
    return builders.episode(episode_id=name, agent_id=agent, task_id=task, **defaults | fields)


def filled(*episodes, capacity=1000, **fields):
    buffer = EpisodeBuffer(capacity, **fields)
    for episode in episodes:
        buffer.store(episode)
    return buffer


def names(episodes):
    return [episode.episode_id for episode in episodes]


@pytest.mark.parametrize(("requested", "capacity"), [(0, 1000), (-5, 1000), (50, 50), (1, 1)])
def test_a_capacity_of_zero_or_less_means_a_thousand(requested, capacity):
    buffer = EpisodeBuffer(requested)
    assert (buffer.capacity, len(buffer), buffer.total) == (capacity, 0, 0)


def test_missing_ids_and_timestamps_are_filled():
    buffer = EpisodeBuffer()
    new, old = buffer.store(entry()), buffer.store(entry("mine", timestamp=5.0))
    assert new.episode_id.startswith("ep-")
    assert new.timestamp > 1_700_000_000
    assert (old.episode_id, old.timestamp) == ("mine", 5.0)
    assert list(buffer) == [new, old]
    many = buffer.extend(entry() for _ in range(10_000))
    assert len(set(names(many))) == 10_000


def test_an_episode_without_an_agent_is_refused_and_nothing_is_kept():
    buffer = filled(entry("ep1"))
    with pytest.raises(ValueError, match="an episode, of task 't', agent_id: got '', expected who made the attempt"):
        buffer.store(entry(agent=""))
    with pytest.raises(ValueError, match=r"'ep3', of task 't', agent_id: got ''"):
        buffer.extend([entry("ep2"), entry("ep3", agent="")])
    assert (names(buffer), buffer.total) == (["ep1"], 1)


@given(st.integers(1, 6), st.lists(st.sampled_from(["", "p", "q", "r"]), max_size=60))
def test_every_look_up_agrees_with_a_scan_of_a_plain_list(capacity, tasks):
    buffer, kept = EpisodeBuffer(capacity), []
    for number, task in enumerate(tasks):
        ids = {"agent": f"a{number % 3}", "session_id": f"{task}{number % 2}"}
        kept = [*kept, buffer.store(entry(f"ep{number}", task=task, **ids))][-capacity:]
    assert list(buffer) == kept
    for task in ("", "p", "q", "r", "x"):
        assert buffer.by_task(task) == [episode for episode in kept if episode.task_id == task]
        for session in (f"{task}0", f"{task}1"):
            assert buffer.by_session(session) == [episode for episode in kept if episode.session_id == session]
    for agent in ("a0", "a1", "a2", "a3"):
        assert buffer.by_agent(agent) == [episode for episode in kept if episode.agent_id == agent]


def test_a_returned_list_is_the_callers_own():
    buffer = filled(entry("ep1"), entry("ep2"), capacity=2)
    buffer.by_task("t").clear()
    assert len(buffer.by_task("t")) == 2
    walk = iter(buffer)
    buffer.extend([entry("ep3"), entry("ep4")])
    assert names(walk) == ["ep1", "ep2"]


@pytest.mark.usefixtures("restless")
def test_concurrent_stores_lose_nothing_and_keep_look_ups_right():
    buffer = EpisodeBuffer(100)

    def store(thread):
        for n in range(500):
            buffer.store(entry(f"ep{thread}-{n}", task=f"t{n % 7}"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store, range(8)))
    items = list(buffer)
    assert (len(buffer), buffer.total) == (100, 4000)
    for n in range(7):
        assert buffer.by_task(f"t{n}") == [episode for episode in items if episode.task_id == f"t{n}"]


def test_relevant_finds_near_tasks_best_first_until_they_are_evicted():
    descriptions = (
        "open database connection", "diagnose database timeout in production", "handle network timeout gracefully",
    )  # fmt: skip
    stored = [entry(f"ep{n}", task_description=text) for n, text in enumerate((*descriptions, "paint the fence"), 1)]
    buffer = filled(*stored, capacity=4, retriever=Jaccard(min_length=3))
    assert names(buffer.relevant("database timeout connection", 5)) == ["ep1", "ep2", "ep3"]
    assert names(buffer.relevant("database timeout connection", 2)) == ["ep1", "ep2"]
    assert names(buffer.relevant("database timeout connection", 5, min_score=0.5)) == ["ep1"]
    buffer.store(entry("ep5", task_description="open the database connection"))
    assert names(buffer.relevant("database timeout connection", 5)) == ["ep5", "ep2", "ep3"]
    assert EpisodeBuffer(retriever=Jaccard()).relevant("database", 5) == []
    with pytest.raises(ValueError, match="EpisodeBuffer: no retriever"):
        filled(entry()).relevant("text", 3)


def test_the_text_that_is_matched_is_chosen_once():
    episode = entry("ep1", task_description="sort", failure_analysis="KeyError missing")
    by_task, by_error = filled(episode, retriever=Jaccard()), filled(episode, retriever=Jaccard(), match="task_error")
    assert by_task.relevant("keyerror", 1) == []
    assert names(by_error.relevant("keyerror", 1)) == ["ep1"]


def test_a_retriever_that_fails_leaves_the_buffer_as_it_was(monkeypatch):
    """As an embedder may that runs out of memory."""
    retriever = Jaccard()
    buffer = filled(entry("ep1", task_description="first"), retriever=retriever)
    monkeypatch.setattr(retriever, "add", Mock(side_effect=ValueError("no vector")))
    with pytest.raises(ValueError, match="no vector"):
        buffer.extend([entry("ep2", task_description="second"), entry("ep3", task_description="third")])
    assert names(buffer) == names(buffer.by_task("t")) == names(buffer.relevant("first", 3)) == ["ep1"]
