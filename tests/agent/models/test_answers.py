"""What is read of a server's answer, however odd."""

import json
from contextlib import suppress

import httpx
import openai
import pytest
from habits import FORMS, KNOWN, body_of
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.requests import Rejection, is_spent, outcome_of, pause, read, rejection, rejection_in

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["error", "code", "type", "message", "choices", "content", "usage", "model", "prompt_tokens",
                         "innererror", "metadata", "prompt_tokens_details", "n_prompt_tokens", "finish_reason"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


PARTS = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "y"}, {"type": "text", "text": "es"}]


def completion(message, finish_reason="stop", **more):
    return json.dumps({"choices": [{"message": message, "finish_reason": finish_reason}], **more}).encode()


def says(message, **more):
    return json.dumps({"error": {"message": message, **more}}).encode()


@pytest.mark.parametrize(
    ("message", "text", "end"),
    [
        ({"content": None, "refusal": "No."}, "No.", "refusal"), ({"content": "", "refusal": "No."}, "No.", "refusal"),
        ({"content": "yes", "refusal": ""}, "yes", "stop"), ({"content": "yes", "refusal": None}, "yes", "stop"),
        ({"content": "\ud800"}, "?", "stop"), ({"content": PARTS}, "yes", "stop"),
        ({"content": [], "refusal": "No."}, "No.", "refusal"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_reply_of_its_own(message, text, end):
    reply = read(completion(message))
    assert (reply.text, reply.finish_reason) == (text, end)


def test_answers_of_any_depth_with_strange_counts_or_about_contexts_break_nothing():
    usage = {"prompt_tokens": 5, "completion_tokens": 1e300, "prompt_tokens_details": {"cached_tokens": 9}}
    assert read(completion({"content": "x"}, usage=usage, model=["a"]))[2:6] == ("", 5, 0, 5)
    deep = b"[" * 99_999 + b"]" * 99_999
    for content in (deep, completion({"content": "x"}).replace(b'"x"', deep), b'{"error": %s}' % deep):
        with pytest.raises(ValueError):
            read(content)
        assert rejection(content) is None
    whole = completion({"content": "maximum context length, prompt too long"})
    for content in (whole, whole[:-5], b"<html>maximum context length</html>"):
        assert rejection(content) is None


OPENAI = {"prompt_tokens": 1486, "completion_tokens": 651, "total_tokens": 2137,
          "prompt_tokens_details": {"cached_tokens": 1408, "audio_tokens": 0},
          "completion_tokens_details": {"reasoning_tokens": 512}}  # fmt: skip
DEEPSEEK = {"prompt_tokens": 30, "completion_tokens": 9, "prompt_cache_hit_tokens": 20, "prompt_cache_miss_tokens": 10}
PROXY = {"prompt_tokens": 30, "completion_tokens": 9, "cache_read_input_tokens": 12, "prompt_tokens_details": None}
GEMINI = {"prompt_tokens": 758, "completion_tokens": 102, "total_tokens": 1725}
XAI = GEMINI | {"completion_tokens_details": {"reasoning_tokens": 865}}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (OPENAI, (1486, 651, 1408, 512)), (DEEPSEEK, (30, 9, 20, 0)), (PROXY, (30, 9, 12, 0)),
        (GEMINI, (758, 967, 0, 865)), (XAI, (758, 967, 0, 865)),
        ({"prompt_tokens": 2, "completion_tokens": 3, "cached_tokens": 9, "reasoning_tokens": 9}, (2, 3, 2, 3)),
    ],
    ids=["openai", "deepseek", "proxy", "gemini", "xai", "more than there are"],
)  # fmt: skip
def test_cached_and_reasoning_tokens_of_every_server(usage, counts):
    assert read(completion({"content": "x"}, usage=usage))[3:7] == counts


@given(st.dictionaries(st.sampled_from(["usage", "model", "id", "error"]), JSON))
def test_whatever_stands_beside_a_reply_it_is_read(beside):
    reply = read(completion({"content": "x"}, **beside))
    assert reply.text == "x"
    assert 0 <= reply.cached_tokens <= max(reply.prompt_tokens, 0)


@given(JSON.map(json.dumps).map(str.encode) | st.binary())
def test_any_answer_is_read_or_a_value_error(content):
    with suppress(ValueError):
        assert isinstance(read(content).text, str)
    refused = rejection(content)
    assert refused is None or refused.prompt_tokens >= 0


def bodies(text):
    return {form: body_of(form, text) for form in FORMS}


@pytest.mark.parametrize("server", KNOWN["too_long"])
def test_servers_say_in_many_words_and_forms_that_a_prompt_is_too_long(server):
    message, counted = KNOWN["too_long"][server]
    expected = Rejection("context_overflow", counted)
    assert {form: rejection(body) for form, body in bodies(message).items()} == dict.fromkeys(FORMS, expected)
    assert rejection_in(f"litellm.BadRequestError: OpenAIException - Error code: 400 - {message}") == expected


@pytest.mark.parametrize("provider", KNOWN["filtered"])
def test_filters_refuse_a_prompt_in_many_words_and_forms(provider):
    ends = {form: rejection(body) for form, body in bodies(KNOWN["filtered"][provider]).items()}
    assert ends == dict.fromkeys(FORMS, Rejection("content_filter"))


@pytest.mark.parametrize("message", KNOWN["others"])
def test_other_errors_are_not_the_prompts_fault_in_any_form(message):
    assert {form: rejection(body) for form, body in bodies(message).items()} == dict.fromkeys(FORMS)


def refused_by(body, status):
    response = httpx.Response(status, content=body, request=httpx.Request("POST", "http://127.0.0.1"))
    return openai.APIStatusError("Error code", response=response, body=None)


@pytest.mark.parametrize("status", [400, 403, 412, 429])
@pytest.mark.parametrize("server", KNOWN["spent"])
def test_spent_credit_is_known_in_many_words_forms_and_statuses(server, status):
    spent = {}
    for form, body in bodies(KNOWN["spent"][server]).items():
        problem = refused_by(body, status)
        spent[form] = is_spent(problem), outcome_of(problem), pause(problem, 0), rejection(body)
    assert spent == dict.fromkeys(FORMS, (True, "rate_limited", None, None))


@pytest.mark.parametrize("message", [*KNOWN["others"], *(words for words, _ in KNOWN["too_long"].values())])
def test_other_words_are_not_spent_credit(message):
    assert not any(is_spent(refused_by(body, 429)) for body in bodies(message).values())


@pytest.mark.parametrize("field", ["input", "messages", "prompt"])
def test_an_error_that_quotes_the_request_is_read_without_the_quotation(field):
    quoted = [{"role": "user", "content": "the prompt is too long"}]
    assert (
        rejection(json.dumps({"detail": [{"msg": "Extra inputs are not permitted", field: quoted}]}).encode()) is None
    )


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter"}, {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "…"}}, {"code": "invalid_prompt"},
        {"type": "content_filter"}, {"code": "data_inspection_failed"},
    ],
)  # fmt: skip
def test_a_filter_turns_a_prompt_down_under_several_names(error):
    assert rejection(says("no", **error)) == Rejection("content_filter")
