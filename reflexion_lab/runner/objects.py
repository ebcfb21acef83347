"""Classes and objects of a notebook as parts: a config names one by a target in this module.

    rl.run("experiment=reflexion", actor=Mine)        # actor._target_: reflexion_lab.runner.objects.Mine_1f0c…

The target ends in a digest of what the part does, so that a changed class is another arm.
"""

from __future__ import annotations

import contextlib
import copyreg
import hashlib
import inspect
import linecache
import marshal
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.sources import imports, is_own, sources

_OBJECTS: dict[str, Any] = {}
_Seen = dict[int, tuple[int, Any]]
"""Objects by id that a digest has read, with their number: each is read once."""


class _Same:
    """Makes the object that it was given. `part_class` is where capabilities of the part are looked up."""

    def __init__(self, part: object) -> None:
        self._part = part
        self.part_class = type(part)

    def __call__(self) -> object:
        return self._part


def register(part: object) -> str:
    """Keep a class, function or object for this process.

    `part`: a class or function makes the part, once per loop where the lab's own parts are made per loop. Any other
    object is the part itself, which all loops share; they run in threads. Returns its `_target_`.
    """
    is_maker = inspect.isclass(part) or inspect.isroutine(part)
    kind = part if is_maker else type(part)
    name = f"{re.sub(r'[^0-9A-Za-z_]+', '_', getattr(kind, '__qualname__', 'part'))}_{digest(part)}"
    _OBJECTS[name] = part if is_maker else _Same(part)
    return f"{__name__}.{name}"


def digest(part: object) -> str:
    """SHA-256, shortened to 8 hex digits, of the source of a class or function and of its module, and of an object's
    state. In a notebook, which has no module, the cell counts, and what it reads of other cells. Installed packages
    count by name, and so do objects without a state that Python can copy, such as a lock.
    """
    return hashlib.sha256("\n".join(_texts(part, {})).encode(errors="surrogatepass")).hexdigest()[:8]


def named(target: object) -> tuple[str, str] | None:
    """Name and digest of a part of a notebook; None for other targets."""
    if not str(target).startswith(f"{__name__}."):
        return None
    name, _, source = str(target).rpartition(".")[2].rpartition("_")
    return name, source


CONTROLS = {f"reflexion_lab.memory.curators.controls.{name}" for name in ("Shuffled", "Filler")}


def method_of(curator: Any) -> str:
    """The method whose items a curator of a config reads and changes: its class, without the digest of a notebook's; of
    a control that shows other items or words, that of the curator within it.
    """
    target = str(curator["_target_"])
    own = named(target)
    return method_of(curator["first"]) if target in CONTROLS else own[0] if own else target


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        return _OBJECTS[name]
    if name.startswith("__"):
        raise AttributeError(name)
    expected = "one that this process has been given, in its present form; pass it again: rl.run(…, actor=…)"
    raise ConfigError("_target_", f"{name}, an object of a notebook", expected)


def _texts(value: Any, seen: _Seen) -> Iterator[str]:
    """The source and state of a value, as lines."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value  # kept alive, so that no other object gets its id
    if isinstance(value, dict | list | tuple | set | frozenset):
        parts = [part for pair in value.items() for part in pair] if isinstance(value, dict) else list(value)
        lines = [list(_texts(part, seen)) for part in parts]
        yield f"{type(value).__name__} of {len(lines)}"
        for each in sorted(lines) if isinstance(value, set | frozenset) else lines:
            yield from each
    elif inspect.isclass(value) or inspect.isroutine(value):
        yield from _source(value, seen)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
        yield from _imported([value.__name__])
    else:
        yield from _source(type(value), seen)
        with contextlib.suppress(Exception):  # a lock, a connection: any error of any class
            reduce: Any = copyreg.dispatch_table.get(type(value))
            yield from _texts(reduce(value) if reduce else value.__reduce_ex__(4), seen)


def _source(thing: Any, seen: _Seen) -> Iterator[str]:
    """The name of a class or function; if it is the user's own, also its module or cell, bases and closure."""
    name, module = getattr(thing, "__qualname__", repr(thing)), getattr(thing, "__module__", None) or "__main__"
    yield f"{module}.{name}"
    if not is_own(module):
        return
    bases = thing.__bases__ if inspect.isclass(thing) else ()
    members = vars(thing).values() if bases else [getattr(thing, "__func__", thing)]
    functions = [function for function in members if inspect.isfunction(function)]
    if getattr(sys.modules.get(module), "__file__", None):
        yield from _imported([module])
    else:
        codes = [function.__code__ for function in functions]  # without source where Python reads no file
        cells = {"".join(linecache.getlines(code.co_filename)) or marshal.dumps(code, 2).hex() for code in codes}
        yield from sorted(cells)
        yield from _imported(name for cell in cells for name in imports(cell.encode(errors="replace")))
        yield from (line for key, value in _globals(functions) for line in (key, *_texts(value, seen)))
    for function in functions:
        yield f"{function.__code__.co_firstlineno} {function.__code__.co_names}"  # two functions of one line
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # still empty, as `__class__` in a class that is being made
                yield from _texts(cell.cell_contents, seen)
    for base in bases:
        yield from _texts(base, seen)


def _globals(functions: list[types.FunctionType]) -> list[tuple[str, Any]]:
    """Names and values that functions read of other cells."""
    read: dict[str, Any] = {}
    codes = [(function.__code__, function.__globals__) for function in functions]
    while codes:
        code, names = codes.pop()
        read |= {name: names[name] for name in code.co_names if name in names}
        codes += [(inner, names) for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return sorted(read.items())


def _imported(modules: Iterable[str]) -> list[str]:
    """The sources of those of `modules` that are own, and of the own modules that they import."""
    return [data.decode("utf-8-sig", "replace") for data in sources(sorted(filter(is_own, modules))).values()]
