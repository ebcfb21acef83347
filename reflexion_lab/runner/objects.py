"""Classes and objects of a notebook as parts: a config names one by a target in this module.

    rl.run("experiment=reflexion", actor=Mine)        # actor._target_: reflexion_lab.runner.objects.Mine_1f0c…

The target ends in a digest of the source and of the object's plain state, so that a changed class is another arm.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

import msgspec

from reflexion_lab.errors import ConfigError

_OBJECTS: dict[str, Any] = {}


def register(part: object) -> str:
    """Keep a class, function or object for this process.

    Parameters
    ----------
    part : object
        A class or function makes the part, once per loop where the lab's own parts are made per loop. Any other
        object is the part itself, which all loops share; they run in threads.

    Returns
    -------
    str
        Its `_target_`.
    """
    kind = part if inspect.isclass(part) or inspect.isroutine(part) else type(part)
    name = f"{re.sub(r'[^0-9A-Za-z_]+', '_', kind.__qualname__)}_{digest(part)}"
    _OBJECTS[name] = part if kind is part else _same(part)
    return f"{__name__}.{name}"


def digest(part: object) -> str:
    """SHA-256 over the source of a class (or an object's class), its bases outside of the lab, and the state of an
    object as far as it is plain data; of a function over its source. Shortened to 8 hex digits.
    """
    return hashlib.sha256("\n".join(_sources(part)).encode()).hexdigest()[:8]


def named(target: str) -> tuple[str, str] | None:
    """Name and digest of a part of a notebook; None for other targets."""
    if not target.startswith(f"{__name__}."):
        return None
    name, _, source = target.rpartition(".")[2].rpartition("_")
    return name, source


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        return _OBJECTS[name]
    if name.startswith("__"):
        raise AttributeError(name)
    expected = "one that this process has been given, in its present form; pass it again: rl.run(…, actor=…)"
    raise ConfigError("_target_", f"{name}, an object of a notebook", expected)


def _same(part: object) -> Any:
    """A function that returns `part`, with the capabilities that its class declares."""

    def target() -> object:
        return part

    target.__dict__.update({name: value for name, value in vars(type(part)).items() if not name.startswith("_")})
    return target


def _sources(part: object) -> Iterator[str]:
    if inspect.isroutine(part):
        yield _source(part)
        return
    kind = part if inspect.isclass(part) else type(part)
    for base in kind.__mro__:
        if base is object or base.__module__.startswith("reflexion_lab."):
            continue
        yield base.__qualname__
        for name, value in sorted(vars(base).items()):
            if name not in ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__"):
                yield f"{name}: {_text(value)}"
    if kind is not part:
        yield _text(getattr(part, "__dict__", {}))


def _text(value: object) -> str:
    """Source of a function or method, plain data as JSON; of anything else its type."""
    value = getattr(value, "__func__", getattr(value, "fget", value))
    if inspect.isroutine(value):
        return _source(value)
    return msgspec.json.encode(value, enc_hook=_unencodable, order="deterministic").decode()


def _unencodable(value: object) -> str:
    return _source(value) if inspect.isroutine(value) else type(value).__qualname__


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # made by exec, or without Python code
        code = getattr(function, "__code__", None)
        return marshal.dumps(code).hex() if isinstance(code, CodeType) else function.__qualname__
