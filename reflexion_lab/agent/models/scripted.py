"""Scripted model for demonstrations, tests and runs without a model."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from reflexion_lab.errors import ConfigError, DataError, ModelError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.limits import Count, NotNegative, Parallel, validated
from reflexion_lab.records import Completion, Message, Record, Sampling, Usage


class Rule(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    when: str
    """Regular expression to search for."""
    reply: str
    scope: Literal["last_user", "conversation"] = "last_user"
    """Text to search: the last message of role `user`, or all messages joined by blank lines."""

    def __post_init__(self) -> None:
        try:
            re.compile(self.when)
        except re.error as error:
            raise ConfigError(f"`when` is no regular expression: {error}") from error


class ScriptedModel:
    """Replies that are a function of the messages only: sampling, draw and earlier calls have no effect.

    Usage counts one token per four characters, rounded up. Thread-safe if `reply` is. `reply`: maps the messages to the
    reply; raises ModelError for unexpected ones. `seconds`: simulated latency of a call, 0 or more. `name`: part of the
    fingerprint; must differ between scripts that share a cache. `slots`: concurrent calls, 1 or more. `context`: tokens
    of prompt and reply together; 0: no limit.
    """

    received: list[tuple[Message, ...]]
    """The messages of all calls, in order of arrival."""

    @validated
    def __init__(
        self,
        reply: Callable[[Sequence[Message]], str],
        *,
        seconds: NotNegative = 0.0,
        name: str = "scripted",
        slots: Parallel = 64,
        context: Count = 0,
    ) -> None:
        self.fingerprint = f"scripted:{name}"
        self.slots = slots
        self.context = context
        self.received = []
        self._reply = reply
        self._seconds = seconds

    @classmethod
    def from_rules(
        cls, path: str | Path, *, seconds: NotNegative = 0.0, slots: Parallel = 64, context: Count = 0
    ) -> ScriptedModel:
        """A script from a YAML or JSON file: a list of `Rule`; the first match gives the reply.

        The fingerprint is a digest of the rules, independent of the file name. A call without a match raises
        ModelError. Raises ConfigError: the file is missing or invalid.
        """
        rules = _read(Path(path))
        digest = hashlib.sha256(msgspec.json.encode(rules, order="sorted")).hexdigest()[:16]

        def reply(messages: Sequence[Message]) -> str:
            for rule in rules:
                if re.search(rule.when, _searched(messages, rule.scope)):
                    return rule.reply
            last = _searched(messages, "last_user")[:80]
            raise ModelError(
                f"{path}: none of its {len(rules)} rules matches the call whose last user message begins "
                f"{last!r}; add a rule for it"
            )

        return cls(reply, seconds=seconds, name=digest, slots=slots, context=context)

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """`sampling` and `sample` are ignored."""
        received = tuple(messages)
        self.received.append(received)
        if self._seconds:
            time.sleep(self._seconds)
        text = self._reply(received)
        prompt, reply = -(-sum(len(message.content) for message in received) // 4), -(-len(text) // 4)
        usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=reply, seconds=self._seconds)
        return Completion(text=text, model=self.fingerprint, usage=usage)


def _searched(messages: Sequence[Message], scope: str) -> str:
    if scope == "conversation":
        return "\n\n".join(message.content for message in messages)
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def _read(path: Path) -> list[Rule]:
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
    try:
        rules = decode(content(path, "a file of rules"), type=list[Rule])
    except (ValueError, TypeError, *UNREADABLE) as error:
        why = error.args[1] if isinstance(error, DataError) else " ".join(str(error).split())
        raise ConfigError("model.path", f"{path} ({why})", "a file with a list of {when, reply}") from error
    if not rules:
        raise ConfigError("model.path", f"{path} (no rule)", "at least one rule")
    return rules
