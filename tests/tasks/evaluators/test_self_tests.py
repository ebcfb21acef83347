"""Tests that a model writes: from the prompt alone, capped, each kept or dropped with its reason."""

import pytest

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.protocols import SuiteWriter
from reflexion_lab.records import Completion, Message, Sampling, Usage
from reflexion_lab.tasks.evaluators.self_tests import SelfTests
from reflexion_lab.text.prompts.render import Prompts


def writing(reply, finish_reason="stop", **options) -> SelfTests:
    class Fixed:
        fingerprint, slots, context = "fixed", 1, 0

        def complete(self, messages, *, sampling, sample=0):
            return Completion(text=reply, model="fixed", finish_reason=finish_reason, usage=Usage(calls=1, seconds=2.0))

    return SelfTests(Fixed(), Sampling(), **options)


def test_a_chat_model_is_asked_and_its_asserts_are_kept(task):
    writer: SuiteWriter = writing("```python\nassert double(1) == 2\nassert double(0) == 0\n```")
    written = writer.write(task.public)
    assert written.tests == ("assert double(1) == 2", "assert double(0) == 0")
    assert (written.task_id, written.dropped, written.usage.calls) == ("own/double", {}, 1)
    (message,) = written.messages
    assert message.role == "user"
    assert task.prompt.strip() in message.content


def test_a_completion_model_continues_an_assert(task):
    written = writing("(1) == 2\nassert double(0) == 0\n", style="continuation").write(task.public)
    assert written.tests == ("assert double(1) == 2", "assert double(0) == 0")
    (message,) = written.messages
    assert message == Message(role="assistant", content=message.content)
    assert message.content.startswith(task.prompt.rstrip())
    assert message.content.endswith("assert double")


@pytest.mark.parametrize("style", ["chat", "continuation"])
def test_the_writer_reads_the_prompt_and_no_test_and_no_solution(task, style):
    model = ScriptedModel(lambda messages: "")
    SelfTests(model, Sampling(), style=style).write(task)  # the whole task, hidden tests included
    ((message,),) = model.received
    for secret in (*task.hidden_tests, *task.visible_tests, task.canonical_solution.strip()):
        assert secret not in message.content


@pytest.mark.parametrize("style", ["chat", "continuation"])
@pytest.mark.parametrize("reply", ["", "I cannot know.", "<think>assert double(1) == 2"])
def test_a_reply_without_a_test_is_an_empty_suite(task, style, reply):
    assert writing(reply, style=style).write(task.public).tests == ()


DOUBLES = [f"assert double({n}) == {2 * n}" for n in range(5)]
CUT = "assert double(6) == 1"  # the 2 of 12 is missing


@pytest.mark.parametrize(
    ("reply", "options", "tests", "dropped"),
    [
        (DOUBLES, {"max_tests": 3}, DOUBLES[:3], dict.fromkeys(DOUBLES[3:], "one too many")),
        (["assert 1", "assert x", DOUBLES[3]], {"max_tests": 1}, DOUBLES[3:4],
         {"assert 1": "no call", "assert x": "no call"}),
        (["assert double(", DOUBLES[2], "1) == 2"], {}, DOUBLES[2:3], {"assert double(": "no Python"}),
        ([DOUBLES[1], CUT], {"finish_reason": "length"}, DOUBLES[1:2], {CUT: "cut off"}),
        ([DOUBLES[1], CUT], {}, [DOUBLES[1], CUT], {}),
        (["assert double(2)==4", DOUBLES[3]], {"drop_visible": True}, DOUBLES[3:4], {DOUBLES[2]: "shown by the task"}),
        (["assert double(2)==4", DOUBLES[3]], {}, DOUBLES[2:4], {}),
    ],
    ids=["too many", "dropped ones count not", "unfinished", "cut off", "whole", "shown", "shown, not asked for"],
)  # fmt: skip
def test_what_is_no_test_or_too_much_is_dropped_with_its_reason(task, reply, options, tests, dropped):
    written = writing("\n".join(reply), **options).write(task.public)
    assert (written.tests, written.dropped) == (tuple(tests), dropped)


@pytest.mark.parametrize(("options", "message"), [
    ({"style": "poem"}, "SelfTests.style: got 'poem'"), ({"max_tests": 0}, "SelfTests.max_tests: got 0"),
    ({"max_chars": 0}, "SelfTests.max_chars: got 0, expected 1 to 2000"),
    ({"max_chars": 9999}, "SelfTests.max_chars: got 9999"),
])  # fmt: skip
def test_an_impossible_value_is_named_as_in_the_config(options, message):
    with pytest.raises(ValueError, match=message):
        writing("", **options)


@pytest.mark.parametrize("style", ["chat", "continuation"])
def test_the_variant_of_prompts_reaches_the_writer(task, style):
    prompts = []
    for variant in ("default", "terse", "paper_style"):
        model = ScriptedModel(lambda _: "assert double(1) == 2")
        SelfTests(model, Sampling(), Prompts(variant), style=style).write(task.public)
        prompts.append(model.received[0][0].content)
    assert len(set(prompts)) == 3
