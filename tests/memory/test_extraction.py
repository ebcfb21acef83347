"""Wisdom out of episodes: which failures are one, and what is told of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.memory.lessons import wisdom as extraction
from reflexion_lab.memory.lessons.wisdom import RecurringCauses, normalised, wisdom_of
from reflexion_lab.memory.retrieval.texts import query, signature
from reflexion_lab.records import Check, Evaluation, Task
from tests import builders
from tests.builders import TABLES


def reflection(cause="the loop ends too early", change="loop on", confidence=0.5):
    return builders.reflection(root_cause=cause, what_to_change=change, confidence=confidence)


def episode(number, cause="the loop ends too early", session="s", confidence=0.5, change="loop on", **fields):
    known = {
        "session_id": session, "task_id": f"t{number}", "code": "", "reflection": reflection(cause, change, confidence),
        "confidence": confidence, "timestamp": float(number),
    }  # fmt: skip
    return builders.episode(number, **known | fields)


@pytest.mark.parametrize(("cause", "other", "is_same"), TABLES["equal causes"])
def test_causes_are_compared_without_case_numbers_and_names(cause, other, is_same):
    assert (normalised(cause) == normalised(other)) == is_same
    assert normalised(cause)


@pytest.mark.parametrize("blank", ["", "  \n", "...", "?!"])
def test_a_cause_without_a_word_is_none(blank):
    assert normalised(blank) == ""


def test_causes_that_never_recur_are_no_wisdom_and_others_come_in_the_order_of_their_first_episodes():
    assert wisdom_of([]) == []
    assert wisdom_of([episode(1, "one"), episode(2, "another")]) == []
    assert wisdom_of([episode(1, reflection=None), episode(2, reflection=None)]) == []
    assert wisdom_of([episode(1, " "), episode(2, " ")]) == []
    assert wisdom_of([episode(1), episode(2, passed=True)]) == []
    extraction = wisdom_of([episode(n, cause) for n, cause in enumerate(["a b", "c d", "e f", "e f", "C d.", "a b"])])
    assert [(wisdom.pattern, wisdom.frequency) for wisdom in extraction] == [("a b", 2), ("c d", 2), ("e f", 2)]
    assert len({wisdom.wisdom_id for wisdom in extraction}) == 3


def test_the_id_follows_from_the_cause_alone_and_the_same_episodes_change_nothing():
    (first,) = wisdom_of([episode(1, "index 3 is missing"), episode(2, "index 4 is missing")])
    (other,) = wisdom_of([episode(7, "Index 9 is missing!", code="class A"), episode(8, "index 1 is missing")])
    assert first.wisdom_id == other.wisdom_id
    assert first.wisdom_id.startswith("wis-")
    assert len(first.wisdom_id) == len("wis-") + 12
    assert (first.pattern, other.pattern) == ("index 3 is missing", "Index 9 is missing!")
    episodes = [episode(1), episode(2), episode(3, episode_id="")]
    assert wisdom_of(episodes * 2) == wisdom_of(episodes)
    whole = RecurringCauses()
    whole.add(episodes)
    assert whole.add(episodes) == []
    assert whole.wisdom == wisdom_of(episodes)


@pytest.mark.parametrize(
    ("confidences", "impact"),
    [
        ([0.3, 0.6, 0.4, 0.9], 0.8 / 3),  # gains of 0.3, 0 and 0.5 over three pairs
        ([0.9, 0.5, 0.1], 0.0), ([0.0, 1.0], 1.0), ([0.5, 0.5], 0.0),
    ],
)  # fmt: skip
def test_impact_is_the_mean_gain_of_confidence_within_a_session(confidences, impact):
    (entry,) = wisdom_of([episode(n, confidence=confidence) for n, confidence in enumerate(confidences)])
    assert entry.impact == pytest.approx(impact, abs=1e-12)


def test_sessions_are_pooled_and_never_joined():
    apart_episodes = [episode(1, session="a", confidence=0.1), episode(2, session="b", confidence=0.9)]
    (apart,) = wisdom_of(apart_episodes)
    assert apart.impact == 0.0
    more = [episode(3, session="a", confidence=0.5), episode(4, session="b", confidence=0.8)]
    (pooled,) = wisdom_of([*apart_episodes, *more])
    assert pooled.impact == pytest.approx((0.4 + 0.0) / 2)
    (without,) = wisdom_of([episode(1, session="", confidence=0.0), episode(2, session="", confidence=1.0)])
    assert without.impact == 0.0


@pytest.mark.parametrize(("code", "analysis", "domain"), TABLES["domains"])
def test_the_domain_is_that_of_most_words(code, analysis, domain):
    (entry,) = wisdom_of([episode(n, code=code, failure_analysis=analysis) for n in (1, 2)])
    assert entry.domain == domain


def test_tags_are_the_patterns_words_in_order_and_the_advice_the_most_confident():
    cause = "The nil pointer was dereferenced in the loop, nil again"
    (entry,) = wisdom_of([episode(1, cause), episode(2, cause)])
    assert entry.tags == ("nil", "pointer", "dereferenced", "loop", "again")
    offered = [("guess", 0.2), ("look", 0.8), ("look again", 0.8), (" ", 0.9)]
    (entry,) = wisdom_of([episode(n, change=change, confidence=value) for n, (change, value) in enumerate(offered)])
    assert entry.advice == "look"


def test_sources_are_the_newest_episodes_oldest_first(monkeypatch):
    (entry,) = wisdom_of([episode(3), episode(1), episode(2)])
    assert entry.sources == ("ep-3", "ep-1", "ep-2")
    assert entry.tasks == ("t3", "t1", "t2")
    assert entry.created_at == 1.0  # of the first recurrence
    monkeypatch.setattr(extraction, "SOURCES", 3)
    (many,) = wisdom_of([episode(number) for number in range(10)])
    assert (many.frequency, many.tasks) == (10, ("t0", "t1", "t2"))
    assert many.sources == ("ep-7", "ep-8", "ep-9")


def test_only_what_is_new_or_changed_is_handed_out():
    whole = RecurringCauses()
    assert whole.add([episode(1, "one"), episode(2, "another")]) == []
    (entry,) = whole.add([episode(3, "one")])
    assert (entry.pattern, entry.frequency) == ("one", 2)
    assert whole.add([episode(4, "a third")]) == []
    (entry,) = whole.add([episode(5, "another")])
    assert entry.pattern == "another"
    assert len(whole.wisdom) == 2


EPISODES = st.lists(
    st.builds(
        episode, st.integers(0, 12),
        cause=st.sampled_from(["index 1 is off", "Index 2 is off.", "empty list", "", "`x` is unknown"]),
        session=st.sampled_from(["", "s", "t"]), confidence=st.floats(0, 1),
        change=st.sampled_from(["", "look", "think"]), passed=st.booleans(),
        code=st.sampled_from(["", "def f", "mutex thread"]),
    ),
    max_size=30,
)  # fmt: skip


@given(EPISODES, st.lists(st.integers(0, 30), max_size=4))
def test_episodes_in_any_portions_come_to_the_same_as_all_at_once(episodes, cuts):
    whole, latest = RecurringCauses(), {}
    marks = [0, *sorted(cuts), len(episodes)]
    for start, end in pairwise(marks):
        latest |= {wisdom.wisdom_id: wisdom for wisdom in whole.add(episodes[start:end])}
    expected = wisdom_of(episodes)
    assert whole.wisdom == expected
    assert latest == {wisdom.wisdom_id: wisdom for wisdom in expected}
    assert all(wisdom.frequency >= 2 and 0 <= wisdom.impact <= 1 for wisdom in expected)


@given(st.text(max_size=50))
def test_a_normal_form_has_no_case_and_no_space_around_it(text):
    folded = normalised(text)
    assert folded == " ".join(folded.split())
    assert normalised(f"  {text}\n") == folded


def test_an_unclosed_quotation_hides_no_other_one():
    assert normalised("the “a” and “b and “c” differ") == "the <name> and “b and <name> differ"
    assert normalised("it's b'raw' and 'text', isn't it") == "it's <name> and <name>, isn't it"


@pytest.mark.parametrize(("message", "expected"), [
    ("can't add int and str, so it doesn't return", "can't add int and str, so it doesn't return"),
    ("""expected 'a', got b"b" and 12 after b'c'""", "expected , got b and after"),
])  # fmt: skip
def test_a_signature_omits_values_but_not_words_with_apostrophes(message, expected):
    check = Check(name="c", outcome="fail", message=message, error_type="TypeError")
    failed = Evaluation(passed=False, outcome="fail", reward=0.0, checks=(check,))
    assert signature(failed) == f"TypeError {expected}"


def test_a_query_is_the_prompt_and_what_the_newest_episode_adds_the_shorter_first():
    task = Task(task_id="t", prompt="the sum", entry_point="f")
    assert query(task, [], "task_error") == "the sum"
    assert query(task, [episode(1, failure_analysis="")], "task_error") == "the sum"
    assert query(task, [episode(1), episode(2, failure_analysis="KeyError")], "task_error") == "the sum\nKeyError"
    assert query(task, [episode(1, code="f()", failure_analysis="KeyError")], "task_code") == "f()\nthe sum"


OF_TASKS = st.lists(
    st.builds(
        lambda number, about, change, confidence: (number, about, change, confidence), st.integers(0, 40),
        st.sampled_from("abcd"), st.sampled_from(["", "look", "think", "wait"]), st.sampled_from([0.1, 0.5, 0.9]),
    ),
    min_size=2,
    max_size=25,
)  # fmt: skip


@given(OF_TASKS)
def test_wisdom_without_a_task_is_that_of_the_others(drawn):
    episodes = [
        builders.episode(
            episode_id=f"ep-{place}",
            task_id=about,
            passed=False,
            reflection=builders.reflection(root_cause=f"Bound {number} off", what_to_change=change, confidence=sure),
        )
        for place, (number, about, change, sure) in enumerate(drawn)
    ]
    whole = RecurringCauses()
    whole.add(episodes)
    (entry,) = whole.wisdom
    assert whole.without(entry, "e") == entry
    for left_out in {episode.task_id for episode in episodes}:
        others = [episode for episode in episodes if episode.task_id != left_out]
        assert [*filter(None, [whole.without(entry, left_out)])] == wisdom_of(others)
