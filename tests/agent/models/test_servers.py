"""Runs from the command line against servers on loopback: what a reply says is what is judged and kept."""

import json

import pytest
from model_server import ModelServer, completion

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config import parts

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
    """Answers rightly, wrongly below `/bad`; with `refuses`, while it stands, as an error. `paths`: of the requests."""

    def __init__(self):
        self.paths, self.refuses, self.model = [], None, "stub-7b"
        super().__init__()
        self.address = self.url.removesuffix("/v1")

    def answer(self, handler, raw):
        self.paths.append(handler.path)
        if self.refuses:
            handler.send({"error": self.refuses}, 400)
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

    def run(*overrides, before=()):
        served = (f"model.base_url={server.url}", f"model.model={server.model}")
        assert cli.main(["run", *before, *COMMON, *served, *overrides]) == 0, "".join(capsys.readouterr())
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
