"""An OpenAI-compatible server that answers as a student would who always says the same to the same request, and that
breaks as real ones do: by a plan, or for ever.

server = FaultServer(student, plan); `plan(request)` names the fault of a `Request`, or is one; "" for none. It may be
replaced.
`mixed(seed, share, names)` makes a plan in which each request fails by chance, whatever comes in between.
"""

import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from email.utils import formatdate
from typing import NamedTuple

from model_server import ModelServer, completion

SOON = {"retry-after-ms": "1"}
OVERFLOWS = {
    "vllm": (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you "
             "requested 5513 tokens (5001 in the messages, 512 in the completion). Please reduce the length of the "
             "messages or completion.", "type": "BadRequestError", "param": None, "code": 400}),
    "llama_cpp": (400, {"error": {"code": 400, "message": "request (5001 tokens) exceeds the available context size "
                  "(4096 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 5001,
                  "n_ctx": 4096}}),
}  # fmt: skip
"""What servers say of a prompt of 5,001 tokens."""
AZURE = {"error": {"message": "The response was filtered due to the prompt triggering the content management policy.",
         "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}  # fmt: skip
NO_CREDIT = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
             "code": "insufficient_quota"}}  # fmt: skip


class Request(NamedTuple):
    key: str
    """Of its body."""
    nth: int
    """How often this very body has come, this time included."""
    number: int
    """Of all requests, from 1."""
    text: str
    """The whole conversation."""
    authorization: str


class FaultServer(ModelServer):
    """Over real HTTP on the loopback. Use as a context manager.

    `requests`: each with its fault, as they came. `answered`: by key, how often a chat completion went out in full.
    """

    daemon_threads = False

    def __init__(self, student, plan=lambda request: "", model="student"):
        self.student, self.plan, self.model = student, plan, model
        self.requests, self.sent, self.answered = [], Counter(), Counter()
        self.lock, self.ended = threading.Lock(), threading.Event()
        super().__init__()

    def __exit__(self, *_):
        self.ended.set()
        super().__exit__()

    def answer(self, handler, raw):
        key, fault = self.take(raw, handler.headers["Authorization"])
        body = json.loads(raw)
        self.heard(handler, body)
        if callable(fault) or fault in FAULTS:
            (fault if callable(fault) else FAULTS[fault])(handler, self, body)
        else:
            handler.send(self.completion(body) | CHANGES.get(fault, lambda server, body: {})(self, body))
        if not fault or fault in ANSWERED:
            with self.lock:
                self.answered[key] += 1

    def heard(self, handler, body):
        """For tests that look at requests."""

    @property
    def faults(self):
        return Counter(fault for _, fault in self.requests if fault)

    def take(self, raw, authorization):
        key = hashlib.sha256(raw).hexdigest()[:16]
        text = "\n\n".join(part["content"] for part in json.loads(raw)["messages"])
        with self.lock:
            self.sent[key] += 1
            request = Request(key, self.sent[key], len(self.requests) + 1, text, authorization)
            fault = self.plan(request)
            self.requests.append((request, fault))
        return key, fault

    def completion(self, body):
        text = self.student(body)
        tokens = sum(len(part["content"]) for part in body["messages"]) // 4, len(text) // 4
        return completion(text, tokens, self.model, refusal=None)


def mixed(seed, share, names):
    """A plan in which every request fails with probability `share`, with one of `names`."""

    def plan(request):
        draw = random.Random(f"{seed}:{request.key}:{request.nth}")
        return draw.choice(sorted(names)) if draw.random() < share else ""

    return plan


def error(status, body=None, **headers):
    content = body or {"error": {"message": f"injected {status}", "type": "server_error", "code": None}}
    return lambda handler, server, request: handler.send(content, status, headers=headers or SOON)


def plain_error(status):
    """Without a word on when to come again."""
    return lambda handler, server, request: handler.send(
        {"error": {"message": f"injected {status}"}}, status, headers={}
    )


def says(body, kind="application/json"):
    return lambda handler, server, request: handler.send(body, kind=kind)


def date(handler, server, request):
    handler.send(
        {"error": {"message": "slow down"}}, 429, headers={"Retry-After": formatdate(time.time() + 1, usegmt=True)}
    )


def reset(handler, server, request):
    # Lingering for 0 seconds closes with a reset, not with an orderly end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def reset_after_headers(handler, server, request):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
    reset(handler, server, request)


def torn(handler, server, request):
    data = json.dumps(server.completion(request)).encode()
    handler.send(data[: len(data) // 2], length=len(data))
    handler.close_connection = True


def stall(handler, server, request):
    server.ended.wait(600)
    handler.close_connection = True


def endless(handler, server, request):
    handler.send(b"{", length=10**9)
    while not server.ended.wait(0.05):
        handler.wfile.write(b" ")


def trickle(handler, server, request):
    data = json.dumps(server.completion(request)).encode()
    handler.send(b"", length=len(data))
    for start in range(0, len(data), -(-len(data) // 20)):
        handler.wfile.write(data[start : start + -(-len(data) // 20)])
        server.ended.wait(0.02)


def twice(handler, server, request):
    data = json.dumps(server.completion(request)).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    handler.wfile.write((head + data) * 2)


def choice(text, finish_reason, **message):
    return {"choices": completion(text, finish_reason=finish_reason, **message)["choices"]}


def two_choices(server, body):
    return {"choices": [choice(text, "stop")["choices"][0] for text in (server.student(body), "no")]}


FAULTS = {
    "429": error(429), "429_plain": plain_error(429), "429_zero": error(429, **{"Retry-After": "0"}),
    "429_second": error(429, **{"Retry-After": "1"}), "429_date": date,
    "429_absurd": error(429, **{"Retry-After": "86400"}), "no_credit": error(429, NO_CREDIT), "payment": error(402),
    "key_limit": error(403, {"error": {"message": "Key limit exceeded (daily limit)", "code": 403}}),
    "low_balance": error(400, {"error": {"message": "Your credit balance is too low to access the Anthropic API."}}),
    "408": error(408), "409": error(409), "500": error(500), "502": error(502), "503": error(503),
    "503_plain": plain_error(503), "reset": reset, "reset_after_headers": reset_after_headers, "torn": torn,
    "invalid_json": says(b'{"choices": [{"mess'),
    "html": says(b"<html><body>502 Bad Gateway</body></html>", "text/html"), "empty_body": says(b""),
    "no_choices": says({"choices": []}), "error_with_200": says({"error": {"message": "overloaded", "code": 502}}),
    "stall": stall, "endless": endless, "trickle": trickle, "twice": twice, "401": error(401), "403": error(403),
    "400": error(400), "404": error(404), "azure_filter": error(400, AZURE),
    **{f"overflow_{name}": error(status, body) for name, (status, body) in OVERFLOWS.items()},
    "overflow_with_200": says(OVERFLOWS["llama_cpp"][1]),
}  # fmt: skip
"""Faults that send something else than a chat completion, or send it in another way."""

CHANGES = {
    "length": lambda server, body: choice(server.student(body)[:20], "length"),
    "content_filter": lambda server, body: choice("I was about to", "content_filter"),
    "refusal": lambda server, body: choice(None, "stop", refusal="I'm sorry, I can't help with that."),
    "null": lambda server, body: choice(None, "stop"),
    "empty": lambda server, body: choice("", "stop"),
    "odd_end": lambda server, body: choice(server.student(body), "eos_token"),
    "no_end": lambda server, body: choice(server.student(body), None),
    "thought": lambda server, body: choice(None, "stop", reasoning_content="The loop ends early."),
    "budget": lambda server, body: choice("", "length", reasoning_content="Let me think"),
    "cut": lambda server, body: {"usage": {"prompt_tokens": 20, "completion_tokens": 5}},
    "no_usage": lambda server, body: {"usage": None},
    "no_name": lambda server, body: {"model": None},
    "two_choices": two_choices,
    "wrong_model": lambda server, body: {"model": "student-mini", **choice("```python\nx = 1\n```", "stop")},
}  # fmt: skip
"""Chat completions that are not what they should be."""

ANSWERED = {*CHANGES, "trickle", "twice"}
RETRYABLE = (
    "429", "408", "409", "500", "502", "503", "reset", "reset_after_headers", "torn", "invalid_json", "html",
    "empty_body", "no_choices", "error_with_200", "trickle", "twice", "two_choices",
)  # fmt: skip
"""Faults that change no result."""
