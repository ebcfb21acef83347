"""Memory shared by loops: when it changes, what is shown, and what a store keeps."""

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import StoreError
from reflexion_lab.memory.archive import Archive, Shown
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.memory.recall import Similar, WindowThenSimilar
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Check, Episode, Evaluation, Recollection, Task, Trajectory, Wisdom, identity
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from tests import builders

CAUSE = "The loop stops one item too early"


def task(name, prompt="sum the numbers of a list"):
    task_id, repetition = identity(name)
    return Task(task_id=task_id, repetition=repetition, prompt=prompt, entry_point="f")


def attempt(name, number=1, *, passed=False, cause=CAUSE, change="use the whole range", confidence=0.5, wisdom=()):
    check = Check(name="assert f([1]) == 1", outcome="pass" if passed else "fail", error_type="AssertionError")
    reflection = builders.reflection(
        reflection_id=f"{name}#{number}", about_attempt=number, root_cause=cause,
        what_went_wrong="the last item is missing", what_to_change=change, confidence=confidence, category="assertion",
        key_insight=f"insight of {name}",
    )  # fmt: skip
    return builders.attempt(
        number=number, task_id=name, recalled_wisdom=wisdom,
        trajectory=Trajectory(solution=f"def f(x):  # {name}", strategy="s"), evaluation=builders.evaluation(check),
        reflection=None if passed else reflection,
    )  # fmt: skip


def learnt(about, *attempts, run="run"):
    about = task(about) if isinstance(about, str) else about
    name = f"{run}/{about.task_id}"
    return [episode_of(about, attempt, name, "arm") for attempt in attempts]


def failed(names, **options):
    """The episodes of one failed attempt per task."""
    return [episode for name in names for episode in learnt(name, attempt(name), **options)]


def archive(names="", store=None, **options):
    """An archive that knows one failed attempt of each named task."""
    known = Archive(store or InMemory(), Jaccard, **{"shown": Shown(wisdom=3, mistakes=3, insights=5), **options})
    if names:
        known.absorb(failed(names))
    return known


def similar(known, name="z", k=9, **options):
    return [episode.task_id for episode in known.similar(task(name), [], k, 0.0, **options)]


def wisdom_for(known, name="z"):
    return known.lessons(task(name, CAUSE), []).wisdom


def test_a_rounds_updates_are_known_from_its_end_on_and_the_oldest_leave_at_capacity():
    known = archive()
    assert similar(known, "b") == []
    known.absorb(failed("a"))
    assert similar(known, "b") == ["a"]
    assert known.lessons(task("b"), []).insights == ("insight of a",)
    assert similar(archive("abc", max_episodes=2)) == ["c", "b"]


def test_the_threshold_is_inclusive():
    known = archive(match="task")
    known.absorb(learnt(task("a", "one two three four"), attempt("a")))
    prompt = task("b", "one two five six")  # two words of six
    assert len(known.similar(prompt, [], 3, 2 / 6)) == 1
    assert known.similar(prompt, [], 3, 0.34) == []


@pytest.mark.parametrize(("same_task", "expected"), [(False, ["b"]), (True, ["b", "a", "a"])])
def test_earlier_runs_on_the_same_task_are_recalled_on_request(same_task, expected):
    known = archive(same_task=same_task)
    known.absorb([*learnt("a", attempt("a", 1), attempt("a", 2)), *failed("b")])
    assert similar(known, "a", 3) == expected
    others = {mistake.task_id for mistake in known.lessons(task("a"), []).mistakes}
    assert others == ({"a", "b"} if same_task else {"b"})


def test_neither_many_own_episodes_nor_numbers_in_ids_crowd_out_other_tasks():
    known = archive()
    known.absorb([*learnt("a", *(attempt("a", number) for number in range(1, 30))), *failed("b")])
    assert similar(known, "a", 2) == ["b"]
    known = archive()
    known.absorb(failed(["calc@1", "calc@2"]))
    assert sorted(similar(known, "calc@3")) == ["calc@1", "calc@2"]
    assert similar(known, "calc@2@pass2") == ["calc@1"]


def test_a_task_reads_insights_of_the_others_and_its_own_of_this_run_at_once():
    known = archive("ab")
    assert known.lessons(task("a"), []).insights == ("insight of b",)
    assert known.lessons(task("c"), []).insights == ("insight of a", "insight of b")
    assert archive(same_task=True).lessons(task("a"), []).insights == ()
    assert archive("a", same_task=True).lessons(task("a"), []).insights == ("insight of a",)
    own = learnt("b", attempt("b"))
    lessons = archive("a", shown=Shown(insights=2)).lessons(task("b"), own)
    assert lessons.insights == ("insight of a", "insight of b")


def test_a_task_reads_shared_wisdom_in_the_words_of_the_others():
    causes = [
        ("a", "The loop over `a` stops at 17", "solve a by 17", 0.9),
        ("b", "The loop over `b` stops at 3", "b", 0.2),
        ("c", "the loop over `c` stops at 4", "solve c by 4", 0.5),
    ]
    known = archive()
    known.absorb([e for n, c, d, p in causes for e in learnt(n, attempt(n, cause=c, change=d, confidence=p))])
    (to_a,), (to_z,) = wisdom_for(known, "a"), wisdom_for(known)
    assert (to_a.pattern, to_a.advice, to_a.frequency, to_a.tasks) == (causes[1][1], "solve c by 4", 2, ("b", "c"))
    assert (to_z.pattern, to_z.advice, to_z.frequency) == (causes[0][1], "solve a by 17", 3)
    assert to_z.tasks == ("a", "b", "c")
    assert (to_a.wisdom_id, to_a.created_at) == (to_z.wisdom_id, to_z.created_at)
    assert "17" not in " ".join((*to_a.tags, to_a.pattern, to_a.advice))


@pytest.mark.parametrize("is_pruned", [False, True])
def test_no_task_reads_its_own_advice_however_many_share_the_cause(is_pruned):
    store, names = InMemory(), [f"t{number}" for number in range(1001)]
    known = archive(store=store)
    about = (attempt(name, change=f"as in {name}", confidence=i / 1001) for i, name in enumerate(names))
    known.absorb([episode for name, each in zip(names, about, strict=True) for episode in learnt(name, each)])
    if is_pruned:
        store.prune(float("inf"))
        known = archive(store=store)
        known.begin()
    advice = {
        name: [entry.advice for entry in wisdom_for(known, name)] for name in ("t0", "t999", "t1000", "t1000@pass2")
    }
    last = [] if is_pruned else ["as in t999"]
    first = [] if is_pruned else ["as in t1000"]
    assert advice == {"t0": first, "t999": first, "t1000": last, "t1000@pass2": last}


def test_stored_wisdom_without_episodes_is_hidden_from_its_tasks():
    store = InMemory()
    archive("abc", store)
    store.prune(float("inf"))
    later = archive(store=store)
    later.begin()
    assert wisdom_for(later, "a") == ()
    assert len(wisdom_for(later)) == 1


def test_a_recurring_cause_is_wisdom_whose_use_is_counted_by_feedback():
    known = archive("ab")
    (entry,) = wisdom_for(known, "c")
    assert (entry.frequency, entry.use_count, entry.advice) == (2, 0, "use the whole range")
    read = (entry.wisdom_id,)
    known.absorb(learnt("c", attempt("c", wisdom=read), attempt("c", 2, passed=True, wisdom=read)))
    used = known.book[entry.wisdom_id]
    assert (used.frequency, used.use_count, used.success_rate) == (3, 2, 0.5)
    for reader in "az":  # without one task it keeps its usage
        (entry,) = wisdom_for(known, reader)
        assert (entry.use_count, entry.success_rate) == (2, 0.5)


def test_the_next_run_starts_with_the_stored_records():
    store = InMemory()
    first = archive("ab", store)
    second = archive(store=store)
    beginning = second.begin()
    assert (beginning.episodes, len(beginning.wisdom)) == (2, 1)
    prompt = task("c", CAUSE)
    assert second.lessons(prompt, []) == first.lessons(prompt, [])
    assert second.similar(task("c"), [], 3, 0.0) == first.similar(task("c"), [], 3, 0.0)


def test_a_resumed_run_knows_what_it_knew_at_its_start_only():
    store = InMemory()
    archive("ab", store)
    first = archive(store=store)
    beginning = first.begin()
    before = first.lessons(task("z", CAUSE), []), first.similar(task("z"), [], 9, 0.0)
    first.absorb(learnt("c", attempt("c", wisdom=("wis-unknown",))))
    archive(store=store).absorb(failed("d", run="another"))
    again = archive(store=store)
    assert again.begin(beginning) == beginning
    assert (again.lessons(task("z", CAUSE), []), again.similar(task("z"), [], 9, 0.0)) == before


def aged(episode):
    return replace(episode, timestamp=1.0)


def test_later_records_are_not_read_even_after_a_prune():
    store = InMemory()
    (old,) = failed("a", run="old")
    store.append([aged(old)])
    archive(store=store).absorb(failed("b", run="first"))
    beginning = archive(store=store).begin()
    archive(store=store).absorb(failed("c", run="later"))
    assert store.prune(2.0) == 1
    again = archive(store=store)
    with pytest.warns(RuntimeWarning, match="the store lost records since the run started"):
        again.begin(beginning, "mine")
    assert similar(again) == ["b"]


@pytest.mark.parametrize(("old", "left"), [("a", "b"), ("ab", "")])
def test_a_resumed_run_skips_its_own_records_after_a_prune(old, left):
    store = InMemory()
    updates = zip("ab", failed("ab", run="old"), strict=True)
    archive(store=store).absorb([aged(update) if name in old else update for name, update in updates])
    first = archive(store=store)
    beginning = first.begin()
    assert beginning.newest_episode == [*store.read(Episode)][-1].episode_id
    first.absorb(learnt("c", attempt("c", cause="another")))
    store.prune(2.0)
    resumed = archive(store=store)
    with pytest.warns(RuntimeWarning, match=rf"2 episodes then, {len(left)} of them now"):
        resumed.begin(beginning, "run")
    assert similar(resumed) == [*left]
    assert [mistake.task_id for mistake in resumed.lessons(task("z"), []).mistakes] == [*left]


def test_the_same_round_twice_changes_nothing_in_the_store():
    store = InMemory()
    updates = [e for name in "ab" for e in learnt(name, attempt(name), attempt(name, 2, passed=True))]
    stored = []
    for _ in range(2):
        resumed = archive(store=store)
        resumed.begin(archive().begin())
        resumed.absorb(updates)
        stored.append([list(store.read(kind)) for kind in (Episode, Wisdom)])
    assert stored[0] == stored[1]
    assert [len(records) for records in stored[0]] == [4, 1]


def test_usage_counts_once_however_often_the_store_is_read():
    store = InMemory()
    first = archive("ab", store)
    (entry,) = first.book
    first.absorb(learnt("c", attempt("c", wisdom=(entry.wisdom_id,))))
    for _ in range(3):
        later = archive(store=store)
        later.begin()
        assert later.book[entry.wisdom_id].use_count == 1


def test_concurrent_runs_lose_neither_a_cause_nor_a_use(tmp_path):
    def at_once(names, read=()):
        runs = {name: archive(store=Jsonl(tmp_path)) for name in names}
        for known in runs.values():
            known.begin()
        for name, known in runs.items():
            known.absorb(learnt(name, attempt(name, wisdom=read), run=name))
        before = [(entry.frequency, entry.use_count) for entry in store.read(Wisdom)]
        for known in runs.values():
            known.close()
        return before, [(entry.frequency, entry.use_count) for entry in store.read(Wisdom)]

    store = Jsonl(tmp_path)
    assert at_once(["first", "second"]) == ([], [(2, 0)])  # only both together have seen the cause twice
    (entry,) = store.read(Wisdom)
    assert at_once(["third", "fourth"], (entry.wisdom_id,)) == ([(3, 1)], [(4, 2)])  # before: each counts its own
    assert next(store.read(Wisdom)).sources == tuple(episode.episode_id for episode in store.read(Episode))


def test_an_attempt_without_a_verdict_is_no_use_of_wisdom_and_no_outcome():
    known = archive("ab")
    (entry,) = known.book
    record = attempt("c", passed=True, wisdom=(entry.wisdom_id,))
    unjudged = replace(record, evaluation=Evaluation(passed=False, outcome="no_tests", reward=0.0))
    known.absorb(learnt("c", *[unjudged] * 9))
    assert known.book[entry.wisdom_id].use_count == 0
    known = archive()
    unknown = replace(attempt("c", 2), evaluation=Evaluation(passed=False, outcome="harness_error", reward=0.0))
    known.absorb(learnt("c", attempt("c"), unknown))
    assert (known.outcomes, similar(known), similar(known, outcome="failed")) == ({}, ["c", "c"], ["c"])
    known.absorb([*learnt("a", attempt("a"), attempt("a", 2), attempt("a", 3, passed=True)), *failed("b")])
    assert known.outcomes == {"assertion": (1, 2)}


def test_usage_outlives_the_episodes_that_it_was_counted_from():
    store = InMemory()
    first = archive("ab", store)
    (entry,) = first.book
    first.absorb(learnt("c", *(attempt("c", number, wisdom=(entry.wisdom_id,)) for number in range(1, 7))))
    store.prune(float("inf"))
    later = archive(store=store)
    later.begin()
    assert later.book[entry.wisdom_id].use_count == 6
    assert wisdom_for(later) == ()  # retired


class Broken(InMemory):
    def append(self, records):
        raise StoreError("runs/memory: the disk is full")

    def close(self):
        raise StoreError("runs/memory: input/output error")


def test_a_store_that_fails_costs_only_its_own_copy():
    known = archive(store=Broken())
    with pytest.warns(RuntimeWarning, match=r"the disk is full; the run continues; `reflexion-lab memory import`"):
        known.absorb(failed("a"))
    assert similar(known, "b") == ["a"]
    with pytest.warns(RuntimeWarning, match=r"input/output error; the run is complete"):
        archive(store=Broken()).close()


def test_lessons_fit_their_token_budget_and_none_are_shown_by_default():
    known = archive(shown=Shown(wisdom=3, mistakes=3, insights=5, max_tokens=40))
    known.absorb([e for name in "ab" for e in learnt(task(name, "sum " + name * 200), attempt(name))])
    read = known.lessons(task("c", CAUSE + " sum"), [])
    # 14 tokens of wisdom and 8 of insights; no mistake of 200 and more.
    assert (len(read.wisdom), read.insights, read.mistakes) == (1, ("insight of a", "insight of b"), ())
    tighter = archive("ab", shown=Shown(wisdom=3, insights=5, max_tokens=21))
    assert tighter.lessons(task("c", CAUSE), []).insights == ("insight of b",)
    assert archive("ab", shown=Shown()).lessons(task("c", CAUSE), []) == Recollection()


def test_the_adaptive_omega_carries_over_from_loop_to_loop():
    known = archive("ab")
    assert known.omega == 5  # two failures of reward 0
    known.absorb(learnt("c", attempt("c", passed=True)))
    assert known.omega == 4


def test_an_episode_keeps_the_feedback_verdict_and_its_provenance():
    episode = episode_of(task("a"), attempt("a", 2, wisdom=("wis-1", "wis-2")), "run/a", "arm")
    assert (episode.episode_id, episode.session_id, episode.turn_id) == ("ep-run/a-2", "run/a", "2")
    assert (episode.agent_id, episode.passed, episode.reward, episode.confidence) == ("arm", False, 0.0, 0.5)
    assert episode.failure_analysis == "AssertionError"
    assert episode.improvement == "use the whole range"
    about = {
        "verification_type": "unit_tests",
        "outcome": "fail",
        "errors": "1",
        "wisdom": "wis-1 wis-2",
        "trajectory": "Turns: 1, Tools: none, Status: complete",
    }
    assert episode.metadata == about


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_an_outcome_is_found_behind_many_nearer_ones_of_the_other(outcome):
    known, is_passed = archive(), outcome == "passed"
    nearer = [e for i in range(60) for e in learnt(f"n{i}", attempt(f"n{i}", passed=not is_passed))]
    known.absorb([*nearer, *learnt(task("far", "sum of a matrix"), attempt("far", passed=is_passed))])
    assert similar(known, k=2, outcome=outcome) == ["far"]
    assert "far" not in similar(known, k=2)


@pytest.mark.parametrize("policy", [Similar, WindowThenSimilar])
def test_a_policy_can_show_successes_only(policy):
    known = archive("a")
    known.absorb(learnt("b", attempt("b", passed=True)))
    recalled = {kind: policy(min_score=0, outcome=kind).select([], task("z"), known) for kind in ("any", "passed")}
    assert {episode.task_id for episode in recalled["any"].episodes} == {"a", "b"}
    assert [episode.task_id for episode in recalled["passed"].episodes] == ["b"]
