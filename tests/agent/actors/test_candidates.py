import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.candidates import Candidates
from reflexion_lab.records import Check, Evaluation, Recollection, Task, Trajectory, Usage
from reflexion_lab.tasks.evaluators.combined import Combined
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from tests import builders as make

COST = Usage(calls=1, prompt_tokens=7)


def program(body):
    return f"def double(x):\n    return {body}\n"


class Writes:
    """An actor that writes one program after another."""

    def __init__(self, *programs):
        self.programs, self.memories = iter(programs), []

    def act(self, task, recollection):
        self.memories.append(recollection)
        return Trajectory(
            solution=next(self.programs), strategy="x", usage=COST, others={"critic": COST},
            reply=f"{len(self.memories)}",
        )  # fmt: skip


@pytest.fixture
def three_tests(task):
    return replace(task, visible_tests=("assert double(2) == 4", "assert double(0) == 0", "assert double(3) == 6"))


def chosen(sandbox, task, rule, *programs, n=None):
    actor = Writes(*programs)
    return Candidates(actor, UnitTests(sandbox), n or len(programs), rule).act(task, Recollection())


@pytest.mark.parametrize("rule", ["best", "first"])
def test_a_type_error_makes_no_failing_candidate_the_better_one(sandbox, three_tests, rule):
    wrong, right = program("x * x"), "def double(x: int) -> str:\n    return 2 * x\n"
    trajectory = Candidates(Writes(wrong, right), Combined(sandbox), 2, rule).act(three_tests, Recollection())
    assert trajectory.solution == right


def test_the_submitted_candidates_run_counts_once(three_tests):
    class HalfASecond:
        def evaluate(self, task, trajectory):
            return Evaluation(passed=False, outcome="fail", reward=0.0, seconds=0.5)

    trajectory = Candidates(Writes("a", "b", "c"), HalfASecond(), 3, "best").act(three_tests, Recollection())
    attempt = make.attempt(trajectory=trajectory, evaluation=HalfASecond().evaluate(three_tests, trajectory))
    assert attempt.seconds == 1.5


def test_other_values_and_other_errors_are_other_behaviour():
    def judged(**check):
        return Evaluation(passed=False, outcome="fail", reward=0.0, checks=(Check(name="t", **check),))

    verdicts = iter(
        [judged(outcome="error", error_type="KeyError"), judged(outcome="error", error_type="NameError")]
        + [judged(outcome="fail", actual="1")] * 2
    )

    class Verdicts:
        def evaluate(self, task, trajectory):
            return next(verdicts)

    task = Task(task_id="t", prompt="", entry_point="f", visible_tests=("t",))
    assert Candidates(Writes(*"abcd"), Verdicts(), 4, "vote").act(task, Recollection()).solution == "c"


@pytest.mark.parametrize("rule", ["first", "best", "vote"])
def test_without_visible_tests_one_candidate_is_drawn(sandbox, task, rule):
    choice = chosen(sandbox, replace(task, visible_tests=()), rule, program("x"), program("2 * x"))
    assert (choice.solution, choice.ended, choice.usage) == (program("x"), "no_tests", COST)


def test_all_candidates_read_the_same_memory_are_steps_and_are_paid(sandbox, task):
    actor, memory = Writes(program("x"), program("2 * x")), Recollection(insights=("look twice",))
    choice = Candidates(actor, UnitTests(sandbox), 2, "best").act(task, memory)
    assert actor.memories == [memory, memory]
    assert [step.program for step in choice.steps] == [program("x"), program("2 * x")]
    assert "expected 4, got 2" in choice.steps[0].observation
    assert choice.steps[1].observation == "pass"
    assert [step.reply for step in choice.steps] == ["1", "2"]
    assert (choice.usage, choice.others, choice.strategy) == (COST + COST, {"critic": COST + COST}, "candidates")


@pytest.mark.parametrize(
    ("rule", "bodies", "index", "ended"),
    [
        ("first", ["x", "2 * x", "x + x"], 1, "passed"),
        ("first", ["7", "x * x", "4"], 1, "max_candidates"),
        ("best", ["4", "x * x", "x ** 2"], 1, "max_candidates"),
        ("vote", ["2 * x", "x + 1", "1 + x", "x - (-1)"], 1, "max_candidates"),
        ("vote", ["x + 1", "2 * x", "x * 2", "1 + x"], 0, "max_candidates"),
        ("vote", [None, None, "x"], 2, "max_candidates"),
    ],
)
def test_the_rule_selects_the_submitted_candidate(sandbox, three_tests, rule, bodies, index, ended):
    programs = ["" if body is None else program(body) for body in bodies]
    choice = chosen(sandbox, three_tests, rule, *programs)
    assert (choice.solution, choice.ended) == (programs[index], ended)
    drawn = index + 1 if ended == "passed" else len(programs)
    assert (len(choice.steps), choice.usage) == (drawn, sum([COST] * drawn, Usage()))


def test_the_selection_never_runs_a_hidden_test(sandbox, task):
    choice = chosen(sandbox, task, "best", program("4"), program("2 * x"))  # the first passes the visible test only
    assert choice.solution == program("4")
