"""One call of a model: what is asked, how it is drawn, what comes back and what it costs."""

from __future__ import annotations

import msgspec

from reflexion_lab.records.record import Record

WITHHELD = ("refusal", "content_filter", "context_overflow", "wrong_model")
"""Finish reasons for which no code is extracted: the model refused; its provider filtered the reply; the prompt is
longer than the context; another model than the requested one answered."""


class Message(Record, frozen=True, kw_only=True):
    """One chat message. A last message of role `assistant` is a beginning that the model continues."""

    role: str
    content: str


class Sampling(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling parameters of one reply. Part of the content key of a call."""

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

        Raises
        ------
        ValueError
            A field is unknown or of the wrong type.
        """
        return msgspec.convert(fields, cls)


class Usage(Record, frozen=True, kw_only=True):
    """Costs of calls: tokens, seconds of the model's own time, without queues, and money."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    """In the currency of the model's price list; 0 where it has none."""
    retries: int = 0
    """Requests without an answer that were sent again: overload, a lost connection, a torn or unreadable reply."""
    refused: int = 0
    """Calls whose prompt was refused: nothing was computed, so they have no tokens and no cost."""

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
    """Whether the reply came from the call cache; `usage` is then that of the original call."""
    system_fingerprint: str = ""
    """The server's name of its configuration, with another of which replies may differ; "" where it has none."""
    refused_tokens: int = 0
    """The server's count of a prompt that it refused as too long; 0 where it does not say."""
