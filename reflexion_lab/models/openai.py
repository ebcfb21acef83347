"""Any server that speaks the OpenAI chat protocol: OpenAI itself, a gateway, vLLM, llama.cpp, Ollama."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from reflexion_lab.models.draws import draw_seed
from reflexion_lab.models.pace import Pace
from reflexion_lab.models.prices import Price
from reflexion_lab.protocols import ModelError
from reflexion_lab.records import Completion, Message, Sampling, Usage


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Reply(msgspec.Struct):
    """What is read of a chat completion."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    model: str | None = None
    usage: _Tokens | None = None


_DECODER = msgspec.json.Decoder(_Reply)


class OpenAIModel:
    """`model` behind the server at `base_url`, or at OpenAI when None. Thread-safe.

    A reply is taken as it is: one without content has the text "", one that was cut off says so in its
    `finish_reason`, and a server that counts no tokens leaves zeros. `Sampling.grammar` is not sent.

    Args:
        api_key_env: the environment variable that holds the key. With a `base_url` it may be unset, as local
            servers need none.
        retries: further attempts after a 408, 409, 429 or 5xx, a lost connection or a time-out, with jittered
            exponential back-off of at most 8 s, or as long as the server's Retry-After says (up to 120 s).
        timeout: seconds that the server may be silent for.
        requests_per_minute: retries included.
        slots: calls that the server is given at once.
        context: tokens of prompt and reply together; prompts are cut to it. 0: unknown, nothing is cut.
        price_per_million: price of a million prompt tokens, of a million completion tokens, and where it differs of a
            million prompt tokens that the server had in its cache. None: nobody knows, and the cost stays 0.
        extra_body: fields of the request that are added or replaced; None takes a field out. Part of the
            fingerprint.

    Raises:
        ValueError: an argument is out of range.
        ModelError: there is no key, or no reply could be had. No message contains the key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        retries: int = 5,
        timeout: float = 120.0,
        requests_per_minute: float | None = None,
        slots: int = 8,
        context: int = 0,
        price_per_million: Sequence[float] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        per_minute, prices = requests_per_minute, price_per_million
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        _check("base_url", base_url, _is_web(base_url), "an address that begins with http:// or https://")
        _check("retries", retries, retries >= 0, "0 or more")
        _check("timeout", timeout, timeout > 0, "seconds, more than 0")
        _check("requests_per_minute", per_minute, per_minute is None or per_minute > 0, "more than 0, or null")
        _check("slots", slots, slots >= 1, "1 or more")
        _check("context", context, context >= 0, "0 or more")
        _check("price_per_million", prices, prices is None or len(prices) in (2, 3), "two or three prices, or null")
        self._price = Price(per_million=None if prices is None else tuple(prices), words="as the config says")
        self.slots = slots
        self.context = context
        self._model = model
        self._extra = dict(extra_body or {})
        self._key_env = api_key_env
        self._key = _read_key(api_key_env, base_url)
        self._client = _client(self._key or "none", base_url, retries, timeout, Pace(per_minute))
        place = urlsplit(str(self._client.base_url))
        host = place.netloc.rpartition("@")[2]
        self._place = f"{place.scheme}://{host}{place.path}"
        self.fingerprint = f"openai:{host}:{model}{_digest(self._extra)}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """A last message of role `assistant` is sent as it is; whether it is continued is up to the server.

        Usage has the seconds of the request that succeeded; waiting for a turn or for a retry is left out.
        """
        import openai

        chat = [{"role": message.role, "content": message.content} for message in messages]
        create = self._client.chat.completions.with_raw_response.create
        problem: Exception
        try:
            raw = create(model=self._model, messages=chat, extra_body=self._fields(messages, sampling, sample))
            return self._completion(raw.http_response.content, raw.elapsed.total_seconds())
        except (openai.OpenAIError, ValueError) as error:
            problem = error
        # Outside of the handler: chained to the SDK's error it would carry request headers, and so the key.
        raise self._error(problem)

    def close(self) -> None:
        self._client.close()

    def _fields(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> dict[str, object]:
        fields: dict[str, object] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop": list(sampling.stop) or None,
            "seed": draw_seed(messages, sampling, sample),
        }
        return {name: value for name, value in (fields | self._extra).items() if value is not None}

    def _completion(self, content: bytes, seconds: float) -> Completion:
        try:
            reply = _DECODER.decode(content)
        except ValueError as error:
            found = self._without_key(content.decode(errors="replace"))[:200]
            raise ValueError(f"the reply is no chat completion, {error}: {found}") from None
        choice, tokens = reply.choices[0], reply.usage or _Tokens()
        counts = tokens.prompt_tokens or 0, tokens.completion_tokens or 0
        had = (tokens.prompt_tokens_details or _Details()).cached_tokens or 0
        return Completion(
            # A lone surrogate is valid JSON, and nothing that a file can hold.
            text=(choice.message.content or "").encode(errors="replace").decode(),
            model=reply.model or self._model,
            finish_reason=choice.finish_reason or "",
            usage=Usage(
                calls=1,
                prompt_tokens=counts[0],
                completion_tokens=counts[1],
                seconds=seconds,
                cost=self._price.cost(*counts, min(had, counts[0])),
            ),
        )

    def _error(self, problem: Exception) -> ModelError:
        status = getattr(problem, "status_code", 0)
        cause = f" {problem.__cause__}" if problem.__cause__ else ""
        found = self._without_key(f"{type(problem).__name__}: {problem}{cause}")[:500]
        return ModelError(f"{self._model} at {self._place} did not answer ({found}); {self._advice(status)}")

    def _advice(self, status: int) -> str:
        if status in {401, 403}:
            state = "was refused; put a valid one" if self._key else "is not set; put one"
            return f"the key {state} into the environment variable {self._key_env}"
        if status == 429:
            return "lower model.requests_per_minute, raise model.retries, or see whether the account has credit"
        if 400 <= status < 500:
            return "see whether model.model, model.base_url and model.extra_body suit this server"
        return "see whether the server runs and model.base_url is right, or raise model.timeout or model.retries"

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _client(key: str, base_url: str | None, retries: int, timeout: float, pace: Pace) -> Any:
    try:
        import openai
    except ImportError as error:
        raise ModelError("This model needs the package openai: pip install 'reflexion_lab[openai]'") from error
    # Its own retries do what is promised above. The hook sees each of them, so the limit counts requests.
    return openai.OpenAI(
        api_key=key,
        base_url=base_url,
        timeout=timeout,
        max_retries=retries,
        http_client=openai.DefaultHttpxClient(event_hooks={"request": [lambda request: pace.wait()]}),
    )


def _check(field: str, found: object, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"model.{field}: {found!r} found; expected {expected}")


def _is_web(base_url: str | None) -> bool:
    return base_url is None or base_url.startswith(("http://", "https://"))


def _read_key(variable: str, base_url: str | None) -> str:
    key = os.environ.get(variable, "").strip()
    if not key and not base_url:
        raise ModelError(f"The environment variable {variable} is not set; put the API key into it")
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"The environment variable {variable} holds characters that no key has; set it anew")
    return key


def _digest(extra: dict[str, object]) -> str:
    if not extra:
        return ""
    return "+" + hashlib.sha256(msgspec.json.encode(extra, order="sorted")).hexdigest()[:8]
