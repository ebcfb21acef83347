"""`model=anthropic/NAME` through LiteLLM, against a server on the loopback that speaks Anthropic's protocol."""

import json
import re

import pytest
from model_server import ModelServer

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


class Provider(ModelServer):
    """Answers with `status` and `body`; requests are kept with their headers."""

    def __init__(self, status, body, **headers):
        self.requests, self.step = [], (body, status, "application/json", headers)
        super().__init__()
        self.address = self.url.removesuffix("/v1")

    def answer(self, handler, raw):
        self.requests.append((json.loads(raw), handler.headers))
        handler.send(*self.step)


@pytest.fixture
def model(monkeypatch):
    from reflexion_lab.agent.models.litellm import LiteLLMModel  # importing LiteLLM takes seconds

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return LiteLLMModel


def error(status, kind, message, **headers):
    return Provider(status, {"type": "error", "error": {"type": kind, "message": message}}, **headers)


@pytest.mark.slow
def test_messages_go_to_the_provider_and_come_back(model):
    usage, content = {"input_tokens": 5, "output_tokens": 2}, [{"type": "text", "text": "hi"}]
    body = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x-20250101", "content": content}
    with Provider(200, {**body, "stop_reason": "end_turn", "usage": usage}) as server:
        asked = model("anthropic/claude-x", server.address, price_per_million=[3, 15])
        completion = asked.complete(HELLO, sampling=Sampling(max_tokens=64))
        other = model("anthropic/claude-y", server.address)
        with pytest.raises(Unanswered, match="claude-x-20250101"):
            other.complete(HELLO, sampling=Sampling())
    assert (completion.text, completion.model, completion.finish_reason) == ("hi", "claude-x-20250101", "stop")
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (5, 2)
    assert completion.usage.cost == pytest.approx((5 * 3 + 2 * 15) / 1e6)
    request, headers = server.requests[0]
    assert headers["x-api-key"] == KEY
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("claude-x", 64, 0)
    assert "seed" not in request and completion.usage.own_seed == 1  # LiteLLM knows that Anthropic takes none
    assert "hello" in json.dumps(request["messages"])
    assert KEY not in asked.fingerprint
    assert asked.fingerprint != other.fingerprint


@pytest.mark.slow
def test_prompt_that_is_too_long_is_a_reply(model):
    with error(400, "invalid_request_error", "prompt is too long: 9 > 8") as server:
        completion = model("anthropic/claude-x", server.address).complete(HELLO, sampling=Sampling())
    assert completion.finish_reason == "context_overflow"
    assert completion.usage.refused == len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind", "headers", "outcome", "waits"),
    [(401, "authentication_error", {}, "key_refused", []), (529, "overloaded_error", {}, "server_error", [0.5]),
     (429, "rate_limit_error", {"Retry-After": "7"}, "rate_limited", [7]),
     (429, "rate_limit_error", {"Retry-After": "130"}, "rate_limited", [])],
)  # fmt: skip
def test_failure_has_its_outcome_and_wait_and_never_the_key(model, monkeypatch, status, kind, headers, outcome, waits):
    slept = []
    monkeypatch.setattr("reflexion_lab.agent.models.openai.time.sleep", slept.append)
    with error(status, kind, f"invalid {KEY}", **headers) as server, pytest.raises(Unanswered) as caught:
        model("anthropic/claude-x", server.address, retries=1).complete(HELLO, sampling=Sampling())
    assert caught.value.outcome == outcome
    assert [wait for wait in slept if wait >= 0.1] == pytest.approx(waits, rel=0.25)  # shorter ones are the server's
    assert len(server.requests) == 1 + len(waits)
    assert headers.get("Retry-After", "") in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.slow
def test_cloud_region_is_part_of_the_fingerprint(model, monkeypatch):
    from reflexion_lab.agent.models.litellm import AWS

    def fingerprint(region, **fields):
        for name in AWS[1:]:
            monkeypatch.delenv(name, raising=False)
        if region:
            monkeypatch.setenv("AWS_REGION", region)
        return model("bedrock/m", extra_body=fields).fingerprint

    assert len({fingerprint(""), fingerprint("eu-west-1"), fingerprint("us-east-1")}) == 3
    named = fingerprint("eu-west-1", aws_region_name="us-east-1")
    assert named == fingerprint("", aws_region_name="us-east-1") != fingerprint("", aws_region_name="eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert "eu-west-1" not in model("anthropic/claude-x").fingerprint


@pytest.mark.slow
def test_advice_names_only_keys_of_its_config(model):
    keys = set(compose("model=anthropic/claude-x").model)
    for status in (400, 429, 500):
        advice = model("anthropic/claude-x")._advice(status, False)
        assert set(re.findall(r"model\.(\w+)", advice)) <= keys
        assert "deadline" not in advice


@pytest.mark.slow
def test_name_without_provider_and_missing_package_are_refused(model, monkeypatch):
    with pytest.raises(ConfigError, match=r"model\.model"):
        model("claude")
    monkeypatch.setitem(__import__("sys").modules, "litellm", None)
    with pytest.raises(ModelError, match="litellm"):
        model("anthropic/claude-x")
