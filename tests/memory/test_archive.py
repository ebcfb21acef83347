"""What loops learn from each other: when it becomes known, what of it is shown, and what a store keeps of it."""

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import StoreError
from reflexion_lab.memory.archive import Archive, Learnt, Shown
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.memory.mistakes import mistakes_of
from reflexion_lab.memory.recall import Similar, WindowThenSimilar
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import (
    Check,
    Episode,
    Evaluation,
    Mistake,
    Recollection,
    Session,
    Task,
    Trajectory,
    Wisdom,
)
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from tests import builders

CAUSE = "The loop stops one item too early"


def task(name, prompt="sum the numbers of a list"):
    return Task(task_id=name, prompt=prompt, entry_point="f")


def attempt(name, number=1, *, passed=False, cause=CAUSE, change="use the whole range", confidence=0.5, wisdom=()):
    check = Check(name="assert f([1]) == 1", outcome="pass" if passed else "fail", error_type="AssertionError")
    reflection = builders.reflection(
        reflection_id=f"{name}#{number}",
        about_attempt=number,
        root_cause=cause,
        what_went_wrong="the last item is missing",
        what_to_change=change,
        confidence=confidence,
        category="assertion",
        key_insight=f"insight of {name}",
    )
    return builders.attempt(
        number=number,
        task_id=name,
        recalled_wisdom=wisdom,
        trajectory=Trajectory(solution=f"def f(x):  # {name}", strategy="s"),
        evaluation=builders.evaluation(check),
        reflection=None if passed else reflection,
    )


def learnt(about, *attempts, run="run"):
    name = f"{run}/{about.task_id}"
    return Learnt(
        episodes=tuple(episode_of(about, attempt, name, "arm") for attempt in attempts),
        mistakes=tuple(mistakes_of(about, attempts, session_id=name)),
        session=Session(session_id=name),
    )


def archive(store=None, **options):
    page = Shown(wisdom=3, mistakes=3, insights=5)
    return Archive(store or InMemory(), Jaccard, **{"shown": page, **options})


def test_what_a_round_has_learnt_is_known_from_its_end_on():
    known = archive()
    assert known.similar(task("b"), [], 3, 0.0) == []
    known.absorb([learnt(task("a"), attempt("a"))])
    assert [episode.task_id for episode in known.similar(task("b"), [], 3, 0.0)] == ["a"]
    assert known.lessons(task("b"), []).insights == ("insight of a",)


def test_the_threshold_is_inclusive():
    known = archive(match="task")
    known.absorb([learnt(task("a", "one two three four"), attempt("a"))])
    prompt = task("b", "one two five six")  # two words of six
    assert len(known.similar(prompt, [], 3, 2 / 6)) == 1
    assert known.similar(prompt, [], 3, 0.34) == []


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


def test_a_task_is_not_told_what_earlier_runs_noted_of_it():
    known = archive()
    known.absorb([learnt(task("a"), attempt("a")), learnt(task("b"), attempt("b"))])
    assert known.lessons(task("a"), []).insights == ("insight of b",)
    assert known.lessons(task("c"), []).insights == ("insight of a", "insight of b")
    assert archive(same_task=True).lessons(task("a"), []).insights == ()
    same = archive(same_task=True)
    same.absorb([learnt(task("a"), attempt("a"))])
    assert same.lessons(task("a"), []).insights == ("insight of a",)


def test_a_task_reads_shared_wisdom_in_the_words_of_the_others():
    said = [
        ("a", "The loop over `a` stops at 17", "solve a by 17", 0.9),
        ("b", "The loop over `b` stops at 3", "b", 0.2),
        ("c", "the loop over `c` stops at 4", "solve c by 4", 0.5),
    ]
    known = archive()
    known.absorb([learnt(task(n), attempt(n, cause=c, change=d, confidence=p)) for n, c, d, p in said])
    (to_a,) = known.lessons(task("a", CAUSE), []).wisdom
    (to_z,) = known.lessons(task("z", CAUSE), []).wisdom
    assert (to_a.pattern, to_a.advice, to_a.frequency, to_a.tasks) == (said[1][1], "solve c by 4", 2, ("b", "c"))
    assert (to_z.pattern, to_z.advice, to_z.frequency, to_z.tasks) == (said[0][1], "solve a by 17", 3, ("a", "b", "c"))
    assert (to_a.wisdom_id, to_a.created_at) == (to_z.wisdom_id, to_z.created_at)
    assert "17" not in " ".join((*to_a.tags, to_a.pattern, to_a.advice))


def test_a_cause_that_came_back_only_with_this_task_is_no_wisdom_to_it():
    known = archive()
    known.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    assert known.lessons(task("a", CAUSE), []).wisdom == ()
    assert len(known.lessons(task("z", CAUSE), []).wisdom) == 1


def test_stored_wisdom_whose_episodes_are_gone_is_not_told_to_the_tasks_that_gave_it():
    store = InMemory()
    archive(store).absorb([learnt(task(name), attempt(name)) for name in "abc"])
    store.prune(float("inf"))
    later = archive(store)
    later.begin()
    assert later.lessons(task("a", CAUSE), []).wisdom == ()
    assert len(later.lessons(task("z", CAUSE), []).wisdom) == 1


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


def test_wisdom_retold_without_a_task_keeps_what_it_was_used_for():
    known = archive()
    known.absorb([learnt(task(name), attempt(name)) for name in "abc"])
    (entry,) = known.lessons(task("d", CAUSE), []).wisdom
    used = attempt("d", passed=True, wisdom=(entry.wisdom_id,))
    known.absorb([learnt(task("d"), used)])
    for reader in ("a", "z"):
        (told,) = known.lessons(task(reader, CAUSE), []).wisdom
        assert (told.use_count, told.success_rate) == (1, 1.0)


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
    prompt = task("c", CAUSE)
    assert second.lessons(prompt, []) == first.lessons(prompt, [])
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


def test_what_others_stored_since_is_not_read_even_where_a_prune_has_made_room():
    store = InMemory()
    old = learnt(task("a"), attempt("a"), run="old")
    store.append([replace(episode, timestamp=1.0) for episode in old.episodes])
    archive(store).absorb([learnt(task("b"), attempt("b"), run="first")])
    began = archive(store).begin()
    archive(store).absorb([learnt(task("c"), attempt("c"), run="later")])
    assert store.prune(2.0) == 1
    again = archive(store)
    with pytest.warns(RuntimeWarning, match="the store has lost some of what it held"):
        again.begin(began, "mine")
    assert [episode.task_id for episode in again.similar(task("z"), [], 9, 0.0)] == ["b"]


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


def test_runs_that_write_to_one_store_at_once_lose_neither_a_cause_nor_a_use(tmp_path):
    runs = {name: archive(Jsonl(tmp_path)) for name in ("first", "second")}
    for known in runs.values():
        known.begin()
    for name, known in runs.items():  # what only both together have met twice
        known.absorb([learnt(task(name), attempt(name), run=name)])
    for known in runs.values():
        known.close()
    store = Jsonl(tmp_path)
    (wisdom,) = store.read(Wisdom)
    assert wisdom.frequency == 2
    runs = {name: archive(Jsonl(tmp_path)) for name in ("third", "fourth")}
    for known in runs.values():
        known.begin()
    for name, known in runs.items():
        used = attempt(name, wisdom=(wisdom.wisdom_id,))
        known.absorb([learnt(task(name), used, run=name)])
    assert [(one.frequency, one.use_count) for one in store.read(Wisdom)] == [(3, 1)]  # each knows its own
    for known in runs.values():
        known.close()
    assert [(one.frequency, one.use_count) for one in store.read(Wisdom)] == [(4, 2)]
    assert next(store.read(Wisdom)).sources == tuple(one.episode_id for one in store.read(Episode))


def test_an_attempt_without_a_verdict_is_no_use_of_wisdom():
    known = archive()
    known.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    (entry,) = known.book
    record = attempt("c", passed=True, wisdom=(entry.wisdom_id,))
    untold = replace(record, evaluation=Evaluation(passed=False, outcome="no_tests", reward=0.0))
    known.absorb([learnt(task("c"), *[untold] * 9)])
    assert known.book[entry.wisdom_id].use_count == 0


def test_usage_outlives_the_episodes_that_it_was_counted_from():
    store = InMemory()
    first = archive(store)
    first.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    (entry,) = first.book
    first.absorb([learnt(task("c"), *(attempt("c", number, wisdom=(entry.wisdom_id,)) for number in range(1, 7)))])
    store.prune(float("inf"))
    later = archive(store)
    later.begin()
    assert later.book[entry.wisdom_id].use_count == 6
    assert later.lessons(task("z", CAUSE), []).wisdom == ()  # retired


def test_a_resumed_run_does_not_know_its_own_rounds_beforehand_though_the_store_was_pruned():
    store = InMemory()
    old = replace(learnt(task("a"), attempt("a"), run="old"))
    aged = replace(
        old,
        episodes=tuple(replace(episode, timestamp=1.0) for episode in old.episodes),
        mistakes=tuple(replace(mistake, timestamp=1.0) for mistake in old.mistakes),
    )
    archive(store).absorb([aged, learnt(task("b"), attempt("b"), run="old")])
    first = archive(store)
    began = first.begin()
    first.absorb([learnt(task("c"), attempt("c", cause="another"))])
    store.prune(2.0)
    resumed = archive(store)
    with pytest.warns(RuntimeWarning, match=r"2 episodes and 2 mistakes then, 1 and 1 of them now"):
        resumed.begin(began, "run")
    assert [episode.task_id for episode in resumed.similar(task("z"), [], 9, 0.0)] == ["b"]
    assert [mistake.task_id for mistake in resumed.lessons(task("z"), []).mistakes] == ["b"]


class Full(InMemory):
    def append(self, records):
        raise StoreError("runs/memory: the disk is full")


def test_a_store_that_fails_costs_only_its_own_copy():
    known = archive(Full())
    with pytest.warns(RuntimeWarning, match=r"the disk is full; the run goes on, and `reflexion-lab memory import`"):
        known.absorb([learnt(task("a"), attempt("a"))])
    assert [episode.task_id for episode in known.similar(task("b"), [], 3, 0.0)] == ["a"]


class Torn(InMemory):
    def close(self):
        raise StoreError("runs/memory: input/output error")


def test_a_store_that_cannot_be_closed_costs_no_run():
    with pytest.warns(RuntimeWarning, match=r"input/output error; the run stands"):
        archive(Torn()).close()


def test_lessons_keep_to_their_tokens_and_the_ids_are_those_that_are_read():
    known = archive(shown=Shown(wisdom=3, mistakes=3, insights=5, max_tokens=40))
    known.absorb([learnt(task(name, "sum " + name * 200), attempt(name)) for name in "ab"])
    read = known.lessons(task("c", CAUSE + " sum"), [])
    # 14 tokens of wisdom and 8 of insights; no mistake of 200 and more.
    assert (len(read.wisdom), read.insights, read.mistakes) == (1, ("insight of a", "insight of b"), ())
    assert known.lessons(task("c", CAUSE), []).wisdom
    tighter = archive(shown=Shown(wisdom=3, insights=5, max_tokens=21))
    tighter.absorb([learnt(task(name), attempt(name)) for name in "ab"])
    assert tighter.lessons(task("c", CAUSE), []).insights == ("insight of b",)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"min_score": 2.0}, r"Shown\.min_score: got 2\.0, expected 0 to 1"),
        ({"wisdom": -1}, r"Shown\.wisdom: got -1, expected 0 or more"),
        ({"max_tokens": -1}, r"Shown\.max_tokens: got -1"),
    ],
)
def test_impossible_numbers_of_lessons_are_named(shown, said):
    with pytest.raises(ValueError, match=said):
        archive(shown=Shown(**shown))


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
    with pytest.raises(ValueError, match=r"Archive\.match: got 'tsk', expected one of task, task_error"):
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


def test_what_came_of_each_class_of_failure_is_counted_over_neighbours_of_one_loop():
    known = archive()
    known.absorb(
        [
            learnt(task("a"), attempt("a"), attempt("a", 2), attempt("a", 3, passed=True)),
            learnt(task("b"), attempt("b")),
        ]
    )
    assert known.outcomes == {"assertion": (1, 2)}


def test_a_verdict_that_nobody_gave_mends_nothing_and_breaks_nothing():
    unknown = replace(attempt("a", 2), evaluation=Evaluation(passed=False, outcome="harness_error", reward=0.0))
    known = archive()
    known.absorb([learnt(task("a"), attempt("a"), unknown)])
    assert known.outcomes == {}


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_one_outcome_alone_is_recalled_however_many_of_the_other_are_nearer(outcome):
    known, is_passed = archive(), outcome == "passed"
    nearer = [learnt(task(f"n{i}"), attempt(f"n{i}", passed=not is_passed)) for i in range(60)]
    known.absorb([*nearer, learnt(task("far", "sum of a matrix"), attempt("far", passed=is_passed))])
    assert [episode.task_id for episode in known.similar(task("z"), [], 2, 0.0, outcome)] == ["far"]
    assert "far" not in {episode.task_id for episode in known.similar(task("z"), [], 2, 0.0)}


@pytest.mark.parametrize("policy", [Similar, WindowThenSimilar])
def test_a_policy_can_show_successes_alone(policy):
    known = archive()
    known.absorb([learnt(task("a"), attempt("a")), learnt(task("b"), attempt("b", passed=True))])
    recalled = {kind: policy(min_score=0, outcome=kind).select([], task("z"), known) for kind in ("any", "passed")}
    assert {episode.task_id for episode in recalled["any"].episodes} == {"a", "b"}
    assert [episode.task_id for episode in recalled["passed"].episodes] == ["b"]
