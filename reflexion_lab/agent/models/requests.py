"""HTTP requests: the SDK's client, its retries, and how answers and errors are read.

One file: which answer is asked again, waits, ends the run or counts as a reply is one table of cases.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import msgspec

from reflexion_lab.errors import ConfigError, ModelError

LONGEST_WAIT = 120
"""Largest Retry-After in seconds; a longer one ends the retries."""
LONGEST_PAUSE = 8.0
"""Seconds before a retry, at most, if the server asks for none."""
COMPLETION, EMBEDDINGS = "chat completion", "list of embeddings"
NOT_EXPECTED = "the reply is no "
SHOWN = 100_000
"""Bytes of an unreadable answer that are searched for keys before 500 characters of it are shown."""
LOCAL = re.compile(r"(?:(?:127|10|0|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.[\d.]+|[^./:]+)(?:[:/]|$)")
"""Addresses of this machine and its network, where servers have no certificate."""
OWN = re.compile(r"(?:127\.[\d.]+|0\.0\.0\.0|localhost|\[::1\])(?::\d+)?")
"""Hosts that are this machine."""
ENDINGS = re.compile(r"/+(?:(?:(?:chat/)?completions|responses|embeddings)/*)?$")
"""Endings of addresses copied from examples; the SDK adds its own."""


def address(text: str) -> tuple[str, dict[str, str]]:
    """Where requests go, and their query; `text` may lack its scheme, or name a whole request. Raises ConfigError."""
    if "@" in text.partition("/")[0] and not re.match("https?:", text):
        raise ConfigError("model.base_url", "a login without its scheme", "an address that begins with https://")
    parts = urlsplit(text if re.match("https?:|[^/]*//", text) else f"http{'s' * (not LOCAL.match(text))}://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("model.base_url", repr(text), "an address such as http://HOST:8000/v1")
    bare = parts._replace(path=ENDINGS.sub("", parts.path), query="", fragment="")
    return urlunsplit(bare), dict(parse_qsl(parts.query))


def netloc(base_url: str) -> str:
    """Host and port of an address. Raises ConfigError, as `address`."""
    return urlsplit(address(base_url)[0]).netloc.rpartition("@")[2]


def connect(base_url: str | None, timeout: float, deadline: float, expected: str = COMPLETION) -> Any:
    """A client of the SDK that does not retry; each call supplies its own key. `timeout`, `deadline`: as of
    `OpenAIModel`. `expected`: answer to a POST.

    `base_url`: as of `address`. Each request has its own connection: on a shared one, an answer sent twice would be
    read as the answer to the next request. Raises ModelError: the SDK is not installed; ConfigError: as `address`.
    """
    try:
        import openai
    except ImportError as error:
        raise ModelError("This model needs the package openai: pip install 'reflexion_lab[openai]'") from error
    hooks = {"response": [lambda response: _look(response, deadline, expected)]}
    http = openai.DefaultHttpxClient(event_hooks=hooks, headers={"Connection": "close"})
    place, query = address(base_url) if base_url else (None, {})
    settings: dict[str, Any] = {"base_url": place, "default_query": query, "timeout": timeout, "max_retries": 0}
    return openai.OpenAI(api_key="none", http_client=http, **settings)


def _look(response: Any, deadline: float, expected: str) -> None:
    """Read an answer within `deadline`; one to a POST that is not as `expected` is an error of the SDK."""
    library = importlib.import_module(type(response).__module__.partition(".")[0])  # the HTTP library of the SDK
    whole = response.stream
    response.stream = _ending(library, whole, deadline)
    response.read()
    response.stream = whole
    if not response.is_success or response.request.method == "GET" or rejection(response.content):
        return
    try:
        (embeddings if expected == EMBEDDINGS else read)(response.content)
    except ValueError as error:
        excerpt = response.content[:SHOWN].decode(errors="replace")
        message = f"{NOT_EXPECTED}{expected}, {error}: {excerpt}"
        raise library.RemoteProtocolError(message, request=response.request) from None


def _ending(library: Any, stream: Any, deadline: float) -> Any:
    """`stream` with a time-out after `deadline` seconds: some servers send white space without end."""

    class Ending(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            start = time.monotonic()
            for piece in stream:
                if time.monotonic() - start > deadline:
                    raise library.ReadTimeout(f"the answer had not ended {deadline:g} s after its head")
                yield piece

        def close(self) -> None:
            stream.close()

    return Ending()


def outcome_of(problem: Exception) -> str:
    """One of `errors.UNANSWERED`, or `refused`; "" if the server has no such model or path, or there is no answer."""
    import openai

    status = getattr(problem, "status_code", 0)
    if is_spent(problem):
        return "rate_limited"
    if isinstance(problem, openai.APITimeoutError) or status == 408:
        return "timeout"
    if isinstance(problem, openai.APIConnectionError):
        return "malformed" if str(problem.__cause__).startswith(NOT_EXPECTED) else "connection"
    if status == 400 and BAD_KEY.search(_words(content_of(problem))):
        return "key_refused"
    names = {401: "key_refused", 403: "key_refused", 409: "server_error", 429: "rate_limited"}
    names |= dict.fromkeys((400, 413, 422), "refused")  # others say nothing about one prompt
    return "server_error" if status >= 500 else names.get(status, "")


def is_spent(problem: Exception) -> bool:
    """Whether the account's credit is used up, or the spending limit of the key."""
    status, words = getattr(problem, "status_code", 0), f"{problem} {_words(content_of(problem))}"
    is_said = SPENT.search(words) and not TRANSIENT.search(words)
    return status == 402 or (400 <= status < 500 and bool(is_said))


def content_of(problem: Exception) -> bytes:
    """Body of the answer that `problem` reports; empty if there is none."""
    return getattr(getattr(problem, "response", None), "content", b"") or b""


def named(problem: Exception, names: Iterable[str]) -> list[str]:
    """Those of the request's fields that the answer names, if it finds the request invalid."""
    if getattr(problem, "status_code", 0) not in (400, 422):
        return []
    text = "; ".join([str(problem), *reasons(content_of(problem))])
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)] if INVALID.search(text) else []


def headers_of(problem: Exception) -> Mapping[str, str]:
    """Headers of the answer that `problem` reports; LiteLLM keeps them apart from its response."""
    own = getattr(problem, "litellm_response_headers", None)
    return own or getattr(getattr(problem, "response", None), "headers", None) or {}


def pause(problem: Exception, retry: int) -> float | None:
    """Seconds to wait after `problem` before a retry, of which there were `retry`; None if a retry is useless."""
    headers = headers_of(problem)
    asked = _retry_after(headers)
    is_lasting = outcome_of(problem) in ("", "refused", "key_refused") or is_spent(problem)
    if is_lasting or asked > LONGEST_WAIT or headers.get("x-should-retry") == "false":
        return None
    # Workers that wait alike would return at once.
    return asked * random.uniform(1, 1.1) if asked > 0 else min(LONGEST_PAUSE, 0.5 * 2**retry) * random.uniform(0.75, 1)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait; 0 if it does not."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(ValueError):
            return float(headers.get(name, "")) / unit
    with contextlib.suppress(ValueError, OverflowError):
        return parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
    return 0.0


class Pace:
    """Rate limit: evenly spaced calls, at most `per_minute`; None: no limit. Thread-safe."""

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = float("-inf")

    def wait(self) -> None:
        """Sleep until this caller's turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._free_at)
            self._free_at = turn + self._interval
        if turn > now:
            self._sleep(turn - now)


class Reply(NamedTuple):
    text: str
    finish_reason: str
    """As reported by the server, or ""; `refusal` if the model refused."""
    model: str
    """The model that answered, or ""."""
    prompt_tokens: int
    """0 if the server counts no tokens; likewise below."""
    completion_tokens: int
    cached_tokens: int
    """Prompt tokens from the server's cache."""
    reasoning_tokens: int = 0
    """Completion tokens of hidden reasoning."""
    system_fingerprint: str = ""
    """Identifier of the server's configuration, or ""."""
    reasoning: str = ""
    """Reasoning beside the text, or ""."""


class Rejection(NamedTuple):
    """The server's reason to reject a prompt, which a retry does not change."""

    finish_reason: str
    """`context_overflow`, `content_filter` or, for an unknown reason, `refused`."""
    prompt_tokens: int = 0
    """Length of the prompt as counted by the server; 0 if unknown."""


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    # Any type: an invalid count or name must not discard a paid reply.
    model: Any = None
    usage: Any = None
    system_fingerprint: Any = None


CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
    ("cache_read_input_tokens",),
)
"""Where servers count cached prompt tokens: OpenAI, vLLM and xAI; DeepSeek; Moonshot; proxies of Anthropic."""
REASONING = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))
"""Likewise reasoning tokens: OpenAI, DeepSeek, vLLM and xAI; older gateways."""

_DECODER = msgspec.json.Decoder(_Completion)

OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size_error|context_window_exceeded|prompt_tokens_exceeded"  # codes
    r"|maximum context (?:length|limit)|context length is only|greater than the context length"  # OpenAI, vLLM, Ollama
    r"|exceed(?:s|ed)? (?:the |your |this |model |available |max(?:imum)? )*context|context window exceeds"  # llama.cpp
    r"|(?:prompt|input) (?:input )?(?:is )?too long|too long to fit into the model"  # Anthropic, Bedrock, vLLM
    r"|longer than the (?:maximum model|model's context) length|exceeds max(?:imum)? (?:input )?length"  # SGLang
    r"|inputs` (?:tokens \+|must have less than)|reduce the length of the (?:messages|prompt|input)"  # TGI, Groq
    r"|exceeds the maximum (?:number of tokens|allowed length)|model only supports up to"  # Gemini, SGLang
    r"|maximum prompt length|token count of \d+ exceeds|exceeded model token limit"  # xAI, Copilot, Moonshot
    r"|tokens in the prompt cannot exceed|Range of input length|Prompt exceeds max length",  # Cohere, Qwen, GLM
    re.IGNORECASE,
)
"""How servers say that a prompt is too long."""
COUNTED = re.compile(
    r"(\d+) in the messages|resulted in (\d+) tokens|(\d+) input tokens|(?:request|input) \((\d+) tokens\)"
    r"|length \(?(\d+)(?: tokens)?\)|too long: (\d+)|limit: (\d+) \+|token count (?:of |is |\()(\d+)|Given: (\d+)"
    r"|contains (\d+) tokens|received (\d+)|n_prompt_tokens: (\d+)|(\d+) of text input|(\d+) tokens from the input",
    re.IGNORECASE,
)
"""Length of the prompt in such messages; in vLLM's it may be a lower bound."""
FILTERED = re.compile(
    r"content_?filter|content_policy|ResponsibleAIPolicy|content management policy|invalid_prompt"  # Azure, OpenAI
    r"|(?:content|prompt|request|input) .{0,40}violat\w+ (?:our |the )?(?:usage|content) (?:guideline|polic)"  # xAI
    r"|flagged_input|moderation_blocked|rejected as a result of our safety|content filtering policy"  # OpenRouter
    r"|PROHIBITED_CONTENT|block_?reason|blocked the (?:request|prompt)|response was blocked"  # Gemini
    r"|blocked by (?:\w+ ){0,2}(?:content|safety|guardrail)|Responsible AI Service|new_sensitive"  # Bedrock, MiniMax
    r"|Content Exists Risk|considered high risk|data_?inspection_?failed"  # DeepSeek, Moonshot, Qwen
    r"|inappropriate content|sensitive content|敏感内容",  # GLM
    re.IGNORECASE,
)
"""How providers say that their filter refuses a prompt."""
SPENT = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|funds)|exceeded[_ ](?:your[_ ])?(?:current|monthly)[_ ]"
    r"|billing[_ ]hard[_ ]limit|credit balance is too low|(?:spend(?:ing)?|credit|key|usage) (?:limit|cap)\b"
    r"|budget(?:_exceeded| has been exceeded)|(?:out of|more|any|available) credits|Arrearage|余额不足",
    re.IGNORECASE,
)
"""How servers say that credit or a spending limit is used up."""
INVALID = re.compile(
    r"support|unknown|unrecogni|unexpected|extra|permit|allow|must|deprecat|invalid|expect|should|require|cannot|refus|parse|fail",
    re.IGNORECASE,
)
"""Words of servers about a field; one that is merely named may be unrelated to the error."""
BAD_KEY = re.compile(r"API[ _]KEY[ _](?:INVALID|not valid|expired)|invalid (?:x-)?api[ -]key", re.IGNORECASE)
"""Gemini's words for a key, with status 400."""
TRANSIENT = re.compile(r"per[_ -]?(?:minute|second|hour)|retry (?:in|after)|try again in", re.IGNORECASE)
"""Words of rate limits, such as Gemini's, which says likewise that a quota is exceeded."""
SPOKEN = (
    "error", "errors", "message", "msg", "title", "detail", "details", "description", "reason", "fieldviolations",
    "metadata", "raw",
)  # fmt: skip
"""Keys, in any case, below which an error's body has its texts: OpenAI, Cloudflare, Mistral, FastAPI, Gemini, AWS, and
OpenRouter's quotation of the provider. Others may repeat the prompt."""


def read(content: bytes) -> Reply:
    """The first choice of a chat completion.

    Raises ValueError: `content` is no chat completion. The message does not quote it, since it may contain a key.
    """
    completion = _decoded(content)
    choice, message = completion.choices[0], completion.choices[0].message
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    prompt, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    prompt = prompt or (max(total - written, 0) if written else 0)
    hidden = max(total - prompt - written, 0)  # reasoning of Gemini and xAI
    answer, reasoning = _text(message.content), _reasoning(message)
    is_refused = bool(message.refusal and not answer)
    counted = max(_largest(usage, REASONING), hidden, 0 if answer.strip() or not reasoning else written)
    return Reply(
        # Lone surrogates cannot be written to a file.
        text=(answer or message.refusal or "").encode(errors="replace").decode(),
        finish_reason="refusal" if is_refused else (choice.finish_reason or "").encode(errors="replace").decode(),
        model=_name(completion.model),
        prompt_tokens=prompt,
        completion_tokens=written + hidden,
        cached_tokens=min(_largest(usage, CACHED), prompt),
        reasoning_tokens=min(counted, written + hidden),
        system_fingerprint=_name(completion.system_fingerprint),
        reasoning=reasoning,
    )


def embeddings(content: bytes) -> tuple[list[tuple[int, Any]], str]:
    """Index and vector of the rows of an answer, by index, and its model. Raises ValueError: `content` is none."""
    try:
        answer = json.loads(content)
        rows = [(int(row["index"]), row["embedding"]) for row in answer["data"]]
    except (LookupError, TypeError, RecursionError, OverflowError):
        raise ValueError("its data is no list of index and embedding") from None
    return sorted(rows, key=lambda row: row[0]), _name(answer.get("model"))


def _largest(usage: dict[str, Any], places: Sequence[Sequence[str]]) -> int:
    """The largest count at `places` of a reply's usage; servers may repeat one count under several names."""
    return max(_count(_at(usage, place)) for place in places)


def _at(node: Any, place: Sequence[str]) -> Any:
    for key in place:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _decoded(content: bytes) -> _Completion:
    content = joined(content)
    try:
        return _DECODER.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as problem:
        try:  # msgspec rejects lone surrogates, but the reply has been paid for
            return msgspec.convert(json.loads(content), _Completion)
        except (ValueError, RecursionError):
            raise problem from None


def rejection(content: bytes) -> Rejection | None:
    """Why the server rejects the prompt (with any status, even 200); None for other errors and for completions."""
    return rejection_in(_words(content))


def rejection_in(words: str) -> Rejection | None:
    """Why a server that answers with `words` rejects the prompt; None if they do not say so."""
    if OVERFLOW.search(words):
        count = COUNTED.search(words.replace(",", ""))
        return Rejection("context_overflow", int(next(filter(None, count.groups())) if count else 0))
    return Rejection("content_filter") if FILTERED.search(words) else None


def _words(content: bytes) -> str:
    """Codes and reasons of an error; "" for a completion."""
    error = _error(content)
    inner, metadata = error.get("innererror"), error.get("metadata")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else ""]
    codes += metadata if isinstance(metadata, dict) else ()  # names that OpenRouter's moderation has
    codes += [f"n_prompt_tokens: {error.get('n_prompt_tokens')}", *reasons(content)]  # llama.cpp
    return "\n".join(map(str, codes))


def _error(content: bytes) -> dict[str, Any]:
    body = _json(content)
    body = body[0] if isinstance(body, list) and body else body  # Gemini
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {}


def reasons(content: bytes) -> list[str]:
    """Texts of an error's body in any of the forms that servers use, without repetitions; none for a completion.

    A plain text is a reason itself; markup and pieces of JSON or of a stream are none.
    """
    body = _json(content)
    if body is None:
        plain = content[:SHOWN].decode(errors="replace").strip()
        body = "" if plain.startswith(("{", "[", "<", "data:")) else plain
    return list(dict.fromkeys(filter(None, _reasons(body))))


def _reasons(node: Any, depth: int = 8) -> Iterator[str]:
    if not depth:
        return
    if isinstance(node, str):
        nested = _json(node.encode(errors="replace")) if node.lstrip().startswith(("{", "[")) else None
        yield from [_name(node).strip()] if nested is None else _reasons(nested, depth - 1)
    for item in node if isinstance(node, list) else ():
        yield from _reasons(item, depth - 1)
    if isinstance(node, dict):
        fields = {key.casefold(): value for key, value in node.items()}
        texts = [text for key in SPOKEN for text in _reasons(fields.get(key), depth - 1)]
        loc = fields.get("loc")
        place = ".".join(map(str, loc)) if isinstance(loc, list) else fields.get("param") or fields.get("field")
        is_placed = texts and isinstance(place, str) and place and place not in texts[0]
        yield from [f"{place}: {texts[0]}", *texts[1:]] if is_placed else texts


def joined(content: bytes) -> bytes:
    """The completion, or error, of an event stream, which some servers send unasked; else, or if torn, `content`."""
    if not re.match(rb"\s*(?:data|event|id|retry)?:", content):
        return content
    events = [line[5:].strip() for line in content.splitlines() if line.startswith(b"data:")]
    body, message, end, choices = dict[str, Any](), dict[str, Any](), "", list[dict[str, Any]]()
    try:
        for event in (event for event in events if event not in (b"", b"[DONE]")):
            chunk = json.loads(event)  # msgspec rejects halves of a pair of surrogates
            if chunk.get("error") or not chunk.keys() & {"choices", "usage"}:
                return event
            body |= {name: value for name, value in chunk.items() if value is not None}
            choices += [choice for choice in chunk.get("choices") or () if not choice.get("index")]
        has_deltas = any(choice.get("delta") for choice in choices)
        for choice in choices:
            end = choice.get("finish_reason") or end
            for name, part in (choice.get("delta" if has_deltas else "message") or {}).items():
                message[name] = _together(message.get(name), part)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return content
    if not choices or not (end or events[-1:] == [b"[DONE]"]):
        return content
    return json.dumps(body | {"choices": [{"message": message, "finish_reason": end or None}]}).encode()


def _together(text: Any, part: Any) -> Any:
    if {type(text), type(part)} == {str, list}:
        text, part = ([{"type": "text", "text": x}] if isinstance(x, str) else x for x in (text, part))
    return text + part if text and isinstance(part, str | list) else part or text


def _json(content: bytes) -> Any:
    """The decoded value; None if `content` is no JSON."""
    try:
        return msgspec.json.decode(joined(content))
    except (ValueError, RecursionError):
        return None


def _text(content: str | list[Any] | None) -> str:
    """The text of a message, which may consist of parts; parts of other types, such as `thinking`, are ignored."""
    if not isinstance(content, list):
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _reasoning(message: _Message) -> str:
    """The reasoning beside the text, in fields of vLLM, DeepSeek and OpenRouter, or in parts of the content."""
    fields = (message.reasoning_content, message.reasoning)
    parts = message.content if isinstance(message.content, list) else ()
    others = [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    inner = [part.get(str(part.get("type"))) or part.get("text") for part in others]
    texts = [_text(value) for value in (*fields, *inner) if isinstance(value, str | list)]
    return "\n".join(dict.fromkeys(filter(None, map(_name, texts))))


def _name(value: object) -> str:
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0
