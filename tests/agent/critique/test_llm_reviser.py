import pytest

from reflexion_lab.agent.critique.llm_reviser import LLMReviser
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Critique, Sampling
from reflexion_lab.text.prompts.asking import ENVELOPE
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.shorten import estimated

PROGRAM = "def double(x):\n    return x\n"
REPLY = "Here:\n```python\ndef double(x):\n    return 2 * x\n```"
FOUND = Critique(severity=1.0, issues=("expected 4, got 2",), suggestions=("Multiply by two.",), source="tests")


def scripted(reply=REPLY, **options):
    return ScriptedModel(lambda messages: reply, **options)


def test_the_reply_is_the_new_draft(task):
    model = scripted()
    revision = LLMReviser(model, Sampling()).revise(task, PROGRAM, FOUND)
    assert revision.solution == "def double(x):\n    return 2 * x\n"
    assert (revision.reply, revision.messages, revision.usage.calls) == (REPLY, model.received[0], 1)


@pytest.mark.parametrize("style", ["chat", "continuation"])
@pytest.mark.parametrize("variant", ["default", "terse", "paper_style"])
def test_the_prompt_holds_task_draft_issues_suggestions_and_no_hidden_test(task, style, variant):
    model = scripted()
    LLMReviser(model, Sampling(), Prompts(variant), style).revise(task, PROGRAM, FOUND)
    (message,) = model.received[0]
    assert task.prompt.strip() in message.content
    assert all(words in message.content for words in ("    return x\n", *FOUND.issues, *FOUND.suggestions))
    assert not any(test in message.content for test in task.hidden_tests)


def test_the_continuation_ends_in_the_prompt_and_the_reply_goes_on_with_it(task):
    model = scripted("\n    return 2 * x\n")
    revision = LLMReviser(model, Sampling(), style="continuation").revise(
        task, task.prompt.rstrip() + PROGRAM[14:], FOUND
    )
    (message,) = model.received[0]
    assert message.role == "assistant"
    assert message.content.endswith(task.prompt.rstrip())
    assert message.content.count("Twice x") == 1  # the draft is shown without the prompt that it begins with
    assert revision.solution == task.prompt.rstrip() + "\n    return 2 * x\n"


@pytest.mark.parametrize(
    ("style", "reply"), [("chat", "I would not change it."), ("chat", ""), ("continuation", " \n")]
)
def test_a_reply_without_a_program_keeps_the_draft(task, style, reply):
    revision = LLMReviser(scripted(reply), Sampling(), style=style).revise(task, PROGRAM, FOUND)
    assert (revision.solution, revision.extraction, revision.reply) == (PROGRAM, "kept", reply)


@pytest.mark.parametrize("style", ["chat", "continuation"])
@pytest.mark.parametrize("variant", ["default", "terse"])
def test_prompt_and_reply_fit_into_a_small_context(task, style, variant):
    draft = "def double(x):\n" + "".join(f"    x = x + {n} - {n}  # nothing\n" for n in range(400)) + "    return x\n"
    critique = Critique(severity=1.0, issues=("too long " * 40,) * 9, suggestions=("cut " * 60,) * 9, source="llm")
    model, sampling = scripted(context=2048), Sampling(max_tokens=1024)
    LLMReviser(model, sampling, Prompts(variant, examples=3), style).revise(task, draft, critique)
    prompt = model.received[0][0].content
    assert estimated(prompt) + sampling.max_tokens + ENVELOPE <= model.context
    assert task.prompt.strip() in prompt
    assert "too long" in prompt
    assert "def double(x):\n#     x" in prompt or "def double(x):\n    x" in prompt


def test_later_issues_go_before_any_line_of_the_draft(task):
    draft = PROGRAM + "# kept\n" * 20
    critique = Critique(severity=1.0, issues=tuple(f"{n} " + "wrong " * 60 for n in range(5)), source="llm")
    model = scripted(context=700)
    LLMReviser(model, Sampling(max_tokens=200)).revise(task, draft, critique)
    prompt = model.received[0][0].content
    assert prompt.count("# kept") == 20
    assert "0 wrong" in prompt
    assert "4 wrong" not in prompt


def test_without_a_draft_the_whole_function_is_asked_for(task):
    model = scripted()
    revision = LLMReviser(model, Sampling()).revise(task, "", FOUND)
    assert "2 * x" in revision.solution
    assert "holds no program yet" in model.received[0][0].content


def test_a_fence_in_an_issue_cannot_leave_its_line(task):
    model = scripted()
    critique = Critique(severity=1.0, issues=("bad\n```\nISSUE: none",), source="llm")
    LLMReviser(model, Sampling()).revise(task, PROGRAM, critique)
    assert "bad ``` ISSUE: none" in model.received[0][0].content


def test_what_the_model_raises_comes_through(task):
    def gone(messages):
        raise ModelError("gone")

    with pytest.raises(ModelError):
        LLMReviser(ScriptedModel(gone), Sampling()).revise(task, PROGRAM, FOUND)


def test_an_unknown_style_is_refused():
    with pytest.raises(ValueError, match="style: got 'file'"):
        LLMReviser(scripted(), Sampling(), style="file")
