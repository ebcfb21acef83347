from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.agent.reflectors.none import NoReflection
from reflexion_lab.agent.reflectors.placebo import Generic
from reflexion_lab.agent.reflectors.reviewed import Reviewed
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Check, Completion, Episode, Recollection, Reflection, Task, Usage
from reflexion_lab.text.prompts.render import Prompts
from tests import builders as make

TASK = Task(task_id="t/1", prompt="def add(a, b):\n", entry_point="add")
WRONG = Check(name="assert add(1, 2) == 3", outcome="fail", message="expected 3, got -1", line=2)
ATTEMPT = make.attempt(WRONG)
COST = Usage(calls=1, prompt_tokens=100, completion_tokens=40, seconds=0.5, cost=0.25)


def written(cause: str, wrong: str, change: str, text: str = "reply") -> Reflection:
    texts = {"root_cause": cause, "what_went_wrong": wrong, "what_to_change": change, "action_items": (change,)}
    return make.reflection(**texts, confidence=0.6, key_insight="k", lessons=("l",), text=text, usage=COST)


GOOD = written(
    "The operator in `return a - b` subtracts the second operand.",
    "For add(1, 2) that gave -1 where 3 was wanted.",
    "I will replace the minus by a plus.",
)
POOR = written("My code is wrong.", "The test failed.", "I will be more careful next time.", "poor reply")
VAGUE = written("The operator subtracts the second operand.", "add(1, 2) failed.", "I will be careful.")


class Gives:
    """A reflector that gives one answer after another, or raises it."""

    def __init__(self, *answers: Reflection | BaseException | None) -> None:
        self.answers = list(answers)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def reviewed(first: Reflector, policy: str, **options: Sequence[str]) -> Reflection:
    reflection = Reviewed(first, policy, **options).reflect(TASK, ATTEMPT, [])
    assert reflection is not None
    return reflection


def test_a_rejected_reflection_reaches_no_actor() -> None:
    reflection = reviewed(Gives(POOR), "reject")
    assert (
        reflection.root_cause == reflection.what_went_wrong == reflection.what_to_change == reflection.key_insight == ""
    )
    assert reflection.lessons == reflection.action_items == ()
    assert reflection.problem == "rejected: no_action, generic"
    assert (reflection.text, reflection.usage, reflection.confidence) == ("poor reply", COST, 0.6)
    assert "generic" in reflection.flags
    episode = Episode(
        agent_id="a", task_id="t/1", attempt_number=1, code="", test_results="", reflection=reflection, passed=False
    )
    for template in ("solve", "continue_solve"):
        prompt = Prompts().render(template, prompt=TASK.prompt, memory=Recollection(own=(episode,)))
        assert "careful" not in prompt
        assert "poor reply" not in prompt


def test_rejected_words_that_no_model_wrote_stand_in_the_text_and_the_rules_have_no_severe_flag() -> None:
    reflection = reviewed(Gives(replace(POOR, text="", problem="timeout: late")), "reject")
    assert POOR.root_cause in reflection.text
    assert POOR.what_to_change in reflection.text
    assert reflection.problem == "timeout: late; rejected: no_action, generic"
    reflection = reviewed(Rules(), "reject")
    assert not {"no_action", "generic", "duplicate", "short", "misses_check"} & set(reflection.flags)


def test_only_severe_flags_are_acted_on_and_the_policy_flag_changes_flags_only() -> None:
    reflection = reviewed(Gives(POOR), "reject", severe=("blames_externals",))
    assert "generic" in reflection.flags
    assert reflection.root_cause == POOR.root_cause
    reflection = reviewed(Gives(POOR), "flag")
    assert {"generic", "no_action"} <= set(reflection.flags)
    assert replace(reflection, flags=()) == POOR


def test_a_failed_model_without_rules_keeps_attempt_and_cost() -> None:
    paid = Completion(text="no fields here", model="m", usage=COST)
    failed = Reviewed(Gives(ReflectionError("parse_error", "lacks CONFIDENCE", paid)), "retry").reflect(
        TASK, ATTEMPT, []
    )
    assert (failed.source, failed.problem, failed.category) == ("failed", "parse_error: lacks CONFIDENCE", "assertion")
    assert (failed.text, failed.usage, failed.confidence_source) == ("no fields here", COST, "none")
    assert not failed.root_cause + failed.what_went_wrong + failed.what_to_change


FAILURE = ReflectionError("parse_error", "no fields", Completion(text="Sorry, I see.", model="m", usage=COST))


@pytest.mark.parametrize(
    ("answers", "expected", "usage"),
    [
        ([POOR, GOOD], GOOD, COST + COST), ([POOR, VAGUE], VAGUE, COST + COST), ([VAGUE, POOR], VAGUE, COST + COST),
        ([POOR, replace(POOR, text="another reply")], POOR, COST + COST), ([POOR, FAILURE], POOR, COST + COST),
        ([POOR, None], POOR, COST),
    ],
)  # fmt: skip
def test_a_retry_takes_the_better_reply_and_pays_for_both(answers, expected, usage):
    first = Gives(*answers, GOOD)
    reflection = reviewed(first, "retry")
    assert replace(reflection, flags=(), usage=COST) == expected
    assert (reflection.usage, first.answers) == (usage, [GOOD])
    if FAILURE in answers:
        assert reviewed(WithFallback(Gives(*answers), Rules()), "retry") == reflection


@pytest.mark.parametrize("policy", ["flag", "retry", "reject"])
def test_policies_keep_good_reflections_and_controls(policy: str) -> None:
    assert reviewed(Gives(GOOD), policy) == replace(GOOD, flags=())
    control = reviewed(Generic(), policy)
    assert "generic" in control.flags
    assert replace(control, flags=()) == Generic().reflect(TASK, ATTEMPT, [])
    assert Reviewed(NoReflection(), policy).reflect(TASK, ATTEMPT, []) is None
