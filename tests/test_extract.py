import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.extract import extract
from reflexion_lab.records import Task

TASK = Task(
    task_id="t",
    prompt='import math\n\ndef helper(x):\n    return x\n\ndef f(x: int) -> int:\n    """Doc."""\n',
    entry_point="f",
)


def value(reply):
    program, rule = extract(reply, TASK)
    space = {}
    exec(program, space)
    return space["f"](3), rule


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("Sure!\n```python\ndef f(x):\n    return helper(x) + math.floor(1.5)\n```\nDone.", "fence+function"),
        ("```\ndef f(x):\n    return helper(x) + 1\n", "fence+function"),
        ("def f(x):\n    return helper(x) + 1\n\nThis function adds one.", "function"),
        ("Here it is:\n\ndef f(x):\n    return helper(x) + 1", "function"),
        ("    return helper(x) + 1\n", "body"),
        ("```python\nreturn helper(x) + 1\n```", "fence+body"),
        ("<think>def f(x): wrong</think>\n```python\ndef f(x):\n    return 4\n```", "fence+function"),
        ("```python\nprint(1)\n```\nand\n```python\ndef f(x):\n    return 4\n```", "fence+function"),
        ("  ```python\n  def f(x):\n      return 4\n  ```", "fence+function"),
    ],
)
def test_a_program_is_found(reply, rule):
    assert value(reply) == (4, rule)


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "```python\n```", "<think>forever"])
def test_no_program_is_said_so(reply):
    assert extract(reply, TASK) == ("", "none")


@given(st.text())
def test_extraction_never_raises(reply):
    program, rule = extract(reply, TASK)
    assert (rule == "none") == (program == "")
