import pytest

from reflexion_lab.agent.critique.llm_critic import LLMCritic
from reflexion_lab.agent.critique.verdict import GRAMMAR
from reflexion_lab.errors import CritiqueError
from reflexion_lab.records import Sampling, Usage
from reflexion_lab.text.prompts.render import OVERHEAD, Prompts
from reflexion_lab.text.shorten import estimated
from tests.builders import Replies

REPLY = "ISSUE: It returns x.\nSUGGESTION: Multiply by two.\nSEVERITY: 0.9"
PROGRAM = "def double(x):\n    return x\n"
COST = Usage(calls=1)


def test_a_critique_contains_verdict_messages_reply_and_cost(task):
    model, sampling = Replies(REPLY, usage=COST), Sampling(max_tokens=99, grammar=GRAMMAR)
    critique = LLMCritic(model, sampling).critique(task, PROGRAM)
    assert (critique.severity, critique.issues) == (0.9, ("It returns x.",))
    assert critique.suggestions == ("Multiply by two.",)
    assert (critique.source, critique.reply, critique.usage) == ("llm", REPLY, COST)
    assert (critique.messages, sampling) == model.requests[0][:2]


def test_the_prompt_has_task_draft_and_no_hidden_test(task):
    for program in (PROGRAM, task.prompt.rstrip() + "\n    return x\n"):
        model = Replies(REPLY)
        LLMCritic(model, Sampling()).critique(task, program)
        assert [message.role for message in model.requests[0][0]] == ["user"]
        assert task.prompt.strip() in model.prompt
        assert "return x" in model.prompt
        assert model.prompt.count("Twice x") == 1
        assert not any(test in model.prompt for test in task.hidden_tests)


@pytest.mark.parametrize("variant", ["default", "terse", "paper_style"])
def test_the_middle_of_a_long_draft_is_cut(task, variant):
    draft = "def double(x):\n" + "".join(f"    x = x + {n} - {n}  # nothing\n" for n in range(400)) + "    return x\n"
    model, sampling = Replies(REPLY, 2048), Sampling(max_tokens=256)
    LLMCritic(model, sampling, Prompts(variant, examples=2)).critique(task, draft)
    assert 1500 < estimated(model.prompt) <= model.context - sampling.max_tokens - OVERHEAD
    assert all(text in model.prompt for text in ("def double(x):", "    return x\n", "lines are left out here"))


def test_examples_go_before_the_draft_is_cut(task):
    prompts = {}
    for context in (0, 700):
        model = Replies(REPLY, context)
        LLMCritic(model, Sampling(max_tokens=256), Prompts(examples=3)).critique(task, PROGRAM)
        prompts[context] = model.prompt
    assert "Example 3" in prompts[0]
    assert "Example 3" not in prompts[700]
    assert PROGRAM.strip() in prompts[700]


def test_without_a_program_the_model_is_not_called(task):
    model = Replies(REPLY)
    critique = LLMCritic(model, Sampling()).critique(task, " \n")
    assert (critique.severity, model.requests, critique.usage) == (1.0, [], Usage())
    assert "double" in critique.issues[0]


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        ("I like it.", "stop", "could not be understood"),
        ("", "length", "cut at max_tokens"),
        ("", "context_overflow", "ended in context_overflow"),
    ],
)
def test_an_unreadable_reply_is_an_error_with_its_cost(task, reply, reason, words):
    with pytest.raises(CritiqueError, match=words) as caught:
        LLMCritic(Replies(reply, finish_reason=reason, usage=COST), Sampling()).critique(task, PROGRAM)
    assert (caught.value.reply, caught.value.usage) == (reply, COST)
