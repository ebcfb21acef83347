"""`model=anthropic/NAME` through LiteLLM, against a server on the loopback that speaks Anthropic's protocol."""

import json
import re

import pytest
from model_server import Handler, ModelServer

from reflexion_lab.agent.models.prices import host_of
from reflexion_lab.errors import ConfigError, ModelError, Unanswered
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config.compose import compose

KEY = "sk-ant-planted-0123456789abcdef"
HELLO = [Message(role="system", content="Be brief."), Message(role="user", content="hello")]


@pytest.mark.parametrize(
    ("override", "target", "name", "url"),
    [
        ("model=openai/gpt-4o", "OpenAIModel", "gpt-4o", None),
        ("model=vllm/Qwen/Qwen3-8B", "OpenAIModel", "Qwen/Qwen3-8B", "http://127.0.0.1:8000/v1"),
        ("model=ollama/llama3.2:1b", "OpenAIModel", "llama3.2:1b", "http://127.0.0.1:11434/v1"),
        ("model=llamacpp-server/any", "OpenAIModel", "any", "http://127.0.0.1:8080/v1"),
        ("model=anthropic/claude-sonnet-4-5", "LiteLLMModel", "anthropic/claude-sonnet-4-5", None),
        ("model@roles.reflector=gemini/gemini-2.5-pro", "LiteLLMModel", "gemini/gemini-2.5-pro", None),
    ],
)
def test_a_model_in_one_word(override, target, name, url):
    cfg = compose(override)
    node = cfg.roles.reflector if "roles" in override else cfg.model
    assert node._target_.endswith(f".{target}")
    assert (node.model, node.base_url) == (name, url)
    if "roles" not in override:
        assert cfg.actor._target_.endswith(".SingleShot")
    assert node.api_key_env != "OPENAI_API_KEY" or override.startswith("model=openai/")  # sent to its owner alone


def test_its_price_is_looked_up_by_provider():
    assert host_of(compose("model=anthropic/claude-sonnet-4-5").model) == "anthropic"


def replies(status, body):
    """An `OpenAIModel`-like server's answers; requests are kept."""
    requests = []

    def respond(request, headers):
        requests.append((request, headers))
        return status, body

    return requests, respond


@pytest.mark.slow  # importing LiteLLM takes seconds
def test_messages_go_to_the_provider_and_come_back(monkeypatch):
    from reflexion_lab.agent.models.litellm import LiteLLMModel

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    usage = {"input_tokens": 5, "output_tokens": 2}
    content = [{"type": "text", "text": "hi"}]
    body = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x-20250101", "content": content}
    requests, respond = replies(200, {**body, "stop_reason": "end_turn", "usage": usage})
    with ModelServer(respond) as server:
        url = server.url.removesuffix("/v1")
        model = LiteLLMModel("anthropic/claude-x", url, price_per_million=[3, 15])
        completion = model.complete(HELLO, sampling=Sampling(max_tokens=64))
        other = LiteLLMModel("anthropic/claude-y", url)
        with pytest.raises(Unanswered, match="'claude-x-20250101' answered"):
            other.complete(HELLO, sampling=Sampling())
    assert (completion.text, completion.model, completion.finish_reason) == ("hi", "claude-x-20250101", "stop")
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (5, 2)
    assert completion.usage.cost == pytest.approx((5 * 3 + 2 * 15) / 1e6)
    request, headers = requests[0]
    assert headers["x-api-key"] == KEY
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("claude-x", 64, 0)
    assert "top_p" not in request
    assert "hello" in json.dumps(request["messages"])
    assert KEY not in model.fingerprint
    assert model.fingerprint != other.fingerprint

    long = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}
    requests, respond = replies(400, long)
    with ModelServer(respond) as server:
        completion = LiteLLMModel("anthropic/claude-x", server.url[:-3]).complete(HELLO, sampling=Sampling())
    assert completion.finish_reason == "context_overflow"
    assert completion.usage.refused == len(requests) == 1

    echoed = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}
    requests, respond = replies(401, echoed)
    with ModelServer(respond) as server, pytest.raises(Unanswered, match="the key was refused") as error:
        LiteLLMModel("anthropic/claude-x", server.url[:-3]).complete(HELLO, sampling=Sampling())
    assert KEY not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert len(requests) == 1

    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    requests, respond = replies(529, overloaded)
    with ModelServer(respond) as server, pytest.raises(Unanswered) as error:
        LiteLLMModel("anthropic/claude-x", server.url[:-3], retries=1).complete(HELLO, sampling=Sampling())
    assert (error.value.outcome, len(requests)) == ("server_error", 2)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "waits"), [("7", [7]), ("130", [])])
def test_a_wait_that_the_provider_asks_for_is_kept_or_ends_the_retries(monkeypatch, asked, waits):
    from reflexion_lab.agent.models.litellm import LiteLLMModel

    class Busy(Handler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
            self.send(body, 429, headers={"Retry-After": asked})

    slept = []
    monkeypatch.setattr("reflexion_lab.agent.models.openai.time.sleep", slept.append)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with ModelServer(handler=Busy) as server, pytest.raises(Unanswered, match=f"Retry-After: {asked}, ") as error:
        LiteLLMModel("anthropic/claude-x", server.url[:-3], retries=1).complete(HELLO, sampling=Sampling())
    assert [wait for wait in slept if wait >= 0.1] == waits  # shorter ones are the server's
    assert ("sent 2 times" in str(error.value)) == bool(waits)


@pytest.mark.slow
def test_a_cloud_region_is_part_of_the_fingerprint(monkeypatch):
    from reflexion_lab.agent.models.litellm import AWS, LiteLLMModel

    def fingerprint(region, **fields):
        for name in AWS[1:]:
            monkeypatch.delenv(name, raising=False)
        if region:
            monkeypatch.setenv("AWS_REGION", region)
        return LiteLLMModel("bedrock/m", extra_body=fields).fingerprint

    assert len({fingerprint(""), fingerprint("eu-west-1"), fingerprint("us-east-1")}) == 3
    named = fingerprint("eu-west-1", aws_region_name="us-east-1")
    assert named == fingerprint("", aws_region_name="us-east-1") != fingerprint("", aws_region_name="eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert "eu-west-1" not in LiteLLMModel("anthropic/claude-x").fingerprint


@pytest.mark.slow
def test_advice_names_only_keys_of_its_config():
    from reflexion_lab.agent.models.litellm import LiteLLMModel

    model = LiteLLMModel("anthropic/claude-x")
    keys = set(compose("model=anthropic/claude-x").model)
    for status in (400, 429, 500):
        advice = model._advice(status, False)
        assert set(re.findall(r"model\.(\w+)", advice)) <= keys
        assert "deadline" not in advice


@pytest.mark.slow
def test_what_it_refuses(monkeypatch):
    from reflexion_lab.agent.models.litellm import LiteLLMModel

    with pytest.raises(ConfigError, match=r"model\.model: got 'claude', expected PROVIDER/NAME"):
        LiteLLMModel("claude")
    monkeypatch.setitem(__import__("sys").modules, "litellm", None)
    with pytest.raises(ModelError, match=r"pip install 'reflexion_lab\[litellm\]'"):
        LiteLLMModel("anthropic/claude-x")
