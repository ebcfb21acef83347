"""Prices of tokens: a dated price file, and warnings where a price is unknown or old."""

from __future__ import annotations

import datetime
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.records import Completion, Record

PACKAGE = Path(__file__).parents[2]
LIST = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.is_dir()) / "prices.yaml"
"""The list that comes with the lab."""
VARIABLE = "REFLEXION_LAB_PRICES"
OLD = datetime.timedelta(days=365)
OPENAI = "https://api.openai.com/v1"


class Entry(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a price file; prices are per million tokens."""

    models: list[str]
    """Names, or patterns of the shell's kind."""
    provider: str
    host: str
    """Of the server that charges this; `*` for any."""
    currency: str
    prompt: float
    completion: float
    cached_prompt: float | None = None
    """Of prompt tokens that the server had in its own cache; None: as any other."""
    as_of: datetime.date
    """A day on which this was the price."""
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
            words=f"{words}list {self.provider} ({self.source})",
        )


class Price(Record, frozen=True, kw_only=True):
    """Prices of a model's tokens, and their source."""

    per_million: tuple[float, ...] | None
    """Of prompt tokens, completion tokens and, where it differs, cached prompt tokens; None: unknown."""
    words: str
    """For the manifest."""
    currency: str = ""
    as_of: datetime.date | None = None

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """The cost of a call, `cached` of whose prompt tokens were in the server's cache; 0.0 where unknown."""
        if self.per_million is None:
            return 0.0
        whole, written, *rest = self.per_million
        return ((prompt - cached) * whole + cached * (rest[0] if rest else whole) + completion * written) / 1e6

    def put_on(self, completion: Completion) -> Completion:
        """A stored reply, with its cost where that was unknown when it was drawn."""
        usage = completion.usage
        if usage.cost or not any(self.per_million or ()):
            return completion
        cost = self.cost(usage.prompt_tokens, usage.completion_tokens)
        return replace(completion, usage=replace(usage, cost=cost))

    def __str__(self) -> str:
        return self.words


UNKNOWN = Price(per_million=None, words="unknown")
FREE = Price(per_million=(0.0, 0.0), words="nothing is paid: it runs here")
RECORDED = Price(per_million=(0.0, 0.0), words="nothing is paid: recorded replies say what they cost when first made")


def read(path: str | None = None) -> list[list[Entry]]:
    """The entries of the file at `path`, or else of the one that the environment names; then those of our own list.

    Raises
    ------
    ConfigError
        A file cannot be read, or an entry lacks something; which, and what.
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
    """The newest entry that fits, of the first list that has one; UNKNOWN where none has."""
    for entries in lists:
        if fitting := [entry for entry in entries if entry.fits(model, host)]:
            return max(fitting, key=lambda entry: entry.as_of).price
    return UNKNOWN


def price_of(node: Mapping[str, Any], lists: Sequence[Sequence[Entry]]) -> Price:
    """Price of the model of this config. A model without `price_per_million` runs locally and is free."""
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
    """Whom the model of this config asks."""
    address = node.get("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI
    return urlsplit(str(address)).netloc.rpartition("@")[2]


def settled(role: str, node: dict[str, Any], lists: Sequence[Sequence[Entry]], cap: float | None = None) -> Price:
    """Price of the model of `role`, written into its config if that has the key. Warns, once per process, if the price
    is unknown or the list may be outdated.

    Raises
    ------
    ConfigError
        The price is unknown, and there is a `cap` on cost.
    """
    price = price_of(node, lists)
    if "price_per_million" in node:
        node["price_per_million"] = price.per_million and list(price.per_million)
    name, mend = f"{role}: {node.get('model', '')}", "give model.price_per_million=[prompt,completion]"
    if price.per_million is None and cap is not None:
        unpriced = f"{cap:g} and no price of {node['model']} ({role}) at {host_of(node)}"
        raise ConfigError("caps.cost", unpriced, "one", f"{mend}, an entry in prices.path, or caps.tokens instead")
    if price.per_million is None:
        warnings.warn(
            f"cost: unknown. {name} at {host_of(node)} has no known price; {mend}, or an entry in prices.path",
            stacklevel=2,
        )
    elif price.as_of and datetime.date.today() - price.as_of > OLD:
        warnings.warn(f"{name} is priced by a list more than a year old, {price}; look whether it holds", stacklevel=2)
    return price


def check_currency(prices: Iterable[Price]) -> None:
    """Raises ConfigError: money of two currencies would be added up."""
    currencies = sorted({price.currency for price in prices} - {""})
    if len(currencies) > 1:
        raise ConfigError("roles", f"prices in {' and '.join(currencies)}", "one currency, by prices.path")
