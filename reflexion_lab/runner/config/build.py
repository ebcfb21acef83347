"""Builds parts from config nodes, with other parts injected by parameter name and values checked by annotation."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, get_args

import msgspec

from reflexion_lab import protocols
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.limits import check, expected_at
from reflexion_lab.loop.deadline import Budgeted
from reflexion_lab.records import Record, Sampling
from reflexion_lab.text.prompts.render import Prompts

if TYPE_CHECKING:
    from omegaconf import DictConfig

T = TypeVar("T")
Config: TypeAlias = "DictConfig"
"""A composed config."""

METHODS: dict[str, Callable[..., Any]] = {
    "model": protocols.Model.complete,
    "actor": protocols.Actor.act,
    "environment": protocols.Environment.start,
    "evaluator": protocols.Evaluator.evaluate,
    "critic": protocols.Critic.critique,
    "reflector": protocols.Reflector.reflect,
    "policy": protocols.Policy.parent,
    "recall": protocols.Recall.select,
    "retriever": protocols.Retriever.rank,
    "embedder": protocols.Embedder.embed,
    "store": protocols.Store.append,
    "suite_writer": protocols.SuiteWriter.write,
    "curator": protocols.Curator.curate,
    "tracker": protocols.Tracker.track,
}
"""Required method of a part, by config group."""
_OTHER_METHODS: dict[str, Callable[..., Any]] = {"stop": protocols.Stop.reached, "prompts": Prompts.fit}
"""The same for parts that a notebook cannot replace by a class."""


def build(node: Any, key: str, parts: Mapping[str, Any] | None = None) -> Any:
    """The part that a config node describes: `_target_` called with the node's values and, for parameters without one,
    the `parts` of the same name. Nodes among values and parts are built first, with the same parts.

    As `hydra.utils.instantiate`, which would copy models and memory. A parameter `make_…` receives a function that
    builds its node at every call, optionally with other parts: `make_actor(model=other)`. Raises ConfigError: the class
    does not exist, or lacks a parameter or the method that `METHODS` requires, or a value is out of its limits.
    """
    node, parts = plain(node), parts or {}
    target = _target(node, key)
    named, required = _parameters(target), (METHODS | _OTHER_METHODS).get("stop" if key.startswith("stop.") else key)
    delegates = hasattr(target, "__getattr__")  # a wrapper may have the method of what it wraps
    if inspect.isclass(target) and required and not delegates and not hasattr(target, required.__name__):
        raise _no_part(key, target, required)
    values = {
        name: functools.partial(_rebuilt, value, _below(key, name), parts)
        if name.startswith("make_")
        else _built(value, _below(key, name), parts)
        for name, value in node.items()
        if not name.startswith("_") and value != "???"
    }
    if record := _record(target):
        return converted(key, values, record)
    if named is not None:
        if strange := [name for name in values if name not in named and not _accepts_any(named)]:
            raise unknown(_below(key, strange[0]), named)
        for name in [name for name, each in named.items() if each.annotation in ("Sampling", Sampling)]:
            if name in values and not isinstance(values[name], Sampling):
                values[name] = converted(_below(key, name), values[name], Sampling)
        check(target, values, key)
        values |= {name: _built(part, name, parts) for name, part in parts.items() if name in named.keys() - values}
    return _check_method(key, required, _call(target, node.get("_args_", ()), values, key, parts))


def _built(value: Any, key: str, parts: Mapping[str, Any]) -> Any:
    """A value with its nodes built; inner ones get all parts if `_partial_: true`, else those without a default."""
    if isinstance(value, list):
        return [_built(item, key, parts) for item in value]
    if not isinstance(value, dict):
        return value
    if "_target_" not in value:
        return {name: _built(item, _below(key, str(name)), parts) for name, item in value.items()}
    if not value.get("_partial_"):
        needed = {name: each.default for name, each in (_parameters(_target(value, key)) or {}).items()}
        parts = {name: part for name, part in parts.items() if needed.get(name) is inspect.Parameter.empty}
    return build(value, key, parts)


def fixed(node: Any, key: str) -> Any:
    """The config node with the records in it built: they need no parts, and so are the same in every loop."""
    if not isinstance(node, dict):
        return node
    if "_target_" in node and _record(_target(node, key)):
        return build(node, key)
    return {name: fixed(value, _below(key, str(name))) for name, value in node.items()}


def _rebuilt(node: Any, key: str, parts: Mapping[str, Any], **changed: Any) -> Any:
    return build(node, key, {**parts, **changed})


def _target(node: Mapping[str, Any], key: str) -> Any:
    try:
        return located(str(node["_target_"]))
    except ConfigError:
        raise
    except (ImportError, AttributeError, ValueError) as problem:
        expected = "the dotted name of a class or function"
        raise ConfigError(f"{key}._target_", repr(node["_target_"]), f"{expected} ({problem})") from problem


def _record(target: Any) -> type[Record] | None:
    """The record class of which `target` is a class method, such as `Sampling.of`; else None."""
    owner = getattr(target, "__self__", None)
    return owner if isinstance(owner, type) and issubclass(owner, Record) else None


def _call(target: Any, arguments: Sequence[Any], values: Mapping[str, Any], key: str, parts: Mapping[str, Any]) -> Any:
    signature, required = _signature(target), METHODS.get(key)
    try:
        return target(*arguments, **values)
    except Exception as problem:
        try:
            if signature is not None and isinstance(problem, TypeError):
                signature.bind(*arguments, **values)
        except TypeError as misfit:
            name = getattr(target, "__qualname__", target)
            hint = f"besides the values of {key}, it may take {', '.join(parts)}" if parts else ""
            makes = f"a class, or a function that makes an object with `{required.__name__}`" if required else ""
            raise ConfigError(f"{key}: {name} cannot be made of these values ({misfit})", "", makes, hint) from None
        if not isinstance(problem, LabError):
            problem.add_note(f"while making {key} of its config")
        raise


def _check_method(key: str, required: Callable[..., Any] | None, part: T) -> T:
    """Return the part. Raises ConfigError: it lacks the `required` method, or the method's parameters."""
    if required is None:
        return part
    name, cls = required.__name__, type(part)
    method = getattr(part, name, None)
    if not callable(method):
        raise _no_part(key, cls, required)
    if not cls.__module__.startswith("reflexion_lab."):
        _, *every = inspect.signature(required).parameters.values()
        known = [each for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        needed = [each for each in known if each.default is each.empty]
        if (problem := _misfit(method, needed)) and _misfit(method, known):  # the lab passes some optional ones
            expected = f"the parameters {', '.join(each.name for each in needed)}"
            raise ConfigError(f"{key}: {cls.__name__}.{name}: {problem}", expected=expected)
    return cast(T, Budgeted(part, name, None)) if inspect.iscoroutinefunction(method) else part


def _no_part(key: str, cls: type, required: Callable[..., Any]) -> ConfigError:
    return ConfigError(f"{key}: the part is of type {cls.__name__}", expected=f"one that has `{required.__name__}`")


def _misfit(method: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> str:
    """Why a call with these parameters of a protocol fails; "" if it does not, or if nothing says what it takes."""
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    try:
        inspect.signature(method).bind(*[each for each in parameters if each.name not in named], **named)
    except TypeError as problem:
        return str(problem)
    except ValueError:  # a built-in method without a signature
        pass
    return ""


def construct(key: str, factory: Callable[..., T], **values: Any) -> T:
    """Call `factory` with values from the config section `key`, named like its parameters.

    Raises ConfigError: a value is out of its limits; the message names the config key.
    """
    check(factory, values, key)
    return factory(**values)


def converted(key: str, node: Any, kind: type[T]) -> T:
    """The config node under `key` as a record. Raises ConfigError: the record lacks a key or rejects a value."""
    try:
        return msgspec.convert(node, kind)
    except msgspec.ValidationError as problem:
        if strange := re.fullmatch(r"Object contains unknown field `(.*?)`(?: - at `\$\.?(.*)`)?", str(problem)):
            below = strange[2].split(".") if strange[2] else []
            raise unknown(".".join((key, *below, strange[1])), _fields(kind, below)) from None
        message, _, place = str(problem).partition(" - at `$")
        place = place.removesuffix("`")
        if missing := re.fullmatch(r"Object missing required field `(.*)`", message):
            name = f"{key}{place}.{missing[1]}"
            raise ConfigError(name, "no value", f"{name}=…") from None
        path = re.findall(r"[^.\[\]]+", place)
        value: Any = node
        for step in path:
            value = value.get(step) if isinstance(value, dict) else value[int(step)] if step.isdigit() else value
        expected = expected_at(kind, path, value)
        if expected and message.startswith(("Expected", "Invalid")):
            raise ConfigError(f"{key}{place}", repr(value), expected) from None
        raise ConfigError(message if message.startswith(f"{key}.") else f"{key}{place}: {message}") from None


def unknown(key: str, names: Iterable[str]) -> ConfigError:
    """The error for an unknown `key` of a section with these `names`; it suggests the nearest."""
    section, names = key.rpartition(".")[0], [name for name in names if not name.startswith("_")]
    if not names:
        hint = f"'~{key}' leaves it out" if "." not in section else ""
        return ConfigError(f"{key}: unknown key", expected=f"none below {section}", hint=hint)
    hint = suggestion(key, [_below(section, name) for name in names])
    return ConfigError(f"{key}: unknown key", expected=f"one of {', '.join(names)}", hint=hint)


NEAR, NEAR_WHOLE = 0.7, 0.6
"""Ratios of `difflib` from which on the last name of a key is near another, and the whole key."""


def suggestion(key: str, known: Iterable[str]) -> str:
    """A hint at the dotted key of `known` whose last name is near that of `key`, the most similar as a whole; or ""."""

    def likeness(other: str) -> tuple[bool, float, int]:
        names, *wholes = (key.rpartition(".")[2], other.rpartition(".")[2]), (key, other)
        name, whole = (difflib.SequenceMatcher(None, *pair).ratio() for pair in (names, *wholes))
        is_near = name >= NEAR or (names[0] in names[1] and len(names[0]) > 2)
        is_near &= whole >= NEAR_WHOLE or "." not in key
        return is_near and names[1][:1] != "_", (name == 1) + name + whole, -other.count(".")

    near = max({*known} - {key}, key=likeness, default="")
    return f"did you mean {near!r}?" if likeness(near)[0] else ""


def check_targets(key: str, node: Any) -> None:
    """Import the parts that the config node under `key` names, used or not.

    Raises ConfigError: a part of the lab has a key that its constructor lacks.
    """
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        check_targets(_below(key, str(name)), value)
    if not isinstance(node, dict) or "_target_" not in node:
        return
    names = _names(node)
    if names is None or not str(node["_target_"]).startswith("reflexion_lab."):
        return
    if strange := [name for name in node if name not in names and not name.startswith("_")]:
        raise unknown(_below(key, strange[0]), names)


def refit(node: dict[str, Any], values: Mapping[str, Any], key: str, typed: Sequence[str]) -> None:
    """Suit `values` of another part under `key` to the part of `node` and what it wraps as `first`, but for `typed`."""
    names = _names(node)
    values = {name: value for name, value in values.items() if not name.startswith("_")}
    others = {name: value for name, value in values.items() if names is not None and name not in names}
    known = {name: value for name, value in values.items() if name not in others}
    if isinstance(first := node.get("first"), dict) and "_target_" in first:
        known["first"] = {**others, **known.get("first", {})}
    for name, value in (others | known).items():
        place = _below(key, name)
        if name in known and isinstance(value, dict) and isinstance(inner := node.get(name), dict):
            refit(inner, value, place, typed)
        elif not any(f"{each}.".startswith(f"{place}.") or place.startswith(f"{each}.") for each in typed):
            node.pop(name, None)
            node.update({name: value} if name in known else {})


def capability(node: Mapping[str, Any], name: str, default: Any, is_inherited: bool = True) -> Any:
    """A class attribute by which a part declares a capability, such as `is_durable`; else `default`.

    `is_inherited`: whether the attribute of a base class counts.
    """
    try:
        target = located(str(node.get("_target_")))
    except (ImportError, AttributeError, ValueError):  # building it says so
        return default
    owner = getattr(target, "__self__", target)
    owner = getattr(owner, "part_class", owner)  # of an object of a notebook
    return getattr(owner, name, default) if is_inherited else getattr(owner, "__dict__", {}).get(name, default)


def has_durable_store(store: Mapping[str, Any]) -> bool:
    """Whether the memory of a run outlives the run."""
    return bool(capability(store, "is_durable", True, is_inherited=False))


def located(name: str) -> Any:
    """The module, or the object within one, of a dotted name.

    Raises AttributeError; ImportError: no such module, or a class or function of Python's own library, such as
    `os.system`, under whatever name: it is no part of a run and might do anything.
    """
    top, *steps = name.split(".")
    if top not in sys.stdlib_module_names:
        place, part = top, import_module(top)
        for step in steps:
            place = f"{place}.{step}"
            part = getattr(part, step) if hasattr(part, step) or not inspect.ismodule(part) else import_module(place)
        home = getattr(part, "__module__", None) if inspect.isclass(part) or inspect.isroutine(part) else None
        if str(home).partition(".")[0] not in sys.stdlib_module_names:
            return part
    raise ImportError("Python's own library has no part of a run")


def takes(key: str, node: Any, name: str) -> bool:
    """Whether the constructor of the config node under `key`, or of a node within it, has a parameter `name`."""
    if isinstance(node, list):
        return any(takes(key, item, name) for item in node)
    if not isinstance(node, dict):
        return False
    is_taken = "_target_" in node and name in (_parameters(_target(node, key)) or ())
    return is_taken or takes(key, list(node.values()), name)


_JOB: ContextVar[tuple[str, ...] | None] = ContextVar("overrides", default=None)


@contextlib.contextmanager
def as_job(overrides: Sequence[str]) -> Iterator[None]:
    """Overrides of the run within the block, for its provenance."""
    token = _JOB.set(tuple(overrides))
    try:
        yield
    finally:
        _JOB.reset(token)


def job_overrides() -> tuple[tuple[str, ...], str]:
    """Overrides and launcher of the current job, of ours or of Hydra's; ((), "") outside of one, as in a notebook."""
    from hydra.core.hydra_config import HydraConfig

    if (own := _JOB.get()) is not None:
        return own, "basic"
    if not HydraConfig.initialized():
        return (), ""
    job = HydraConfig.get()
    return tuple(job.overrides.task), str(job.runtime.choices.get("hydra/launcher") or "")


def plain(node: Any, resolve: bool = True) -> Any:
    """A config node as dicts, lists and scalars; `resolve`: with interpolations resolved."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=resolve) if OmegaConf.is_config(node) else node


def _names(node: Mapping[str, Any]) -> Sequence[str] | None:
    """Parameter names of a node's class or function; None if it accepts any, or cannot be built, which says why."""
    with contextlib.suppress(ImportError, AttributeError, TypeError, ValueError):
        target = located(str(node.get("_target_")))
        if record := _record(target):
            return record.__struct_fields__
        named = inspect.signature(target).parameters
        return None if _accepts_any(named) else list(named)
    return None


def _accepts_any(named: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in named.values())


def _fields(kind: Any, path: Sequence[str]) -> list[str]:
    """Field names of the record at `path` within a record."""
    (record,) = (option for option in (kind, *get_args(kind)) if hasattr(option, "__struct_fields__"))
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(record)}
    return _fields(fields[path[0]], path[1:]) if path else list(fields)


def _parameters(target: Any) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a callable; None if it has no signature, as some built-in classes."""
    signature = _signature(target)
    return None if signature is None else signature.parameters


@functools.cache  # inspection takes longer than the call, and every loop builds its parts anew
def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
