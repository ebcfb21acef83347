"""Records: what they derive from what they hold."""

import pytest

from reflexion_lab.records import Task


def canonical(solution, prompt="import math\n\ndef f(x):\n"):
    return Task(task_id="t", prompt=prompt, entry_point="f", canonical_solution=solution).canonical_program


def test_a_body_completes_the_prompt():
    assert canonical("    return x\n") == "import math\n\ndef f(x):\n    return x\n"
    assert canonical("    def f(y):\n        return y\n    return f(x)\n").startswith("import math")


@pytest.mark.parametrize(
    "program", ["def f(x):\n    return x", "import re\nasync def f(x): ...", "f = abs", "class f: 1"]
)
def test_a_program_that_defines_the_entry_point_stands_alone(program):
    assert canonical(program) == program


def test_a_longer_name_is_another_function():
    assert canonical("    return g(x)\n\ndef f_2(x):\n    return x\n").startswith("import math")


def test_without_a_solution_there_is_no_program():
    assert canonical("") == ""
