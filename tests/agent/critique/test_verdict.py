import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.critique.verdict import CONFIDENCE_UNSTATED, ITEM_CHARS, ITEMS, Unreadable, parse_verdict
from tests.builders import TABLES


def test_labelled_lines():
    verdict = parse_verdict("ISSUE: The loop ends early.\nISSUE: No empty list.\nSUGGESTION: Use <=.\nSEVERITY: 0.7\n")
    assert verdict.issues == ("The loop ends early.", "No empty list.")
    assert (verdict.suggestions, verdict.severity) == (("Use <=.",), 0.7)
    assert (verdict.score, verdict.confidence) == (None, CONFIDENCE_UNSTATED)


@pytest.mark.parametrize("reply", TABLES["other ways to say a verdict"])
def test_other_ways_to_say_the_same(reply):
    verdict = parse_verdict(reply)
    assert (verdict.issues, verdict.suggestions) == (("The loop ends early.", "No empty list."), ("Use <=.",))
    assert verdict.severity == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("stated", "severity"),
    [
        *(("high", 0.8), ("Minor", 0.2), ("None", 0.0), ("CRITICAL!", 1.0)),
        *(("3", 1.0), ("-1", 0.0), ("1e9", 1.0), (".25", 0.25)),
        *(("0.8-0.9", 0.8), ("0.1–0.2", 0.1), ("0.2,minor", 0.2), ("0.7x", 0.7), ("0,85", 0.5)),  # the leading number
    ],
)
def test_severities_in_words_and_out_of_range(stated, severity):
    assert parse_verdict(f"ISSUE: x is wrong\nSEVERITY: {stated}").severity == severity


@pytest.mark.parametrize("reply", ["ISSUE: none", "Issues: No issues found.", "No problems.", '{"issues": []}'])
def test_the_word_that_there_is_no_issue_is_a_severity_of_zero(reply):
    verdict = parse_verdict(reply)
    assert (verdict.severity, verdict.issues) == (0.0, ())


def test_numbers_are_read_where_they_are_given_and_issues_without_have_a_medium_severity():
    assert 0.3 < parse_verdict("ISSUE: x is wrong").severity < 1
    assert 0.3 < parse_verdict("SUGGESTION: sort first\nSEVERITY: dunno").severity < 1
    verdict = parse_verdict("SEVERITY: 0.5\nSCORE: 6/10\nCONFIDENCE: 90%")
    assert (verdict.score, verdict.confidence) == (0.6, 0.9)
    verdict = parse_verdict('{"severity": true, "issues": ["x y"], "score": NaN, "confidence": 2}')
    assert (verdict.severity, verdict.score, verdict.confidence) == (0.5, None, 0.5)


EMPTY_LABELS = ("ISSUE:", "Issues:\n", "ISSUE:\nSUGGESTION:\n", "ISSUE: \nSEVERITY:")


@pytest.mark.parametrize(
    "reply", ["", "I like it.", "SEVERITY: dunno", '{"verdict": "bad"}', "<think>ISSUE: x", *EMPTY_LABELS]
)
def test_a_reply_that_says_nothing_is_unreadable(reply):
    with pytest.raises(Unreadable, match="expected lines of ISSUE"):
        parse_verdict(reply)


PIECES = st.sampled_from(
    ["SEVERITY", "ISSUE", "SUGGESTION", "severity", ":", "-", "*", "\n", " ", "0.5", "1e999", "nan", "%", "/10", "none"]
    + ['{"', '"severity"', '": ', "}", "[", "]", ",", "```", "<think>", "</think>", "\ud800", "\x00", "²", "９"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
def test_nothing_but_unreadable_is_ever_raised(reply):
    try:
        verdict = parse_verdict(reply)
    except Unreadable:
        return
    assert 0 <= verdict.severity <= 1
    assert 0 <= verdict.confidence <= 1
    assert verdict.score is None or 0 <= verdict.score <= 1
    json.dumps([*verdict.issues, *verdict.suggestions]).encode()
    "".join((*verdict.issues, *verdict.suggestions)).encode()


def test_a_minus_amid_an_issue_is_no_bullet_and_what_is_kept_is_bounded():
    verdict = parse_verdict("- ISSUE: len(string) - n runs below zero\nSEVERITY: 0.5\n").issues
    assert verdict == ("len(string) - n runs below zero",)
    assert parse_verdict('{"severity": 0.5, "issues": ["- a * b - c is off"]}').issues == ("a * b - c is off",)
    verdict = parse_verdict("\n".join(f"ISSUE: {number} {'x' * 1000}" for number in range(50)))
    assert len(verdict.issues) == ITEMS
    assert max(map(len, verdict.issues)) <= ITEM_CHARS


@pytest.mark.parametrize(
    "reply",
    [
        "ISSUE: off by one\nSEVERITY: 0.1\nISSUE: infinite loop\nSEVERITY: 1.0\n",
        '{"severity": 0.1, "issues": [{"issue": "off by one", "severity": 0.1}, {"issue": "loop", "severity": "1.0"}]}',
        '{"severity": [0.1, 1], "issues": ["off by one", "loop"]}',
    ],
)
def test_of_several_severities_the_highest_counts(reply):
    assert parse_verdict(reply).severity == 1.0


@pytest.mark.parametrize(("stated", "score"), [("3", None), ("3/10", 0.3), ("30%", 0.3), ("1", 1.0), ("0", 0.0)])
def test_a_score_above_one_has_no_known_scale(stated, score):
    assert parse_verdict(f"SEVERITY: 0.5\nSCORE: {stated}").score == score


@pytest.mark.parametrize(
    ("issues", "expected"),
    [
        ('[{"line": 3, "message": "off by one"}]', ("off by one",)),
        ('{"severity": 0.8, "text": "off by one"}', ("off by one",)),
        ("[1, 2.5]", ()),
        ('[{"id": 1, "text": "none"}]', ()),
    ],
)
def test_numbers_of_a_json_reply_are_no_text_of_an_issue(issues, expected):
    assert parse_verdict(f'{{"issues": {issues}, "severity": 0.8}}').issues == expected
