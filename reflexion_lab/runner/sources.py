"""The files of a user's own modules, as they were when Python loaded them, and of own modules that these import."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import sys
import types
import warnings
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path

from reflexion_lab.errors import ConfigError
from reflexion_lab.text.replies.syntax import parse

INSTALLED = {"site-packages", "dist-packages"}
_LOADED: dict[str, tuple[object, bytes]] = {}
"""By module, its spec, which a reload replaces, and its file at the first look."""


def sources(modules: Iterable[str]) -> dict[str, bytes]:
    """By name, the files of `modules` and of the own modules that they import, at any depth.

    Raises ConfigError: a file changed between the import of its module and the first look at it.
    """
    known: dict[str, bytes] = {}
    left = list(modules)
    while left:
        name = left.pop()
        if name not in known and (path := _file(name)).is_file():
            known[name] = _loaded(name, path)
            left += filter(is_own, imports(known[name], getattr(sys.modules.get(name), "__package__", None) or ""))
    return known


def changed_since(modules: Iterable[str]) -> list[str]:
    """Those of `modules` whose files have changed since they were loaded."""
    known = (name for name in modules if name in _LOADED and _file(name).is_file())
    return [name for name in known if _file(name).read_bytes() != _LOADED[name][1]]


def is_own(module: str) -> bool:
    """Whether a module is the user's (notebook, script, module), not an installed package."""
    top = module.partition(".")[0]
    if top == "reflexion_lab" or top in sys.stdlib_module_names - {"__main__"}:
        return False
    return all(INSTALLED.isdisjoint(_file(name).parts) for name in (top, module))


@functools.lru_cache(maxsize=10_000)
def imports(source: bytes, package: str = "") -> tuple[str, ...]:
    """Names that may be of modules which a module or cell of `package` imports, with those of the packages around."""
    names: set[str] = set()
    with contextlib.suppress(SyntaxError, ValueError, ImportError):  # a cell with magics; no such parent
        for node in ast.walk(parse(source)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    parts = (name.split(".") for name in names)
    return tuple(sorted({".".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}))


def _file(module: str) -> Path:
    """The file of a module, loaded or to be loaded by a later import; `.` without one."""
    with contextlib.suppress(Exception):  # of a parent that is imported for it
        loaded = sys.modules.get(module)
        return Path((loaded.__file__ if loaded else getattr(importlib.util.find_spec(module), "origin", "")) or "")
    return Path()


def _loaded(name: str, path: Path) -> bytes:
    """The file of a module as it was loaded, or as it is if it is not loaded."""
    module, now = sys.modules.get(name), path.read_bytes()
    if module is None:
        return now
    if name not in _LOADED or _LOADED[name][0] is not module.__spec__:
        if not _is_as_loaded(module):
            hint = f"restart the kernel, or importlib.reload({name})"
            raise ConfigError(name, f"{path}, which changed after it was imported", "the file that is loaded", hint)
        _LOADED[name] = module.__spec__, now
    if now != _LOADED[name][1]:
        text = f"{path} changed after it was imported: the run uses it as it was; restart the kernel to use it as it is"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return _LOADED[name][1]


def _is_as_loaded(module: types.ModuleType) -> bool:
    """Whether the functions and methods that a module defines stand in its file as it is now."""
    loader = getattr(module.__spec__, "loader", None)
    if type(loader) is not SourceFileLoader:  # others may rewrite code
        return True
    try:
        codes = [loader.source_to_code(loader.get_data(loader.path), loader.path)]
    except SyntaxError:
        return False
    for code in codes:  # grows
        codes += (part for part in code.co_consts if isinstance(part, types.CodeType))
    values = list(vars(module).values())
    values += [part for value in values if isinstance(value, type) for part in vars(value).values()]
    values = [getattr(value, "__func__", None) or getattr(value, "fget", None) or value for value in values]
    own = {value.__code__ for value in values if isinstance(value, types.FunctionType)}
    return {code for code in own if code.co_filename == module.__file__} <= set(codes)
