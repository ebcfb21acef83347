"""The embedded model itself: real weights, a few tokens."""

import os

import pytest

from reflexion_lab.agent.actors.continuation import BODY
from reflexion_lab.agent.models.llama_cpp import LlamaCppModel, physical_cores
from reflexion_lab.agent.reflectors.fields import GRAMMAR, parse_fields
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Message, Sampling


@pytest.fixture(scope="module")
def smollm2():
    return LlamaCppModel(slots=2, threads=1)  # more would wait for one another where other tests run too


def test_a_lone_assistant_message_is_continued(smollm2):
    messages = [Message(role="assistant", content='def add(a, b):\n    """Return the sum of a and b."""')]
    completion = smollm2.complete(messages, sampling=Sampling(max_tokens=16, stop=("\ndef",)))
    assert "return a + b" in completion.text
    assert completion.usage.calls == 1
    assert completion.usage.completion_tokens > 0
    assert completion.usage.seconds > 0


def test_a_chat_is_answered_within_its_tokens(smollm2):
    completion = smollm2.complete([Message(role="user", content="Count to ten.")], sampling=Sampling(max_tokens=5))
    assert completion.text
    assert completion.usage.completion_tokens <= 5
    assert completion.finish_reason == "length"


@pytest.mark.slow
def test_the_grammar_of_reflections_holds_a_small_model(smollm2):
    messages = [Message(role="user", content="My program `return a - b` should add. What went wrong?")]
    reply = smollm2.complete(messages, sampling=Sampling(max_tokens=192, grammar=GRAMMAR))
    assert parse_fields(reply.text).root_cause


def test_a_prompt_beyond_the_context_is_a_completion(smollm2):
    completion = smollm2.complete([Message(role="user", content="word " * 4000)], sampling=Sampling(max_tokens=5))
    assert (completion.text, completion.finish_reason) == ("", "context_overflow")
    assert completion.refused_tokens > 2048
    assert (completion.usage.tokens, completion.usage.calls, completion.usage.refused) == (0, 1, 1)


def test_physical_cores_are_counted():
    assert 1 <= physical_cores() <= os.cpu_count()


def test_the_fingerprint_names_the_weights_and_no_path(smollm2):
    assert "SmolLM2-135M-Instruct" in smollm2.fingerprint
    assert "/" not in smollm2.fingerprint


COMMENTED = """# My attempt 1 at the function below failed:
# What to change: The body of the function must be exactly this:
#     return values[::-1]
# A corrected version:

def turned(values):
    \"\"\"Return the values in reverse order.\"\"\""""


def test_the_grammar_keeps_a_continuation_in_the_function(smollm2):
    """Without it the first token may be a comment at the margin, which is a stop text: the reply is empty."""
    sampling = Sampling(max_tokens=24, stop=("\n#", "\ndef"), grammar=BODY, temperature=1.5)
    for sample in range(4):
        reply = smollm2.complete([Message(role="assistant", content=COMMENTED)], sampling=sampling, sample=sample)
        first, body = reply.text[0], reply.text[1:].split("\n")[0]
        assert first == "\n"
        assert body[0] in " \t"
        assert body.strip()


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ({"context": 100_000_000}, r"model\.context: got 100000000 for each of 16 slots, expected 262,144 tokens"),
        ({"slots": 1000}, r"LlamaCppModel\.slots: got 1000, expected 1 to 256"),
        ({"threads": 100_000}, r"LlamaCppModel\.threads: got 100000, expected 0 to 512"),
    ],
)
def test_more_state_or_threads_than_a_machine_has_are_refused(values, got):
    with pytest.raises(ConfigError, match=got):
        LlamaCppModel(**values)
