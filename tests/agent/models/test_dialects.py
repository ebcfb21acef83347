"""Servers that speak other dialects of the chat protocol, met through the command line."""

import json

import pytest
from model_server import ModelServer, completion

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config import parts

TASK = {
    "task_id": "own/1", "prompt": 'def total(xs):\n    """The sum."""\n', "entry_point": "total",
    "visible_tests": ["assert total([1, 2]) == 3"], "hidden_tests": ["assert total([3, -4]) == -1"],
}  # fmt: skip
COMMON = (
    "model=openai/tiny", "benchmark=t.jsonl", "tracker=none", "quiet=true", "loop.max_attempts=1", "sandbox.servers=1",
    "cache.executions=null", "cache.mode=off", "model.retries=0", "model.price_per_million=[1,2]",
)  # fmt: skip


@pytest.fixture
def lab(tmp_path, monkeypatch, capsys):
    """Runs one task against a server: `lab(respond, *overrides)` returns exit status, output and the server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (tmp_path / "t.jsonl").write_text(json.dumps(TASK) + "\n")

    def run(respond, *overrides):
        parts._model.cache_clear()  # a port may come again, and another server behind it
        with ModelServer(respond) as server:
            status = cli.main(["run", *COMMON, f"model.base_url={server.url}", *overrides])
        return status, "".join(capsys.readouterr())

    return run


SAYS = "widgets are out of stock"
QUOTED = json.dumps({"error": {"code": 400, "message": SAYS}})
FORBIDDEN = {"type": "extra_forbidden", "loc": ["body", "widget"], "msg": SAYS, "input": "PROMPT"}
FORMS = {
    "openai": {"error": {"message": SAYS, "type": "invalid_request_error"}},
    "vllm": {"object": "error", "message": SAYS}, "tgi": {"error": SAYS, "error_type": "validation"},
    "text of detail": {"detail": SAYS},
    "fastapi": {"detail": [FORBIDDEN]}, "mistral": {"object": "error", "message": {"detail": [FORBIDDEN]}},
    "message": {"message": SAYS, "code": 400}, "gemini": [{"error": {"code": 400, "message": SAYS}}],
    "plain text": SAYS.encode(), "cloudflare": {"success": False, "errors": [{"code": 7003, "message": SAYS}]},
    "openrouter": {"error": {"message": "Provider returned error", "metadata": {"raw": QUOTED, "provider_name": "x"}}},
    "aws": {"__type": "ValidationException", "Message": SAYS}, "rfc 7807": {"title": "Bad Request", "detail": SAYS},
    "google.rpc": {"error": {"message": "invalid", "details": [{"fieldViolations": [{"description": SAYS}]}]}},
    "apigee": {"fault": {"faultstring": SAYS}}, "web page": f"<html>{SAYS}</html>".encode(),
    "json in text": {"error": QUOTED},
}  # fmt: skip
"""Bodies of one error, by server or convention."""


@pytest.mark.parametrize("form", FORMS)
def test_the_reason_of_an_error_is_shown_whatever_the_form_of_its_body(lab, form):
    status, output = lab(lambda body, headers: (422, FORMS[form]))
    assert status == 2
    assert output.count(SAYS) == 1, output
    assert ("body.widget: " in output) == (form in ("fastapi", "mistral"))
    assert "PROMPT" not in output


TOO_LONG = "This model's maximum context length is 400 tokens. However, your prompt has 620 tokens."


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("apigee", "web page")])
def test_a_prompt_that_is_too_long_is_an_outcome_whatever_the_form_of_the_body(lab, form):
    body = FORMS[form]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, output = lab(lambda body, headers: (400, raw.replace(SAYS.encode(), TOO_LONG.encode())))
    assert status == 0, output


ALL = {"temperature", "top_p", "max_tokens", "seed"}
RIGHT = "```python\ndef total(xs):\n    return sum(xs)\n```"
NULLS = {
    "": ALL, "temperature=null": ALL - {"temperature"}, "actor.sampling.top_p=null": ALL - {"top_p"},
    "actor.sampling.max_tokens=null": ALL - {"max_tokens"}, "actor.sampling.seed=null": ALL - {"seed"},
    "actor.sampling.stop=null": ALL, "actor.sampling.stop=[x]": ALL | {"stop"}, "actor.sampling.grammar=null": ALL,
    "actor=react actor.sampling.stop=null": ALL | {"stop"},
    "model.context=4096 actor.sampling.max_tokens=null caps.tokens=9000": ALL - {"max_tokens"},
    "seed=null": None, "actor.sampling.min_p=null": None, "actor=warming temperature=null": None,
}  # fmt: skip
"""Fields of a request beside model and messages, by overrides; None: refused."""


@pytest.mark.parametrize("overrides", NULLS)
def test_a_sampling_value_of_null_is_not_sent(lab, overrides):
    bodies = []
    status, output = lab(lambda body, _: bodies.append(body) or (200, completion(RIGHT)), *overrides.split())
    sent = {frozenset(body.keys() - {"model", "messages"}) for body in bodies}
    assert sent == ({frozenset(NULLS[overrides])} if NULLS[overrides] is not None else set()), output
    assert status == (0 if bodies else 2)
