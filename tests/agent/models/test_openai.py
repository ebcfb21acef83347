"""The client of chat servers, over HTTP against the fault server: requests, replies, each failure once, keys."""

import traceback

import pytest
from fault_server import FaultServer, error, says
from model_server import completion

from reflexion_lab.agent.models.cache import draw_seed
from reflexion_lab.agent.models.openai import OpenAIModel, is_same
from reflexion_lab.errors import ModelError, ModelNotFound
from reflexion_lab.records import Message, Sampling

KEY = "sk-planted-0123456789abcdef"
HELLO = [Message(role="user", content="hello")]
GREEDY = Sampling()


class Server(FaultServer):
    """Answers request after request with its steps, names of faults or bodies; the last one stands for all that follow.
    `bodies` and `headers` are those of the requests.
    """

    def __init__(self):
        super().__init__(lambda body: "hi", model="tiny:latest")
        self.steps, self.bodies, self.headers, self.paths = [""], [], [], []
        self.plan = lambda request: self.steps[min(request.number, len(self.steps)) - 1]

    def heard(self, handler, body):
        self.bodies.append(body)
        self.headers.append(handler.headers)
        self.paths.append(handler.path)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Server() as server:
        yield server


@pytest.fixture
def model(server):
    clients = []

    def make(*steps, url=server.url, **settings):
        server.steps = list(steps) or [""]
        for kept in (server.requests, server.bodies, server.headers, server.paths):
            kept.clear()
        clients.append(OpenAIModel("tiny", url, **settings))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


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


def reply_of(text="hi", **changes):
    return says(completion(text, (11, 7), "tiny:latest") | changes)


# Requests and replies


def test_reply_has_text_name_tokens_and_cost_with_cached_and_reasoning_tokens(model):
    reply = ask(model(reply_of(), price_per_million=[2.0, 10.0]))
    assert (reply.text, reply.model, reply.finish_reason, reply.cached) == ("hi", "tiny:latest", "stop", False)
    assert (reply.usage.calls, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1, 11, 7)
    assert reply.usage.cost == pytest.approx((11 * 2 + 7 * 10) / 1e6)
    assert reply.usage.seconds > 0
    details = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 5}}
    served = reply_of(usage={"prompt_tokens": 11, "completion_tokens": 7, **details})
    usage = ask(model(served, price_per_million=[2.0, 10.0, 0.5])).usage
    assert (usage.cached_tokens, usage.reasoning_tokens, usage.tokens) == (8, 5, 18)
    assert usage.cost == pytest.approx((3 * 2 + 8 * 0.5 + 7 * 10) / 1e6)


def test_messages_and_sampling_are_sent_as_they_are(model, server):
    talk = [*HELLO, Message(role="assistant", content="def add(")]
    sampling = Sampling(temperature=0.7, top_p=0.9, max_tokens=33, stop=("\n\n",), seed=5, grammar="root ::= x")
    model().complete(talk, sampling=sampling, sample=2)
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    messages = [{"role": message.role, "content": message.content} for message in talk]
    body = {"model": "tiny", "messages": messages, "temperature": 0.7, "top_p": 0.9, "max_tokens": 33, "stop": ["\n\n"]}
    assert server.bodies == [body | {"seed": draw_seed(talk, sampling, 2)}]


def test_extra_fields_are_added_replaced_and_with_null_removed(model, server):
    ask(model(extra_body={"max_tokens": None, "max_completion_tokens": 9, "top_p": 0.5, "top_k": 4}))
    (body,) = server.bodies
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["top_p"], body["top_k"]) == (9, 0.5, 4)


# Failures

REFUSED = "the key was refused; put a valid one into the environment variable OPENAI_API_KEY"
STATUSES = {
    "429": ("rate_limited", False, "model.requests_per_minute"), "408": ("timeout", False, ""),
    "500": ("server_error", False, "injected 500"), "503": ("server_error", False, ""),
    "reset": ("connection", False, ""), "torn": ("connection", False, ""), "stall": ("timeout", False, "model.timeout"),
    **dict.fromkeys(("invalid_json", "html", "empty_body", "no_choices"), ("malformed", False, "no chat completion")),
    "error_with_200": ("malformed", False, "overloaded"), "401": ("key_refused", True, REFUSED),
    "403": ("key_refused", True, REFUSED), "404": (None, None, "model.model"),
    "payment": ("rate_limited", True, "credit is spent"),
}  # fmt: skip
"""By fault: outcome, whether it lasts, and what the error names. What lasts, or is no outcome, is asked once."""


@pytest.mark.parametrize("fault", STATUSES)
def test_failure_is_retried_or_not_and_has_cause_advice_and_outcome(model, server, waits, fault):
    outcome, is_lasting, text = STATUSES[fault]
    is_retried = is_lasting is False
    if is_retried:
        assert ask(model(fault, "", timeout=0.5)).usage.retries == 1
    problem = error_of(model(fault, retries=1, timeout=0.5))
    assert (getattr(problem, "outcome", None), getattr(problem, "is_lasting", None)) == (outcome, is_lasting)
    assert isinstance(problem, ModelNotFound) == (fault == "404")
    assert f"tiny at {server.url}/" in str(problem) and text in str(problem)
    assert ("sent 2 times" in str(problem)) == is_retried
    assert len(server.requests) == 1 + is_retried


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_prompt_that_is_refused_in_unknown_words_is_a_reply_with_those_words(model, server, status):
    reply = ask(model(error(status, {"detail": "Request contains an invalid argument. " + "x" * 900 + KEY})))
    assert (reply.finish_reason, reply.usage.refused, reply.usage.tokens) == ("refused", 1, 0)
    assert f"{status} - Request contains an invalid argument. xxx" in reply.text and "model.extra_body" in reply.text
    assert "sk-planted" not in reply.text and len(reply.text) < 800
    assert len(server.requests) == 1


def test_a_field_that_a_text_names_by_chance_is_sent_again(model, server):
    client = model(*[error(400, {"error": "invalid: please stop, the seed bank is on fire"})] * 2, "")
    assert ask(client).finish_reason == "refused"
    ask(client)
    assert ["seed" in body for body in server.bodies] == [True, False, True]
    client = model(error(400, {"error": "busy: too many tokens, stop and resend with another seed"}), "")
    assert ask(client).finish_reason == "refused"
    assert (ask(client).usage.own_seed, "seed" in server.bodies[-1]) == (0, True)


def test_a_key_that_is_refused_with_400_is_no_prompts_fault(model):
    for words in ("API key not valid. Please pass a valid API key.", "API key expired. Please renew the API key."):
        assert error_of(model(error(400, [{"error": {"code": 400, "message": words}}]))).outcome == "key_refused"
    for status in (410, 424, 499):
        assert "did not answer" in str(error_of(model(error(status, {"error": "CUDA out of memory"}), retries=0)))


def test_web_page_is_quoted_without_control_characters(model):
    problem = error_of(model(says(b"<html>\x1b[31mSign in</html>", kind="text/html"), retries=0))
    assert r"<html>\x1b[31mSign in" in str(problem)


def test_retry_after_is_honoured_and_else_waits_double_with_jitter(model, waits):
    assert ask(model(error(429, {}, **{"Retry-After": "7"}), "")).text == "hi"
    assert 7 < waits[0] <= 7.7
    waits.clear()
    assert ask(model("429_plain", "reset", "torn", "")).text == "hi"
    assert all(base * 0.75 <= wait <= base for base, wait in zip((0.5, 1, 2), waits, strict=True))


def test_rate_limit_counts_retries_too(model, server, monkeypatch):
    turns = []
    wait = lambda pace: turns.append(len(server.requests))  # noqa: E731
    monkeypatch.setattr("reflexion_lab.agent.models.requests.Pace.wait", wait)
    client = model("500", "", requests_per_minute=60)
    ask(client)
    ask(client)
    assert turns == [0, 1, 2]


# Keys


def test_key_is_in_no_error_no_repr_and_no_fingerprint(model, waits):
    echoes = [
        error(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        error(404, {"error": {"message": "x" * 440 + KEY}}), error(500, {"error": {"message": KEY}}),
        says({"error": "y" * 180 + KEY}), says(KEY.encode(), "text/plain"), says((KEY * 9999).encode(), "text/plain"),
        error(429, {}, **{"Retry-After": "9" * 16 + KEY}), reply_of(model=KEY), "reset",
    ]  # fmt: skip
    for echo in echoes:
        client = model(echo, retries=0)
        problem = error_of(client)
        texts = [*traceback.format_exception(problem), repr(problem), repr(client), client.fingerprint]
        assert problem.__cause__ is problem.__context__ is None
        # A piece of it, so that a cut does not hide the rest.
        assert "sk-planted" not in "".join(texts)


def test_key_comes_from_the_named_variable_and_a_local_server_needs_none(model, server, monkeypatch):
    monkeypatch.setenv("GATEWAY_KEY", " other \n")
    ask(model(api_key_env="GATEWAY_KEY"))
    assert server.headers[0]["Authorization"] == "Bearer other"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert ask(model()).text == "hi"
    assert server.headers[0]["Authorization"] == "Bearer none"
    assert "the key is not set; put one into" in str(error_of(model("401")))
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        ask(OpenAIModel("tiny"))


# Fingerprint and names


def test_fingerprint_has_address_model_context_and_fields(model, server):
    plain = model().fingerprint
    first, same, other = (
        model(extra_body=extra).fingerprint
        for extra in ({"top_k": 1, "min_p": 0}, {"min_p": 0, "top_k": 1}, {"top_k": 2})
    )
    assert plain == f"openai:{server.url}:tiny"
    assert first == same
    assert len({plain, first, other, model(context=4096).fingerprint}) == 4


def test_password_in_the_address_is_shown_nowhere(model, server, waits):
    client = model("500", url=server.url.replace("//", f"//user:{KEY}@"), api_key_env="UNSET_KEY", retries=0)
    assert client.fingerprint == f"openai:{server.url}:tiny"
    assert KEY not in str(error_of(client))


SAME = """
gpt-4o gpt-4o, gpt-4o GPT-4o-2024-08-06, gpt-4 gpt-4-0613, gpt-4o-mini openai/gpt-4o-mini,
openai/gpt-4o-mini gpt-4o-mini-2024-07-18, gemini-1.5-pro models/gemini-1.5-pro-002,
gemini-2.5-flash gemini-2.5-flash-05-20, claude-3-5-sonnet-latest claude-3-5-sonnet-20241022,
claude-3-haiku claude-3-haiku@20240307, llama3 llama3:latest, llama3:8b llama3:8b,
Qwen/Qwen2.5-7B-Instruct qwen/qwen2.5-7b-instruct, smollm2 /srv/models/SmolLM2.gguf,
mistral-7b-instruct mistral-7b-instruct-v0.3, mine:beta mine:beta, deepseek/deepseek-r1:free deepseek/deepseek-r1
"""
OTHERS = """
gpt-4o gpt-4o-mini, gpt-4o-mini gpt-4o, gpt-4 gpt-4.1, gpt-4 gpt-4o, gpt-4o gpt-4o-mini-2024-07-18,
gpt-4o-2024-08-06 gpt-4o-2024-05-13, gpt-3.5-turbo gpt-3.5-turbo-16k, llama3:70b llama3:8b, llama3 llama3:70b,
qwen2.5-coder qwen2.5-coder:0.5b, meta/llama-3 other/llama-3, qwen-2 qwen-2-72b, o1 o1-mini, a ab,
mine:beta mine:latest, llama-3:free llama-3-8192, deepseek/deepseek-r1:free deepseek/deepseek-r1-0528
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [*((names, True) for names in SAME.split(",")), *((names, False) for names in OTHERS.split(","))],
)
def test_versions_tags_paths_and_case_make_no_other_model(names, expected):
    assert is_same(*names.split()) is expected
    assert not is_same("student", "")
