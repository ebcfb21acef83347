"""One call of a model: what is asked, how it is drawn, what comes back and what it costs."""

from __future__ import annotations

import msgspec

from reflexion_lab.records.record import Record

WITHHELD = ("refusal", "content_filter", "context_overflow", "wrong_model")
"""Ends of a reply in which no program is looked for: the model refuses; its provider cut the reply out; the prompt is
longer than the context; another model than the one asked for answered."""


class Message(Record, frozen=True, kw_only=True):
    """One chat message. A last message of role `assistant` is a beginning that the model continues."""

    role: str
    content: str


class Sampling(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one reply is drawn. Part of the content key of a call."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int = 0
    grammar: str = ""
    """GBNF that constrains the reply where the model supports it; others ignore it."""

    @classmethod
    def of(cls, **fields: object) -> Sampling:
        """From plain values, each checked.

        Raises:
            ValueError: a field is unknown or of the wrong type.
        """
        return msgspec.convert(fields, cls)


class Usage(Record, frozen=True, kw_only=True):
    """What calls cost: tokens, seconds of the model's own time (waiting in a queue left out), and money."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    """In the currency of the model's price list; 0 where it has none."""
    retries: int = 0
    """Requests that brought no answer and were sent again: overload, a lost connection, a torn or unreadable reply."""
    refused: int = 0
    """Of the calls, those whose prompt was turned down: nothing was computed, so they have no tokens and no cost."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{field: getattr(self, field) + getattr(other, field) for field in self.__struct_fields__})


class Completion(Record, frozen=True, kw_only=True):
    """A model's reply to one call."""

    text: str
    model: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    cached: bool = False
    """True when the reply came from the call cache: `usage` then says what it cost when it was first paid."""
    system_fingerprint: str = ""
    """What the server calls its own configuration; another one may answer otherwise. "" where it does not say."""
    refused_tokens: int = 0
    """What the server counted in a prompt that it turned down as too long; 0 where it does not say."""
