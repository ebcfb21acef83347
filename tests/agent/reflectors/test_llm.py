import json
import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.fields import GRAMMAR, LABELS, SERVICE, SESSION, SUCCESS
from reflexion_lab.agent.reflectors.llm import LLMReflector, ReflectionError
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.errors import CapReached, ConfigError, HarnessError, ModelError, Unanswered
from reflexion_lab.records import Attempt, Check, Episode, Evaluation, Reflection, Sampling, Task, Usage
from reflexion_lab.text.prompts.render import Prompts, known_examples, max_prompt_tokens
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


def test_the_prompt_contains_the_newest_earlier_reflections_in_their_order() -> None:
    episodes = [episode(number) for number in range(1, 6)]
    prompt = prompt_for(attempt_with(WRONG), episodes)
    assert [f"cause {n}." in prompt for n in range(1, 6)] == [False, False, True, True, True]
    assert prompt.index("Reflection 1: cause 3.") < prompt.index("Reflection 3: cause 5.")
    for lessons, line in (((), "My change then: change 1."), (("Check signs.",), "change 1. Lesson: Check signs.")):
        prompt = prompt_for(attempt_with(WRONG), [make.episode(1, reflection=replace(PRIOR, lessons=lessons))])
        assert "Reflection 1: cause 1." in prompt and line in prompt
        assert "None" not in prompt and ("Lesson:" in prompt) == bool(lessons)
    rejected = make.episode(1, reflection=replace(PRIOR, root_cause="", what_to_change=""))
    for earlier, bounds in ((rejected, {}), (make.episode(1, reflection=PRIOR), {"max_priors": 0})):
        assert "Prior Reflections: None" in prompt_for(attempt_with(WRONG), [earlier], **bounds)


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


def fitted(context, task, attempt, episodes, examples=0):
    """The prompt, and how long it may be."""
    model, sampling = says(REPLY, context=context), Sampling(max_tokens=192)
    LLMReflector(model, sampling, Prompts(examples=examples)).reflect(task, attempt, episodes)
    limit = max_prompt_tokens(model, sampling)
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


def test_examples_are_dropped_before_priors_and_program() -> None:
    attempt, episodes = attempt_with(WRONG, solution="y = 1\n" * 300), [episode(1), episode(2)]
    names = [example.prompt.splitlines()[0] for example in known_examples()]
    counts = set()
    for context in range(4000, 500, -20):
        prompt, _ = fitted(context, TASK, attempt, episodes, examples=3)
        total = sum(name in prompt for name in names)
        causes = ["cause 1." in prompt, "cause 2." in prompt]
        whole = prompt.count("y = 1") >= 280
        assert names[:total] == [name for name in names if name in prompt]
        assert causes == [True, True] or total == 0
        assert causes in ([True, True], [False, True], [False, False])
        assert whole or causes == [False, False]
        assert TASK.prompt.strip() in prompt
        counts.add((total, *causes, whole))
    assert {(3, True, True, True), (0, True, True, True), (0, False, True, True), (0, False, False, False)} <= counts


@pytest.mark.parametrize("examples", [0, 1, 3])
def test_the_configured_examples_precede_the_question(examples: int) -> None:
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
    ((_, received, _),) = model.requests
    assert received == replace(sampling, grammar=SUCCESS)


def test_an_unconstrained_reflector_sends_no_grammar_and_an_unclear_confidence_is_not_stated() -> None:
    for attempt in (attempt_with(WRONG), passed_attempt()):
        model = says(REPLY)
        LLMReflector(model, Sampling(grammar=GRAMMAR), constrained=False).reflect(TASK, attempt, [])
        assert model.requests[0][1].grammar == ""
    reflection = LLMReflector(says(REPLY.replace("90%", "high")), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (reflection.confidence, reflection.confidence_source, reflection.source) == (0.5, "none", "llm")


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
    assert model.requests[0][1].grammar == grammar
    assert all(f'"{key}":' in model.prompt for key in json.loads(reply))
    assert ("Checks that passed:" if passed else "Failing checks:") in model.prompt


PRIOR = make.reflection(1, root_cause="cause 1.", what_to_change="change 1.")
CONTINUED = TASK.prompt.rstrip() + "\n    return a - b\n"


ATTEMPTS = {
    "labels, task, attempt, code and evidence": (
        {},
        [f"{label}:" for label in LABELS] + [TASK.prompt.strip(), "Attempt: 2", CODE.strip(), "Prior Reflections: None"]
        + ["`assert add(1, 2) == 3` -> expected 3, got -1 (at `return a - b`)", "assert add(2, 2) == 4"],
        ["assert add(0, 0) == 0", "secret", "solved"],
    ),
    "no program": (
        {"solution": "", "reply": "I cannot do that."},
        ["I cannot do that.", "no program could be found in my reply"], [],
    ),
    "long program": (
        {"solution": f"def first(): ...\n{'#' * 9000}\nreturn 'last'"}, ["def first()", "return 'last'"], ["#" * 2000],
    ),
    "continuation": (
        {"solution": CONTINUED}, ["```python\n    return a - b\n```", TASK.prompt.strip()],
        [TASK.prompt.rstrip() + "\n    return"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_prompt_contains_the_attempt(name: str) -> None:
    fields, texts, others = ATTEMPTS[name]
    task = replace(TASK, hidden_tests=("assert secret",), canonical_solution="solved")
    checks = (
        Check(name="assert add(0, 0) == 0", outcome="pass"),
        WRONG,
        Check(name="assert add(2, 2) == 4", outcome="error"),
    )
    prompt = prompt_for(attempt_with(*(checks if "reply" not in fields else ()), **fields), task=task)
    assert [text for text in texts if text not in prompt] == []
    assert [text for text in others if text in prompt] == []


LATE = ModelError("the server gave no answer")
LATE.__cause__ = TimeoutError()
REJECTED = ModelError("400: grammar is not supported")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("Not sure what happened.", "the reply lacks ROOT_CAUSE"),
        ("", "the reply lacks ROOT_CAUSE"),
        (REPLY[:-20], "CONFIDENCE; expected .*; it was cut at max_tokens"),
        ("Okay, let me look at this step by step. The program", "ROOT_CAUSE, .*; it was cut at max_tokens"),
    ],
)
def test_rules_replace_an_unreadable_reply_and_keep_its_cost(reply: str, message: str) -> None:
    reflector = LLMReflector(says(reply, "length"), Sampling())
    with pytest.raises(ReflectionError, match=message) as caught:
        reflector.reflect(TASK, attempt_with(WRONG), [])
    assert (caught.value.kind, caught.value.text, caught.value.usage) == ("parse_error", reply, COST)
    for attempt, source in ((attempt_with(WRONG), "fallback:assertion"), (passed_attempt(), "fallback:passed")):
        reflection = WithFallback(reflector, Rules()).reflect(TASK, attempt, [episode(1)])
        rules = Rules().reflect(TASK, attempt, [episode(1)])
        problem = f"parse_error: {caught.value}"
        assert reflection == replace(rules, source=source, problem=problem, text=reply, usage=COST)


BUGS = (RuntimeError("a bug"), KeyError("a bug"), KeyboardInterrupt())


USERS = (CapReached("caps.calls"), ConfigError("model", "x", "y"), HarnessError("broken"))
"""What a user has to fix, whatever the policy."""


@pytest.mark.parametrize("problem", [REJECTED, LATE, Unanswered("503", "server_error"), *BUGS, *USERS])
def test_by_default_no_rule_replaces_a_missing_reply(problem: BaseException) -> None:
    for policy in ((), ("fallback",), ("skip",)) if problem in USERS else ((),):
        reflector = WithFallback(LLMReflector(says(problem), Sampling()), Rules(), *policy)
        with pytest.raises(type(problem)) as caught:
            reflector.reflect(TASK, attempt_with(WRONG), [])
        assert caught.value is problem


@pytest.mark.parametrize("problem", [TimeoutError("30 s are over"), TimeoutError()])
def test_by_default_a_timeout_sets_the_loop_aside(problem: TimeoutError) -> None:
    reflector = WithFallback(LLMReflector(says(problem), Sampling()), Rules())
    with pytest.raises(Unanswered, match=str(problem) or "did not answer in time") as caught:
        reflector.reflect(TASK, attempt_with(WRONG), [])
    assert caught.value.outcome == "timeout"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (REJECTED, "generation_failed: 400: grammar is not supported"),
        (LATE, "timeout: the server gave no answer"),
        (TimeoutError("30 s are over"), "timeout: 30 s are over"),
    ],
)
def test_with_fallback_rules_replace_a_missing_reply(error: Exception, problem: str) -> None:
    reflector = WithFallback(LLMReflector(says(error), Sampling()), Rules(), "fallback")
    reflection = reflector.reflect(TASK, attempt_with(WRONG), [episode(1)])
    rules = Rules().reflect(TASK, attempt_with(WRONG), [episode(1)])
    assert reflection == replace(rules, source="fallback:assertion", problem=problem, text="", usage=Usage())


def test_optional_fields_of_a_reply_enter_the_reflection() -> None:
    reply = f"WHAT_WORKED: The loop.\nKEY_INSIGHT: Mind signs.\nLESSONS: Test zero.\n{REPLY}"
    reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert (reflection.what_worked, reflection.key_insight) == ("The loop.", "Mind signs.")
    assert reflection.lessons == ("Test zero.",)
    reply = SERVED.replace("test_gap", "edge_case_miss").replace('["I', '["add a guard", "I')
    reflection = LLMReflector(says(reply), Sampling()).reflect(TASK, attempt_with(WRONG), [])
    assert reflection.category == "edge_case_miss"
    assert reflection.action_items == ("add a guard", "I change the operator now")


@pytest.mark.parametrize("grammar", [SERVICE, SESSION, SUCCESS])
def test_a_grammar_defines_every_rule_that_it_uses(grammar: str) -> None:
    rules = dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\[[^\]]*\]', " ", " ".join(rules.values()))
    assert set(re.findall(r"[a-z]+", re.sub(r"\{.*?\}", " ", bare))) | {"root"} == set(rules)
