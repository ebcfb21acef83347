"""What is read of a server's answer, however odd."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.requests import Rejection, is_out_of_credit, read, rejection

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


def test_strange_counts_and_names_spoil_no_reply():
    usage = {"prompt_tokens": 5, "completion_tokens": 1e300, "prompt_tokens_details": {"cached_tokens": 9}}
    assert read(completion({"content": "x"}, usage=usage, model=["a"]))[2:6] == ("", 5, 0, 5)


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


def test_an_answer_of_any_depth_breaks_nothing():
    deep = b"[" * 99_999 + b"]" * 99_999
    for content in (deep, completion({"content": "x"}).replace(b'"x"', deep), b'{"error": %s}' % deep):
        with pytest.raises(ValueError):
            read(content)
        assert rejection(content) is None


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
    assert is_out_of_credit(content) in (True, False)


@pytest.mark.parametrize(
    ("message", "counted"),
    [
        ("This model's maximum context length is 4097 tokens, however you requested 4173 tokens (77 in your prompt; "
         "4096 for the completion).", 0),
        ("You passed 12289 input tokens and requested 4096 output tokens. However, the model's context length is only "
         "16384 tokens", 12289),
        ("The prompt (total length 25938) is too long to fit into the model (context length 4096).", 25938),
        ("The decoder prompt (length 2048) is longer than the maximum model length of 2048.", 2048),
        ("input length and `max_tokens` exceed context limit: 178902 + 32000 > 200000", 178902),
        ("The input token count (1,048,577) exceeds the maximum number of tokens allowed (1048576).", 1048577),
        ("Requested tokens (2285) exceed context window of 2048", 0),
        ("This model's maximum prompt length is 131072 but the request contains 138000 tokens.", 138000),
    ],
)  # fmt: skip
def test_servers_say_in_many_words_that_a_prompt_is_too_long(message, counted):
    assert rejection(says(message)) == Rejection("context_overflow", counted)


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        "Rate limit reached for requests: Limit 3, Used 3",
        "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 8000",
        "Invalid value for 'messages'",
        "the context of this error is unknown",
    ],
)
def test_other_errors_are_not_the_prompts_fault(message):
    assert rejection(says(message)) is None


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter"}, {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "…"}}, {"code": "invalid_prompt"},
    ],
)  # fmt: skip
def test_a_filter_turns_a_prompt_down_under_several_names(error):
    assert rejection(says("no", **error)) == Rejection("content_filter")


def test_a_reply_about_contexts_is_no_overflow():
    assert rejection(completion({"content": "maximum context length, prompt too long"})) is None
