import ast
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.tasks.benchmarks.visible import visible_tests
from tests.builders import TABLES


def examples(docstring: str, parameters: str = "x", name: str = "f") -> list[str]:
    """The visible tests of a function with this docstring, without `assert `."""
    text = indent(docstring, "    ").replace("\\", "\\\\")
    prompt = f'import math\n\n\ndef {name}({parameters}):\n    """Say something.\n{docstring and text}\n    """\n'
    return [test.removeprefix("assert ") for test in visible_tests(prompt, name)]


@pytest.mark.parametrize(("docstring", "expected"), [
    (">>> f(1)\n2", "f(1) == 2"),
    (">>> f([1, -2], (3,), k={'a': {4}})\n[True, None]", "f([1, -2], (3,), k={'a': {4}}) == [True, None]"),
    ('>>> f("it\'s")\n\'say "so"\'', 'f("it\'s") == \'say "so"\''), (">>> f(2.5)\n-0.5", "f(2.5) == -0.5"),
    (">>> f([1,\n...    2])\n[1,\n 2]", "f([1, 2]) == [1, 2]"),
    (">>> f([])\n\nNone is what an empty list gives.", "f([]) == None"), (">>> f(3) == 4", "f(3) == 4"),
    (">>> f(3)  # => 4", "f(3) == 4"), (">>> round(f(1), 2)  # about a half\n0.5", "round(f(1), 2) == 0.5"),
])  # fmt: skip
def test_doctests_are_visible_tests(docstring: str, expected: str) -> None:
    assert examples(docstring) == [expected]


@pytest.mark.parametrize(("line", "value"), TABLES["examples in prose"])
def test_examples_in_prose_are_visible_tests(line: str, value: str) -> None:
    assert examples(line) == [f"f([1, 2]) == {value}"]


@pytest.mark.parametrize(("docstring", "expected"), [
    ("For x = 'a', y = 2 the output should be 3", ["f('a', 2) == 3"]),
    ('For x = 1, y = 2, the sum is 3, so the result should be "11".', ["f(1, 2) == '11'"]),
    ("Example 1:\n    Input: x = [1], y = 2\n    Output: [3]\n    Explanation: so it is", ["f([1], 2) == [3]"]),
    ("Input: 1, 2\nOutput: (3, 4) # both\n\nInput: 5, 6\nOutput: 7", ["f(1, 2) == (3, 4)", "f(5, 6) == 7"]),
    ("For y = 'a', x = 2 the output should be 3", []), ("For z = 1 the output should be 3", []),
    ("Input: grid : [1]\nOutput: 3", []),
])  # fmt: skip
def test_worked_inputs_are_visible_tests_if_they_name_the_parameters(docstring: str, expected: list[str]) -> None:
    assert examples(docstring, "x, y") == expected


@pytest.mark.parametrize("docstring", TABLES["no plain examples"])
def test_what_is_not_plainly_an_example_is_left_out(docstring: str) -> None:
    assert examples(docstring) == []


def test_examples_come_once_and_in_order_of_appearance_and_sloppy_prompts_warn_nobody(
    recwarn: pytest.WarningsRecorder,
) -> None:
    docstring = "f(3) => 3\n>>> f(2)\n2\n\nf(1) => 1, f(3) => 3\nFor x = 0 the output should be 0\nf(2) == 2"
    assert examples(docstring) == ["f(3) == 3", "f(2) == 2", "f(1) == 1", "f(0) == 0"]
    # Doctests of broken indentation do not hide the prose.
    assert examples(">>> f(1)\n2\n  >>>f(2)\n3\n\nf(3) => 4") == ["f(3) == 4"]
    assert examples("f('\\d') == 1if 2 else 3\nf('\\d') == 2") == [r"f('\\d') == 2"]
    visible_tests('def f(x):\n    """ \\d """\n', "f")
    assert not recwarn.list


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("def g(x):\n    \"\"\"f(1) == 1\"\"\"\n\n\ndef f(x):\n    '''f(2) == 2'''\n    # f(3) == 3\n", ("f(2) == 2",)),
        ('def f(x):\n    """f(2) == 2"""\n\n\ndef foo(x):\n    """f(1) == 1"""\n', ("f(2) == 2",)),
        ("Write f so that f(2) == 4.\n", ("f(2) == 4",)),  # prose without code
        ('def f(x):\n    """\n    >>> f("a\\nb")\n    \'b\\nc\'\n    """\n', (r"f('a\nb') == 'b\nc'",)),  # escapes
        ('def f(x):\n    """A.\n\n    >>> f(1)\n\n    5\n\n    >>> f(2)\n    >>> f(3)\n    4\n    """\n',
         ("f(2) == None", "f(3) == 4")),  # a value after a blank line prevents an implied None
    ],
)  # fmt: skip
def test_the_docstring_of_the_entry_point_alone_is_read(prompt: str, expected: tuple[str, ...]) -> None:
    assert visible_tests(prompt, "f") == tuple(f"assert {text}" for text in expected)


FRAGMENTS = st.sampled_from(
    [
        "f(", ")", "[", "]", "{", "}", "1", "-2", "'a'", '"', "'", '"""', "\\", "\n", " ", ",", ":", "...", "=", "==",
        "->", "=>", " returns ", "# ", ">>> ", "For x = ", " the output should be ", "Input: ", "Output: ", "x=", "**",
        "\0", ".", "def f(x):\n", "f(1) == 2", "0x" + "f" * 5000, "\ud800", "é", "f(" * 300, "round(", "True", "not ",
    ]
)  # fmt: skip


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=30).map("".join)))
def test_any_prompt_gives_asserts_that_call_the_entry_point(prompt: str) -> None:
    for test in visible_tests(prompt, "f"):
        (statement,) = ast.parse(test).body
        assert isinstance(statement, ast.Assert)
        assert isinstance(statement.test, ast.Compare)
        assert "f" in {node.func.id for node in ast.walk(statement) if isinstance(node, ast.Call)}
        ast.literal_eval(statement.test.comparators[0])
        compile(test, "test", "exec")
