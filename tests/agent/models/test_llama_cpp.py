"""The embedded model itself: real weights, a few tokens."""

import json
import re
from pathlib import Path

import pytest
import xllamacpp

from reflexion_lab.agent.actors.continuation import BODY
from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Message, Sampling
from tests.agent.models.test_servers import TASK


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


README = Path(__file__).parents[3] / "README.md"
LONG = "Their order is free, and each of them may come more than once. " * 55
MEAN = f"mean of the squares of all but the largest of the values. {LONG}"
PROMPTS = [f'def total(xs):\n    """The {words}"""\n' for words in ("sum.", "largest less the smallest.", MEAN)]


@pytest.mark.slow
def test_a_server_of_its_own_needs_a_name_and_an_address(tmp_path, monkeypatch, capsys):
    """The README's command: reflections are the model's, and prompts fit the window that the server names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    never = TASK | {"visible_tests": ["assert total([1, 2]) == 7"]}
    tasks = [{**never, "task_id": f"own/{n}", "prompt": prompt} for n, prompt in enumerate(PROMPTS)]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    params, window = xllamacpp.CommonParams(), 2048
    params.model.path, params.n_parallel, params.n_ctx = str(LlamaCppModel().path), 2, 2 * window
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.ui, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    command = re.search(r"`reflexion-lab (run model=openai/NAME model\.base_url=)\S+(/v1)`", README.read_text("utf-8"))
    words = f"{command[1]}{server.listening_address}{command[2]} benchmark=t.jsonl tracker=none quiet=true"
    assert main([*words.split(), "loop.max_attempts=2"]) == 0
    assert capsys.readouterr().err.count("warning: ") == 1  # which model answers
    (run,) = Path("runs").glob("2*")
    attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    sources = [attempt["reflection"]["source"] for attempt in attempts if attempt["reflection"]]
    assert sources.count("llm") >= 0.9 * len(sources) > 0
    prompts = [attempt["trajectory"]["usage"]["prompt_tokens"] for attempt in attempts]
    assert min(prompts) > 0 and max(prompts) <= window - 1024
    assert main(["show", str(run), "--full"]) == 0
    assert f"context {window:,} tokens (/props)" in " ".join(capsys.readouterr().out.split())


def test_a_prompt_beyond_the_context_is_a_completion(smollm2):
    completion = smollm2.complete([Message(role="user", content="word " * 4000)], sampling=Sampling(max_tokens=5))
    assert (completion.text, completion.finish_reason) == ("", "context_overflow")
    assert completion.refused_tokens > 2048
    assert (completion.usage.tokens, completion.usage.calls, completion.usage.refused) == (0, 1, 1)


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
