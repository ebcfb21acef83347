import pytest

from reflexion_lab.agent.critique.targeted_reviser import Targeted, missing_imports, missing_return, stray_text
from reflexion_lab.agent.critique.tool_critic import ToolCritic
from reflexion_lab.records import Critique, Trajectory, Usage
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests


class Asked:
    """A reviser that counts how often it was asked."""

    def __init__(self):
        self.times = 0

    def revise(self, task, program, critique):
        self.times += 1
        return Trajectory(solution="asked", strategy="revise", usage=Usage(calls=1))


def critique(*issues):
    return Critique(severity=1.0, issues=issues, source="tests")


@pytest.mark.parametrize(
    ("program", "mended"),
    [
        ("def double(x):\n    return math.fsum([x, x])\n", True),
        ("Sure, here is the function:\n\ndef double(x):\n    return 2 * x\n\nIt doubles x, of course!\n", True),
        ("def double(x):\n    return 2 * x\n```\nThis function returns twice its argument.\n", True),
        ("def double(x):\n    result = 2 * x\n", True), ("def double(x):\n    x + x\n", True),
        ("def double(x: List[int]):\n    return x + x\n", True), ("def double(x):\n    return x\n", False),
        ("def double(x):\n    return mathematics(x)\n", False),
    ],
)  # fmt: skip
def test_fixed_programs_pass_and_others_go_to_the_fallback(sandbox, task, program, mended):
    critic, fallback = ToolCritic(UnitTests(sandbox)), Asked()
    before = critic.critique(task, program)
    revision = Targeted(fallback).revise(task, program, before)
    assert before.severity == 1.0
    assert fallback.times == (0 if mended else 1)
    if mended:
        assert critic.critique(task, revision.solution).severity == 0.0
        assert (revision.strategy, revision.usage, revision.messages) == ("targeted", Usage(), ())
        assert revision.extraction in revision.rationale


def test_nothing_is_touched_that_no_issue_points_at(task):
    for program in (
        "def double(x):\n    math.sqrt(x)\n",
        "Sure!\ndef double(x): return x\n",
        "def double(x):\n    y = x\n",
    ):
        fallback = Asked()
        assert Targeted(fallback).revise(task, program, critique("expected 4, got 2")).solution == "asked"
        assert fallback.times == 1


def test_undefined_standard_names_are_imported(task):
    issue = "NameError: name 'math' is not defined; name 'helper' is not defined; undefined name `deque`"
    assert missing_imports(task, "x = math.pi\n", issue) == "import math\nx = math.pi\n"
    assert missing_imports(task, "x = deque()\n", issue) == "from collections import deque\nx = deque()\n"
    assert missing_imports(task, "x = helper()\n", issue) == "x = helper()\n"
    assert missing_imports(task, "math = 3\nx = math\n", issue) == "math = 3\nx = math\n"
    assert missing_imports(task, "x = re.I\n", issue) == "x = re.I\n"
    assert missing_imports(task, "x = = math", issue) == "x = = math"
    future = "from __future__ import annotations\n"
    assert missing_imports(task, f"{future}x = math.pi\n", issue) == f"{future}import math\nx = math.pi\n"


def test_text_goes_only_where_a_definition_remains(task):
    assert stray_text(task, "no code at all, sorry!", "SyntaxError: invalid syntax") == "no code at all, sorry!"
    broken = "def double(x):\n    return 2 *\n\nprint(double(2))\n"
    assert stray_text(task, broken, "SyntaxError: invalid syntax") == broken
    assert stray_text(task, "def double(x):\n    return x\n", "SyntaxError") == "def double(x):\n    return x\n"


@pytest.mark.parametrize(
    "program",
    [
        "def double(x):\n    return None\n", "def double(x):\n    print(2 * x)\n", 'def double(x):\n    "Twice x."\n',
        "def double(x):\n    for y in [x]:\n        z = y\n", "def double(x): y = 2 * x\n",
        "def other(x):\n    y = x\n", "def double(x):\n\ty = 2 * x\n",
    ],
)  # fmt: skip
def test_a_return_is_added_only_behind_a_last_value(task, program):
    assert missing_return(task, program, "expected 4, got None") == program


def test_a_returned_value_keeps_its_lines_and_several_rules_may_apply_at_once(task):
    program = "def double(x):\n    y = [\n        x,\n    ]\n\n\nz = 1\n"
    assert (
        missing_return(task, program, "got None")
        == "def double(x):\n    y = [\n        x,\n    ]\n    return y\n\n\nz = 1\n"
    )
    assert missing_return(task, "def double(x):\n    x += x", "got None") == "def double(x):\n    x += x\n    return x"
    program = "def double(x):\n    y = math.fsum([x, x])\n"
    revision = Targeted(Asked()).revise(task, program, critique("name 'math' is not defined", "expected 4, got None"))
    assert revision.solution == "import math\ndef double(x):\n    y = math.fsum([x, x])\n    return y\n"
    assert revision.extraction == "missing_imports, missing_return"
