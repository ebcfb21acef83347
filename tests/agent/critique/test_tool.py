import pytest
from msgspec.structs import replace

from reflexion_lab.agent.critique.tool_critic import SHOWN, ToolCritic
from reflexion_lab.records import Check, Evaluation, Usage
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

WRONG, RIGHT = "def double(x):\n    return x\n", "def double(x):\n    return 2 * x\n"


class Says:
    def __init__(self, **fields):
        self.evaluation = Evaluation(**{"passed": False, "outcome": "fail", "reward": 0.25} | fields)

    def evaluate(self, task, trajectory):
        self.program = trajectory.solution
        return self.evaluation


def test_a_failing_test_is_an_issue_in_words_and_no_hidden_test_or_value_is_told(sandbox, task):
    critique = ToolCritic(UnitTests(sandbox)).critique(task, WRONG)
    assert critique.issues == ("`assert double(2) == 4` -> expected 4, got 2",)
    assert (critique.severity, critique.score, critique.confidence, critique.source) == (1.0, 0.0, 1.0, "tests")
    assert (critique.messages, critique.usage) == ((), Usage())
    program = "def double(x):\n    return 4\n"  # passes what is shown, fails what is hidden
    critique = ToolCritic(UnitTests(sandbox)).critique(task, program)
    assert critique.severity == 0.0
    assert "-6" not in str(critique)


UNTOLD = "Nothing was found out: the task shows no test"
NOT_RUN = Says(outcome="harness_error", issues=("lint by ruff did not run: not found",))


@pytest.mark.parametrize(
    ("tool", "n", "program", "verdict", "issue"),
    [
        (UnitTests, 1, "", (1.0, 0.0, 1.0), "`assert double(2) == 4` -> no code for double was found in the reply"),
        (UnitTests, 0, WRONG, (1.0, None, 0.0), UNTOLD),
        (lambda _: NOT_RUN, 1, WRONG, (1.0, None, 0.0), "Nothing was found out: lint by ruff did not run: not found"),
        (lambda _: TrajectoryHeuristics(), 1, WRONG, (1.0, None, 0.0), UNTOLD),
    ],
    ids=["no program", "no test", "no tool", "heuristics"],
)
def test_without_a_program_it_is_a_failure_and_without_a_verdict_unknown(
    sandbox, task, tool, n, program, verdict, issue
):
    critique = ToolCritic(tool(sandbox)).critique(replace(task, visible_tests=task.visible_tests[:n]), program)
    assert (critique.severity, critique.score, critique.confidence) == verdict
    assert critique.issues == (issue,)


def test_a_linters_finding_counts_as_far_as_its_weight(task):
    critique = ToolCritic(StaticCheck("ruff"), weight=0.4).critique(task, "def double(x):\n    return 2 * y\n")
    assert (critique.severity, critique.score, critique.source) == (0.4, 0.0, "lint")
    assert 0 < critique.confidence <= 0.4
    assert "y" in critique.issues[0]
    assert ToolCritic(StaticCheck("ruff"), weight=0.4).critique(task, RIGHT).severity == 0.0


def test_confidence_and_suggestions_are_the_evaluators_and_further_checks_are_counted_and_bounded(task):
    evaluator = Says(confidence=0.6, suggestions=("Sort first.",), issues=("Too long.",), seconds=0.5)
    critique = ToolCritic(evaluator).critique(task, WRONG)
    assert (critique.severity, critique.score, critique.confidence) == (0.75, 0.25, 0.6)
    assert (critique.suggestions, critique.issues, critique.seconds) == (("Sort first.",), ("Too long.",), 0.5)
    assert evaluator.program == WRONG
    checks = tuple(Check(name=f"assert f({n}) " + "x" * 900, outcome="fail", message="m" * 900) for n in range(9))
    critique = ToolCritic(Says(checks=checks)).critique(task, WRONG)
    assert critique.issues[-1] == "6 more checks fail"
    assert len(critique.issues) == SHOWN + 1
    assert max(map(len, critique.issues)) < 500


@pytest.mark.parametrize("outcome", ["timeout", "memory", "early_exit", "fail"])
def test_an_outcome_without_a_message_is_put_into_words(task, outcome):
    (issue,) = (
        ToolCritic(Says(outcome=outcome, checks=(Check(name="assert f()", outcome=outcome),)))
        .critique(task, WRONG)
        .issues
    )
    assert issue.startswith("`assert f()` -> ")
    assert " " in issue.partition("-> ")[2]
