"""Constructors meet their arguments: parts by name, and values of the types that the constructors ask for."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from reflexion_lab import limits
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.limits import Above0, Count, Positive, PositiveShare
from reflexion_lab.records import Record, Sampling

T = TypeVar("T")

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


class LoopValues(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values under `loop`."""

    max_attempts: Positive
    extra_attempts: Count
    confidence_threshold: PositiveShare
    timeout: Above0
    stuck_after: Annotated[int, msgspec.Meta(ge=2)] | None
    reflect_on_last: bool
    reflect_on_success: bool
    reflect_below: PositiveShare


def wire(partial: functools.partial[Any], parts: Mapping[str, Any], key: str = "") -> Any:
    """Call a partial with those `parts` that its constructor names; partials among its arguments and among the parts
    come first, and what it has of its own goes before a part of that name. `key`: where the config has it.

    An argument `make_…` is handed over as a function that makes the part, again and again, with some parts changed:
    `make_actor(model=other)`.

    Raises:
        ConfigError: an argument that the constructor does not have, or of another type than it asks for.
    """
    if not isinstance(partial, functools.partial):
        raise ConfigError(key, "_partial_: false", "true: its constructor is called by the lab")
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


def construct(key: str, factory: Callable[..., T], **values: Any) -> T:
    """What `factory` makes of values from the config's section `key`, whose names are those of its parameters.

    Raises:
        ConfigError: a value beyond its limits, under the config's key.
    """
    limits.check(factory, values, key)
    return factory(**values)


def fit(key: str, part: T) -> T:
    """The part itself. Raises ConfigError: it cannot do what parts under that key do."""
    if (does := DOES.get(key)) and not callable(getattr(part, does, None)):
        raise ConfigError(f"{key}: its _target_ makes a {type(part).__name__}", expected=f"a part that has `{does}`")
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
        if strange := re.fullmatch(r"Object contains unknown field `(.*?)`(?: - at `\$\.?(.*)`)?", str(problem)):
            below = strange[2].split(".") if strange[2] else []
            raise unknown(".".join((key, *below, strange[1])), _fields(kind, below)) from None
        said, _, place = str(problem).rstrip("`").partition(" - at `$")
        path = re.findall(r"[^.\[\]]+", place)
        found = plain(node)
        for step in path:
            found = found.get(step) if isinstance(found, dict) else found[int(step)] if step.isdigit() else found
        expected = limits.expected_at(kind, path, found)
        if expected and said.startswith(("Expected", "Invalid")):
            raise ConfigError(f"{key}{place}", repr(found), expected) from None
        raise ConfigError(said if said.startswith(f"{key}.") else f"{key}{place}: {said}") from None


def unknown(key: str, names: Iterable[str]) -> ConfigError:
    """`key` is not one of its section, whose keys have these names; the error names the nearest."""
    section, names = key.rpartition(".")[0], [name for name in names if not name.startswith("_")]
    if not names:
        return ConfigError(f"{key}: unknown key; expected none below {section}")
    near = nearest(key, [_below(section, name) for name in names])
    return ConfigError(f"{key}: unknown key; expected {near}, the nearest of {', '.join(names)}")


def nearest(key: str, known: Iterable[str]) -> str:
    """Of dotted keys, the one whose last name is most like that of `key`; of equals the one on the highest level."""

    def likeness(other: str) -> tuple[bool, float, int]:
        name, other_name = (one.rpartition(".")[2] for one in (key, other))
        return name in other_name, difflib.SequenceMatcher(None, name, other_name).ratio(), -other.count(".")

    return max(known, key=likeness)


def check_targets(key: str, node: Any) -> None:
    """Raises ConfigError: a part of the lab within the config node under `key`, in use or not, has a key that its
    constructor does not take.
    """
    from hydra.utils import get_object

    if isinstance(node, list):
        for number, item in enumerate(node):
            check_targets(f"{key}.{number}", item)
    if not isinstance(node, dict):
        return
    if str(target := node.get("_target_")).startswith("reflexion_lab."):
        try:
            names = _names(get_object(str(target)))
        except (ImportError, TypeError, ValueError):  # instantiating it says so
            names = None
        for name in node:
            if names is not None and name not in names and not name.startswith("_"):
                raise unknown(_below(key, name), names)
    for name, value in node.items():
        check_targets(_below(key, name), value)


def capability(node: Mapping[str, Any], name: str, default: Any, is_inherited: bool = True) -> Any:
    """A class attribute of the part that a config node names, such as `is_durable`; `default` where it has none.

    What a part can do is said by its class, and a subclass or a reader's own part can say it, too.

    Parameters
    ----------
    is_inherited
        Whether a subclass that does not say otherwise can do the same.
    """
    try:
        target = _located(str(node.get("_target_")))
    except (ImportError, AttributeError, ValueError):  # instantiating it says so
        return default
    owner = getattr(target, "__self__", target)
    return getattr(owner, name, default) if is_inherited else getattr(owner, "__dict__", {}).get(name, default)


def _located(name: str) -> Any:
    """The module, or the object within one, of a dotted name."""
    holder, _, last = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        if not holder or not (problem.name or "").startswith(name.partition(".")[0]):
            raise
    return getattr(_located(holder), last)


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


def plain(node: Any, resolve: bool = True) -> Any:
    """A config node as dicts, lists and scalars, interpolations resolved unless asked not to."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=resolve) if OmegaConf.is_config(node) else node


def _check(partial: functools.partial[Any], named: Mapping[str, inspect.Parameter], key: str) -> None:
    for name, value in partial.keywords.items():
        if name not in named and not _takes_any(named):
            raise unknown(_below(key, name), named)
        if name in named and named[name].annotation == "Sampling":
            converted(_below(key, name), value, Sampling)
    limits.check(partial.func, partial.keywords, key)


def _names(factory: Any) -> Sequence[str] | None:
    """What a part's class or function takes, by name; None where that is anything."""
    if fields := getattr(getattr(factory, "__self__", None), "__struct_fields__", None):
        return tuple(fields)  # a record's own converter
    named = inspect.signature(factory).parameters
    return None if _takes_any(named) else list(named)


def _takes_any(named: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in named.values())


def _fields(kind: Any, path: Sequence[str]) -> list[str]:
    """The names that the record at `path` within a record has."""
    (record,) = (one for one in (kind, *get_args(kind)) if hasattr(one, "__struct_fields__"))
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(record)}
    return _fields(fields[path[0]], path[1:]) if path else list(fields)


def _parameters(partial: functools.partial[Any], key: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(partial.func).parameters
    except (TypeError, ValueError):
        found = getattr(partial.func, "__qualname__", partial.func)
        raise ConfigError(key, f"_target_ {found}", "a class or function of a part") from None


def _made(key: str, partial: functools.partial[Any], values: Mapping[str, Any]) -> Any:
    try:
        inspect.signature(partial.func).bind(*partial.args, **{**partial.keywords, **values})
    except TypeError as problem:
        raise ConfigError(f"{key}: {partial.func.__qualname__} cannot be made of these values ({problem})") from None
    try:
        return partial(**values)
    except Exception as problem:
        if not isinstance(problem, LabError):
            problem.add_note(f"while making {key} of its config")
        raise


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _make(partial: functools.partial[Any], parts: Mapping[str, Any], key: str, **changed: Any) -> Any:
    return wire(partial, {**parts, **changed}, key)


def _wired(value: Any, parts: Mapping[str, Any], key: str) -> Any:
    if isinstance(value, list):
        return [_wired(item, parts, key) for item in value]
    return wire(value, parts, key) if isinstance(value, functools.partial) else value
