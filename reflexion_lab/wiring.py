"""Constructors meet their arguments: parts by name, and values of the types that the constructors ask for."""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from reflexion_lab.records import Record, Sampling

T = TypeVar("T")

PLAIN = {
    "int": int,
    "float": float,
    "str": str,
    "str | Path": str,
    "bool": bool,
    "int | None": int | None,
    "float | None": float | None,
    "Sequence[float]": list[float],
    "Sequence[str]": list[str],
}
"""The annotations whose values a config can hold; values of others are for their constructors to check."""
DOES = {
    "model": "complete",
    "actor": "act",
    "evaluator": "evaluate",
    "critic": "critique",
    "reflector": "reflect",
    "recall": "select",
    "retriever": "rank",
    "embedder": "embed",
    "store": "append",
    "suite_writer": "write",
    "tracker": "track",
}
"""By config key, what a part that stands there can do."""


class ConfigError(ValueError):
    """The config asks for something impossible: which key, what was found, what was expected."""


class LoopValues(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values under `loop`."""

    max_attempts: int
    extra_attempts: int
    confidence_threshold: float
    timeout: float
    stuck_after: int | None
    reflect_on_last: bool
    reflect_on_success: bool
    reflect_below: float


def wire(partial: functools.partial[Any], parts: Mapping[str, Any], key: str = "") -> Any:
    """Call a partial with those `parts` that its constructor names; partials among its arguments and among the parts
    come first, and what it has of its own goes before a part of that name. `key`: where the config has it.

    An argument `make_…` is handed over as a function that makes the part, again and again, with some parts changed:
    `make_actor(model=other)`.

    Raises:
        ConfigError: an argument that the constructor does not have, or of another type than it asks for.
    """
    if not isinstance(partial, functools.partial):
        raise ConfigError(f"{key}: _partial_: false found; expected true: its constructor is called by the lab")
    named = _parameters(partial, key)
    _check(partial, named, key)
    inner = {
        name: functools.partial(_make, value, parts, _below(key, name))
        if name.startswith("make_")
        else _wired(value, parts, _below(key, name))
        for name, value in partial.keywords.items()
    }
    given = {name: _wired(part, parts, name) for name, part in parts.items() if name in named and name not in inner}
    return fit(key, _made(key, partial, {**given, **inner}))


def fit(key: str, part: T) -> T:
    """The part itself. Raises ConfigError: it cannot do what parts under that key do."""
    if (does := DOES.get(key)) and not callable(getattr(part, does, None)):
        raise ConfigError(f"{key}: its _target_ makes a {type(part).__name__}; expected a part that has `{does}`")
    return part


def called(partial: functools.partial[Any], key: str) -> Any:
    """What a partial makes of the values that it has, all of them from the config. Raises ConfigError as `wire`."""
    _check(partial, _parameters(partial, key), key)
    return fit(key, _made(key, partial, {}))


def converted(key: str, node: Any, kind: type[T]) -> T:
    """The config node under `key` as a record. Raises ConfigError: a key or a value that the record does not take."""
    try:
        return msgspec.convert(plain(node), kind)
    except msgspec.ValidationError as problem:
        said = re.sub(r"(.*) - at `\$\.?([^`]*)`", rf"{key}.\2: \1", str(problem))
        raise ConfigError(said if said.startswith(f"{key}.") else f"{key}: {said}") from None


def asks_for(part: Any, name: str) -> bool:
    """Whether the constructor of a partial, or of one among its arguments, takes an argument `name`."""
    if isinstance(part, list):
        return any(asks_for(one, name) for one in part)
    if not isinstance(part, functools.partial):
        return False
    return name in inspect.signature(part.func).parameters or asks_for(list(part.keywords.values()), name)


def asked() -> tuple[tuple[str, ...], str]:
    """The overrides that Hydra's job was given, and its launcher; ((), "") outside of one, as in a notebook."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return (), ""
    job = HydraConfig.get()
    return tuple(job.overrides.task), str(job.runtime.choices.get("hydra/launcher") or "")


def plain(node: Any) -> Any:
    """A config node as dicts, lists and scalars, interpolations resolved."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _check(partial: functools.partial[Any], named: Mapping[str, inspect.Parameter], key: str) -> None:
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in named.values())
    for name, value in partial.keywords.items():
        if name not in named and not takes_any:
            known = ", ".join(named)
            raise ConfigError(
                f"{_below(key, name)}: {partial.func.__name__} takes no such value; expected some of {known}"
            )
        annotation = str(named[name].annotation) if name in named else ""
        if annotation == "Sampling":
            converted(_below(key, name), value, Sampling)
        try:
            msgspec.convert(value, PLAIN.get(annotation, object))
        except msgspec.ValidationError:
            raise ConfigError(f"{_below(key, name)}: {value!r} found; expected {annotation}") from None


def _parameters(partial: functools.partial[Any], key: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(partial.func).parameters
    except (TypeError, ValueError):
        found = getattr(partial.func, "__qualname__", partial.func)
        raise ConfigError(f"{key}: _target_ {found} found; expected a class or function of a part") from None


def _made(key: str, partial: functools.partial[Any], values: Mapping[str, Any]) -> Any:
    try:
        return partial(**values)
    except (TypeError, LookupError, ArithmeticError, AttributeError) as problem:
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{Path(frame.filename).name}, line {frame.lineno}"
        said = f"{type(problem).__name__}: {problem}, in {where}"
        raise ConfigError(f"{key}: {partial.func.__qualname__} cannot be made of these values ({said})") from problem


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _make(partial: functools.partial[Any], parts: Mapping[str, Any], key: str, **changed: Any) -> Any:
    return wire(partial, {**parts, **changed}, key)


def _wired(value: Any, parts: Mapping[str, Any], key: str) -> Any:
    if isinstance(value, list):
        return [_wired(item, parts, key) for item in value]
    return wire(value, parts, key) if isinstance(value, functools.partial) else value
