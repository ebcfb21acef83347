"""Prices of tokens, from dated files."""

from __future__ import annotations

import datetime
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.requests import OWN, netloc
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.records import Completion, Record

PACKAGE = Path(__file__).parents[2]
LIST = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.is_dir()) / "prices.yaml"
"""The price list of the lab."""
VARIABLE = "REFLEXION_LAB_PRICES"
OLD = datetime.timedelta(days=365)
OPENAI = "https://api.openai.com/v1"


class Entry(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a price file; prices are per million tokens."""

    models: list[str]
    """Names or shell patterns."""
    provider: str
    host: str
    """Host of the server; `*` for any."""
    currency: str
    prompt: float
    completion: float
    cached_prompt: float | None = None
    """Price of prompt tokens in the server's cache; None: `prompt`."""
    as_of: datetime.date
    """A day on which the price was valid."""
    source: str

    def __post_init__(self) -> None:
        if not (self.models and self.provider.strip() and self.host.strip() and self.source.strip()):
            raise ConfigError("an entry names its models, provider, host and source")
        prices = (self.prompt, self.completion, self.cached_prompt or 0.0)
        if not all(map(math.isfinite, prices)) or min(prices) < 0:
            raise ConfigError(f"prices of {self.models[0]}", ", ".join(map(str, prices)), "numbers of 0 or more")

    def fits(self, model: str, host: str) -> bool:
        return fnmatchcase(host, self.host) and any(fnmatchcase(model, pattern) for pattern in self.models)

    @property
    def price(self) -> Price:
        cached = () if self.cached_prompt is None else (self.cached_prompt,)
        words = f"{self.prompt:g}/{self.completion:g} {self.currency} per million, as of {self.as_of}, "
        return Price(
            per_million=(self.prompt, self.completion, *cached),
            currency=self.currency,
            as_of=self.as_of,
            words=f"{words}{self.provider}: {self.source}",
        )


class Price(Record, frozen=True, kw_only=True):
    """Token prices of a model, and their source."""

    per_million: tuple[float, ...] | None
    """Prices of prompt tokens, completion tokens and, if different, cached prompt tokens; None: unknown."""
    words: str
    """Description for the manifest."""
    currency: str = ""
    as_of: datetime.date | None = None

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """Cost of a call with `cached` of its prompt tokens from the server's cache; 0.0 if unknown."""
        if self.per_million is None:
            return 0.0
        whole, written, *rest = self.per_million
        return ((prompt - cached) * whole + cached * (rest[0] if rest else whole) + completion * written) / 1e6

    def with_cost(self, completion: Completion) -> Completion:
        """A stored reply, with its cost if that was unknown when it was stored."""
        usage = completion.usage
        if usage.cost or not any(self.per_million or ()):
            return completion
        cost = self.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        return replace(completion, usage=replace(usage, cost=cost))

    def __str__(self) -> str:
        return self.words


UNKNOWN = Price(per_million=None, words="unknown")
FREE = Price(per_million=(0.0, 0.0), words="nothing is paid: it runs here")
RECORDED = Price(per_million=(0.0, 0.0), words="nothing is paid: recorded replies say what they cost when first made")


def read(path: str | None = None) -> list[list[Entry]]:
    """Price lists in order of precedence: the file at `path`, else that of the environment variable; the lab's own.

    Raises ConfigError: a file cannot be read, or an entry is incomplete.
    """
    own = path or os.environ.get(VARIABLE, "").strip()
    return [*([_entries(Path(own).expanduser(), "prices.path")] if own else ()), _entries(LIST, "prices")]


def _entries(path: Path, key: str) -> list[Entry]:
    try:
        return msgspec.yaml.decode(content(path, "a price file"), type=list[Entry])
    except (ValueError, TypeError, *UNREADABLE) as problem:
        why = problem.args[1] if isinstance(problem, DataError) else " ".join(str(problem).split())
        raise ConfigError(key, f"{path} ({why})", "a file of entries as in conf/prices.yaml") from None


def look_up(model: str, host: str, lists: Sequence[Sequence[Entry]]) -> Price:
    """The newest matching entry of the first list that has one; else UNKNOWN."""
    for entries in lists:
        if fitting := [entry for entry in entries if entry.fits(model, host)]:
            return max(fitting, key=lambda entry: entry.as_of).price
    return UNKNOWN


def price_of(node: Mapping[str, Any], lists: Sequence[Sequence[Entry]]) -> Price:
    """Price of a model config. A model without the key `price_per_million` runs locally and is free."""
    if str(node["_target_"]).endswith(".ReplayModel"):
        return RECORDED
    if "price_per_million" not in node:
        return FREE
    prices = node["price_per_million"]
    if prices is None:
        return look_up(str(node["model"]), host_of(node), lists)
    numbers = isinstance(prices, list) and all(isinstance(price, int | float) and price >= 0 for price in prices)
    if not numbers or len(prices) not in (2, 3):
        raise ConfigError(
            "model.price_per_million",
            repr(prices),
            "two prices, [prompt, completion], or a third for cached prompt tokens, or null to look them up",
        )
    words = f"{prices[0]:g}/{prices[1]:g} per million, as the config says"
    return Price(per_million=tuple(map(float, prices)), words=words)


def host_of(node: Mapping[str, Any]) -> str:
    """Host that the model of a config calls; of LiteLLM's models the provider."""
    if not node.get("base_url") and str(node["_target_"]).endswith(".LiteLLMModel"):
        return str(node["model"]).partition("/")[0]
    address = node.get("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI
    return netloc(str(address))


def resolved_price(
    role: str, node: Mapping[str, Any], lists: Sequence[Sequence[Entry]], limits: Mapping[str, float] | None = None
) -> Price:
    """Price of the model of `role`. Warns if unknown or over a year old.

    Raises ConfigError: the price is unknown, and `limits` on cost, by key, could not act.
    """
    price = price_of(node, lists)
    place = "model" if role == "actor" else f"roles.{role}"
    name, remedy = f"{role}: {node.get('model', '')}", f"give {place}.price_per_million=[prompt,completion]"
    for key, limit in (limits or {}).items() if price.per_million is None else ():
        unpriced = f"{limit} and no price of {node['model']} ({role}) at {host_of(node)}"
        instead = f"{remedy}, an entry in prices.path, or {key.removesuffix('cost')}tokens instead"
        raise ConfigError(key, unpriced, "a known price", instead)
    if price.per_million is None and not OWN.fullmatch(host_of(node)):
        warnings.warn(
            f"cost: unknown. {name} at {host_of(node)} has no known price; {remedy}, or an entry in prices.path",
            stacklevel=2,
        )
    elif price.as_of and datetime.date.today() - price.as_of > OLD:
        warnings.warn(f"the price of {name} is more than a year old ({price}); check the provider's page", stacklevel=2)
    return price


def check_currency(prices: Iterable[Price]) -> None:
    """Raises ConfigError if the prices have different currencies."""
    currencies = sorted({price.currency for price in prices} - {""})
    if len(currencies) > 1:
        raise ConfigError("roles", f"prices in {' and '.join(currencies)}", "one currency, by prices.path")
