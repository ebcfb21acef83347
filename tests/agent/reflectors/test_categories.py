import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.reflectors.evidence import CLASSES
from reflexion_lab.agent.reflectors.fields import Category, named

OTHERS = "root_cause approach_flaw missing_context tool_misuse test_gap verification edge_case_miss integration_error"
OTHERS += " correct"


def test_the_categories_are_complete():
    assert list(map(str, Category)) == [*CLASSES, *OTHERS.split()]
    assert all(named(name) == name for name in OTHERS.split())


@given(st.sampled_from(Category), st.sampled_from(["_", "-", " ", ""]), st.sampled_from([str.upper, str.title, str]))
def test_spelling_does_not_matter(category, separator, case):
    assert named(case(category.value.replace("_", separator))) is category


@pytest.mark.parametrize(
    ("stated", "category"),
    [
        ("type_error", "type"), ("TypeError", "type"), ("Syntax Error", "syntax"), ("AssertionError", "assertion"),
        *((other, "root_cause") for other in ("", "error", "cosmic rays", "root", "\u212a")),
    ],
)  # fmt: skip
def test_a_class_may_be_called_an_error_and_any_other_name_is_a_root_cause(stated, category):
    assert named(stated) is Category(category)
