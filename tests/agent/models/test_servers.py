"""Runs from the command line against servers on loopback: what a reply says is what is judged and kept."""

import json
import re
from pathlib import Path

import pytest
from model_server import ModelServer, completion

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config import parts
from reflexion_lab.text.prompts.render import OVERHEAD
from reflexion_lab.text.shorten import estimated

RIGHT = "```python\ndef total(xs):\n    test = sorted(xs, key=abs)\n    return sum(xs for xs in test)\n```"
WRONG = "```python\ndef total(xs):\n    return None\n```"
TASK = {
    "task_id": "own/1", "prompt": 'def total(xs):\n    """The sum."""\n', "entry_point": "total",
    "visible_tests": ["assert total([1, 2]) == 3"], "hidden_tests": ["assert total([3, -4]) == -1"],
}  # fmt: skip
COMMON = (
    "model=openai", "actor=single_shot", "benchmark=jsonl", "benchmark.load.path=t.jsonl", "tracker=none",
    "reflector=rules", "quiet=true", "loop.max_attempts=1", "sandbox.servers=1", "cache.executions=null",
    "model.retries=0", "model.price_per_million=[1,2]",
)  # fmt: skip


class Served(ModelServer):
    """Answers rightly, wrongly below `/bad`; to requests with `field`, while `refuses` stands, with that and `status`.
    `paths`, `bodies`, `prompts`: of the requests. `name`: the config's for the model; default: `model`, which answers.
    """

    status, name, field, thinks = 400, "", "", False

    def __init__(self):
        self.paths, self.bodies, self.prompts, self.refuses, self.model = [], [], [], None, "stub-7b"
        super().__init__()
        self.address = self.url.removesuffix("/v1")

    def answer(self, handler, raw):
        self.paths.append(handler.path)
        body = json.loads(raw)
        self.bodies.append(body)
        self.prompts.append("".join(message["content"] for message in body["messages"]))
        if self.refuses and (self.field in body or not self.field):
            handler.send({"error": self.refuses}, self.status)
        elif not re.search(r"one code block|whole function", self.prompts[-1]):
            handler.send(completion(**self.words(body), model=self.model))
        else:
            handler.send(completion(WRONG if handler.path.startswith("/bad") else RIGHT, (11, 7), self.model))

    def words(self, body):
        """Lines or an object, as a request constrains the reply; else what no parser reads."""
        labels = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE", "ISSUE", "SUGGESTION")
        values = {**dict.fromkeys(labels, "I will add one number after the other"), "CONFIDENCE": 0.7, "SEVERITY": 0.9}
        lines = "\n".join(f"{label}: {value}" for label, value in values.items())
        is_held = any("ROOT_CAUSE: " in str(body.get(field)) for field in CONSTRAINTS)
        words = json.dumps(values) if "response_format" in body else lines if is_held else "Sorry?"
        return {"text": None, "reasoning_content": words} if self.thinks else {"text": words}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    parts._model.cache_clear()  # a port may come again, and another server behind it
    with Served() as server:
        yield server


@pytest.fixture
def lab(server, tmp_path, monkeypatch, capsys):
    """Runs the command `run` in a folder with one task: the summaries by arm, the last one last."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jsonl").write_text(json.dumps(TASK) + "\n")

    def run(*overrides, before=(), code=0):
        served = (f"model.base_url={server.url}", f"model.model={server.name or server.model}")
        assert cli.main(["run", *before, *COMMON, *served, *overrides]) == code, "".join(capsys.readouterr())
        return [json.loads(path.read_text()) for path in sorted(tmp_path.glob("runs/2*/summary.json"))]

    return run


def share(summary):
    return summary["pass_at_1"]["share"]


OVERFLOW = {"code": "context_length_exceeded", "message": "however, your messages resulted in 9000 tokens"}


def test_rejected_prompt_is_free_live_and_cached(lab, server):
    server.refuses = OVERFLOW
    for arm, mode in (("live", "read-write"), ("replayed", "replay-only")):
        summary = lab(f"arm={arm}", f"cache.mode={mode}", "model.price_per_million=[2,4]")[-1]
        usage = summary["usage"]["actor"]
        assert (usage["calls"], usage["refused"], summary["uncounted"]) == (1, 1, 0)
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cost"]) == (0, 0, 0.0)


MODELS = "/v1/models"
FILE = "/srv/weights/w.Q4.gguf"


def listed(*names, **fields):
    return ({"object": "list", "data": [{"id": name, **fields} for name in names]},)


def fingerprints():
    folders = sorted(Path("runs").glob("2*"))
    return [json.loads((folder / "manifest.json").read_text())["model_fingerprint"] for folder in folders]


def test_only_model_of_a_server_answers_to_any_name_and_its_weights_are_the_models(lab, server, capsys):
    """Another file at the same address returns no old reply; finished runs and recorded replies need no server."""
    server.model, server.name = FILE, "mine"
    for size, mode in ((7, "read-write"), (7, "replay-only"), (7, "read-write"), (8, "read-write")):
        server.about[MODELS] = listed(FILE, owned_by="llamacpp", meta={"size": size})
        assert share(lab(f"cache.mode={mode}")[-1]) == 1.0
    answers = f"warning: {server.url}/ has one model, w.Q4.gguf, which answers in place of mine"
    assert capsys.readouterr().err.splitlines() == [answers] * 3
    base = f"openai:{server.url}:mine"
    assert fingerprints() == [f"{base}=w.Q4.gguf:{size} bytes:grammar" for size in (7, 7, 7, 8)]
    assert [body["model"] for body in server.bodies] == [FILE, FILE] and server.looks.count(MODELS) == 3
    first, *_ = sorted(Path("runs").glob("2*"))
    assert "/srv" not in "".join(path.read_text() for path in first.glob("*.json*"))
    server.shutdown()
    server.server_close()
    for command in ("show", "verify", "bundle -o b.zip"):
        assert cli.main([*command.split(), str(first)]) == 0, capsys.readouterr()
    assert cli.main(["replay", "b.zip"]) == 0
    assert "mine (w.Q4.gguf)" in capsys.readouterr().out
    lab("cache.mode=replay-only", code=2)
    assert "model=replay model.path=… model.fingerprint=… selects one" in capsys.readouterr().err


NONE, LOST = "the answer is no list", "Error code: 500"
NO_LIST = [(({}, 500), LOST), (({}, 404), ""), ((b"[" * 99999,), NONE), (({"data": [5, {"id": 7}]},), "")]


@pytest.mark.parametrize(("about", "reason"), NO_LIST)
def test_server_without_a_readable_list_runs_under_the_name_that_was_asked_for(lab, server, about, reason, capsys):
    server.about[MODELS] = about
    assert share(lab()[-1]) == 1.0
    assert fingerprints() == [f"openai:{server.url}:stub-7b"]
    lost = f"warning: the list of models of {server.url}/ was not read ("
    assert re.findall(rf"{re.escape(lost)}([^).]*)", capsys.readouterr().err) == [reason] * bool(reason)


MANY = listed(*(f"big-{number}b" for number in range(9)), "stub-7c", "other")
REFUSED = {
    "a name that it does not know": (MANY, 404, "expected a model of {}/: stub-7c, big-7b, .* and 6 more"),
    "a name that it calls invalid": (MANY, 400, "expected a model of {}/: stub-7c, big-7b, .* and 6 more"),
    "a key": (({}, 401), 401, "the key was refused; put a valid one into the environment variable OPENAI_API_KEY"),
    "any connection": (None, 0, "stub-7b at {}/ did not answer .*cache.mode=replay-only"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_server_refuses_is_named_before_there_is_a_run_folder(lab, server, capsys, kind):
    server.about[MODELS], server.status, text = REFUSED[kind]
    server.refuses = "no such stub-7b"
    if not server.status:
        server.server_close()
    assert lab(code=2) == []
    assert re.search(text.format(server.url), capsys.readouterr().err, re.DOTALL) and not Path("runs").exists()
    server.refuses = None
    assert not server.status or share(lab()[-1]) == 1.0


SLOT = ({"default_generation_settings": {"n_ctx": 320}, "total_slots": 4},)
LLAMA = {"models": listed("w.gguf", owned_by="llamacpp"), "../props": SLOT}
LOADED = {"models": [{"name": "other"}, {"name": "stub-7b", "digest": "abc" * 9, "context_length": 320}]}
VLLM = {"models": listed("stub-7b", owned_by="vllm", max_model_len=320), "../version": ({"version": "0.11.0rc1"},)}
SERVERS = {
    "llama.cpp, which expects thoughts": (LLAMA, "/props", "grammar"),
    "vLLM": (VLLM, "/models", "structured_outputs"),
    "vLLM before 0.11": (VLLM | {"../version": ({"version": "0.8.5.post1"},)}, "/models", "guided_grammar"),
    "SGLang": ({"models": listed("stub-7b", owned_by="sglang", max_model_len=320)}, "/models", "ebnf"),
    "Ollama": ({"models": listed("stub-7b", owned_by="library"), "../api/ps": (LOADED,)}, "/api/ps", "response_format"),
    "OpenAI": ({"models": listed("stub-7b", "x", owned_by="system")}, "", "response_format"),
    "OpenRouter": ({"models": listed("stub-7b", "x", context_length=320)}, "/models", ""),
}  # fmt: skip
"""Answers to GETs below `/v1`, the one with the context, and the field that constrains replies."""
CONSTRAINTS = ("grammar", "structured_outputs", "guided_grammar", "ebnf", "response_format")
RETRIES = ("loop.max_attempts=4", "reflector=llm", "actor.sampling.max_tokens=100", "model.context=0")
ROOM = 320 - 100 - OVERHEAD


@pytest.mark.parametrize("kind", SERVERS)
def test_prompts_fit_the_context_and_replies_are_held_to_their_form_as_the_server_can(lab, server, capsys, kind):
    answers, source, field = SERVERS[kind]
    server.about = {f"/bad/v1/{path}".replace("/v1/..", ""): answer for path, answer in answers.items()}
    server.thinks, sizes = "thoughts" in kind, []
    for context in (9999, 0):
        server.prompts.clear()
        lab(*RETRIES, f"model.base_url={server.address}/bad/v1", f"model.context={context}", "cache.mode=off")
        sizes.append(max(estimated(prompt) for prompt in server.prompts if "ROOT_CAUSE: " not in prompt))
    assert (sizes[1] <= ROOM < sizes[0]) == bool(source)
    for body in server.bodies:
        is_reflection = "ROOT_CAUSE: " in body["messages"][-1]["content"]
        assert [name for name in CONSTRAINTS if name in body] == [field] * bool(field and is_reflection)
    run = sorted(Path("runs").glob("2*"))[-1]
    attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    assert {each["reflection"]["source"] == "llm" for each in attempts if each["reflection"]} == {bool(field)}
    assert cli.main(["show", str(run), "--full"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert (f"context 320 tokens ({source})" in screen) == bool(source)
    assert (f"structured replies by {field}" in screen) == bool(field)


@pytest.mark.parametrize("about", [({}, 500), listed("stub-7b", "x"), listed("stub-7b", owned_by="system")])
def test_a_reply_is_not_that_of_a_request_with_another_constraint(lab, server, about):
    """A list of several models, which a server gives now and then."""
    retries = (*RETRIES[1:3], "loop.max_attempts=2", f"model.base_url={server.address}/bad/v1")
    for answer in (about, listed("stub-7b", "x", owned_by="system")):
        parts._model.cache_clear()  # a process reads such a list once
        server.about["/bad/v1/models"] = answer
        lab(*retries)
    sent = ["response_format" in body for body in server.bodies if "ROOT_CAUSE: " in body["messages"][-1]["content"]]
    assert sent == [False] * ("system" not in str(about)) + [True]


@pytest.mark.parametrize(("answered", "again", "solved"), [(0, 3, 6), (1, 0, 4)])
def test_refused_prompts_are_outcomes_after_an_answer_and_unfinished_before(lab, server, answered, again, solved):
    """Tasks that `only=unscored` asks again, and those solved in the end, by answers before the server refuses all."""
    tasks = [{**TASK, "task_id": f"own/{n}", "prompt": f'def total(xs):\n    """The sum, {n}."""\n'} for n in range(6)]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    if answered:
        lab("benchmark.limit=1")
    server.refuses = "widgets"
    lab("workers=1", code=2)
    server.refuses, asked, run = None, len(server.bodies), sorted(Path("runs").glob("2*"))[-1]
    lab(f"resume={run}", "only=unscored")
    assert len(server.bodies) - asked == again
    assert lab(f"resume={run}")[-1]["pass_at_1"]["k"] == solved


def test_resumed_run_keeps_weights_and_context_of_its_start(lab, server, capsys):
    """Where the server says nothing or has another context; other weights are refused. A replay has the context."""
    server.model, server.name = FILE, "mine"
    retries = (*RETRIES, "reflector=rules", f"model.base_url={server.address}/bad/v1")
    server.about["/bad/v1/models"] = listed(FILE, max_model_len=320)
    lab(*retries)
    (run,) = Path("runs").glob("2*")
    for about, code in ((({}, 500), 0), (listed(FILE, max_model_len=9999), 0), (listed("other"), 2)):
        server.about["/bad/v1/models"] = about
        for name in ("summary.json", "results.jsonl", "attempts.jsonl", "../calls.sqlite"):
            (run / name).unlink()
        server.prompts.clear()
        lab(*retries, f"resume={run}", code=code)
        assert code or 0 < max(map(estimated, server.prompts)) <= ROOM
        if not code:
            assert cli.main(["bundle", str(run), "-o", "b.zip"]) == 0, "".join(capsys.readouterr())
    assert "began with another model_fingerprint" in capsys.readouterr().err
    assert cli.main(["replay", "b.zip"]) == 0, "".join(capsys.readouterr())


CRITIC = ("actor=critique_revise", "actor@actor.generator=single_shot", "critic=llm", "reviser=llm")
SCHEMAS = {
    "reflector": (("reflector=llm",), "ROOT_CAUSE WHAT_WENT_WRONG WHAT_TO_CHANGE CONFIDENCE"),
    "critic": (CRITIC, "ISSUE SUGGESTION SEVERITY"),
    "curator": (("curator=ace",), "json_object"),
}  # fmt: skip


@pytest.mark.parametrize("role", SCHEMAS)
def test_labels_are_the_keys_of_an_object_where_a_server_takes_json_schema(lab, server, role):
    overrides, expected = SCHEMAS[role]
    server.about["/bad/v1/models"] = listed("stub-7b", "other", owned_by="openai")
    lab(f"model.base_url={server.address}/bad/v1", "loop.max_attempts=2", "seed=1,2", *overrides, before=("-m",))
    assert server.looks == ["/bad/v1/models"]  # a list of several models is read once per process
    forms = {str(body["messages"]): body["response_format"] for body in server.bodies if "response_format" in body}
    keys = [" ".join(form["json_schema"]["schema"]["required"]) for form in forms.values() if "json_schema" in form]
    assert {*keys, *(form["type"] for form in forms.values())} - {"json_schema"} == {expected}
    assert keys or all("JSON" in prompt for prompt in forms)  # without that word OpenAI refuses the type


@pytest.mark.parametrize(("kind", "words"), [("vLLM", "Invalid grammar."), ("OpenAI", "Invalid 'response_format'")])
def test_constraint_that_a_server_refuses_is_left_out_from_then_on(lab, server, capsys, kind, words):
    answers, _, server.field = SERVERS[kind]
    server.about["/bad/v1/models"], server.refuses = answers["models"], words
    lab(f"model.base_url={server.address}/bad/v1", "reflector=llm", "loop.max_attempts=2", "loop.reflect_on_last=true")
    assert [server.field in body for body in server.bodies] == [False, True, False, False, False]
    assert f"refuses {server.field}" in capsys.readouterr().err
