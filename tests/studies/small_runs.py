"""Small runs of a scripted model, and a server of chat completions."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reflexion_lab.runner.config.compose import Lab, assemble

REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: {0}\nCONFIDENCE: 0.5\n"
NEVER_PASSES = [
    {"when": "ROOT_CAUSE", "reply": REFLECTION.format("c")},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return None\n"},
]


def script(folder: Path, rules: list[dict[str, str]] = NEVER_PASSES) -> Path:
    """The file of a scripted model's rules, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(rules))
    return folder / "script.json"


def run_lab(cfg: Any) -> Lab:
    """Run the experiment of `cfg`, without summary and tracker; whatever happens, its lab is closed."""
    lab = assemble(cfg)
    with closing(lab):
        lab.runner.run()
    return lab


@contextmanager
def chat_server(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[ThreadingHTTPServer]:
    """A server on this machine. `reply`: from a request to the fields of its completion, `text` among them."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with self.server.counting:
                self.server.requests.append(request)
                fields = reply(request)
            choice = {"message": {"role": "assistant", "content": fields.pop("text")}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 9}
            body = json.dumps({"model": request["model"], "choices": [choice], "usage": usage, **fields}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *parts: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.requests, http.counting = [], threading.Lock()
    http.url = f"http://127.0.0.1:{http.server_port}/v1"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield http
    finally:
        http.shutdown()
        http.server_close()
