"""Chain of thought: words first, then the program, in one call."""

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.chain_of_thought import ChainOfThought, leading_comments, margin, words_before_code
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Recollection, Sampling
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.text.prompts.render import Prompts
from tests import builders as make

CODE = "```python\ndef double(x):\n    return 2 * x\n```"
EPISODE = make.episode(
    episode_id="e1", task_id="own/double", reflection=make.reflection(what_to_change="multiply by two")
)


def actor(reply, style="chat", **options):
    model = ScriptedModel(lambda messages: reply, **options)
    return model, ChainOfThought(model, Sampling(max_tokens=100), style=style)


def test_the_words_before_the_program_are_its_rationale(task, sandbox):
    model, thinker = actor(f"Twice x is x plus x.\nZero stays zero.\n\n{CODE}\nThat is all.")
    trajectory = thinker.act(task, Recollection())
    assert trajectory.rationale == "Twice x is x plus x.\nZero stays zero."
    assert (trajectory.strategy, trajectory.usage.calls, trajectory.steps) == ("chain_of_thought", 1, ())
    assert UnitTests(sandbox).evaluate(task, trajectory).passed
    assert [message.role for message in model.received[0]] == ["user"]


def test_a_continuation_is_comment_lines_and_then_code(task, sandbox):
    model, thinker = actor(" Add x to itself.\n    # Nothing is special.\n    return x + x\n    # end", "continuation")
    trajectory = thinker.act(task, Recollection())
    assert model.received[0][0].content.endswith('    4\n    """\n    # Step by step:\n    #')
    assert trajectory.rationale == "Add x to itself.\nNothing is special."
    assert "    # Add x to itself.\n    # Nothing is special.\n    return x + x" in trajectory.solution
    assert UnitTests(sandbox).evaluate(task, trajectory).passed


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (CODE, ""), ("", ""), ("Only words.", "Only words."),
        ("Some words.\ndef double(x):\n    return 2 * x", "Some words."),
        (f"<think>hm, twice</think>\n{CODE}", "hm, twice"), (f"<think>hm, twice</think>\nTwice.\n{CODE}", "Twice."),
        ("<think>without end", "without end"),
    ],
)  # fmt: skip
def test_rationales_of_replies_of_every_shape(reply, words):
    assert words_before_code(reply) == words


@pytest.mark.parametrize(
    ("reply", "words"), [("", ""), (" one\n    return 1", "one"), (" a\n    #\n    ## b\n  x", "a\n\nb")]
)
def test_rationales_of_continuations(reply, words):
    assert leading_comments(reply) == words


def test_comments_are_indented_as_the_function_is(task):
    assert margin(task) == "    "
    assert margin(replace(task, prompt='def double(x):\n  """Twice x."""\n')) == "  "
    assert margin(replace(task, prompt="Write a function that doubles.")) == "    "


@pytest.mark.parametrize("style", ["chat", "continuation"])
def test_memory_is_read_or_named_as_left_out(task, style):
    memory = Recollection(own=(EPISODE,), insights=("check zero",), stuck="The last 2 attempts were alike.")
    model, thinker = actor(CODE, style)
    trajectory = thinker.act(task, memory)
    text = model.received[0][0].content
    assert trajectory.left_out == ()
    assert all(words in text for words in ("multiply by two", "check zero", memory.stuck))
    model, thinker = actor(CODE, style, context=180)
    assert thinker.act(task, memory).left_out == ("check zero", "e1")
    assert "multiply by two" not in model.received[0][0].content


@pytest.mark.parametrize("style", ["chat", "continuation"])
def test_examples_show_a_thought_before_their_solution(task, style):
    model = ScriptedModel(lambda messages: CODE)
    ChainOfThought(model, Sampling(), Prompts(examples=1), style).act(task, Recollection())
    text = model.received[0][0].content
    assert text.index("Walk through the word") < text.index("for letter in reversed(word)")
    assert not any(hidden in text for hidden in task.hidden_tests)
