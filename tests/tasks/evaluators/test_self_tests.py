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


def test_tests_beyond_the_maximum_are_dropped_and_what_is_dropped_counts_towards_none(task):
    written = writing("\n".join(f"assert double({i}) == {2 * i}" for i in range(5)), max_tests=3).write(task.public)
    assert written.tests == tuple(f"assert double({i}) == {2 * i}" for i in range(3))
    assert written.dropped == {f"assert double({i}) == {2 * i}": "one too many" for i in (3, 4)}
    written = writing("assert 1\nassert x\nassert double(3) == 6", max_tests=1).write(task.public)
    assert written.tests == ("assert double(3) == 6",)
    assert written.dropped == {"assert 1": "no call", "assert x": "no call"}


def test_an_unfinished_test_ends_where_the_next_one_begins(task):
    written = writing("assert double(\nassert double(2) == 4\n1) == 2").write(task.public)
    assert written.tests == ("assert double(2) == 4",)
    assert written.dropped == {"assert double(": "no Python"}


def test_the_last_line_of_a_reply_that_was_cut_is_no_test(task):
    cut = "assert double(1) == 2\nassert double(6) == 1"  # the 2 of 12 is missing
    written = writing(cut, finish_reason="length").write(task.public)
    assert written.tests == ("assert double(1) == 2",)
    assert written.dropped == {"assert double(6) == 1": "cut off"}
    assert len(writing(cut).write(task.public).tests) == 2


def test_tests_that_the_task_shows_are_dropped_on_demand(task):
    reply = "assert double(2)==4\nassert double(3)==6"
    assert len(writing(reply).write(task.public).tests) == 2
    written = writing(reply, drop_visible=True).write(task.public)
    assert written.dropped == {"assert double(2) == 4": "shown by the task"}


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
