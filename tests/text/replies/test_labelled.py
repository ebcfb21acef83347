"""The reader of labelled replies, apart from the schemas of reflections and verdicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.text.replies.labelled import Labels, Number, entries, number, objects

LABELS = Labels({"cause": ("root_cause", "reason"), "fix": ("fix", "fixes")})


def sections(text):
    return [(section.label, "\n".join(section.lines).strip()) for section in LABELS.sections(text)]


@pytest.mark.parametrize(
    "label", ["ROOT_CAUSE:", "**Root cause:**", "- reason:", "Reason 2:", "root-cause (short):", "reason -"]
)
def test_every_spelling_of_a_label_begins_a_section(label):
    assert sections(f"Well.\n{label} it loops\nfor ever\n## Fixes\nbreak") == [
        ("cause", "it loops\nfor ever"),
        ("fix", "break"),
    ]


@pytest.mark.parametrize("line", ["reason", "the reason: x", "reasonable: x", "reason of it: x"])
def test_a_label_without_its_mark_or_within_a_sentence_is_text(line):
    assert sections(f"fix: a\n{line}") == [("fix", f"a\n{line}")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.8", Number(0.8, None)), ("[about 85 %]", Number(85.0, 100.0)), ("8/10, say", Number(8.0, 10.0)),
        ("2.5e-1", Number(0.25, None)), ("0,85", None), ("0.8-0.9", None), ("high", None), ("", None),
        (".5", Number(0.5, None)), ("≈0.8", Number(0.8, None)), ("~0.85", Number(0.85, None)),
        ("62.5 percent", Number(62.5, 100.0)), ("0.85/1", Number(0.85, 1.0)), ("8 out of 10", Number(8.0, 10.0)),
        ("**0.85**", Number(0.85, None)), ("0.85.", Number(0.85, None)), ("0.85 (sure)", Number(0.85, None)),
        ("not_a_number", None), ("inf", None), ("1.2.3", None), ("0.85x", None), ("9 out of ten", None),
    ],
)  # fmt: skip
def test_a_number_is_clear_or_none(text, expected):
    assert number(text) == expected


def test_nested_objects_are_found_and_the_number_behind_a_label_is_read():
    items = list(objects('x {"A b": {"c_1": 2}, "a-B": 3} {"broken": '))
    assert items == [{"ab": {"c1": "2"}}, {"c1": "2"}]
    text = f"REASON: a\n**FIX 2:** b\nfix #3 (again): c\nfix {'9' * 5000}: d"
    assert [section.number for section in LABELS.sections(text)] == [0, 2, 3, 999_999_999]


@given(st.text())
def test_any_text_is_read(text):
    assert all(section.label in ("cause", "fix") for section in LABELS.sections(text))
    assert number(text) is None or number(text).value is not None
    assert len(entries([text] * 9, 5, 20)) in (0, 5)
    list(objects(text))
