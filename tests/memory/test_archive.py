"""What loops learn from each other: when it becomes known, what of it is shown, and what a store keeps of it."""

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.archive import Archive, Learnt, Shown
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.memory.mistakes import mistakes_of
from reflexion_lab.protocols import StoreError
from reflexion_lab.records import (
    Attempt,
    Check,
    Episode,
    Evaluation,
    MemoryState,
    Mistake,
    Recollection,
    Reflection,
    Session,
    Task,
    Trajectory,
    Wisdom,
)
from reflexion_lab.retrievers.jaccard import Jaccard
from reflexion_lab.stores.in_memory import InMemory

CAUSE = "The loop stops one item too early"


def task(name, prompt="sum the numbers of a list"):
    return Task(task_id=name, prompt=prompt, entry_point="f")


def attempt(name, number=1, *, passed=False, cause=CAUSE, change="use the whole range", confidence=0.5, wisdom=()):
    check = Check(name="assert f([1]) == 1", outcome="pass" if passed else "fail", error_type="AssertionError")
    reflection = Reflection(
        reflection_id=f"{name}#{number}",
        about_attempt=number,
        root_cause=cause,
        what_went_wrong="the last item is missing",
        what_to_change=change,
        confidence=confidence,
        source="llm",
        category="assertion",
        key_insight=f"insight of {name}",
    )
    return Attempt(
        task_id=name,
        number=number,
        recalled=(),
        recalled_wisdom=wisdom,
        trajectory=Trajectory(solution=f"def f(x):  # {name}", strategy="s"),
        evaluation=Evaluation(
            passed=passed, outcome="pass" if passed else "fail", reward=float(passed), checks=(check,)
        ),
        reflection=None if passed else reflection,
        memory=MemoryState(capacity=1, size=0, in_context=0, total=0),
    )


def learnt(about, *attempts, run="run"):
    name = f"{run}/{about.task_id}"
    return Learnt(
        episodes=tuple(episode_of(about, made, name, "arm") for made in attempts),
        mistakes=tuple(mistakes_of(about, attempts, session_id=name)),
        session=Session(session_id=name),
    )


def archive(store=None, **options):
    shown = Shown(wisdom=3, mistakes=3, insights=5)
    return Archive(store or InMemory(), Jaccard, **{"shown": shown, **options})


def test_what_a_round_has_learnt_is_known_from_its_end_on():
    known = archive()
    assert known.similar(task("b"), [], 3, 0.0) == []
    known.absorb([learnt(task("a"), attempt("a"))])
    assert [episode.task_id for episode in known.similar(task("b"), [], 3, 0.0)] == ["a"]
    assert known.lessons(task("b"), []).insights == ("insight of a",)


def test_the_threshold_is_inclusive():
    known = archive(match="task")
    known.absorb([learnt(task("a", "one two three four"), attempt("a"))])
    asked = task("b", "one two five six")  # two words of six
    assert len(known.similar(asked, [], 3, 2 / 6)) == 1
    assert known.similar(asked, [], 3, 0.34) == []


@pytest.mark.parametrize(("same_task", "expected"), [(False, ["b"]), (True, ["b", "a", "a"])])
def test_earlier_runs_on_the_very_same_task_are_recalled_only_when_asked_for(same_task, expected):
    known = archive(same_task=same_task)
    known.absorb([learnt(task("a"), attempt("a", 1), attempt("a", 2)), learnt(task("b"), attempt("b"))])
    assert [episode.task_id for episode in known.similar(task("a"), [], 3, 0.0)] == expected
    others = {mistake.task_id for mistake in known.lessons(task("a"), []).mistakes}
    assert others == ({"a", "b"} if same_task else {"b"})


def test_a_task_crowded_by_its_own_past_still_finds_the_others():
    known = archive()
    known.absorb(
        [learnt(task("a"), *(attempt("a", number) for number in range(1, 30))), learnt(task("b"), attempt("b"))]
    )
    assert [episode.task_id for episode in known.similar(task("a"), [], 2, 0.0)] == ["b"]


def test_wisdom_that_only_this_task_gave_is_not_shown_to_it():
    known = archive()
    known.absorb([learnt(task("a"), attempt("a", 1), attempt("a", 2))])
    assert known.lessons(task("a"), []).wisdom == ()
    assert [entry.frequency for entry in known.lessons(task("b", CAUSE), []).wisdom] == [2]


def test_a_cause_that_comes_back_becomes_wisdom_and_its_use_is_counted_by_feedback():
    known = archive()
    known.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    (entry,) = known.lessons(task("c", CAUSE), []).wisdom
    assert (entry.frequency, entry.use_count, entry.advice) == (2, 0, "use the whole range")
    read = (entry.wisdom_id,)
    known.absorb([learnt(task("c"), attempt("c", wisdom=read), attempt("c", 2, passed=True, wisdom=read))])
    used = known.book[entry.wisdom_id]
    assert (used.frequency, used.use_count, used.success_rate) == (3, 2, 0.5)


def test_nothing_is_shown_unless_asked_for():
    known = archive(shown=Shown())
    known.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    assert known.lessons(task("c", CAUSE), []) == Recollection()


def test_own_insights_join_those_of_others_at_once():
    known = archive(shown=Shown(insights=2))
    known.absorb([learnt(task("a"), attempt("a"))])
    own = learnt(task("b"), attempt("b")).episodes
    assert known.lessons(task("b"), own).insights == ("insight of a", "insight of b")


def test_the_next_run_begins_with_what_the_store_kept():
    store = InMemory()
    first = archive(store)
    first.begin()
    first.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    second = archive(store)
    began = second.begin()
    assert (began.episodes, began.mistakes, len(began.wisdom)) == (2, 2, 1)
    asked = task("c", CAUSE)
    assert second.lessons(asked, []) == first.lessons(asked, [])
    assert second.similar(task("c"), [], 3, 0.0) == first.similar(task("c"), [], 3, 0.0)


def test_a_resumed_run_knows_what_it_knew_when_it_began_and_nothing_later():
    store = InMemory()
    archive(store).absorb([learnt(task(name), attempt(name)) for name in "ab"])
    first = archive(store)
    began = first.begin()
    before = first.lessons(task("z", CAUSE), []), first.similar(task("z"), [], 9, 0.0)
    first.absorb([learnt(task("c"), attempt("c", wisdom=("wis-unknown",)))])
    archive(store).absorb([learnt(task("d"), attempt("d"), run="another")])
    again = archive(store)
    assert again.begin(began) == began
    assert (again.lessons(task("z", CAUSE), []), again.similar(task("z"), [], 9, 0.0)) == before


def test_the_same_round_twice_changes_nothing_in_the_store():
    store = InMemory()
    round_ = [learnt(task(name), attempt(name), attempt(name, 2, passed=True)) for name in "ab"]
    kept = []
    for _ in range(2):
        resumed = archive(store)
        resumed.begin(archive(InMemory()).begin())
        resumed.absorb(round_)
        kept.append([list(store.read(kind)) for kind in (Episode, Wisdom, Mistake, Session)])
    assert kept[0] == kept[1]
    assert [len(records) for records in kept[0]] == [4, 1, 2, 2]


def test_usage_counts_once_however_often_the_store_is_read():
    store = InMemory()
    first = archive(store)
    first.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    (entry,) = first.book
    first.absorb([learnt(task("c"), attempt("c", wisdom=(entry.wisdom_id,)))])
    for _ in range(3):
        later = archive(store)
        later.begin()
        assert later.book[entry.wisdom_id].use_count == 1


class Full(InMemory):
    def append(self, records):
        raise StoreError("runs/memory: the disk is full")


def test_a_store_that_fails_costs_only_its_own_copy():
    known = archive(Full())
    with pytest.warns(RuntimeWarning, match=r"the disk is full; the run goes on, and `reflexion-lab memory import`"):
        known.absorb([learnt(task("a"), attempt("a"))])
    assert [episode.task_id for episode in known.similar(task("b"), [], 3, 0.0)] == ["a"]


def test_the_oldest_leave_at_capacity():
    known = archive(max_episodes=2)
    known.absorb([learnt(task(name), attempt(name)) for name in "abc"])
    assert [episode.task_id for episode in known.similar(task("z"), [], 9, 0.0)] == ["c", "b"]


def test_the_adaptive_omega_goes_from_loop_to_loop():
    known = archive()
    known.absorb([learnt(task("a"), attempt("a")), learnt(task("b"), attempt("b"))])
    assert known.omega == 5  # two failures of reward 0
    known.absorb([learnt(task("c"), attempt("c", passed=True))])
    assert known.omega == 4


def test_an_impossible_match_is_named():
    with pytest.raises(ValueError, match=r"memory\.shared\.match: 'tsk' found; expected one of task, task_error"):
        archive(match="tsk")


def test_an_episode_keeps_the_feedback_verdict_and_its_provenance():
    episode = episode_of(task("a"), attempt("a", 2, wisdom=("wis-1", "wis-2")), "run/a", "arm")
    assert (episode.episode_id, episode.session_id, episode.turn_id) == ("ep-run/a-2", "run/a", "2")
    assert (episode.agent_id, episode.passed, episode.reward, episode.confidence) == ("arm", False, 0.0, 0.5)
    assert episode.failure_analysis == "AssertionError"
    assert episode.improvement == "use the whole range"
    assert episode.metadata == {"verification_type": "unit_tests", "outcome": "fail", "wisdom": "wis-1 wis-2"}
    assert replace(episode, timestamp=0.0) == replace(
        episode_of(task("a"), attempt("a", 2, wisdom=("wis-1", "wis-2")), "run/a", "arm"), timestamp=0.0
    )
