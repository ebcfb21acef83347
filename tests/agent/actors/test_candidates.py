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
            solution=next(self.programs),
            strategy="x",
            usage=COST,
            others={"critic": COST},
            reply=f"{len(self.memories)}",
        )


@pytest.fixture
def three_tests(task):
    return replace(task, visible_tests=("assert double(2) == 4", "assert double(0) == 0", "assert double(3) == 6"))


def chosen(sandbox, task, rule, *programs, n=None):
    actor = Writes(*programs)
    return Candidates(actor, UnitTests(sandbox), n or len(programs), rule).act(task, Recollection())


def test_first_stops_at_the_first_that_passes(sandbox, three_tests):
    choice = chosen(sandbox, three_tests, "first", program("x"), program("2 * x"), program("x + x"))
    assert (choice.solution, choice.ended, len(choice.steps)) == (program("2 * x"), "passed", 2)
    assert choice.usage == COST + COST


def test_first_takes_the_best_where_none_passes(sandbox, three_tests):
    choice = chosen(sandbox, three_tests, "first", program("7"), program("x * x"), program("4"))
    assert (choice.solution, choice.ended) == (program("x * x"), "max_candidates")


def test_best_has_the_highest_rank_and_ties_go_to_the_earlier(sandbox, three_tests):
    choice = chosen(sandbox, three_tests, "best", program("4"), program("x * x"), program("x ** 2"))
    assert choice.solution == program("x * x")


@pytest.mark.parametrize("rule", ["best", "first"])
def test_a_type_error_makes_no_failing_candidate_the_better_one(sandbox, three_tests, rule):
    wrong, right = program("x * x"), "def double(x: int) -> str:\n    return 2 * x\n"
    trajectory = Candidates(Writes(wrong, right), Combined(sandbox), 2, rule).act(three_tests, Recollection())
    assert trajectory.solution == right


def test_the_run_of_the_candidate_that_is_handed_in_counts_once(three_tests):
    class HalfASecond:
        def evaluate(self, task, trajectory):
            return Evaluation(passed=False, outcome="fail", reward=0.0, seconds=0.5)

    made = Candidates(Writes("a", "b", "c"), HalfASecond(), 3, "best").act(three_tests, Recollection())
    attempt = make.attempt(trajectory=made, evaluation=HalfASecond().evaluate(three_tests, made))
    assert attempt.seconds == 1.5


def test_vote_takes_the_largest_group_that_behaves_alike(sandbox, three_tests):
    programs = program("2 * x"), program("x + 1"), program("1 + x"), program("x - (-1)")
    assert chosen(sandbox, three_tests, "vote", *programs).solution == program("x + 1")


def test_vote_ties_go_to_the_group_that_came_first(sandbox, three_tests):
    programs = program("x + 1"), program("2 * x"), program("x * 2"), program("1 + x")
    assert chosen(sandbox, three_tests, "vote", *programs).solution == program("x + 1")


def test_replies_without_a_program_have_no_vote(sandbox, three_tests):
    assert chosen(sandbox, three_tests, "vote", "", "", program("x")).solution == program("x")


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


def test_all_candidates_are_steps_and_are_paid(sandbox, task):
    choice = chosen(sandbox, task, "best", program("x"), program("2 * x"))
    assert [step.program for step in choice.steps] == [program("x"), program("2 * x")]
    assert "expected 4, got 2" in choice.steps[0].observation
    assert choice.steps[1].observation == "pass"
    assert [step.reply for step in choice.steps] == ["1", "2"]
    assert (choice.usage, choice.others, choice.strategy) == (COST + COST, {"critic": COST + COST}, "candidates")


def test_all_candidates_read_the_same_memory(sandbox, task):
    actor, memory = Writes(program("x"), program("x")), Recollection(insights=("look twice",))
    Candidates(actor, UnitTests(sandbox), 2).act(task, memory)
    assert actor.memories == [memory, memory]


def test_the_selection_never_runs_a_hidden_test(sandbox, task):
    choice = chosen(sandbox, task, "best", program("4"), program("2 * x"))  # the first passes what is shown
    assert choice.solution == program("4")
