"""Client for servers of the OpenAI chat protocol: OpenAI, a gateway, vLLM, llama.cpp, Ollama."""

from __future__ import annotations

import copy
import difflib
import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from reflexion_lab.agent.models import server
from reflexion_lab.agent.models.api_keys import ApiKey
from reflexion_lab.agent.models.cache import draw_seed
from reflexion_lab.agent.models.prices import Price
from reflexion_lab.agent.models.requests import (
    COMPLETION,
    LONGEST_WAIT,
    OWN,
    SHOWN,
    Pace,
    Rejection,
    connect,
    content_of,
    headers_of,
    is_spent,
    named,
    netloc,
    outcome_of,
    pause,
    read,
    reasons,
    rejection,
)
from reflexion_lab.errors import ModelError, ModelNotFound, Unanswered
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.limits import Above0, Count, Parallel, PerMillion, validated
from reflexion_lab.records import SAMPLED, Completion, Message, Sampling, Served, Usage

ROOM = 8192
"""Tokens for reasoning, which `max_completion_tokens` counts and `max_tokens` does not."""


class OpenAIModel:
    """A model on a server of the OpenAI chat protocol. Thread-safe.

    A reply without content has the text ""; token counts are 0 if the server sends none. A refusal, a filtered reply
    and a rejected prompt are completions with a `finish_reason` of `records.WITHHELD`; that of a prompt that is
    `refused` for an unknown reason (4xx other than 401 to 404, 408, 409 and 429) has the server's words as its text.
    `Sampling.grammar` is sent in the form that the server takes, if it is `identified` and takes any. A sampling
    parameter that the server refuses by name is left out from then on, and marked in the usage of replies
    (`Usage.own_temperature`, …); `max_completion_tokens` in place of `max_tokens` has 8,192 more, for reasoning. Raises
    ConfigError: an argument is out of range; Unanswered: there is no key, or no reply after all retries; ModelNotFound:
    the server has no such model or path. No message contains the key.

    The arguments are the keys of `model=openai`, each with its comment in conf/model/openai.yaml; unless said there,
    `base_url` is OPENAI_BASE_URL, else OpenAI. `/chat/completions` at its end is left out, a query goes with every
    request, and a path without a version is tried with `/v1`, too. Model, address, `answers_as`, `context`,
    `extra_body` and `reasoning_effort` are part of the fingerprint.
    """

    only_chats = "model=openai, whose models chat"
    patience = "model.timeout, deadline or retries"
    """The settings that a slow server needs."""
    _identified: Self | None = None
    _constraint = ""
    _expected = COMPLETION
    served: Served | None = None
    """What the server says about the model, once that is `identified`."""

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
        slots: Parallel = 8,
        context: Count = 0,
        price_per_million: PerMillion | None = None,
        extra_body: Mapping[str, object] | None = None,
        reasoning_effort: str | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        variant = self._keep(model, answers_as, slots, context, price_per_million, extra_body, reasoning_effort)
        is_own = bool(base_url and OWN.fullmatch(netloc(base_url)))
        self._key = ApiKey(api_key_env, api_key_file, is_needed=not base_url, is_own=is_own)
        self._client = connect(base_url, timeout, deadline, self._expected)
        self._retries, self._pace = retries, Pace(requests_per_minute)
        place = urlsplit(str(self._client.base_url))
        host = place.netloc.rpartition("@")[2]
        self._place = f"{place.scheme}://{host}{place.path}"
        variant += _digest(dict(self._client.default_query))
        self.fingerprint = f"openai:{self._place.rstrip('/')}:{model}{variant}"

    def _keep(
        self,
        model: str,
        answers_as: Sequence[str] | None,
        slots: int,
        context: int,
        prices: Sequence[float] | None,
        extra_body: Mapping[str, object] | None,
        effort: str | None,
    ) -> str:
        """Keep what models of every server have; returns the end of the fingerprint."""
        self._price = Price(per_million=None if prices is None else tuple(prices), words="as the config says")
        self.slots = slots
        self.context = context
        self._model = model
        self._names = (model, *(answers_as or ()))
        self._was_right = False
        self._extra = ({"reasoning_effort": effort} if effort else {}) | dict(extra_body or {})
        self._refused: set[tuple[str, object]] = set()
        named = {"answers_as": sorted(answers_as)} if answers_as else {}
        return f"{f':context={context}' if context else ''}{_digest(self._extra | named)}"

    def identified(self, earlier: Served | None = None) -> Self:
        """A copy as the server presents the model, with the weights in the fingerprint, and its context if the config
        has none. The only model of a server is asked for by its own name. `earlier`: of the run to resume, whose
        context stays; it stands for a server that says nothing.

        Raises Unanswered: nothing listens, or the key is refused; ModelNotFound: the server does not have the model.
        """
        if self._identified and not earlier:
            return self._identified
        names = [*self._names, str(self._extra.get("model"))]
        listing = server.listing(self._get, self._retries)
        if listing.problem and listing.is_absent and not earlier:
            error = self._error(listing.problem, self._retries)
            error.hint = "without a server, cache.mode=replay-only has the recorded replies"
            raise error
        is_passing = listing.problem is not None and pause(listing.problem, 0) is not None
        if not earlier and (is_passing or not listing.is_list):
            why = self._shown(str(listing.problem or "the answer is no list"))
            reason = f"the list of models of {self._place} was not read ({why[:100]})"
            lost = "replies recorded by runs that did read it are asked for again, and new ones are not constrained"
            warnings.warn(f"{reason}: {lost}; once the server is well, start anew", stacklevel=2)
        alike = [served for served in listing.models if any(is_same(name, served.name) for name in names)]
        alike.sort(key=lambda served: served.name not in names)
        model, served = copy.copy(self), earlier
        if alike or listing.is_alone:
            listed = (alike or listing.models)[0]
            if listed.owner == "library":
                self._try(listing)  # it names the context of loaded models only
            listed = server.detailed(listed, self._get, self._place.rstrip("/").removesuffix("/v1"))
            name, since = server.file_name(listed.name), earlier or listed
            words = [*([] if alike else [name]), listed.weights, listed.structured]
            if not alike:
                has_one = f"{self._place} has one model, {self._shown(name)}"
                warnings.warn(f"{has_one}, which answers in place of {self._model}", stacklevel=2)
            window = (self.context, "model.context") if self.context else (since.context, since.source)
            served = Served(name, listed.owner, ":".join(filter(None, words)), *window, listed.structured)
            model._model = listed.name if listing.is_alone else self._model
        elif listing.models or getattr(listing.problem, "status_code", 0) == 401:
            self._try(listing)
        if served:
            model.served, model.context, model._constraint = served, self.context or served.context, served.structured
            model.fingerprint = "=".join(filter(None, [self.fingerprint, served.weights]))
            model._names = (*self._names, served.name)
        if listing.models and not (listing.is_alone or earlier):  # a list of names stays, unlike weights at an address
            self._identified = model
        return model

    def _get(self, path: str) -> str:
        """The answer to a GET. Raises errors of the SDK."""
        headers = {"Authorization": f"Bearer {self._key.read() or 'none'}"}
        options: Any = {"headers": headers, "timeout": server.PATIENCE}
        return str(self._reached(lambda client: client.get(path, cast_to=str, options=options)))

    def _reached(self, request: Callable[[Any], Any]) -> Any:
        """`request` of the client; below `/v1`, if the server has nothing at an address without a version."""
        import openai

        try:
            return request(self._client)
        except openai.NotFoundError as error:
            place = str(self._client.base_url).rstrip("/")
            if re.search(r"/v\d", place):
                raise
            below = self._client.copy(base_url=f"{place}/v1")
            try:
                answer = request(below)
            except openai.OpenAIError:
                raise error from None
            self._client = below
            return answer

    def _try(self, listing: server.Listing) -> None:
        """Ask for one token, since lists lack aliases, and some need another key.

        Raises Unanswered: the key is refused; ModelNotFound: the server has no such model. Other errors are ignored.
        """
        is_unknown = False
        try:
            reply = self.complete([Message(role="user", content="Hello")], sampling=Sampling(max_tokens=1))
            is_unknown = reply.finish_reason == "refused" and self._model in reply.text.partition(" (")[2]
        except ModelNotFound:
            is_unknown = True
        except Unanswered as error:
            if error.is_lasting:
                raise
        if is_unknown and listing.models:
            near = difflib.get_close_matches(self._model, [served.name for served in listing.models], 5, 0)
            more = f" and {len(listing.models) - 5} more" if len(listing.models) > 5 else ""
            expected = f"a model of {self._place}: {self._shown(', '.join(near))}{more}"
            raise ModelNotFound("model.model", repr(self._model), expected)

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Whether a last message of role `assistant` is continued depends on the server.

        Usage counts the seconds of the successful request only, without rate limiting and retries.
        """
        import openai  # its errors are also the base classes of LiteLLM's

        chat = [{"role": message.role, "content": message.content} for message in messages]
        problem: Exception
        refused, retry = set[tuple[str, object]](), 0
        while True:
            self._pace.wait()
            began, fields = time.monotonic(), self._fields(messages, sampling, sample, self._refused | refused)
            try:
                content = self._send(chat, fields)
                self._refused.update(refused)  # not before: a text may name a field by chance
                return self._completion(content, time.monotonic() - began, retry, sampling, fields)
            except (openai.OpenAIError, ValueError) as error:
                if refusal := self._refusal(error):
                    return self._withheld(refusal, time.monotonic() - began, retry)
                problem = error
            if name := self._unwanted(problem, fields):
                refused.add(_omitted(name, fields[name]))
                continue
            wait = pause(problem, retry)
            if wait is None or retry == self._retries:
                break
            retry += 1
            time.sleep(wait)
        # Outside of the handler: the SDK's error, if chained, would expose request headers and the key.
        failure = self._error(problem, retry, fields)
        if outcome_of(problem) == "refused":
            return self._withheld(Rejection("refused"), time.monotonic() - began, retry, str(failure))
        raise failure

    def _send(self, chat: list[dict[str, str]], fields: dict[str, Any]) -> bytes:
        """One request; the answer's body."""
        key = {"Authorization": f"Bearer {self._key.read() or 'none'}"}
        request: Any = {"model": self._model, "messages": chat, "extra_body": fields, "extra_headers": key}
        raw = self._reached(lambda client: client.chat.completions.with_raw_response.create(**request))
        return bytes(raw.http_response.content)

    def _refusal(self, problem: Exception) -> Rejection | None:
        """Why the server refuses this prompt, in which case a retry changes nothing."""
        return rejection(content_of(problem))

    @property
    def room(self) -> int:
        """Tokens of a reply beyond `Sampling.max_tokens`."""
        return ROOM * (_omitted("max_tokens", None) in self._refused)

    def close(self) -> None:
        self._client.close()

    def _fields(self, messages: Sequence[Message], sampling: Sampling, sample: int, omit: Set[Any]) -> dict[str, Any]:
        """Fields of the request beside model and messages, without those that the server refuses."""
        fields: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop": list(sampling.stop or ()) or None,
            "seed": draw_seed(messages, sampling, sample),
        }
        if _omitted("max_tokens", None) in omit:
            fields["max_completion_tokens"] = sampling.max_tokens and sampling.max_tokens + ROOM
        fields |= server.constraint(self._constraint, sampling.grammar or "")
        fields = {name: value for name, value in fields.items() if _omitted(name, value) not in omit}
        return {name: value for name, value in (fields | self._extra).items() if value is not None}

    def _unwanted(self, problem: Exception, fields: Mapping[str, object]) -> str:
        """The field to leave out after `problem`, or ""; a limit of tokens only where it has another name."""
        sent = [name for name in SAMPLED if name in fields and name not in self._extra]
        if self._constraint in fields and named(problem, [self._constraint, "grammar", "schema", "json_schema"]):
            warnings.warn(f"{self._model} refuses {self._constraint}: its replies are not constrained", stacklevel=2)
            return self._constraint
        names = named(problem, [*sent, "max_completion_tokens"])
        is_renamed = names[-1:] == ["max_completion_tokens"]
        return next((name for name in names if name in sent and (name != "max_tokens" or is_renamed)), "")

    def _completion(
        self, content: bytes, seconds: float, retries: int, sampling: Sampling, fields: Mapping[str, object]
    ) -> Completion:
        if refusal := rejection(content):
            return self._withheld(refusal, seconds, retries)
        reply = read(content)
        is_right = self._is_right(reply.model)
        counts: Any = {name: value for name, value in reply._asdict().items() if isinstance(value, int)}
        texts: Any = {name: self._hidden(value) for name, value in reply._asdict().items() if name not in counts}
        if self._constraint in fields and texts["finish_reason"] == "stop" and not texts["text"].strip():
            texts["text"] = texts["reasoning"]  # a server that expects thoughts takes a constrained reply for them
        texts["model"] = server.file_name(texts["model"] or self._model)
        texts["finish_reason"] = texts["finish_reason"] if is_right else "wrong_model"
        cost = self._price.cost(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
        return Completion(
            **texts,
            usage=Usage(calls=1, seconds=seconds, cost=cost, retries=retries, **counts, **_own(sampling, fields)),
        )

    def _withheld(self, refusal: Rejection, seconds: float, retries: int, text: str = "") -> Completion:
        return Completion(
            text=text,
            model=self._model,
            finish_reason=refusal.finish_reason,
            usage=Usage(calls=1, seconds=seconds, retries=retries, refused=1),
            refused_tokens=refusal.prompt_tokens,
        )

    def _is_right(self, answered: str) -> bool:
        """Whether the requested model answered. Raises Unanswered if it never has: the config names another model."""
        is_right = not answered or any(is_same(name, server.file_name(answered)) for name in self._names)
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

    def _error(self, problem: Exception, retries: int, fields: Iterable[str] = ()) -> ModelError:
        """A `ModelError` for an error of the SDK, not chained to it."""
        cause, status, outcome = problem.__cause__, getattr(problem, "status_code", 0), outcome_of(problem)
        has_no_credit = is_spent(problem)
        summary = f"{problem}{f' {cause}' if cause else ''}"  # the SDK reads one form of an error's body
        content = content_of(problem)
        texts = reasons(content) or [content[:SHOWN].decode(errors="replace").strip()]
        more = self._shown("; ".join(text for text in texts if text not in summary))[:300]
        reason = self._shown(f"{type(problem).__name__}: {summary}")[:500]
        details = [" - ".join(filter(None, (reason, more)))]
        if wait := headers_of(problem).get("retry-after"):
            details.append(f"Retry-After: {self._shown(wait)[:40]}, of which at most {LONGEST_WAIT} s are waited")
        if retries:
            details.append(f"sent {retries + 1} times")
        advice = self._advice(status, has_no_credit)
        if keys := ",".join(f"{name}:null" for name in named(problem, fields)):
            advice = f"if it does not take that, leave it out: model.extra_body={{{keys}}}"
        message = f"{self._model} at {self._place} did not answer ({'; '.join(details)}); {advice}"
        if not outcome:
            return ModelNotFound(message) if status == 404 else ModelError(message)
        return Unanswered(message, outcome, is_lasting=outcome == "key_refused" or has_no_credit)

    def _advice(self, status: int, has_no_credit: bool) -> str:
        if has_no_credit:
            reason = "the account's credit is spent, or the key's spending limit is reached"
            return f"{reason}: raise it, or put another key into {self._key.place}"
        if status in {401, 403}:
            state = "was refused; put a valid one" if self._key.read() else "is not set; put one"
            return f"the key {state} into {self._key.place}"
        if status == 429:
            return "lower model.requests_per_minute, raise model.retries, or see whether the account has credit"
        if status == 404:
            return "see whether model.model is right, and model.base_url ends before /chat/completions, mostly in /v1"
        if 400 <= status < 500:
            return "see whether model.model, model.base_url and model.extra_body suit this server"
        return f"see whether the server runs and model.base_url is right, or raise {self.patience}"

    def _shown(self, text: str) -> str:
        """A text from the server without keys and control characters."""
        return plain(self._hidden(text))

    def _hidden(self, text: str) -> str:
        """A text from the server, which may echo the key, without it."""
        return self._key.hidden(text)


def _omitted(name: str, value: object) -> tuple[str, object]:
    """What is remembered of a refused field: of these two also the value, since servers take others."""
    return name, value if name in ("temperature", "top_p") else None


def _own(sampling: Sampling, fields: Mapping[str, object]) -> dict[str, int]:
    """Marks of the values that were not sent."""
    sent = {*fields, *["max_tokens"] * ("max_completion_tokens" in fields)}
    return {f"own_{name}": 1 for name in SAMPLED if name not in sent and getattr(sampling, name) not in (None, ())}


def _digest(extra: dict[str, object]) -> str:
    if not extra:
        return ""
    return "+" + hashlib.sha256(msgspec.json.encode(extra, order="sorted")).hexdigest()[:8]


VERSION = re.compile(
    r"(?:[-_](?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{8}|\d{6}|\d{3,4}|v\d+(?:\.\d+)*|latest))?(?:\.gguf)?(?:[:@]latest|@.+)?"
)
"""Suffixes that name the same model: a date, a number of at least three digits, a version, a file extension, `latest`.
`-mini`, `.1` and `:70b` name other models."""

ROUTE = re.compile(r":(?:free|nitro|floor|exacto|extended|online|beta)$")
"""Suffixes of a requested name that the reply need not have: where OpenRouter sends the request, not to which model."""


def is_same(requested: str, served: str) -> bool:
    """Whether `served` equals `requested` up to case, a provider's path, and a version suffix of `served`."""
    *requested_path, name = requested.casefold().strip("/").split("/")
    *served_path, served_name = served.casefold().strip("/").split("/")
    common = min(len(requested_path), len(served_path))
    if requested_path[len(requested_path) - common :] != served_path[len(served_path) - common :]:
        return False
    if ROUTE.sub("", name) == served_name:
        return True
    name = name.removesuffix("-latest")
    return served_name.startswith(name) and VERSION.fullmatch(served_name.removeprefix(name)) is not None
