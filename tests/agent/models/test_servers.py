"""Runs from the command line against servers on loopback: what a reply says is what is judged and kept."""

import json
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
    """Answers rightly, wrongly below `/bad`; with `refuses`, while it stands, as an error of `status`. `paths`,
    `asked`, `prompts`: paths, models and texts of the requests. `name`: the config's for the model; default: `model`,
    as which it answers.
    """

    status, name = 400, ""

    def __init__(self):
        self.paths, self.asked, self.prompts, self.refuses, self.model = [], [], [], None, "stub-7b"
        super().__init__()
        self.address = self.url.removesuffix("/v1")

    def answer(self, handler, raw):
        self.paths.append(handler.path)
        body = json.loads(raw)
        self.asked.append(body["model"])
        self.prompts.append("".join(message["content"] for message in body["messages"]))
        if self.refuses:
            handler.send({"error": self.refuses}, self.status)
        else:
            handler.send(completion(WRONG if handler.path.startswith("/bad") else RIGHT, (11, 7), self.model))


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "name"),
    [("x", "stub-7b"), ("ollama", "ollama/llama3"), ("local-llama-3.1", "local-llama-3.1-8b"),
     *((key, "stub-7b") for key in ("EMPTY", "key", "sorted", "test"))],
)  # fmt: skip
def test_placeholder_key_changes_no_program_and_no_model_name(lab, server, monkeypatch, key, name):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.model = name
    (summary,) = lab()
    assert share(summary) == 1.0


@pytest.mark.slow
def test_servers_behind_one_host_share_no_reply(lab, server):
    summaries = lab(f"model.base_url={server.address}/good/v1,{server.address}/bad/v1", before=("-m",))
    assert sorted(share(summary) for summary in summaries) == [0.0, 1.0]
    assert sorted(set(server.paths)) == ["/bad/v1/chat/completions", "/good/v1/chat/completions"]


OVERFLOW = {"code": "context_length_exceeded", "message": "however, your messages resulted in 9000 tokens"}
FILTER = {"code": "content_filter", "message": "no"}


@pytest.mark.slow
def test_rejected_prompt_is_sent_again_by_a_later_run(lab, server):
    server.refuses, shares = OVERFLOW, []
    for arm, mode in (("before", "read-write"), ("after", "read-write"), ("replayed", "replay-only")):
        shares.append((share(lab(f"arm={arm}", f"cache.mode={mode}")[-1]), len(server.paths)))
        server.refuses = None
    assert shares == [(0.0, 1), (1.0, 2), (1.0, 2)]


@pytest.mark.parametrize("refusal", [OVERFLOW, pytest.param(FILTER, marks=pytest.mark.slow)])
def test_rejected_prompt_is_free_live_and_cached(lab, server, refusal):
    server.refuses = refusal
    for arm, mode in (("live", "read-write"), ("replayed", "replay-only")):
        summary = lab(f"arm={arm}", f"cache.mode={mode}", "model.price_per_million=[2,4]")[-1]
        usage = summary["usage"]["actor"]
        assert (usage["calls"], usage["refused"], summary["uncounted"]) == (1, 1, 0)
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cost"]) == (0, 0, 0.0)


# What a server lists

MODELS = "/v1/models"
FILE = "/srv/weights/w.Q4.gguf"


def listed(*names, **fields):
    return ({"object": "list", "data": [{"id": name, **fields} for name in names]},)


def fingerprints():
    folders = sorted(Path("runs").glob("2*"))
    return [json.loads((folder / "manifest.json").read_text())["model_fingerprint"] for folder in folders]


def test_only_model_of_a_server_answers_to_any_name_and_its_weights_are_the_models(lab, server, capsys):
    """Another file at the same address returns no old reply; finished runs need no server."""
    server.model, server.name = FILE, "mine"
    for size in (7, 7, 8):
        server.about[MODELS] = listed(FILE, owned_by="llamacpp", meta={"size": size})
        assert share(lab()[-1]) == 1.0
    base = f"openai:{server.url}:mine"
    assert fingerprints() == [f"{base}=w.Q4.gguf:{size} bytes" for size in (7, 7, 8)]
    assert server.asked == [FILE, FILE]
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


def test_one_recording_of_an_address_is_replayed_without_its_server(lab, server):
    server.about[MODELS] = listed(FILE)
    server.model, server.name = FILE, "mine"
    lab()
    server.shutdown()
    server.server_close()
    assert [share(summary) for summary in lab("cache.mode=replay-only")] == [1.0, 1.0]
    assert len(set(fingerprints())) == 1


NO_LIST = [
    ({}, 500), ({}, 404), ({}, 403), (b"<html>",), (b"[" * 99999,), ({"data": 5},), ({"data": [5, {"id": 7}]},), ([],),
    ({"data": []},), ({"error": "no"},),
]  # fmt: skip


@pytest.mark.parametrize("about", NO_LIST)
def test_server_without_a_readable_list_runs_under_the_name_that_was_asked_for(lab, server, about):
    server.about[MODELS] = about
    assert share(lab()[-1]) == 1.0
    assert fingerprints() == [f"openai:{server.url}:stub-7b"]


MANY = [*(f"big-{number}b" for number in range(9)), "stub-7c", "other"]
REFUSED = {
    "a name that it does not know": (listed(*MANY), 404, "expected a model of {}/: stub-7c, big-7b, "),
    "a name that it calls invalid": (listed(*MANY), 400, "expected a model of {}/: stub-7c, big-7b, "),
    "a key": (({}, 401), 401, "the key was refused; put a valid one into the environment variable OPENAI_API_KEY"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_server_refuses_is_named_before_there_is_a_run_folder(lab, server, capsys, kind):
    """Whatever a list says, a name or a key is wrong only if a call fails with it."""
    about, status, text = REFUSED[kind]
    server.about[MODELS], server.refuses, server.status = about, "no such stub-7b", status
    assert lab(code=2) == []
    error = capsys.readouterr().err.splitlines()[-1]
    assert text.format(server.url) in error and not Path("runs").exists()
    assert ("and 6 more" in error) == (status != 401)
    server.refuses = None
    assert share(lab()[-1]) == 1.0


def test_address_where_nothing_listens_is_named_before_there_is_a_run_folder(lab, server, capsys):
    server.shutdown()
    server.server_close()
    assert lab(code=2) == [] and not Path("runs").exists()
    error = capsys.readouterr().err
    assert f"stub-7b at {server.url}/ did not answer" in error and "cache.mode=replay-only" in error


def test_list_of_several_models_is_read_once_per_process(lab, server):
    server.about[MODELS] = listed("stub-7b", "other", owned_by="openai")
    lab("seed=1")
    lab("seed=2")
    assert server.looks == [MODELS] and server.asked == ["stub-7b"] * len(server.asked)


def test_model_that_could_be_loaded_is_no_model_of_another_name(lab, server, capsys):
    server.about[MODELS], server.refuses, server.status = listed("llama3:latest", owned_by="library"), "not found", 404
    lab(code=2)
    assert "expected a model of" in capsys.readouterr().err and server.asked == ["stub-7b"]


@pytest.mark.parametrize(("about", "code"), [(({}, 500), 0), (listed("other.gguf"), 2)])
def test_resumed_run_keeps_its_weights_and_is_refused_others(lab, server, capsys, about, code):
    server.about[MODELS] = listed(FILE)
    server.model, server.name = FILE, "mine"
    lab()
    (run,) = Path("runs").glob("2*")
    for name in ("summary.json", "results.jsonl", "attempts.jsonl"):
        (run / name).unlink()
    server.about[MODELS] = about
    summaries = lab(f"resume={run}", code=code)
    assert [share(summary) for summary in summaries] == [1.0] * (not code)
    assert ("began with another model_fingerprint" in capsys.readouterr().err) == bool(code)


# Contexts

SLOT = {"default_generation_settings": {"n_ctx": 400}, "total_slots": 4}
LOADED = {"models": [{"name": "other"}, {"name": "stub-7b", "digest": "abc" * 9, "context_length": 400}]}
WINDOWS = {
    "llama.cpp": ({"models": listed("w.gguf", owned_by="llamacpp"), "../props": (SLOT,)}, "/props"),
    "vLLM": ({"models": listed("stub-7b", owned_by="vllm", max_model_len=400)}, "/models"),
    "Ollama": ({"models": listed("stub-7b", "x", owned_by="library"), "../api/ps": (LOADED,)}, "/api/ps"),
    "OpenRouter": ({"models": listed("stub-7b", "x", context_length=400)}, "/models"),
}


RETRIES = ("loop.max_attempts=4", "actor.sampling.max_tokens=100", "cache.mode=off")
ROOM = 400 - 100 - OVERHEAD


@pytest.mark.parametrize("kind", WINDOWS)
def test_prompts_are_cut_to_the_context_that_the_server_has(lab, server, capsys, kind):
    answers, source = WINDOWS[kind]
    server.about = {f"/bad/v1/{path}".replace("/v1/..", ""): answer for path, answer in answers.items()}
    sizes = []
    for context in (9999, 0):
        server.prompts.clear()
        lab(*RETRIES, f"model.context={context}", f"model.base_url={server.address}/bad/v1")
        sizes.append(max(map(estimated, server.prompts)))
    assert sizes[0] > ROOM >= sizes[1]
    run = sorted(Path("runs").glob("2*"))[-1]
    assert cli.main(["show", str(run), "--full"]) == 0
    assert f"context 400 tokens ({source})" in capsys.readouterr().out


def test_context_of_a_run_stays_that_of_its_start(lab, server, capsys):
    """When the server is started again with another one, and where there is no server."""
    retries = (*RETRIES[:2], f"model.base_url={server.address}/bad/v1")
    server.about["/bad/v1/models"] = listed("stub-7b", max_model_len=400)
    lab(*retries)
    (run,) = Path("runs").glob("2*")
    (run / "summary.json").unlink()
    for name in ("results.jsonl", "attempts.jsonl"):
        (run / name).write_text("")
    server.about["/bad/v1/models"] = listed("stub-7b", max_model_len=9999)
    Path("runs/calls.sqlite").unlink()
    server.prompts.clear()
    lab(*retries, f"resume={run}")
    assert server.prompts and max(map(estimated, server.prompts)) <= ROOM
    server.shutdown()
    server.server_close()
    for command in (["bundle", str(run), "-o", "b.zip"], ["replay", "b.zip"]):
        assert cli.main(command) == 0, "".join(capsys.readouterr())
