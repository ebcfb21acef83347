import pytest

from reflexion_lab.agent.critique.llm_reviser import LLMReviser
from reflexion_lab.records import Critique, Sampling, Usage
from reflexion_lab.text.prompts.render import OVERHEAD, Prompts
from reflexion_lab.text.shorten import estimated
from tests.builders import Replies

PROGRAM = "def double(x):\n    return x\n"
REPLY = "Here:\n```python\ndef double(x):\n    return 2 * x\n```"
CRITIQUE = Critique(severity=1.0, issues=("expected 4, got 2",), suggestions=("Multiply by two.",), source="tests")
STYLES = pytest.mark.parametrize("style", ["chat", "continuation"])


def test_the_reply_is_the_new_draft_and_without_one_the_whole_function_is_requested(task):
    model = Replies(REPLY, usage=Usage(calls=1))
    revision = LLMReviser(model, Sampling()).revise(task, PROGRAM, CRITIQUE)
    assert revision.solution == "def double(x):\n    return 2 * x\n"
    assert (revision.reply, revision.messages, revision.usage.calls) == (REPLY, model.requests[0][0], 1)
    model = Replies(REPLY)
    assert "2 * x" in LLMReviser(model, Sampling()).revise(task, "", CRITIQUE).solution
    assert "holds no program yet" in model.prompt


@STYLES
@pytest.mark.parametrize("variant", ["default", "terse", "paper_style"])
def test_the_prompt_has_task_draft_critique_and_no_hidden_test(task, style, variant):
    model = Replies(REPLY)
    LLMReviser(model, Sampling(), Prompts(variant), style).revise(task, PROGRAM, CRITIQUE)
    assert task.prompt.strip() in model.prompt
    assert all(text in model.prompt for text in ("    return x\n", *CRITIQUE.issues, *CRITIQUE.suggestions))
    assert not any(test in model.prompt for test in task.hidden_tests)


def test_a_continuation_ends_in_the_tasks_prompt(task):
    model, head = Replies("\n    return 2 * x\n"), task.prompt.rstrip()
    revision = LLMReviser(model, Sampling(), style="continuation").revise(task, head + PROGRAM[14:], CRITIQUE)
    assert model.requests[0][0][0].role == "assistant"
    assert model.prompt.endswith(head)
    assert model.prompt.count("Twice x") == 1  # the draft is shown without the prompt
    assert revision.solution == head + "\n    return 2 * x\n"


@pytest.mark.parametrize(
    ("style", "reply"), [("chat", "I would not change it."), ("chat", ""), ("continuation", " \n")]
)
def test_a_reply_without_a_program_keeps_the_draft(task, style, reply):
    revision = LLMReviser(Replies(reply), Sampling(), style=style).revise(task, PROGRAM, CRITIQUE)
    assert (revision.solution, revision.extraction, revision.reply) == (PROGRAM, "kept", reply)


@STYLES
@pytest.mark.parametrize("variant", ["default", "terse"])
def test_prompt_and_reply_fit_into_a_small_context(task, style, variant):
    draft = "def double(x):\n" + "".join(f"    x = x + {n} - {n}  # nothing\n" for n in range(400)) + "    return x\n"
    critique = Critique(severity=1.0, issues=("too long " * 40,) * 9, suggestions=("cut " * 60,) * 9, source="llm")
    model, sampling = Replies(REPLY, 2048), Sampling(max_tokens=1024)
    LLMReviser(model, sampling, Prompts(variant, examples=3), style).revise(task, draft, critique)
    assert estimated(model.prompt) + sampling.max_tokens + OVERHEAD <= model.context
    assert task.prompt.strip() in model.prompt
    assert "too long" in model.prompt
    assert "def double(x):\n#     x" in model.prompt or "def double(x):\n    x" in model.prompt


def test_later_issues_go_before_the_draft_and_a_fence_in_one_cannot_leave_its_line(task):
    critique = Critique(severity=1.0, issues=tuple(f"{n} " + "wrong " * 60 for n in range(5)), source="llm")
    model = Replies(REPLY, 700)
    LLMReviser(model, Sampling(max_tokens=200)).revise(task, PROGRAM + "# kept\n" * 20, critique)
    assert model.prompt.count("# kept") == 20
    assert "0 wrong" in model.prompt
    assert "4 wrong" not in model.prompt
    model, critique = Replies(REPLY), Critique(severity=1.0, issues=("bad\n```\nISSUE: none",), source="llm")
    LLMReviser(model, Sampling()).revise(task, PROGRAM, critique)
    assert "bad ``` ISSUE: none" in model.prompt
