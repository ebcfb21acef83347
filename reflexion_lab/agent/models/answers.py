"""Answers of servers of the OpenAI chat protocol: chat completions and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec


class Reply(NamedTuple):
    """A chat completion."""

    text: str
    finish_reason: str
    """The server's word, or ""; `refusal` where the model refused."""
    model: str
    """The model that answered, or ""."""
    prompt_tokens: int
    """0 where the server does not count, as below."""
    completion_tokens: int
    cached_tokens: int
    """Prompt tokens from the server's cache."""
    system_fingerprint: str = ""
    """The server's name of its own configuration, or ""."""

    def with_texts(self, change: Callable[[str], str]) -> Reply:
        """The reply with `change` applied to every text of the server's."""
        return self._replace(
            text=change(self.text),
            finish_reason=change(self.finish_reason),
            model=change(self.model),
            system_fingerprint=change(self.system_fingerprint),
        )


class TurnedDown(NamedTuple):
    """A prompt that the server refuses, however often it is sent."""

    finish_reason: str
    """`context_overflow` or `content_filter`."""
    prompt_tokens: int = 0
    """By the server's count; 0 where it does not say."""


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    # A reply is paid for: a strange count or name beside it spoils nothing.
    model: Any = None
    usage: Any = None
    system_fingerprint: Any = None


_DECODER = msgspec.json.Decoder(_Completion)

OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
"""OpenAI, llama.cpp, LiteLLM."""
OVERFLOW = re.compile(
    r"maximum context length|context length is only|exceeds? (?:the )?(?:available |max(?:imum)? )?context"
    r"|exceeded max(?:imum)? context|prompt (?:is )?too long|too long to fit into the model"
    r"|longer than the maximum model length|exceeds the maximum number of tokens|maximum prompt length is",
    re.IGNORECASE,
)
"""OpenAI and vLLM; vLLM; llama.cpp and Ollama; Ollama; Anthropic; vLLM; vLLM; Gemini; xAI."""
COUNTED = re.compile(
    r"(\d+) in the messages|resulted in (\d+) tokens|(\d+) input tokens|request \((\d+) tokens\)"
    r"|length (\d+)\)|too long: (\d+) tokens|limit: (\d+) \+|token count \((\d+)\)|contains (\d+) tokens"
)
"""The length of the prompt in such messages; vLLM's may be a lower bound, since it stops counting at its limit."""
FILTER_CODES = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "invalid_prompt"}
"""Azure and OpenAI."""


def read(content: bytes) -> Reply:
    """The first choice of a chat completion.

    Raises
    ------
    ValueError
        It is none. The message does not quote it, since it may hold a key.
    """
    completion = _decoded(content)
    choice, message = completion.choices[0], completion.choices[0].message
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    prompt = _count(usage.get("prompt_tokens"))
    answer = _text(message.content)
    is_refused = bool(message.refusal and not answer)
    return Reply(
        # No file could hold a lone surrogate.
        text=(answer or message.refusal or "").encode(errors="replace").decode(),
        finish_reason="refusal" if is_refused else (choice.finish_reason or "").encode(errors="replace").decode(),
        model=_name(completion.model),
        prompt_tokens=prompt,
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=min(_count(details.get("cached_tokens")), prompt) if isinstance(details, dict) else 0,
        system_fingerprint=_name(completion.system_fingerprint),
    )


def _decoded(content: bytes) -> _Completion:
    try:
        return _DECODER.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as problem:
        try:  # a reply with a lone surrogate is no reply to msgspec, and is paid for
            return msgspec.convert(json.loads(content), _Completion)
        except (ValueError, RecursionError):
            raise problem from None


def turned_down(content: bytes) -> TurnedDown | None:
    """Why the server refuses the prompt, with any status, even 200; None for other errors and for completions."""
    error = _error(content)
    inner, metadata = error.get("innererror"), error.get("metadata")
    codes = {str(error.get("code")), str(error.get("type")), str(inner.get("code")) if isinstance(inner, dict) else ""}
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    if codes & OVERFLOW_CODES or OVERFLOW.search(message):
        count = COUNTED.search(message.replace(",", ""))
        counted = _count(error.get("n_prompt_tokens")) or int(next(filter(None, count.groups())) if count else 0)
        return TurnedDown("context_overflow", counted)
    # OpenRouter names the input that its moderation flagged.
    is_flagged = isinstance(metadata, dict) and "flagged_input" in metadata
    return TurnedDown("content_filter") if codes & FILTER_CODES or is_flagged else None


def is_out_of_credit(content: bytes) -> bool:
    """Whether the account's credit is spent, so that waiting is no use."""
    error = _error(content)
    return "insufficient_quota" in (error.get("code"), error.get("type"))


def _error(content: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return {}
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {"message": error}


def _text(content: str | list[Any] | None) -> str:
    """The text of a message; some servers send parts, of which `thinking` and the like are no text."""
    if not isinstance(content, list):
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _name(value: object) -> str:
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0
