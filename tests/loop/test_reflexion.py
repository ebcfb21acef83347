import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.none import NoReflection
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import Budget, FirstOf, MaxAttempts, NoFeedback, Passed, Stuck, TimeOut
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.records import Check, Evaluation, Sampling, Usage
from reflexion_lab.tasks.evaluators.combined import weigh
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from tests import builders

REFLECTION = builders.reflection(what_to_change="multiply by two")
A_DRAFT = "```python\ndef double(x):\n    return x\n```"


def loop(model, sandbox, *, omega=1, max_attempts=3, threshold=1.0, reflector=None, **options):
    return Reflexion(
        actor=SingleShot(model, Sampling()),
        evaluator=UnitTests(sandbox),
        reflector=reflector or WithFallback(LLMReflector(model, Sampling()), Rules()),
        memory=EpisodicMemory(Window(omega)),
        stop=FirstOf(NoFeedback(), Passed(threshold), MaxAttempts(max_attempts), TimeOut(300)),
        **options,
    )


def test_words_carry_over_and_the_second_attempt_passes(model, sandbox, task):
    attempts = list(loop(model, sandbox).attempts(task.public))
    assert [attempt.evaluation.passed for attempt in attempts] == [False, True]
    assert attempts[0].reflection.what_to_change == "multiply by two"
    assert attempts[-1].stop_reason == "passed" and attempts[1].delta.is_improvement
    assert attempts[1].delta.error_count_change == -len(attempts[0].evaluation.failures) < 0
    retry = attempts[1].trajectory.messages[-1].content
    assert "Earlier attempts" in retry and "multiply by two" in retry
    assert attempts[1].trajectory.messages in [tuple(received) for received in model.received]
    assert attempts[1].recalled == ("ep-own/double-1",)
    read = " ".join(message.content for messages in model.received for message in messages)
    assert "-6" not in read and "== 10" not in read  # of the hidden tests
    assert (task.public.hidden_tests, task.public.canonical_solution) == ((), "")


@pytest.mark.parametrize("change", [{"omega": 0}, {"reflector": NoReflection()}])
def test_without_the_words_nothing_is_learnt(model, sandbox, task, change):
    attempts = list(loop(model, sandbox, **change).attempts(task.public))
    assert [attempt.evaluation.passed for attempt in attempts] == [False, False, False]
    assert [attempt.reflection is None for attempt in attempts] == ["reflector" in change] * 3
    assert attempts[-1].stop_reason == "max_attempts"


def test_a_confident_reflection_stops_nothing(model, sandbox, task):
    class Certain:
        def reflect(self, task, attempt, episodes):
            return replace(REFLECTION, what_to_change="try again", confidence=0.99)

    attempts = list(loop(model, sandbox, reflector=Certain()).attempts(task.public))
    assert [attempt.stop_reason for attempt in attempts] == ["", "", "max_attempts"]


def test_memory_that_fails_loses_no_attempt(model, sandbox, task):
    forgetful = loop(model, sandbox)
    forgetful.memory.remember = lambda task, attempt: 1 / 0
    attempts = forgetful.attempts(task.public)
    assert next(attempts).number == 1
    with pytest.raises(ZeroDivisionError):
        next(attempts)


def test_a_broken_harness_and_a_task_without_visible_tests_end_the_loop_without_words(model, sandbox, task):
    broken = loop(model, sandbox)
    broken.evaluator = Half("harness_error")
    (attempt,) = broken.attempts(task.public)
    assert (attempt.stop_reason, attempt.reflection) == ("harness_error", None)
    assert len(model.received) == 1
    bare = type(task)(task_id="t", prompt=task.prompt, entry_point="double")
    (attempt,) = loop(model, sandbox).attempts(bare)
    assert attempt.stop_reason == "no_feedback" and attempt.reflection is None


@pytest.mark.parametrize(("rule", "reason"), [(Budget(calls=2), "budget"), (TimeOut(300), "timeout")])
def test_what_reflecting_used_up_is_not_there_for_another_attempt(sandbox, task, rule, reason):
    def reflected(*_):
        return replace(REFLECTION, usage=Usage(calls=1, seconds=400.0))

    reflector = type("Slow", (), {"reflect": reflected})
    model = ScriptedModel(lambda _: A_DRAFT)
    attempts = loop(model, sandbox, reflector=reflector)
    attempts.stop = FirstOf(MaxAttempts(3), rule)
    (attempt,) = attempts.attempts(task.public)
    assert attempt.stop_reason == reason and attempt.reflection is not None


def test_what_breaks_names_stage_task_and_attempt(sandbox, task):
    def broken(messages):
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power") as caught:
        list(loop(ScriptedModel(broken), sandbox).attempts(task.public))
    assert caught.value.__notes__ == ["while acting: task own/double, attempt 1"]


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: Passed(1.5), "Passed.threshold: got 1.5, expected above 0, at most 1"),
        (lambda: Passed(0), "Passed.threshold: got 0"),
        (lambda: MaxAttempts(0), "MaxAttempts.max_attempts: got 0"),
        (lambda: TimeOut(0), "TimeOut.seconds: got 0, expected above 0"),
        (lambda: loop(None, None, reflect_below=0), r"Reflexion\.reflect_below: got 0"),
    ],
)
def test_impossible_rules_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()


def test_actor_knows_its_attempt_number_and_what_recurs_of_what_it_recalls(sandbox, task):
    model = ScriptedModel(lambda _: A_DRAFT)
    items = list(loop(model, sandbox, reflector=NoReflection(), stuck=Stuck(3)).attempts(task.public))
    read = [attempt.trajectory.messages[-1].content for attempt in items]
    assert ["take a different approach" in text for text in read] == [False, False, True]
    assert "The last 2 attempts were the same program." in read[2]
    items = list(loop(model, sandbox, omega=0, reflector=NoReflection(), stuck=Stuck(2)).attempts(task.public))
    assert len({attempt.trajectory.messages for attempt in items}) == 1


def test_what_the_prompt_had_no_room_for_was_not_recalled(sandbox, task):
    model = ScriptedModel(lambda _: A_DRAFT, context=300)
    items = list(loop(model, sandbox, omega="all", max_attempts=4).attempts(task.public))
    last = items[-1]
    assert last.trajectory.left_out
    assert {*last.recalled, *last.trajectory.left_out} == {f"ep-own/double-{n}" for n in (1, 2, 3)}
    assert last.memory.in_context == len(last.recalled) < 3
    for attempt in items:
        for name in attempt.recalled:
            assert f"Attempt {name[-1]}:" in attempt.trajectory.messages[-1].content


class Half:
    """Judges every program as half right."""

    def __init__(self, outcome, passed=False):
        self.verdict = Evaluation(passed=passed, outcome=outcome, reward=0.5)

    def evaluate(self, task, trajectory):
        return self.verdict


@pytest.mark.parametrize(
    ("outcome", "options", "reflects"),
    [
        ("fail", {}, True), ("fail", {"reflect_on_last": False}, False), ("pass", {}, False),
        ("pass", {"reflect_on_success": True}, True), ("fail", {"reflect_below": 1.0}, True),
        ("fail", {"reflect_below": 0.5}, False), ("fail", {"reflect_below": 0.6}, True),
        ("timeout", {"reflect_below": 0.5}, True), ("error", {"reflect_below": 0.1}, True),
    ],
)  # fmt: skip
def test_what_is_reflected_on_depends_on_the_outcome_and_its_options(model, sandbox, task, outcome, options, reflects):
    """Near a pass it is only what broke."""
    attempts = loop(model, sandbox, max_attempts=1, reflector=Rules(), **options)
    attempts.evaluator = Half(outcome, passed=outcome == "pass")
    (attempt,) = attempts.attempts(task.public)
    assert (attempt.reflection is not None) == reflects


def test_a_reward_of_exactly_reflect_below_gets_no_reflection(model, sandbox, task):
    """Clean types and lint; what the tests add is exact only in decimals."""
    clean = Evaluation(passed=True, outcome="pass", reward=1.0)
    for passing in range(1, 10):
        checks = tuple(Check(name=str(n), outcome="pass" if n < passing else "fail") for n in range(10))
        tests = Evaluation(passed=False, outcome="fail", reward=passing / 10, checks=checks)
        attempts = loop(model, sandbox, max_attempts=1, reflector=Rules(), reflect_below=(passing + 10) / 20)
        attempts.evaluator = Half("fail")
        attempts.evaluator.verdict = weigh({"tests": 0.5, "types": 0.3, "lint": 0.2}, tests, clean, clean)
        (attempt,) = attempts.attempts(task.public)
        assert attempt.reflection is None, passing
