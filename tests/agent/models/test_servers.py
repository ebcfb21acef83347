"""Runs from the command line against servers on loopback: what a reply says is what is judged and kept."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config import parts


class Stub:
    """A server whose reply is `text`, or that of `by_path` for a path that begins so; `requests` has the paths."""

    def __init__(self, by_path, model="stub-7b", finish="stop"):
        self.requests, self.by_path, self.model, self.finish = [], by_path, model, finish
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                stub.requests.append(self.path)
                status, body = stub.answer(self.path)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *parts):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path):
        text = next(text for start, text in self.by_path.items() if path.startswith(start))
        choice = {"message": {"content": text}, "finish_reason": self.finish}
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        return 200, {"model": self.model, "choices": [choice], "usage": usage}

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@contextmanager
def serving(*arguments, **settings):
    stub = Stub(*arguments, **settings)
    try:
        yield stub
    finally:
        stub.close()


RIGHT = "```python\ndef total(xs):\n    test = sorted(xs, key=abs)\n    return sum(xs for xs in test)\n```"
WRONG = "```python\ndef total(xs):\n    return None\n```"


@pytest.fixture
def lab(tmp_path, monkeypatch, capsys):
    """Runs the command `run` in a folder with one task: exit code, what was printed, and the summaries by arm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    parts._model.cache_clear()  # a port may come again, and another server behind it
    task = {
        "task_id": "own/1",
        "prompt": 'def total(xs):\n    """The sum."""\n',
        "entry_point": "total",
        "visible_tests": ["assert total([1, 2]) == 3"],
        "hidden_tests": ["assert total([3, -4]) == -1"],
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(task) + "\n")

    def run(url, *overrides):
        code = cli.main(
            [
                "run",
                *("-m" for override in overrides if "," in override and "[" not in override),
                *("model=openai", "actor=single_shot", "benchmark=jsonl", "benchmark.load.path=t.jsonl"),
                *(
                    "tracker=none",
                    "reflector=rules",
                    "quiet=true",
                    "loop.max_attempts=1",
                    "sandbox.servers=1",
                    "cache.executions=null",
                ),
                *("model.retries=0", "model.price_per_million=[1,2]"),
                *(
                    ()
                    if any(override.startswith("model.base_url") for override in overrides)
                    else (f"model.base_url={url}/v1",)
                ),
                *(
                    ()
                    if any(override.startswith("model.model") for override in overrides)
                    else ("model.model=stub-7b",)
                ),
                *overrides,
            ]
        )
        output = capsys.readouterr()
        summaries = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("runs/2*/summary.json"))]
        return code, output.out + output.err, summaries

    return run


def share(summary):
    return summary["pass_at_1"]["share"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("x", "stub-7b"),
        ("ollama", "ollama/llama3"),
        ("local-llama-3.1", "local-llama-3.1-8b"),
        *(pytest.param(key, "stub-7b", marks=pytest.mark.slow) for key in ("EMPTY", "key", "sorted", "test")),
    ],
)
@pytest.mark.slow
def test_a_placeholder_key_changes_no_program_and_no_model_name(lab, monkeypatch, key, name):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with serving({"/": RIGHT}, model=name) as stub:
        code, output, (summary,) = lab(stub.address, f"model.model={name}")
    assert (code, share(summary)) == (0, 1.0), output


@pytest.mark.slow
def test_servers_behind_one_host_share_no_reply(lab, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with serving({"/good": RIGHT, "/bad": WRONG}) as stub:
        code, output, summaries = lab("", f"model.base_url={stub.address}/good/v1,{stub.address}/bad/v1")
    assert code == 0, output
    assert sorted(share(summary) for summary in summaries) == [0.0, 1.0]
    assert sorted(set(stub.requests)) == ["/bad/v1/chat/completions", "/good/v1/chat/completions"]


class Refusing(Stub):
    """Answers rightly, but for prompts that it refuses while `refuses` stands: with that error."""

    refuses = None

    def answer(self, path):
        return (400, {"error": self.refuses}) if self.refuses else super().answer(path)


OVERFLOW = {"code": "context_length_exceeded", "message": "however, your messages resulted in 9000 tokens"}


@pytest.mark.slow
def test_a_rejected_prompt_is_sent_again_by_a_later_run(lab, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    stub = Refusing({"/": RIGHT})
    stub.refuses = OVERFLOW
    shares = []
    for arm in ("before", "after", "replayed"):
        mode = "replay-only" if arm == "replayed" else "read-write"
        code, output, summaries = lab(stub.address, f"arm={arm}", f"cache.mode={mode}")
        assert code == 0, output
        shares.append((share(summaries[-1]), len(stub.requests)))
        stub.refuses = None
    stub.close()
    assert shares == [(0.0, 1), (1.0, 2), (1.0, 2)]


@pytest.mark.parametrize(
    "refusal", [OVERFLOW, pytest.param({"code": "content_filter", "message": "no"}, marks=pytest.mark.slow)]
)
def test_a_rejected_prompt_is_free_live_and_cached(lab, monkeypatch, refusal):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    stub = Refusing({"/": RIGHT})
    stub.refuses = refusal
    for arm, mode in (("live", "read-write"), ("replayed", "replay-only")):
        code, output, summaries = lab(stub.address, f"arm={arm}", f"cache.mode={mode}", "model.price_per_million=[2,4]")
        assert code == 0, output
        usage = summaries[-1]["usage"]["actor"]
        assert (usage["calls"], usage["refused"]) == (1, 1)
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cost"]) == (0, 0, 0.0)
        assert summaries[-1]["uncounted"] == 0
    stub.close()
