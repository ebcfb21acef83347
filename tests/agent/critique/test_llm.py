import pytest
from msgspec.structs import replace

from reflexion_lab.agent.critique.llm_critic import LLMCritic
from reflexion_lab.agent.critique.verdict import GRAMMAR
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import CritiqueError, ModelError
from reflexion_lab.records import Completion, Sampling, Usage
from reflexion_lab.text.prompts.asking import ENVELOPE
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.shorten import estimated

REPLY = "ISSUE: It returns x.\nSUGGESTION: Multiply by two.\nSEVERITY: 0.9"
PROGRAM = "def double(x):\n    return x\n"


def scripted(reply=REPLY, **options):
    return ScriptedModel(lambda messages: reply, **options)


def test_the_critique_holds_what_was_asked_said_and_spent(task):
    model = scripted()
    critique = LLMCritic(model, Sampling()).critique(task, PROGRAM)
    assert (critique.severity, critique.issues, critique.suggestions) == (
        0.9,
        ("It returns x.",),
        ("Multiply by two.",),
    )
    assert (critique.source, critique.reply, critique.usage.calls) == ("llm", REPLY, 1)
    assert critique.messages == model.received[0]


def test_the_prompt_holds_task_and_draft_and_no_hidden_test(task):
    model = scripted()
    LLMCritic(model, Sampling()).critique(task, PROGRAM)
    (message,) = model.received[0]
    assert message.role == "user"
    assert task.prompt.strip() in message.content
    assert PROGRAM.strip() in message.content
    assert not any(test in message.content for test in task.hidden_tests)


def test_a_draft_that_continues_the_prompt_is_not_read_twice(task):
    model = scripted()
    LLMCritic(model, Sampling()).critique(task, task.prompt.rstrip() + "\n    return x\n")
    assert model.received[0][0].content.count("Twice x") == 1
    assert "return x" in model.received[0][0].content


@pytest.mark.parametrize("variant", ["default", "terse", "paper_style"])
def test_a_long_draft_loses_its_middle_so_that_prompt_and_reply_fit(task, variant):
    draft = "def double(x):\n" + "".join(f"    x = x + {n} - {n}  # nothing\n" for n in range(400)) + "    return x\n"
    model, sampling = scripted(context=2048), Sampling(max_tokens=256)
    LLMCritic(model, sampling, Prompts(variant, examples=2)).critique(task, draft)
    prompt = model.received[0][0].content
    assert estimated(prompt) + sampling.max_tokens + ENVELOPE <= model.context
    assert "def double(x):" in prompt
    assert "    return x\n" in prompt
    assert "lines are left out here" in prompt
    assert estimated(prompt) > 1500  # the room is used


def test_examples_go_before_the_draft_is_cut(task):
    shown = {}
    for context in (0, 700):
        model = scripted(context=context)
        LLMCritic(model, Sampling(max_tokens=256), Prompts(examples=3)).critique(task, PROGRAM)
        shown[context] = model.received[0][0].content
    assert "Example 3" in shown[0]
    assert "Example 3" not in shown[700]
    assert PROGRAM.strip() in shown[700]


def test_without_a_program_nobody_is_asked(task):
    model = scripted()
    critique = LLMCritic(model, Sampling()).critique(task, " \n")
    assert (critique.severity, model.received, critique.usage) == (1.0, [], Usage())
    assert "double" in critique.issues[0]


def test_an_unreadable_reply_is_an_error_that_keeps_words_and_cost(task):
    with pytest.raises(CritiqueError, match="could not be understood") as caught:
        LLMCritic(scripted("I like it."), Sampling()).critique(task, PROGRAM)
    assert caught.value.reply == "I like it."
    assert caught.value.usage.calls == 1


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "cut at max_tokens"), ("context_overflow", "ended in context_overflow")]
)
def test_the_error_says_why_the_reply_ended(task, reason, words):
    class Cut:
        fingerprint, slots, context = "cut", 1, 0

        def complete(self, messages, *, sampling, sample=0):
            return Completion(text="", model="cut", finish_reason=reason)

    with pytest.raises(CritiqueError, match=words):
        LLMCritic(Cut(), Sampling()).critique(task, PROGRAM)


def test_what_the_model_raises_comes_through(task):
    def gone(messages):
        raise ModelError("gone")

    with pytest.raises(ModelError, match="gone"):
        LLMCritic(ScriptedModel(gone), Sampling()).critique(task, PROGRAM)


def test_the_sampling_reaches_the_model(task):
    class Keeps:
        fingerprint, slots, context = "keeps", 1, 0

        def complete(self, messages, *, sampling, sample=0):
            self.sampling = sampling
            return Completion(text=REPLY, model="keeps")

    model, sampling = Keeps(), Sampling(max_tokens=99, grammar=GRAMMAR)
    LLMCritic(model, sampling).critique(replace(task, hidden_tests=()), PROGRAM)
    assert model.sampling == sampling
