"""One contract for all models: what `Model` promises, whoever keeps it."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from model_server import ModelServer, completion

from reflexion_lab.agent.models.cache import CachedModel, Draws
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.models.replay import ReplayModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Completion, Message, Sampling

KEY = "sk-planted-0123456789abcdef"
GREEDY = Sampling()


def respond(body, headers):
    text = body["messages"][-1]["content"]
    return 200 if text != "unanswerable" else 404, completion(f"echo {text}", (len(text), 2))


@pytest.fixture(scope="module")
def address():
    with ModelServer(respond) as server:
        yield server.url


def says(text):
    return [Message(role="system", content="You are an echo."), Message(role="user", content=text)]


def echo(messages):
    if messages[-1].content == "unanswerable":
        raise ModelError("unanswerable")
    return f"echo {messages[-1].content}"


def scripted(path, address, stack):
    return ScriptedModel(echo)


def rules(path, address, stack):
    lines = [{"when": f"^{text}$", "reply": f"echo {text}"} for text in ("hello", *map(str, range(64)))]
    path.with_suffix(".json").write_text(json.dumps(lines))
    return ScriptedModel.from_rules(path.with_suffix(".json"))


def openai(path, address, stack):
    return stack.enter_context(closing(OpenAIModel("tiny", address)))


def cached(path, address, stack):
    return stack.enter_context(closing(CachedModel(ScriptedModel(echo), path)))


def cached_openai(path, address, stack):
    return stack.enter_context(closing(CachedModel(openai(path, address, stack), path)))


def replay(path, address, stack):
    with closing(CachedModel(ScriptedModel(echo), path)) as recorder:
        for text in ("hello", *map(str, range(64))):
            for sample in (0, 1):
                recorder.complete(says(text), sampling=GREEDY, sample=sample)
    return stack.enter_context(closing(ReplayModel(path)))


def draws(path, address, stack):
    return Draws(ScriptedModel(echo))


@pytest.fixture(params=[scripted, rules, openai, cached, cached_openai, replay, draws])
def make(request, tmp_path, address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:
        yield lambda: request.param(tmp_path / "calls.sqlite", address, stack)


def test_an_answer_has_text_and_cost(make):
    completion = make().complete(says("hello"), sampling=GREEDY)
    assert isinstance(completion, Completion) and completion.text == "echo hello"
    assert completion.model and completion.finish_reason == "stop"
    assert completion.usage.calls == 1 and completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens > 0


def test_sixteen_threads_get_each_their_own_answer(make):
    model = make()
    texts = [str(number) for number in range(64)] * 2
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda text: model.complete(says(text), sampling=GREEDY).text, texts))
    assert replies == [f"echo {text}" for text in texts]


def test_no_answer_is_a_model_error(make):
    with pytest.raises(ModelError):
        make().complete(says("unanswerable"), sampling=GREEDY)


def test_the_fingerprint_is_stable_and_holds_no_key(make):
    model, other = make(), make()
    assert model.fingerprint == other.fingerprint != "" and KEY not in model.fingerprint
    assert KEY not in repr(model) and model.slots >= 1


def test_through_a_cache_equal_calls_are_one_and_two_draws_are_two(make, tmp_path):
    model = CachedModel(make(), tmp_path / "outer.sqlite")
    completions = [model.complete(says("hello"), sampling=GREEDY, sample=sample) for sample in (0, 1, 0, 1)]
    assert {completion.text for completion in completions} == {"echo hello"}
    assert [completion.cached for completion in completions[2:]] == [True, True]
    assert (model.misses, model.hits) == (2, 2)
    model.close()


def test_messages_may_be_any_sequence_and_are_left_alone(make):
    model, messages = make(), says("hello")
    before = list(messages)
    assert model.complete(tuple(messages), sampling=GREEDY).text == "echo hello"
    assert model.complete(messages, sampling=GREEDY).text == "echo hello" and messages == before
