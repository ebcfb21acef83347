"""Client for any provider that LiteLLM knows, such as Anthropic, Gemini, Mistral or Bedrock."""

from __future__ import annotations

import datetime
import os
import random
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.agent.models.api_keys import ApiKey
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.models.requests import COUNTED, OVERFLOW, Pace, Rejection, is_out_of_credit, outcome_of
from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.io.secrets import without_keys
from reflexion_lab.limits import Above0, Count, Parallel, validated
from reflexion_lab.records import Completion, Message, Sampling

RESERVED = {
    "model", "messages", "api_key", "base_url", "timeout", "num_retries", "max_retries", "allowed_openai_params",
}  # fmt: skip
"""Arguments of LiteLLM's `completion` that the other keys set."""
LONGEST_PAUSE = 8.0
"""Seconds before a retry, at most."""


class LiteLLMModel(OpenAIModel):
    """A model of a provider that LiteLLM calls. Thread-safe. Replies, errors and secrets are treated as by
    `OpenAIModel`; a `seed` is left out where the provider takes none. Regions and projects of clouds come from the
    environment and are not part of the fingerprint.

    Parameters
    ----------
    model : str
        PROVIDER/NAME, as LiteLLM spells it.
    base_url : str, optional
        Another server of the provider's protocol; default: PROVIDER_API_BASE, else the provider's. Part of the
        fingerprint.
    api_key_env : str, optional
        Environment variable with the key; default: PROVIDER_API_KEY. If it is not set, LiteLLM looks for the
        provider's other credentials.
    retries : int
        Retries, 0 or more, after a lost connection, a time-out, a 408, 409, 429 or 5xx; none once the credit is spent.
    timeout : float
        Seconds without data after which a request fails.
    extra_body : mapping, optional
        Fields of LiteLLM's `completion` to add or replace; None removes one. Part of the fingerprint. A field that the
        provider does not know is an error.
    api_key_file, answers_as, requests_per_minute, slots, context, price_per_million
        As of `OpenAIModel`.

    Raises
    ------
    ConfigError
        An argument is out of range.
    ModelError
        LiteLLM is not installed, or the provider rejects the request. No message contains the key.
    Unanswered
        No reply after all retries.
    """

    only_chats = "model=litellm, whose models chat"

    @validated
    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str | None = None,
        *,
        api_key_file: str | None = None,
        answers_as: Sequence[str] | None = None,
        retries: Count = 5,
        timeout: Above0 = 120.0,
        requests_per_minute: Above0 | None = None,
        slots: Parallel = 8,
        context: Count = 0,
        price_per_million: Annotated[Sequence[float], Meta(min_length=2, max_length=3)] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        provider, _, name = model.partition("/")
        if not (provider and name):
            raise ConfigError("model.model", repr(model), "PROVIDER/NAME, such as anthropic/claude-sonnet-4-5")
        if reserved := sorted(RESERVED & set(extra_body or {})):
            raise ConfigError("model.extra_body", ", ".join(reserved), "fields that are no keys of this config")
        base_url = base_url or os.environ.get(f"{_variable(provider)}_API_BASE") or None
        variant = self._keep(model, answers_as, slots, context, price_per_million, extra_body)
        variable = api_key_env or f"{_variable(provider)}_API_KEY"
        self._key = ApiKey(variable, api_key_file, is_needed=False)
        self._key.read()
        self._place = base_url or provider
        self._base_url, self._retries, self._timeout = base_url, retries, timeout
        self._pace = Pace(requests_per_minute)
        _library()  # a missing package is reported before any file is written
        self.fingerprint = f"litellm:{base_url or ''}:{model}{variant}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Usage counts the seconds of the successful request only, without rate limiting and retries."""
        import openai  # its errors are the base classes of LiteLLM's

        chat = [{"role": message.role, "content": message.content} for message in messages]
        fields = self._fields(messages, sampling, sample)
        if sampling.top_p == 1 and "top_p" not in self._extra:
            fields.pop("top_p", None)  # newer models of Anthropic refuse it beside a temperature
        takes_seed = "seed" in (_library().get_supported_openai_params(model=self._model) or ())
        if not takes_seed and "seed" not in self._extra:
            fields.pop("seed", None)
        for retry in range(self._retries + 1):
            self._pace.wait()
            began = time.monotonic()
            try:
                answer = _library().completion(
                    model=self._model,
                    messages=chat,
                    api_key=self._key.read() or None,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    num_retries=0,
                    max_retries=0,
                    allowed_openai_params=[*self._extra],
                    **fields,
                )
                return self._completion(_response(answer.model_dump_json().encode(), began), retry)
            except (openai.OpenAIError, ValueError) as error:
                if refusal := _refusal(error):
                    return self._withheld(refusal, _response(b"", began), retry)
                problem = error
            content = getattr(getattr(problem, "response", None), "content", b"")
            is_spent = getattr(problem, "status_code", 0) == 402 or is_out_of_credit(content)
            if outcome_of(problem) in ("", "key_refused") or is_spent or retry == self._retries:
                break
            time.sleep(min(LONGEST_PAUSE, 0.5 * 2**retry) * random.uniform(0.75, 1))
        # Outside of the handler: the library's error, if chained, would expose request headers and the key.
        raise self._error(problem)

    def _completion(self, response: Any, retries: int) -> Completion:
        completion = super()._completion(response, retries)
        # LiteLLM may have found a key that this part does not know, and a server may echo it.
        return replace(completion, text=without_keys(completion.text), model=without_keys(completion.model))

    def _shown(self, text: str) -> str:
        return without_keys(super()._shown(text))

    def close(self) -> None:
        """Nothing to close: LiteLLM keeps its connections for the process."""


def _library() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks a server for prices
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else its import loads a `.env` into the environment
    try:
        import litellm
    except ImportError as error:
        raise ModelError("This model needs the package litellm: pip install 'reflexion_lab[litellm]'") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


def _response(content: bytes, began: float) -> SimpleNamespace:
    """What `OpenAIModel` reads of a response."""
    return SimpleNamespace(content=content, elapsed=datetime.timedelta(seconds=time.monotonic() - began))


def _refusal(problem: Exception) -> Rejection | None:
    """Why the provider refuses this prompt, in which case a retry changes nothing."""
    litellm, text = _library(), str(problem)
    is_overflow = getattr(problem, "status_code", 0) in (400, 413) and OVERFLOW.search(text)
    if is_overflow or isinstance(problem, litellm.ContextWindowExceededError):
        count = COUNTED.search(text.replace(",", ""))
        return Rejection("context_overflow", int(next(filter(None, count.groups())) if count else 0))
    return Rejection("content_filter") if isinstance(problem, litellm.ContentPolicyViolationError) else None


def _variable(provider: str) -> str:
    """How names of a provider's environment variables begin."""
    return provider.upper().replace("-", "_")
