"""Client for any provider that LiteLLM knows, such as Anthropic, Gemini, Mistral or Bedrock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from reflexion_lab.agent.models.api_keys import ApiKey
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.models.requests import Pace, Rejection, rejection_in
from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.io.secrets import without_keys
from reflexion_lab.limits import Above0, Count, Parallel, PerMillion, validated

RESERVED = {
    "model", "messages", "api_key", "base_url", "timeout", "num_retries", "max_retries", "allowed_openai_params",
}  # fmt: skip
"""Arguments of LiteLLM's `completion` that this part sets."""
AWS = ("aws_region_name", "AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION")
REGIONS = {"bedrock": AWS, "sagemaker": AWS, "vertex_ai": ("vertex_location", "VERTEXAI_LOCATION", "VERTEX_LOCATION")}
"""By provider: the field of `extra_body` with its region, and the variables that LiteLLM reads without it."""


class LiteLLMModel(OpenAIModel):
    """A model of a provider that LiteLLM calls. Thread-safe. Replies, errors, retries and secrets are treated as by
    `OpenAIModel`; a `seed` is left out where the provider takes none. The region of AWS or Vertex AI, from the
    environment or `extra_body`, is part of the fingerprint; the project is not.

    Raises ConfigError: an argument is out of range; ModelError: LiteLLM is not installed, or the provider rejects the
    request. No message contains the key; Unanswered: no reply after all retries. `model`: PROVIDER/NAME, as LiteLLM
    spells it. `base_url`: another server of the provider's protocol; default: PROVIDER_API_BASE, else the provider's.
    In the fingerprint. `api_key_env`: environment variable with the key; default: PROVIDER_API_KEY. If it is not set,
    LiteLLM looks for the provider's other credentials. `timeout`: seconds without data after which a request fails.
    `extra_body`: fields of LiteLLM's `completion` to add or replace; None removes one. Part of the fingerprint. A field
    that the provider does not know is an error. `reasoning_effort`, `retries`, `api_key_file`, `answers_as`,
    `requests_per_minute`, `slots`, `context`, `price_per_million`: as of `OpenAIModel`.
    """

    only_chats = "model=litellm, whose models chat"
    patience = "model.timeout or retries"

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
        price_per_million: PerMillion | None = None,
        extra_body: Mapping[str, object] | None = None,
        reasoning_effort: str | None = None,
    ) -> None:
        provider, _, name = model.partition("/")
        if not (provider and name):
            raise ConfigError("model.model", repr(model), "PROVIDER/NAME, such as anthropic/claude-sonnet-4-5")
        if reserved := sorted(RESERVED & set(extra_body or {})):
            raise ConfigError("model.extra_body", ", ".join(reserved), "other fields, since this part sets these")
        base_url = base_url or os.environ.get(f"{_variable(provider)}_API_BASE") or None
        variant = self._keep(model, answers_as, slots, context, price_per_million, extra_body, reasoning_effort)
        variable = api_key_env or f"{_variable(provider)}_API_KEY"
        self._key = ApiKey(variable, api_key_file, is_needed=False)
        self._key.read()
        field, *variables = REGIONS.get(provider, ("",))
        region = "" if self._extra.get(field) else next(filter(None, map(os.environ.get, variables)), "")
        self._place = base_url or f"{provider} {region}".strip()
        self._base_url, self._retries, self._timeout = base_url, retries, timeout
        self._pace = Pace(requests_per_minute)
        _library()  # a missing package is reported before any file is written
        self.fingerprint = f"litellm:{base_url or region}:{model}{variant}"

    def _send(self, chat: list[dict[str, str]], fields: dict[str, Any]) -> bytes:
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
        return bytes(answer.model_dump_json().encode())

    def _refusal(self, problem: Exception) -> Rejection | None:
        litellm, status = _library(), getattr(problem, "status_code", 0)
        refusal = rejection_in(str(problem)) if status in (400, 403, 413, 422) else None
        if refusal is None and isinstance(problem, litellm.ContextWindowExceededError):
            return Rejection("context_overflow")
        is_filtered = isinstance(problem, litellm.ContentPolicyViolationError)
        return refusal or (Rejection("content_filter") if is_filtered else None)

    def _hidden(self, text: str) -> str:
        return without_keys(super()._hidden(text))  # LiteLLM may have found a key that this part does not know

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


def _variable(provider: str) -> str:
    """How names of a provider's environment variables begin."""
    return provider.upper().replace("-", "_")
