from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.reflectors.categories import FAILURE_CLASSES, FROM_RALPH_LOOP, FROM_SUBAGENT_LOOP, Category, named
from reflexion_lab.reflectors.classes import CLASSES


def test_the_classes_of_the_evidence_are_categories():
    assert list(map(str, FAILURE_CLASSES)) == list(CLASSES)
    assert set(Category) - set(FAILURE_CLASSES) == set(FROM_SUBAGENT_LOOP.values()) | set(FROM_RALPH_LOOP.values())


@pytest.mark.parametrize("mapping", [FROM_SUBAGENT_LOOP, FROM_RALPH_LOOP])
def test_names_of_other_systems_keep_their_meaning(mapping):
    assert all(named(name) == category == name for name, category in mapping.items())


def test_six_names_come_from_subagent_loops():
    expected = "root_cause approach_flaw missing_context tool_misuse test_gap verification"
    assert list(FROM_SUBAGENT_LOOP) == expected.split()


@given(st.sampled_from(Category), st.sampled_from(["_", "-", " ", ""]), st.sampled_from([str.upper, str.title, str]))
def test_spelling_does_not_matter(category, separator, case):
    assert named(case(category.value.replace("_", separator))) is category


@pytest.mark.parametrize(
    ("stated", "category"),
    [("type_error", "type"), ("TypeError", "type"), ("Syntax Error", "syntax"), ("AssertionError", "assertion")],
)
def test_a_class_may_be_called_an_error(stated, category):
    assert named(stated) == category


@pytest.mark.parametrize("stated", ["", "error", "cosmic rays", "root", "\u212a"])
def test_any_other_name_is_a_root_cause_unless_told_otherwise(stated):
    assert named(stated) is Category.ROOT_CAUSE
    assert named(stated, otherwise=Category.UNKNOWN) is Category.UNKNOWN
