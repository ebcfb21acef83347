"""Any server that speaks the OpenAI chat protocol: OpenAI itself, a gateway, vLLM, llama.cpp, Ollama."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from reflexion_lab.agent.models.answers import TurnedDown, is_out_of_credit, read, turned_down
from reflexion_lab.agent.models.api_keys import ApiKey
from reflexion_lab.agent.models.draws import draw_seed
from reflexion_lab.agent.models.pace import Pace
from reflexion_lab.agent.models.prices import Price
from reflexion_lab.agent.models.requests import LONGEST_WAIT, connect, outcome_of, retries_before
from reflexion_lab.agent.models.served_names import is_same
from reflexion_lab.errors import ConfigError, ModelError, Unanswered
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.limits import Above0, Count, Positive, validated
from reflexion_lab.records import Completion, Message, Sampling, Usage


class OpenAIModel:
    """`model` behind the server at `base_url`, or at OpenAI when None. Thread-safe.

    A reply is taken as it is: one without content has the text "", one that was cut off says so in its
    `finish_reason`, and a server that counts no tokens leaves zeros. A refusal, a filter's cut and a prompt that is too
    long are replies too, with a `finish_reason` of `records.WITHHELD`. `Sampling.grammar` is not sent.

    Args:
        api_key_env: the environment variable that holds the key. With a `base_url` it may be unset, as local
            servers need none.
        api_key_file: a file that holds the key instead, and that its owner alone may read.
        answers_as: names, besides `model`, under which the server may answer. Part of the fingerprint.
        retries: further requests after a 408, 409, 429 or 5xx, a lost connection, a torn or unreadable answer or a
            time-out, with jittered exponential back-off of at most 8 s, or as long as the server's Retry-After says.
            None where that is more than 120 s, or credit is spent.
        timeout: seconds that the server may be silent for.
        deadline: seconds that it may send for, from an answer's head to its end.
        requests_per_minute: retries included.
        slots: tasks at once where the config's `workers` is null, and so calls that the server is given at once.
        context: tokens of prompt and reply together; prompts are cut to it. 0: unknown, nothing is cut. Part of the
            fingerprint, as are the scheme, host and path of `base_url`.
        price_per_million: price of a million prompt tokens, of a million completion tokens, and where it differs of a
            million prompt tokens that the server had in its cache. None: nobody knows, and the cost stays 0.
        extra_body: fields of the request that are added or replaced; None takes a field out. Part of the
            fingerprint.

    Raises:
        ConfigError: an argument is out of range.
        Unanswered: there is no key, or no reply could be had after all retries.
        ModelError: the server rejects the request. No message contains the key.
    """

    only_chats = "model=openai, whose models chat"

    @validated
    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        api_key_file: str | None = None,
        answers_as: Sequence[str] | None = None,
        retries: Count = 5,
        timeout: Above0 = 120.0,
        deadline: Above0 = 1800.0,
        requests_per_minute: Above0 | None = None,
        slots: Positive = 8,
        context: Count = 0,
        price_per_million: Annotated[Sequence[float], Meta(min_length=2, max_length=3)] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ) -> None:
        prices = price_per_million
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        if not _is_web(base_url):
            raise ConfigError("model.base_url", repr(base_url), "an address that begins with http:// or https://")
        self._price = Price(per_million=None if prices is None else tuple(prices), words="as the config says")
        self.slots = slots
        self.context = context
        self._model = model
        self._names = (model, *(answers_as or ()))
        self._was_right = False
        self._extra = dict(extra_body or {})
        self._key = ApiKey(api_key_env, api_key_file, is_needed=not base_url)
        self._key.read()  # a missing one shows before anything is written
        self._client = connect(base_url, retries, timeout, deadline, Pace(requests_per_minute))
        place = urlsplit(str(self._client.base_url))
        host = place.netloc.rpartition("@")[2]
        self._place = f"{place.scheme}://{host}{place.path}"
        named = {"answers_as": sorted(answers_as)} if answers_as else {}
        window = f":context={context}" if context else ""
        self.fingerprint = f"openai:{self._place.rstrip('/')}:{model}{window}{_digest(self._extra | named)}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """A last message of role `assistant` is sent as it is; whether it is continued is up to the server.

        Usage has the seconds of the request that succeeded; waiting for a turn or for a retry is left out.
        """
        import openai

        chat = [{"role": message.role, "content": message.content} for message in messages]
        create = self._client.chat.completions.with_raw_response.create
        key = {"Authorization": f"Bearer {self._key.read() or 'none'}"}
        problem: Exception
        try:
            fields = self._fields(messages, sampling, sample)
            raw = create(model=self._model, messages=chat, extra_body=fields, extra_headers=key)
            return self._completion(raw.http_response, raw.retries_taken)
        except (openai.OpenAIError, ValueError) as error:
            response = getattr(error, "response", None)
            if response is not None and (why := turned_down(response.content)):
                return self._withheld(why, response, retries_before(error))
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

    def _completion(self, response: Any, retries: int) -> Completion:
        if why := turned_down(response.content):
            return self._withheld(why, response, retries)
        answered = read(response.content)
        is_right = self._is_right(answered.model)
        reply = answered.with_texts(self._key.hidden)  # a server may repeat the key that it was sent
        return Completion(
            text=reply.text,
            model=reply.model or self._model,
            finish_reason=reply.finish_reason if is_right else "wrong_model",
            system_fingerprint=reply.system_fingerprint,
            usage=Usage(
                calls=1,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                seconds=response.elapsed.total_seconds(),
                cost=self._price.cost(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens),
                retries=retries,
            ),
        )

    def _withheld(self, why: TurnedDown, response: Any, retries: int) -> Completion:
        seconds = response.elapsed.total_seconds()
        usage = Usage(calls=1, seconds=seconds, retries=retries, refused=1)
        counted = why.prompt_tokens
        return Completion(
            text="", model=self._model, finish_reason=why.finish_reason, usage=usage, refused_tokens=counted
        )

    def _is_right(self, answered: str) -> bool:
        """Raises Unanswered: another model answers, and the right one never has: it is the config that is wrong."""
        is_right = not answered or any(is_same(name, answered) for name in self._names)
        if is_right or self._was_right:
            self._was_right = self._was_right or bool(answered)
            return is_right
        name = self._shown(answered)[:100]
        raise Unanswered(
            f"{self._model} was asked at {self._place}, and {name!r} answered; ask for that one, or, where it is only "
            f"another name of the same model, say so: model.answers_as=[{name!r}]",
            "wrong_model",
            is_lasting=True,
        )

    def _error(self, problem: Exception) -> ModelError:
        """What `problem` means, without it."""
        response, cause = getattr(problem, "response", None), problem.__cause__
        status, outcome = getattr(problem, "status_code", 0), outcome_of(problem)
        is_spent = status == 402 or (status == 429 and response is not None and is_out_of_credit(response.content))
        said = [self._shown(f"{type(problem).__name__}: {problem}{f' {cause}' if cause else ''}")[:500]]
        if wait := response is not None and response.headers.get("retry-after"):
            said.append(f"Retry-After: {self._shown(wait)[:40]}, of which at most {LONGEST_WAIT} s are waited")
        if again := retries_before(problem):
            said.append(f"sent {again + 1} times")
        message = f"{self._model} at {self._place} did not answer ({'; '.join(said)}); {self._advice(status, is_spent)}"
        if not outcome:
            return ModelError(message)
        return Unanswered(message, outcome, is_lasting=outcome == "key_refused" or is_spent)

    def _advice(self, status: int, is_spent: bool) -> str:
        if status in {401, 403}:
            state = "was refused; put a valid one" if self._key.read() else "is not set; put one"
            return f"the key {state} into {self._key.place}"
        if is_spent:
            return f"the account's credit is spent; fill it up, or put another key into {self._key.place}"
        if status == 429:
            return "lower model.requests_per_minute, raise model.retries, or see whether the account has credit"
        if 400 <= status < 500:
            return "see whether model.model, model.base_url and model.extra_body suit this server"
        return "see whether the server runs and model.base_url is right, or raise model.timeout, deadline or retries"

    def _shown(self, text: str) -> str:
        """What a server said, without keys and without anything that a terminal would obey."""
        return plain(self._key.hidden(text))


def _is_web(base_url: str | None) -> bool:
    return base_url is None or base_url.startswith(("http://", "https://"))


def _digest(extra: dict[str, object]) -> str:
    if not extra:
        return ""
    return "+" + hashlib.sha256(msgspec.json.encode(extra, order="sorted")).hexdigest()[:8]
