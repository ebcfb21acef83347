from unittest.mock import Mock

import pytest

from reflexion_lab.agent.critique.merged_critic import Merged
from reflexion_lab.errors import CritiqueError, HarnessError, ModelError
from reflexion_lab.records import Critique, Message, Usage

COST = Usage(calls=1, prompt_tokens=10)


def critique(severity=0.5, source="llm", **more):
    return Critique(severity=severity, source=source, **more)


def merged(task, *answers):
    """Each answer is a critique or an error of a critic."""
    return Merged([Mock(critique=Mock(side_effect=[answer])) for answer in answers]).critique(task, "program")


def test_the_highest_severity_and_all_issues_once_in_order(task):
    merged_critique = merged(
        task,
        critique(0.4, issues=("No empty list.", "Slow."), suggestions=("Sort.",)),
        critique(0.7, "tests", issues=("no  empty list.", "Wrong sum."), suggestions=("sort.", "Add.")),
    )
    assert (merged_critique.severity, merged_critique.source) == (0.7, "llm+tests")
    assert merged_critique.issues == ("No empty list.", "Slow.", "Wrong sum.")
    assert merged_critique.suggestions == ("Sort.", "Add.")


def test_scores_are_weighted_by_confidence_and_without_them_the_highest_confidence_counts(task):
    merged_critique = merged(
        task, critique(score=0.9, confidence=0.5), critique(score=0.3, confidence=1.0), critique(confidence=0.7)
    )
    assert merged_critique.score == pytest.approx((0.9 * 0.5 + 0.3 * 1.0) / 1.5)
    assert merged_critique.confidence == 1.0
    merged_critique = merged(task, critique(confidence=0.2), critique(confidence=0.6))
    assert (merged_critique.score, merged_critique.confidence) == (None, 0.6)
    assert merged(task, critique(score=0.4, confidence=0.3), critique(confidence=0.9)).confidence == 0.3


def test_critics_without_confidence_count_only_alone_and_costs_messages_and_seconds_are_summed(task):
    unknown = critique(1.0, "tests", issues=("Nothing was found out.",), confidence=0.0)
    merged_critique = merged(task, unknown, critique(0.1, confidence=0.5))
    assert (merged_critique.severity, merged_critique.issues) == (0.1, ())
    assert merged(task, unknown).severity == 1.0
    messages = (Message(role="user", content="?"),)
    merged_critique = merged(
        task, critique(usage=COST, messages=messages, seconds=1.0), critique(usage=COST, seconds=0.5)
    )
    assert (merged_critique.usage, merged_critique.messages, merged_critique.seconds) == (COST + COST, messages, 1.5)


def test_a_failing_critic_is_skipped_and_paid(task):
    failing = CritiqueError("cannot be understood", COST, "Well, hm.")
    merged_critique = merged(
        task, failing, critique(0.4, usage=COST, reply="SEVERITY: 0.4"), ModelError("the server is gone")
    )
    assert (merged_critique.severity, merged_critique.usage) == (0.4, COST + COST)
    assert all(
        words in merged_critique.reply
        for words in ("SEVERITY: 0.4", "cannot be understood", "Well, hm.", "server is gone")
    )


def test_all_failing_is_an_error_with_words_and_cost_and_a_broken_harness_is_not_swallowed(task):
    with pytest.raises(CritiqueError, match=r"^one; two$") as caught:
        merged(task, CritiqueError("one", COST, "first"), CritiqueError("two", COST, "second"))
    assert (caught.value.usage, caught.value.reply) == (COST + COST, "first\n\nsecond")
    with pytest.raises(HarnessError):
        merged(task, critique(), HarnessError("no sandbox"))
