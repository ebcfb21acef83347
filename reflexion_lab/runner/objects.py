"""Classes and objects of a notebook as parts: a config names one by a target in this module.

    rl.run("experiment=reflexion", actor=Mine)        # actor._target_: reflexion_lab.runner.objects.Mine_1f0c…

The target ends in a digest of what the part does, so that a changed class is another arm.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from reflexion_lab.errors import ConfigError

_OBJECTS: dict[str, Any] = {}
_Seen = dict[int, tuple[int, Any]]
"""Objects by id that a digest has read, with their number: each is read once."""
SILENT = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "__slots__"}
"""Entries of a class that change nothing, or are defined elsewhere."""


class _Same:
    """Makes the object that it was given. `part_class` is where capabilities of the part are looked up."""

    def __init__(self, part: object) -> None:
        self._part = part
        self.part_class = type(part)

    def __call__(self) -> object:
        return self._part


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
    is_maker = inspect.isclass(part) or inspect.isroutine(part)
    kind = part if is_maker else type(part)
    name = f"{re.sub(r'[^0-9A-Za-z_]+', '_', getattr(kind, '__qualname__', 'part'))}_{digest(part)}"
    _OBJECTS[name] = part if is_maker else _Same(part)
    return f"{__name__}.{name}"


def digest(part: object) -> str:
    """SHA-256 over the sources of a part, the values of the notebook's names that they use, and its state; shortened
    to 8 hex digits. Modules and packages that the sources import count by name alone, and so does the state of an
    object of theirs that cannot be copied by `pickle`.
    """
    return hashlib.sha256("\n".join(_texts(part, {})).encode(errors="surrogatepass")).hexdigest()[:8]


def named(target: object) -> tuple[str, str] | None:
    """Name and digest of a part of a notebook; None for other targets."""
    if not str(target).startswith(f"{__name__}."):
        return None
    name, _, source = str(target).rpartition(".")[2].rpartition("_")
    return name, source


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        return _OBJECTS[name]
    if name.startswith("__"):
        raise AttributeError(name)
    expected = "one that this process has been given, in its present form; pass it again: rl.run(…, actor=…)"
    raise ConfigError("_target_", f"{name}, an object of a notebook", expected)


def _texts(value: Any, seen: _Seen) -> Iterator[str]:
    """Everything about a value that can change what it does, as lines; an object is read once."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value  # kept alive, so that no other object gets its id
    if inspect.isfunction(value):
        yield from _function(value, seen)
    elif inspect.isclass(value):
        yield from _class(value, seen)
    elif (parts := _parts(value)) is None:
        yield from _object(value, seen)
    else:
        lines = [list(_texts(part, seen)) for part in parts]
        yield f"{type(value).__qualname__} of {len(lines)}"
        for each in sorted(lines) if isinstance(value, AbstractSet) else lines:
            yield from each


def _parts(value: Any) -> list[Any] | None:
    """Parts of a container, a wrapper of a function, a path, a pattern or a module; None for other objects."""
    match value:
        case Mapping():
            return [part for pair in value.items() for part in pair]
        case list() | tuple() | AbstractSet():
            return list(value)
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case classmethod() | staticmethod():
            return [value.__func__]
        case types.MethodType():
            return [value.__func__, value.__self__]
        case property():
            return [value.fget, value.fset]
        case functools.cached_property():
            return [value.func]
    if isinstance(value, os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    return [value.__name__] if isinstance(value, types.ModuleType) else None


def _function(function: types.FunctionType, seen: _Seen) -> Iterator[str]:
    if not _is_notebooks(function):
        yield f"function {function.__module__}.{function.__qualname__}"
        return
    try:
        yield inspect.getsource(function)
    except (OSError, TypeError):  # made by exec
        yield from _texts(function.__code__, seen)
    yield from _texts([function.__defaults__, function.__kwdefaults__], seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name
        with contextlib.suppress(ValueError):  # still empty, as `__class__` in a class that is being made
            yield from _texts(cell.cell_contents, seen)
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        yield name
        yield from _texts(function.__globals__[name], seen)


def _names(code: types.CodeType) -> set[str]:
    """Names of globals that code reads, functions within it included."""
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _class(kind: type, seen: _Seen) -> Iterator[str]:
    if not _is_notebooks(kind):
        yield f"class {kind.__module__}.{kind.__qualname__}"
        return
    for base in kind.__bases__:
        yield from _texts(base, seen)
    for name, value in sorted(vars(kind).items()):
        if name not in SILENT and not isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
            yield name
            yield from _texts(value, seen)


def _object(value: Any, seen: _Seen) -> Iterator[str]:
    kind = type(value)
    yield from _texts(kind, seen)
    if not _is_notebooks(kind):
        with contextlib.suppress(Exception):  # a lock, a connection: any error of any class
            yield from _texts(value.__reduce_ex__(4), seen)
        return
    slots = [slot for base in kind.__mro__ for slot in (getattr(base, "__slots__", None) or ())]
    fields = [*vars(value)] if hasattr(value, "__dict__") else []
    for name in sorted({*slots, *fields, *getattr(kind, "__struct_fields__", ())} - {"__dict__", "__weakref__"}):
        yield name
        yield from _texts(getattr(value, name, None), seen)


def _is_notebooks(thing: Any) -> bool:
    """Whether a class or function is defined by the user (notebook, script, module), not in an installed package."""
    module = getattr(thing, "__module__", None) or "__main__"
    top = module.partition(".")[0]
    if top == "reflexion_lab" or top in sys.stdlib_module_names - {"__main__"}:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file
