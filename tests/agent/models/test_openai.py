import json
import socket
import struct
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reflexion_lab.agent.models.cache import draw_seed
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Message, Sampling

KEY = "sk-planted-0123456789abcdef"
HELLO = [Message(role="user", content="hello")]
GREEDY = Sampling()


class Server:
    """Answers request after request with its steps; the last one stands for all that follow."""

    def __init__(self):
        self.steps = []
        self.requests = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append((self.path, self.headers, body))
                step = server.steps[min(len(server.requests), len(server.steps)) - 1]
                step(self)

            def log_message(self, *parts):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.host = f"127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def stall(self, handler):
        self.released.wait(60)
        handler.close_connection = True

    def close(self):
        self.released.set()
        self.http.shutdown()
        self.http.server_close()


def answers(body, status=200, kind="application/json", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def step(handler):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return step


def reset(handler):
    # Lingering for 0 seconds closes with a reset, not with an orderly end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def torn(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def completion(content="hi", **changes):
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return {
        "id": "1",
        "object": "chat.completion",
        "model": "tiny:latest",
        "choices": [choice],
        "usage": usage,
    } | changes


GOOD = answers(completion())


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    server = Server()
    yield server
    server.close()


@pytest.fixture
def model(server):
    clients = []

    def make(*steps, **settings):
        server.steps = list(steps)
        model = OpenAIModel("tiny", f"http://{server.host}/v1", **settings)
        clients.append(model)
        return model

    yield make
    for model in clients:
        model.close()


@pytest.fixture
def waits(monkeypatch):
    """What was slept between retries; nothing really sleeps."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    return waits


def ask(model, **changes):
    return model.complete(HELLO, sampling=GREEDY, **changes)


def error_of(model):
    with pytest.raises(ModelError) as caught:
        ask(model)
    return caught.value


# Requests and replies


def test_a_reply_comes_back_with_what_it_cost(model):
    reply = ask(model(GOOD, price_per_million=[2.0, 10.0]))
    assert (reply.text, reply.model, reply.finish_reason, reply.cached) == ("hi", "tiny:latest", "stop", False)
    assert (reply.usage.calls, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1, 11, 7)
    assert reply.usage.cost == pytest.approx((11 * 2 + 7 * 10) / 1e6)
    assert reply.usage.seconds > 0


def test_cached_and_reasoning_tokens_reach_usage_and_cost(model):
    details = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 5}}
    served = completion(usage={"prompt_tokens": 11, "completion_tokens": 7, **details})
    usage = ask(model(answers(served), price_per_million=[2.0, 10.0, 0.5])).usage
    assert (usage.cached_tokens, usage.reasoning_tokens, usage.tokens) == (8, 5, 18)
    assert usage.cost == pytest.approx((3 * 2 + 8 * 0.5 + 7 * 10) / 1e6)


def test_messages_and_sampling_are_sent_as_they_are(model, server):
    talk = [*HELLO, Message(role="assistant", content="def add(")]
    sampling = Sampling(temperature=0.7, top_p=0.9, max_tokens=33, stop=("\n\n",), seed=5, grammar="root ::= x")
    model(GOOD).complete(talk, sampling=sampling)
    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "tiny",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "def add("},
        ],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 33,
        "stop": ["\n\n"],
        "seed": draw_seed(talk, sampling, 0),
    }


def test_every_draw_has_a_seed_of_its_own(model, server):
    client = model(GOOD)
    for sample in range(3):
        ask(client, sample=sample)
    seeds = [body["seed"] for _, _, body in server.requests]
    assert seeds == [draw_seed(HELLO, GREEDY, sample) for sample in range(3)]
    assert len(set(seeds)) == 3


def test_extra_fields_are_added_replaced_and_with_null_taken_out(model, server):
    ask(model(GOOD, extra_body={"max_tokens": None, "max_completion_tokens": 9, "top_p": 0.5, "top_k": 4}))
    body = server.requests[0][2]
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["top_p"], body["top_k"]) == (9, 0.5, 4)


@pytest.mark.parametrize(
    ("body", "text", "finish_reason", "tokens"),
    [
        (completion(None), "", "stop", 18),
        (completion(""), "", "stop", 18),
        (completion(usage=None), "hi", "stop", 0),
        ({"choices": [{"message": {"content": "cut"}, "finish_reason": "length"}]}, "cut", "length", 0),
        ({"choices": [{"message": {}}], "usage": {"prompt_tokens": 3, "completion_tokens": None}}, "", "", 3),
        (
            completion(usage={"prompt_tokens": -1, "completion_tokens": "7", "prompt_tokens_details": []}),
            "hi",
            "stop",
            0,
        ),
        (completion(choices=[*completion("one")["choices"], *completion("two")["choices"]]), "one", "stop", 18),
        (completion(model=7), "hi", "stop", 18),
    ],
)
def test_a_sparse_reply_is_returned_honestly(model, body, text, finish_reason, tokens):
    reply = ask(model(answers(body)))
    assert (reply.text, reply.finish_reason, reply.usage.tokens) == (text, finish_reason, tokens)


@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b"\xff\xfe",
        b"",
        {"choices": []},
        {"choices": [{"message": {"content": 5}}]},
        {"error": {"message": "overloaded"}},
    ],
)
def test_an_answer_that_is_no_completion_is_retried(model, server, waits, body):
    assert ask(model(answers(body), GOOD)).usage.retries == 1
    server.requests.clear()
    error = error_of(model(answers(body), retries=1))
    assert error.outcome == "malformed"
    assert "no chat completion" in str(error)
    assert "sent 2 times" in str(error)
    if body == {"error": {"message": "overloaded"}}:
        assert "overloaded" in str(error)


def test_a_web_page_is_quoted_without_control_characters(model):
    error = error_of(model(answers(b"<html>\x1b[31mSign in</html>", kind="text/html"), retries=0))
    assert r"<html>\x1b[31mSign in" in str(error)


# Failures


def test_retry_after_is_honoured(model, server, waits):
    assert ask(model(answers({}, 429, Retry_After="7"), GOOD)).text == "hi"
    assert waits == [7.0]
    assert len(server.requests) == 2


@pytest.mark.parametrize("failure", [answers({}, 429), answers({}, 500), answers({}, 503), reset, torn])
def test_transient_failures_are_retried_with_jittered_backoff(model, server, waits, failure):
    assert ask(model(failure, failure, failure, GOOD)).text == "hi"
    assert len(server.requests) == 4
    assert [base * 0.75 <= wait <= base for base, wait in zip((0.5, 1, 2), waits, strict=True)] == [True] * 3


def test_a_silent_server_is_given_up_and_asked_again(model, server, waits):
    assert ask(model(server.stall, GOOD, timeout=0.3)).text == "hi"
    assert len(server.requests) == 2


# Rate limit


def test_the_rate_limit_counts_retries_too(model, server, monkeypatch):
    turns = []
    monkeypatch.setattr(
        "reflexion_lab.agent.models.requests.Pace.wait", lambda pace: turns.append(len(server.requests))
    )
    client = model(answers({}, 500, Retry_After="0.01"), GOOD, requests_per_minute=60)
    ask(client)
    ask(client)
    assert turns == [0, 1, 2]


# Keys


def test_the_key_is_in_no_error_no_repr_and_no_fingerprint(model, waits):
    echoes = [
        answers({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
        answers({"error": {"message": "x" * 440 + KEY}}, 400),
        answers({"error": {"message": KEY}}, 500),
        answers({"error": "y" * 180 + KEY}),
        answers(KEY.encode(), kind="text/plain"),
        answers((KEY * 9999).encode(), kind="text/plain"),
        answers({}, 429, Retry_After="9" * 16 + KEY),
        answers(completion(model=KEY)),
        reset,
    ]
    for echo in echoes:
        client = model(echo, retries=0)
        error = error_of(client)
        texts = [*traceback.format_exception(error), repr(error), repr(client), client.fingerprint]
        assert error.__cause__ is None
        assert error.__context__ is None
        # A piece of it, so that a cut does not hide the rest.
        assert "sk-planted" not in "".join(texts)


def test_a_local_server_needs_no_key(model, server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ask(model(GOOD)).text == "hi"
    assert server.requests[0][1]["Authorization"] == "Bearer none"


def test_the_key_comes_from_the_named_variable(model, server, monkeypatch):
    monkeypatch.setenv("GATEWAY_KEY", " other \n")
    ask(model(GOOD, api_key_env="GATEWAY_KEY"))
    assert server.requests[0][1]["Authorization"] == "Bearer other"


def test_a_key_is_needed_without_a_base_url(server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        OpenAIModel("tiny")


# Fingerprint and arguments


def test_the_fingerprint_has_address_model_context_and_fields(model, server):
    plain = model(GOOD).fingerprint
    first, same, other = (
        model(GOOD, extra_body=extra).fingerprint
        for extra in ({"top_k": 1, "min_p": 0}, {"min_p": 0, "top_k": 1}, {"top_k": 2})
    )
    assert plain == f"openai:http://{server.host}/v1:tiny"
    assert first == same
    window = model(GOOD, context=4096).fingerprint
    assert len({plain, first, other, window}) == 4


def test_a_password_in_the_address_is_shown_nowhere(server, waits):
    server.steps = [answers({}, 500)]
    model = OpenAIModel("tiny", f"http://user:{KEY}@{server.host}/v1", "UNSET_KEY", retries=0)
    assert model.fingerprint == f"openai:http://{server.host}/v1:tiny"
    assert KEY not in str(error_of(model))
    model.close()


KEY_REFUSED = "the key was refused; put a valid one into the environment variable OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("step", "retries", "texts", "outcome", "is_lasting", "requests"),
    [
        (answers({"error": {"message": "on fire"}}, 500), 2, ["on fire", "sent 3 times"], "server_error", False, 3),
        ("stall", 1, ["APITimeoutError", "model.timeout"], "timeout", False, 2),
        (answers({"error": {"message": "quota"}}, 429), 1, ["model.requests_per_minute"], "rate_limited", False, 2),
        (answers({"error": {"message": "expired"}}, 401), 5, [KEY_REFUSED], "key_refused", True, 1),
        (answers({"error": {"message": "expired"}}, 403), 5, [KEY_REFUSED], "key_refused", True, 1),
        (answers({"error": {"message": "no such model"}}, 404), 5, ["no such model", "model.model"], None, None, 1),
    ],
    ids=["500", "silent", "429", "401", "403", "404"],
)
def test_an_error_has_cause_advice_and_outcome(
    model, server, waits, step, retries, texts, outcome, is_lasting, requests
):
    error = error_of(model(server.stall if step == "stall" else step, retries=retries, timeout=0.3))
    assert [text for text in (f"tiny at http://{server.host}/v1/", *texts) if text not in str(error)] == []
    assert (getattr(error, "outcome", None), getattr(error, "is_lasting", None)) == (outcome, is_lasting)
    assert len(server.requests) == requests


def test_a_server_that_is_not_there_is_named(server, waits):
    model = OpenAIModel("tiny", "http://127.0.0.1:9/v1", retries=1)
    error = error_of(model)
    assert "tiny at http://127.0.0.1:9/v1/ did not answer" in str(error)
    assert "model.base_url" in str(error)
    model.close()


def test_a_missing_key_that_the_server_needs_is_named(model, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "the key is not set; put one into" in str(error_of(model(answers({}, 401))))
