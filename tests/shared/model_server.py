"""A chat server over real HTTP on the loopback that speaks OpenAI's protocol."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.server.looks.append(self.path)
        self.send(*self.server.about.get(self.path, ({}, 404)))

    def do_POST(self):
        self.server.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

    def send(self, body, status=200, kind="application/json", headers=(), length=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(data)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self):
        try:
            super().handle()
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, *parts):
        pass


class ModelServer(ThreadingHTTPServer):
    """Use as a context manager. `respond(body, headers)` makes status and body of a response. `about`: body and status
    of the answer to a GET, by path; `looks`: the paths of these.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, respond=None, handler=Handler):
        self.respond, self.about, self.looks = respond, {}, []
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    def answer(self, handler, raw):
        status, body = self.respond(json.loads(raw), handler.headers)
        handler.send(body, status)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        self.thread.join()


def completion(text, tokens=(10, 5), model="tiny", finish_reason="stop", **message):
    """The body of a chat completion; `message` has further fields of its message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return {"id": "x", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


def wrong_answer(prompt):
    """What a model says that knows the form of a reflection, but no program that passes."""
    if "ROOT_CAUSE" in prompt:
        return "ROOT_CAUSE: a cause\nWHAT_WENT_WRONG: a symptom\nWHAT_TO_CHANGE: I will count to n\nCONFIDENCE: 0.7"
    name = ["f", *re.findall(r"def (\w+)", prompt)][-1]
    return f"```python\ndef {name}(*values):\n    return 'wrong'\n```"
