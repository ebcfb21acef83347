"""Servers that speak other dialects of the chat protocol, met through the command line."""

import json

import pytest
from habits import HABITS, forbidding, o_series, served
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


def summary_of(folder):
    (path,) = folder.glob("runs/2*/summary.json")
    return json.loads(path.read_text())


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


TWO = ("loop.max_attempts=2", "reflector.on_failure=skip", "workers=1", "temperature=0.8", "actor.sampling.stop=[x]")
LEARNT = {
    "o_series": ({"max_completion_tokens", "seed"}, 5, {"temperature", "stop", "top_p"}),
    "mistral": ({"temperature", "top_p", "max_tokens", "stop"}, 1, {"seed"}),
    "closed": ({"temperature", "max_tokens"}, 3, {"seed", "stop", "top_p"}),
    "tgi": ({"temperature", "max_tokens", "stop", "seed"}, 2, {"top_p"}),  # the reflector's temperature of 0, too
    "gemini": ({"temperature", "top_p", "max_tokens", "stop"}, 1, {"seed"}),
    "either": ({"temperature", "max_tokens", "stop", "seed"}, 1, {"top_p"}),
}
"""By habit: what the actor's last request has, how many requests are refused, and what is the server's own."""


@pytest.mark.parametrize("habit", LEARNT)
def test_a_refused_parameter_is_left_out_from_then_on_and_the_records_say_so(lab, tmp_path, habit):
    bodies, (sent, refusals, own) = [], LEARNT[habit]
    status, output = lab(served(HABITS[habit], bodies), *TWO)
    assert status == 0, output
    taken = [body for body, is_refused in bodies if not is_refused]
    assert len(taken) == 3  # two attempts and a reflection
    assert len(bodies) - len(taken) == refusals
    assert taken[-1].keys() - {"model", "messages"} == sent
    usage = summary_of(tmp_path)["usage"]
    marks = {name.removeprefix("own_"): n for name, n in usage["actor"].items() if name.startswith("own_")}
    assert marks == dict.fromkeys(own, 2)
    assert usage["reflector"].get("own_temperature", 0) == (habit in ("o_series", "tgi"))
    assert cli.main(["show", "--last", "1"]) == 0


@pytest.mark.parametrize("name", ["temperature", "top_p", "max_tokens", "stop"])
def test_what_extra_body_takes_away_is_named_on_the_screens(lab, tmp_path, capsys, name):
    extra = f"model.extra_body={{{name}:null}}"
    assert lab(served(lambda body: None, []), extra, "actor.sampling.stop=[x]")[0] == 0
    (run,) = map(str, tmp_path.glob("runs/2*"))
    for words in (["show", run], ["show", run, "--full"], ["compare", run, run]):
        cli.main(words)
        assert f"SERVER'S OWN {name} in 1 of 1 replies of" in capsys.readouterr().out.replace("\n", " ").replace(
            "  ", " "
        )


BLAMED = {
    "top_k": ("model.extra_body={top_k:9}", "model.extra_body={top_k:null}"),
    "max_tokens": ("model.requests_per_minute=9000", "model.extra_body={max_tokens:null}"),
    "messages": ("model.requests_per_minute=9000", "see whether model.model"),
}


@pytest.mark.parametrize("name", BLAMED)
def test_a_refused_field_that_must_not_be_left_out_is_named_with_its_key(lab, name):
    bodies, (override, key) = [], BLAMED[name]
    status, output = lab(served(forbidding(name), bodies), override)
    assert (status, len(bodies)) == (2, 2)  # a task whose first prompt is refused is tried again after the others
    assert key in output


WARMING = ("actor=warming", "actor@actor.make_actor=single_shot", "temperature=0.2")


@pytest.mark.parametrize(
    ("overrides", "requests", "key"),
    [
        (WARMING, 4, "actor.temperatures"), ((*WARMING, "model.extra_body={temperature:null}"), 0, "model.extra_body"),
        ((*WARMING, "model.extra_body={temperature:1}"), 0, "model.extra_body"),
    ],
)  # fmt: skip
def test_a_schedule_of_temperatures_that_cannot_act_is_refused(lab, overrides, requests, key):
    bodies = []
    status, output = lab(served(o_series, bodies), *overrides)
    assert (status, len(bodies)) == (2, requests), output
    assert f"error: {key}" in output
