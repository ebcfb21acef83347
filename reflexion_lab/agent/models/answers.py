"""What a server that speaks the OpenAI chat protocol answers: a chat completion, or why there is none."""

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
    """As the server names it, "" where it does not; `refusal` where the model refused."""
    model: str
    """Who answered, by the server's name; "" where it names nobody."""
    prompt_tokens: int
    """0 where the server counts none, as below."""
    completion_tokens: int
    cached_tokens: int
    """Those of the prompt that the server had in its cache."""
    system_fingerprint: str = ""
    """What the server calls its own configuration; "" where it does not."""

    def with_texts(self, mended: Callable[[str], str]) -> Reply:
        """With every text of the server's as `mended` gives it back."""
        return self._replace(
            text=mended(self.text),
            finish_reason=mended(self.finish_reason),
            model=mended(self.model),
            system_fingerprint=mended(self.system_fingerprint),
        )


class TurnedDown(NamedTuple):
    """The server will not take this prompt, however often it is sent."""

    finish_reason: str
    """`context_overflow` or `content_filter`."""
    prompt_tokens: int = 0
    """What the server counted; 0 where it does not say."""


class _Said(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
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
"""The length of the prompt in these words; vLLM's may be a lower bound, since it stops counting at its limit."""
FILTER_CODES = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "invalid_prompt"}
"""Azure and OpenAI."""


def read(content: bytes) -> Reply:
    """The first choice of a chat completion.

    Raises:
        ValueError: it is none; how it begins is not said, for it may hold a key.
    """
    completion = _decoded(content)
    choice, said = completion.choices[0], completion.choices[0].message
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    prompt = _count(usage.get("prompt_tokens"))
    answer = _text(said.content)
    is_refused = bool(said.refusal and not answer)
    return Reply(
        # Nor could a file hold a lone surrogate.
        text=(answer or said.refusal or "").encode(errors="replace").decode(),
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
    """Whether the prompt is to blame for an error, which may come with any status, even 200; None for any other."""
    error = _error(content)
    inner, metadata = error.get("innererror"), error.get("metadata")
    codes = {str(error.get("code")), str(error.get("type")), str(inner.get("code")) if isinstance(inner, dict) else ""}
    said = error.get("message")
    said = said if isinstance(said, str) else ""
    if codes & OVERFLOW_CODES or OVERFLOW.search(said):
        found = COUNTED.search(said.replace(",", ""))
        counted = _count(error.get("n_prompt_tokens")) or int(next(filter(None, found.groups())) if found else 0)
        return TurnedDown("context_overflow", counted)
    # OpenRouter names what its moderation took offence at.
    is_flagged = isinstance(metadata, dict) and "flagged_input" in metadata
    return TurnedDown("content_filter") if codes & FILTER_CODES or is_flagged else None


def is_out_of_credit(content: bytes) -> bool:
    """Whether an error says that the account is spent, which waiting does not mend."""
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
    """Some servers answer in parts, of which `thinking` and such are no part of the reply."""
    if not isinstance(content, list):
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _name(found: object) -> str:
    return found.encode(errors="replace").decode() if isinstance(found, str) else ""


def _count(found: object) -> int:
    return int(found) if isinstance(found, int | float) and 0 <= found < 2**53 else 0
