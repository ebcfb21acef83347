"""Servers that speak other dialects of the chat protocol, met through the command line."""

import json

import pytest
from habits import FORMS, HABITS, body_of, forbidding, o_series, served
from model_server import Handler, ModelServer, completion

from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import LabError
from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.runner.config import parts
from tests.agent.models.test_servers import TASK

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


@pytest.fixture
def ask(monkeypatch):
    """The reply of a server to one call, or the error."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    def called(respond, url="URL/v1", handler=Handler):
        """`url`: with `URL`, `HOST` or `PORT` of the server."""
        with ModelServer(respond, handler) as server:
            place = url.replace("URL", "http://HOST").replace("HOST", f"127.0.0.1:{server.server_port}")
            try:
                model = OpenAIModel("tiny", place.replace("PORT", str(server.server_port)), retries=0)
                return model.complete([Message(role="user", content="hello")], sampling=Sampling())
            except LabError as problem:
                return problem

    return called


SAYS = "widgets are out of stock"
OWN = {"apigee": json.dumps({"fault": {"faultstring": SAYS}}).encode(), "web page": f"<html>{SAYS}</html>".encode()}


@pytest.mark.parametrize("form", [*FORMS, *OWN])
def test_the_reason_of_an_error_is_shown_whatever_the_form_of_its_body(ask, form):
    reply = ask(lambda body, headers: (422, OWN.get(form) or body_of(form, SAYS)))
    assert (reply.finish_reason, reply.text.count(SAYS)) == ("refused", 1)
    assert ("body.widget: " in reply.text) == (form in ("fastapi", "mistral"))


ALL = {"temperature", "top_p", "max_tokens", "seed"}
RIGHT = "```python\ndef total(xs):\n    return sum(xs)\n```"
NULLS = {
    "": ALL, "temperature=null": ALL - {"temperature"}, "actor.sampling.top_p=null": ALL - {"top_p"},
    "actor.sampling.max_tokens=null": ALL - {"max_tokens"}, "actor.sampling.seed=null": ALL - {"seed"},
    "actor.sampling.stop=[x]": ALL | {"stop"}, "actor=react actor.sampling.stop=null": ALL | {"stop"},
    "model.context=4096 actor.sampling.max_tokens=null caps.tokens=9000": ALL - {"max_tokens"},
    "seed=null": None, "actor=warming temperature=null": None,
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
    usage = json.loads(next(tmp_path.glob("runs/2*/summary.json")).read_text())["usage"]
    marks = {name.removeprefix("own_"): n for name, n in usage["actor"].items() if name.startswith("own_")}
    assert marks == dict.fromkeys(own, 2)
    assert usage["reflector"].get("own_temperature", 0) == (habit in ("o_series", "tgi"))
    assert cli.main(["show", "--last", "1"]) == 0


@pytest.mark.parametrize("name", ["temperature", "stop"])
def test_what_extra_body_takes_away_is_named_on_the_screens(lab, tmp_path, capsys, name):
    extra = f"model.extra_body={{{name}:null}}"
    assert lab(served(lambda body: None, []), extra, "actor.sampling.stop=[x]")[0] == 0
    (run,) = map(str, tmp_path.glob("runs/2*"))
    for words in (["show", run], ["show", run, "--full"], ["compare", run, run]):
        cli.main(words)
        assert f"SERVER'S OWN {name} in 1 of 1 replies of" in " ".join(capsys.readouterr().out.split())


def test_a_listed_price_is_that_of_the_replies(lab, tmp_path, monkeypatch):
    hosts = {"host": "127.0.0.1", "models": ["tiny"], "provider": "x", "currency": "USD", "source": "x"}
    entry = hosts | {"prompt": 100, "completion": 200, "as_of": "2026-11-01"}
    monkeypatch.setattr("reflexion_lab.agent.models.prices.host_of", lambda node: "127.0.0.1")  # without its port
    (tmp_path / "own.yaml").write_text(json.dumps([entry]).replace('"2026-11-01"', "2026-11-01"))
    status, output = lab(served(lambda body: None, []), "model.price_per_million=null", "prices.path=own.yaml")
    assert status == 0, output
    usage = json.loads(next(tmp_path.glob("runs/2*/summary.json")).read_text())["usage"]["actor"]
    cost = (100 * usage["prompt_tokens"] + 200 * usage["completion_tokens"]) / 1e6
    assert usage["cost"] == pytest.approx(cost) and cost > 0


ROOM = "actor.sampling.max_tokens=8192 reflector.first.sampling.max_tokens=4096"


@pytest.mark.parametrize(
    ("words", "habit", "effort"),
    [("", o_series, None), ("model.reasoning_effort=low", o_series, "low"), (ROOM, lambda body: None, None)],
)
def test_a_model_that_thinks_has_room_for_thoughts_in_one_command(lab, tmp_path, words, habit, effort):
    bodies = []
    assert lab(served(habit, bodies, thoughts=900), "loop.max_attempts=2", *words.split())[0] == 0
    assert {body.get("reasoning_effort") for body, _ in bodies} == {effort}
    usage = json.loads(next(tmp_path.glob("runs/2*/summary.json")).read_text())["usage"]
    assert [(used["calls"], used.get("cut_replies", 0)) for used in usage.values()] == [(2, 0), (1, 0)]


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


@pytest.mark.parametrize(("extra", "requests"), [("{}", 4), ("{temperature:null}", 0), ("{temperature:1}", 0)])
def test_a_schedule_of_temperatures_that_cannot_act_is_refused(lab, extra, requests):
    bodies, warming = [], ("actor=warming", "actor@actor.make_actor=single_shot", "temperature=0.2")
    status, output = lab(served(o_series, bodies), *warming, f"model.extra_body={extra}")
    assert (status, len(bodies)) == (2, requests), output
    assert f"error: {'actor.temperatures' if requests else 'model.extra_body'}" in output


PLACES = {
    "URL": ["/v1"], "URL/": ["/v1"], "URL/v1": ["/v1"], "URL/v1/": ["/v1"], "URL/v1/chat/completions": ["/v1"],
    "URL/v1/completions/": ["/v1"], "URL/api": ["/api/v1"], "URL/root": ["/root"], "HOST/v1": ["/v1"],
    "localhost:PORT/v1": ["/v1"], "URL/azure/m?api-version=2": ["/azure/m", "?api-version=2"],
    "URL/azure/m/chat/completions?api-version=2": ["/azure/m", "?api-version=2"],
    "me:pw@HOST/v1": [], "URL/v2": [], "URL/azure/m": [], "ftp://HOST/v1": [], "http:/HOST/v1": [],
}  # fmt: skip
"""By `model.base_url`, what stands before and after `/chat/completions` where the server answers; else an error."""


@pytest.mark.parametrize("place", PLACES)
def test_an_address_is_read_in_the_forms_in_which_people_copy_it(ask, place):
    answered = []
    known = {f"{ends[0]}/chat/completions{''.join(ends[1:])}" for ends in PLACES.values() if ends}

    class Strict(Handler):
        def do_POST(self):
            if self.path not in known:
                self.send({"detail": "Not Found"}, 404)
            else:
                answered.append(self.path)
                super().do_POST()

    reply, ends = ask(lambda body, _: (200, completion(RIGHT)), place, Strict), PLACES[place]
    assert answered == ([f"{ends[0]}/chat/completions{''.join(ends[1:])}"] if ends else []), reply
    assert ends or "model.base_url" in str(reply)


def stream(*deltas, end="stop", last=b"data: [DONE]\n\n", before=b""):
    chunks = [{"model": "tiny", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": {"prompt_tokens": 7}})
    return before + b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + last


PIECES = [{"role": "assistant", "content": ""}, *({"content": RIGHT[at : at + 9]} for at in range(0, len(RIGHT), 9))]
PAIR = [{"content": "# \ud83d"}, {"content": "\ude00"}, {"content": "\n\n"}]
MESSAGE = json.dumps({"content": RIGHT}).encode()
BROKEN = {
    "torn": (stream(*PIECES, end=None, last=b""), "no chat completion"),
    "torn within": (stream(*PIECES).replace(b'"}', b"", 3), "JSON is malformed"),
    "error": (b"data: " + body_of("openai", SAYS), SAYS),
    "error after text": (stream(*PIECES, last=b'event: error\ndata: {"message": "busy"}\n'), "field `choices`"),
    "detail": (b'data: {"detail": "%s"}\n\ndata: [DONE]\n' % SAYS.encode(), SAYS),
    "end alone": (b"data: [DONE]\n", "JSON is malformed"),
    "no choice": (b'data: {"choices": []}\ndata: [DONE]\n', "JSON is malformed"),
    "lines": (b'data: {\ndata: "choices": []\ndata: }\n\ndata: [DONE]\n', "JSON is malformed"),
}  # fmt: skip
STREAMS = {
    "openai": stream(*PIECES), "comments": stream(*PIECES, before=b": PROCESSING\n\nevent: chunk\n"),
    "halves of a character": stream(*PAIR, *PIECES), "no end": stream(*PIECES, last=b""),
    "thoughts": stream({"reasoning_content": "Hm.", "content": None}, {"reasoning_content": "So."}, *PIECES),
    "parts": stream(*({"content": [{"type": kind, kind: RIGHT}]} for kind in ("thinking", "text"))),
    "text after parts": stream({"content": [{"type": "thinking", "thinking": "Hm."}]}, *PIECES),
    "two choices at once": stream(*PIECES).replace(b'}], "u', b'}, {"index": 1, "delta": {"content": "x"}}], "u'),
    "deltas and the whole": stream(*PIECES).replace(b'"delta": {}', b'"delta": {}, "message": %s' % MESSAGE),
    "the whole": b'data: {"choices": [{"message": %s}], "usage": {"prompt_tokens": 7}}\ndata: [DONE]\n' % MESSAGE,
    "two choices": stream(*PIECES, last=b'data: {"choices": [{"index": 1, "delta": {"content": "x"}}]}'),
}  # fmt: skip


@pytest.mark.parametrize("form", [*STREAMS, *BROKEN])
def test_a_stream_that_nobody_asked_for_is_read_as_one_reply(ask, form):
    answer, message = BROKEN.get(form) or (STREAMS[form], "")
    reply = ask(lambda body, headers: (200, answer))
    assert isinstance(reply, Completion) == (not message)
    if message:
        assert message in str(reply)
    else:
        assert (reply.text.removeprefix("# \U0001f600\n\n"), reply.usage.prompt_tokens) == (RIGHT, 7)
