from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.fields import GRAMMAR, LABELS, SERVICE, SESSION, SUCCESS
from reflexion_lab.agent.reflectors.llm import LLMReflector, ReflectionError
from reflexion_lab.agent.reflectors.reviewed import flags
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.errors import ModelError
from reflexion_lab.protocols import Model, Reflector
from reflexion_lab.records import Attempt, Check, Episode, Evaluation, Reflection, Sampling, Task, Usage
from reflexion_lab.text.prompts.asking import room
from reflexion_lab.text.prompts.render import Prompts, known_examples
from reflexion_lab.text.shorten import estimated
from tests import builders as make

REPLY = """ROOT_CAUSE: The line `return a - b` subtracts.
WHAT_WENT_WRONG: 1 - 2 is -1, not 3.
WHAT_TO_CHANGE: I will write a + b.
CONFIDENCE: 90%"""
COST = Usage(calls=1, prompt_tokens=100, completion_tokens=40, seconds=0.5)
TASK = Task(task_id="t/1", prompt='def add(a, b):\n    """The sum."""\n', entry_point="add")
CODE = "def add(a, b):\n    return a - b\n"
WRONG = Check(name="assert add(1, 2) == 3", outcome="fail", message="expected 3, got -1", line=2)


def says(reply: str | BaseException, finish_reason: str = "stop", context: int = 0) -> make.Replies:
    return make.Replies(reply, context, finish_reason=finish_reason, usage=COST)


def attempt_with(*checks: Check, number: int = 2, solution: str = CODE, reply: str = "") -> Attempt:
    judged = {"outcome": "fail" if checks else "extraction_failed"}
    return make.attempt(*checks, judged=judged, acted={"solution": solution, "reply": reply}, number=number)


def episode(number: int, root_cause: str = "", what_to_change: str = "") -> Episode:
    texts = {"root_cause": root_cause or f"cause {number}.", "what_to_change": what_to_change or f"change {number}."}
    return make.episode(number, reflection=make.reflection(number, **texts))


def prompt_for(attempt: Attempt, episodes: Sequence[Episode] = (), task: Task = TASK, **bounds: int) -> str:
    model = says(REPLY)
    LLMReflector(model, Sampling(), **bounds).reflect(task, attempt, episodes)
    return model.prompt


def test_parts_fulfil_their_protocols() -> None:
    model: Model = says(REPLY)
    reflector: Reflector = WithFallback(LLMReflector(model, Sampling()), Rules())
    assert reflector.reflect(TASK, attempt_with(WRONG), []) is not None


def test_reply_becomes_a_reflection_with_its_text_and_cost() -> None:
    reflection = LLMReflector(says(REPLY), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert reflection == Reflection(
        reflection_id="t/1#2",
        about_attempt=2,
        root_cause="The line `return a - b` subtracts.",
        what_went_wrong="1 - 2 is -1, not 3.",
        what_to_change="I will write a + b.",
        confidence=0.9,
        source="llm",
        category="assertion",
        action_items=("I will write a + b.",),
        text=REPLY,
        usage=COST,
    )


def test_the_configured_sampling_reaches_the_model() -> None:
    model, sampling = says(REPLY), Sampling(max_tokens=160, grammar=GRAMMAR)
    LLMReflector(model, sampling).reflect(TASK, attempt_with(WRONG), [])
    ((messages, received, sample),) = model.asked
    assert [message.role for message in messages] == ["user"]
    assert (received, sample) == (sampling, 0)


def test_prompt_holds_labels_task_attempt_code_and_evidence() -> None:
    prompt = prompt_for(attempt_with(WRONG))
    assert all(f"{label}:" in prompt for label in LABELS)
    assert TASK.prompt.strip() in prompt
    assert "Attempt: 2" in prompt
    assert CODE.strip() in prompt
    assert "`assert add(1, 2) == 3` -> expected 3, got -1 (line 2: return a - b)" in prompt


def test_prompt_names_every_failing_check_and_no_passing_one() -> None:
    passing = Check(name="assert add(0, 0) == 0", outcome="pass")
    other = Check(name="assert add(2, 2) == 4", outcome="timeout")
    prompt = prompt_for(attempt_with(passing, WRONG, other))
    assert WRONG.name in prompt
    assert other.name in prompt
    assert passing.name not in prompt


def test_hidden_tests_never_reach_the_model() -> None:
    task = Task(
        task_id="t/1",
        prompt="p",
        entry_point="f",
        hidden_tests=("assert secret",),
        canonical_solution="solved",
    )
    prompt = prompt_for(attempt_with(WRONG), task=task)
    assert "secret" not in prompt
    assert "solved" not in prompt


def test_without_priors_the_prompt_says_none() -> None:
    assert "Prior Reflections: None" in prompt_for(attempt_with(WRONG))


def test_with_a_prior_the_prompt_holds_its_cause_and_change_and_no_none() -> None:
    prompt = prompt_for(attempt_with(WRONG), [episode(1)])
    assert "Reflection 1: cause 1." in prompt
    assert "change 1." in prompt
    assert "None" not in prompt


def test_the_newest_priors_are_shown_in_their_order() -> None:
    episodes = [episode(number) for number in range(1, 6)]
    prompt = prompt_for(attempt_with(WRONG), episodes)
    assert [f"cause {n}." in prompt for n in range(1, 6)] == [False, False, True, True, True]
    assert prompt.index("Reflection 1: cause 3.") < prompt.index("Reflection 3: cause 5.")


def test_no_prior_is_shown_when_none_is_wanted() -> None:
    assert "Prior Reflections: None" in prompt_for(attempt_with(WRONG), [episode(1)], max_priors=0)


def test_without_a_program_the_reply_is_shown_and_named_as_such() -> None:
    prompt = prompt_for(attempt_with(solution="", reply="I cannot do that."))
    assert "I cannot do that." in prompt
    assert "no program could be found in my reply" in prompt


def test_lengths_in_the_prompt_are_bounded() -> None:
    task = Task(task_id="t/1", prompt="d" * 10_000, entry_point="f")
    checks = [Check(name="e" * 200, outcome="error", message="e" * 10_000) for _ in range(50)]
    long = episode(1, root_cause="p" * 10_000, what_to_change="p" * 10_000)
    attempt = attempt_with(*checks, solution="c" * 10_000)
    prompt = prompt_for(attempt, [long] * 9, task)
    frame = prompt_for(attempt_with(WRONG, solution="-"), [], Task(task_id="t", prompt="-", entry_point="f"))
    for letter, limit in {"d": 1000, "e": 2000, "c": 2000, "p": 1200}.items():
        assert limit * 0.8 < prompt.count(letter * 50) * 50 <= limit
    assert len(prompt) < 1000 + 2000 + 2000 + 1200 + len(frame) + 200


@pytest.mark.parametrize(("length", "limit"), make.pairwise((10, 11, 1000), (1, 2, 10, 11)))
def test_a_bound_is_exact_and_spares_what_fits(length: int, limit: int) -> None:
    task = Task(task_id="t", prompt="λ" * length, entry_point="f")
    prompt = prompt_for(attempt_with(WRONG), task=task, max_description=limit)
    shown = prompt.count("λ") + prompt.count("…")
    assert shown == min(length, limit)
    assert ("…" in prompt) == (length > limit)


def test_both_ends_of_a_long_program_stay() -> None:
    prompt = prompt_for(attempt_with(WRONG, solution=f"def first(): ...\n{'#' * 9000}\nreturn 'last'"))
    assert "def first()" in prompt
    assert "return 'last'" in prompt


def late() -> ModelError:
    error = ModelError("the server gave no answer")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ModelError("the server is gone"), "generation_failed"),
        (TimeoutError("30 s are over"), "timeout"),
        (TimeoutError(), "timeout"),
        (late(), "timeout"),
        ("I am not sure what happened.", "parse_error"),
        ("", "parse_error"),
    ],
)
def test_failures_are_typed_and_say_why(answer: str | BaseException, kind: str) -> None:
    with pytest.raises(ReflectionError) as caught:
        LLMReflector(says(answer), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert caught.value.kind == kind
    assert str(answer) in str(caught.value) or kind == "parse_error"
    assert str(caught.value)


def test_a_reply_that_cannot_be_read_keeps_its_text_and_cost() -> None:
    with pytest.raises(ReflectionError, match=r"CONFIDENCE.*cut at max_tokens") as caught:
        LLMReflector(says(REPLY[:-20], "length"), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (caught.value.text, caught.value.usage) == (REPLY[:-20], COST)


def test_a_call_that_failed_costs_nothing() -> None:
    with pytest.raises(ReflectionError) as caught:
        LLMReflector(says(ModelError("gone")), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (caught.value.text, caught.value.usage) == ("", Usage())


@pytest.mark.parametrize(
    ("answer", "problem", "text", "usage"),
    [
        ("no labels here", "parse_error: the reply lacks ROOT_CAUSE", "no labels here", COST),
        (ModelError("the server is gone"), "generation_failed: the server is gone", "", Usage()),
        (TimeoutError("30 s are over"), "timeout: 30 s are over", "", Usage()),
    ],
)
def test_rules_step_in_and_say_so(answer: str | BaseException, problem: str, text: str, usage: Usage) -> None:
    reflector = WithFallback(LLMReflector(says(answer), Sampling()), Rules())
    reflection = reflector.reflect(TASK, attempt_with(WRONG), [episode(1)])
    rules = Rules().reflect(TASK, attempt_with(WRONG), [episode(1)])
    assert reflection is not None
    assert reflection.source == "fallback:assertion"
    assert reflection.problem.startswith(problem)
    assert (reflection.text, reflection.usage) == (text, usage)
    assert reflection.confidence == rules.confidence == 0.45
    assert reflection.action_items == rules.action_items


def test_rules_stay_silent_when_the_model_speaks() -> None:
    reflector = WithFallback(LLMReflector(says(REPLY), Sampling()), Rules())
    reflection = reflector.reflect(TASK, attempt_with(WRONG), [])
    assert reflection is not None
    assert (reflection.source, reflection.problem) == ("llm", "")


@pytest.mark.parametrize("error", [KeyError("a bug"), RuntimeError("a bug"), KeyboardInterrupt()])
def test_an_error_of_the_program_is_not_swallowed(error: BaseException) -> None:
    reflector = WithFallback(LLMReflector(says(error), Sampling()), Rules())
    with pytest.raises(type(error)):
        reflector.reflect(TASK, attempt_with(WRONG), [])


def test_a_program_that_continues_the_prompt_is_shown_without_it() -> None:
    whole = TASK.prompt.rstrip() + "\n    return a - b\n"
    prompt = prompt_for(attempt_with(WRONG, solution=whole))
    assert prompt.count(TASK.prompt.strip()) == 1
    assert "```python\n    return a - b\n```" in prompt


def fitted(
    context: int, task: Task, attempt: Attempt, episodes: Sequence[Episode], examples: int = 0
) -> tuple[str, int]:
    """The prompt, and how long it may be."""
    model, sampling = says(REPLY, context=context), Sampling(max_tokens=192)
    LLMReflector(model, sampling, Prompts(examples=examples)).reflect(task, attempt, episodes)
    limit = room(model, sampling)
    assert limit is not None
    return model.prompt, limit


LONG = Task(task_id="t/1", prompt="a description of it " * 60, entry_point="f")
WORST = Task(task_id="t/1", prompt="€" * 3000, entry_point="f")


def test_the_prompt_never_exceeds_the_models_context() -> None:
    letters, contexts = ("x = [1, 2] * 9  # why\n", "é€…", "}"), (600, 900, 1300, 2048, 8192)
    for task, letter, context in make.pairwise((TASK, LONG, WORST), letters, contexts):
        checks = [Check(name=letter * 60, outcome="error", error_type="E", message=letter * 90) for _ in range(9)]
        attempt = attempt_with(*checks, solution=letter * 3000)
        episodes = [episode(n, letter * 90, letter * 90) for n in (1, 2, 3)]
        prompt, limit = fitted(context, task, attempt, episodes, examples=3)
        assert estimated(prompt) <= limit, context
        assert "Attempt: 2" in prompt, context


def test_examples_go_first_then_the_oldest_priors_then_program_and_evidence() -> None:
    attempt, episodes = attempt_with(WRONG, solution="y = 1\n" * 300), [episode(1), episode(2)]
    names = [example.prompt.splitlines()[0] for example in known_examples()]
    seen = set()
    for context in range(4000, 500, -20):
        prompt, _ = fitted(context, TASK, attempt, episodes, examples=3)
        total = sum(name in prompt for name in names)
        told = ["cause 1." in prompt, "cause 2." in prompt]
        whole = prompt.count("y = 1") >= 280
        assert names[:total] == [name for name in names if name in prompt]
        assert told == [True, True] or total == 0
        assert told in ([True, True], [False, True], [False, False])
        assert whole or told == [False, False]
        assert TASK.prompt.strip() in prompt
        seen.add((total, *told, whole))
    assert {(3, True, True, True), (0, True, True, True), (0, False, True, True), (0, False, False, False)} <= seen


def test_a_model_whose_context_is_unknown_gets_the_whole_prompt() -> None:
    model = says(REPLY)
    LLMReflector(model, Sampling(), Prompts(examples=3)).reflect(TASK, attempt_with(WRONG), [])
    assert all(example.root_cause in model.prompt for example in known_examples())


@pytest.mark.parametrize("examples", [0, 1, 3])
def test_so_many_examples_stand_before_the_question_as_the_config_asks_for(examples: int) -> None:
    model = says(REPLY)
    LLMReflector(model, Sampling(), Prompts(examples=examples)).reflect(TASK, attempt_with(WRONG), [])
    items = [example for example in known_examples() if example.wrong.strip() in model.prompt]
    assert items == list(known_examples()[:examples])
    for example in items:
        for text in (example.evidence, example.root_cause, example.what_went_wrong, example.what_to_change):
            assert model.prompt.index(text) < model.prompt.index("Attempt: 2")


def test_an_example_speaks_as_the_grammar_demands() -> None:
    example = known_examples()[0]
    prompt = Prompts(examples=1).render("reflect", description="d", number=1, code="c", evidence="e", priors=[])
    for opening, text in {
        "ROOT_CAUSE: My mistake is that": example.root_cause,
        "WHAT_WENT_WRONG: The check failed because": example.what_went_wrong,
        "WHAT_TO_CHANGE: In my function I will": example.what_to_change,
    }.items():
        assert opening in GRAMMAR
        assert f"{opening} {text}" in prompt


def test_the_lesson_of_a_prior_is_told() -> None:
    prior = episode(1)
    assert prior.reflection is not None
    taught = replace(prior, reflection=replace(prior.reflection, lessons=("Check signs.",)))
    assert "My change then: change 1. Lesson: Check signs." in prompt_for(attempt_with(WRONG), [taught])
    assert "Lesson:" not in prompt_for(attempt_with(WRONG), [prior])


def test_words_that_were_rejected_are_no_prior() -> None:
    prior = episode(1)
    assert prior.reflection is not None
    rejected = replace(prior, reflection=replace(prior.reflection, root_cause="", what_to_change=""))
    assert "Prior Reflections: None" in prompt_for(attempt_with(WRONG), [rejected])


def test_all_that_the_reply_says_enters_the_reflection() -> None:
    reply = f"WHAT_WORKED: The loop.\nKEY_INSIGHT: Mind signs.\nLESSONS: Test zero.\n{REPLY}"
    reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (reflection.what_worked, reflection.key_insight) == ("The loop.", "Mind signs.")
    assert reflection.lessons == ("Test zero.",)


def test_a_reply_in_json_may_name_its_own_category_and_action_items() -> None:
    reply = (
        '{"category": "edge_case_miss", "analysis": "I forgot zero.", "suggestion": "Guard zero.", '
        '"actionItems": ["add a guard", "try zero"], "confidence": 0.7}'
    )
    reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (reflection.category, reflection.action_items) == ("edge_case_miss", ("add a guard", "try zero"))


PASSED = Check(name="assert add(0, 0) == 0", outcome="pass")


def passed_attempt() -> Attempt:
    attempt = attempt_with(PASSED)
    return replace(attempt, evaluation=Evaluation(passed=True, outcome="pass", reward=1.0, checks=(PASSED,)))


def test_of_a_success_the_model_is_asked_what_worked() -> None:
    model = says(f"WHAT_WORKED: The operator is right.\n{REPLY}")
    sampling = Sampling(grammar=GRAMMAR)
    reflection = LLMReflector(model, sampling).reflect(TASK, passed_attempt(), [])
    assert reflection.what_worked == "The operator is right."
    assert reflection.category == "unknown"
    assert "WHAT_WORKED:" in model.prompt
    assert all(f"{label}:" in model.prompt for label in LABELS)
    assert PASSED.name in model.prompt
    assert "failed" not in model.prompt
    ((_, received, _),) = model.asked
    assert received == replace(sampling, grammar=SUCCESS)


def test_an_unconstrained_reflector_sends_no_grammar() -> None:
    for attempt in (attempt_with(WRONG), passed_attempt()):
        model = says(REPLY)
        LLMReflector(model, Sampling(grammar=GRAMMAR), constrained=False).reflect(TASK, attempt, [])
        assert model.asked[0][1].grammar == ""


SERVED = (
    '{"category": "test_gap", "analysis": "I subtract b in line two", "suggestion": "I add b to a instead",'
    ' "actionItems": ["I change the operator now"], "confidence": 0.75}'
)
SAID = (
    '{"what_worked": "The signature is just right", "what_failed": "I subtract instead of adding",'
    ' "root_cause": "I subtract b in line two", "strategy_change": "I add b to a instead",'
    ' "key_insight": "Read which operator is asked"}'
)


@pytest.mark.parametrize(("shape", "reply", "grammar"), [("service", SERVED, SERVICE), ("session", SAID, SESSION)])
@pytest.mark.parametrize("passed", [False, True])
def test_json_is_asked_for_constrained_and_understood(shape: str, reply: str, grammar: str, passed: bool) -> None:
    model, attempt = says(reply), passed_attempt() if passed else attempt_with(WRONG)
    reflection = LLMReflector(model, Sampling(), shape=shape).reflect(TASK, attempt, [])
    assert (reflection.root_cause, reflection.what_to_change) == ("I subtract b in line two", "I add b to a instead")
    assert reflection.category == ("test_gap" if shape == "service" else "unknown" if passed else "assertion")
    assert model.asked[0][1].grammar == grammar
    assert all(f'"{key}":' in model.prompt for key in json.loads(reply))
    assert ("Checks that passed:" if passed else "Failing checks:") in model.prompt


def test_a_reply_that_only_speaks_of_confidence_states_none() -> None:
    speaks = SAID.replace("Read which", "Misplaced confidence: read which")
    for reply, expected in ((SAID, "none"), (speaks, "none"), (SERVED, "stated"), (REPLY, "stated")):
        reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt_with(WRONG), [])
        assert reflection.confidence_source == expected


@pytest.mark.parametrize(
    ("stated", "confidence", "source"),
    [
        ("high", 0.5, "none"),
        ("very low", 0.5, "none"),
        ("250", 0.5, "none"),
        ("9", 0.9, "stated"),
        ("0", 0.0, "stated"),
    ],
)
def test_a_confidence_that_is_no_number_is_none_and_the_words_are_kept(
    stated: str, confidence: float, source: str
) -> None:
    attempt = attempt_with(WRONG, number=2)
    reply = f"ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: {stated}"
    reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt, [])
    assert (reflection.confidence, reflection.confidence_source, reflection.source) == (confidence, source, "llm")
    assert (reflection.root_cause, reflection.what_to_change) == ("a", "c")
    judged = set(flags(reflection, attempt, [])) & {"low_confidence", "unsupported_confidence"}
    assert judged == {"9": {"unsupported_confidence"}, "0": {"low_confidence"}}.get(stated, set())


@pytest.mark.parametrize("grammar", [SERVICE, SESSION])
def test_a_grammar_defines_every_rule_that_it_uses(grammar: str) -> None:
    rules = dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\[[^\]]*\]', " ", " ".join(rules.values()))
    assert set(re.findall(r"[a-z]+", re.sub(r"\{.*?\}", " ", bare))) | {"root"} == set(rules)


def test_the_grammar_of_a_success_defines_every_rule_that_it_uses() -> None:
    defined = {line.partition(" ::= ")[0] for line in SUCCESS.strip().splitlines()}
    assert set(SUCCESS.strip().splitlines()[0].partition(" ::= ")[2].split()) | {"value", "word"} <= defined
    assert all(f"{label}: " in SUCCESS for label in ("WHAT_WORKED", *LABELS))


def test_rules_step_in_on_a_success_too() -> None:
    reflection = WithFallback(LLMReflector(says("hm"), Sampling()), Rules()).reflect(TASK, passed_attempt(), [])
    assert reflection is not None
    assert reflection.source == "fallback:passed"
    assert reflection.what_worked
    assert (reflection.text, reflection.usage) == ("hm", COST)
