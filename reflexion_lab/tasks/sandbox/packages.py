"""Installed packages that programs of a task may import: their files, and those of what they need.

A server for such a task sees links to exactly these, imports the named ones before it forks, and counts its memory
limit from there. Packages are trusted: the server imports them before it enters its layers.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from importlib import machinery, metadata
from pathlib import Path
from typing import NamedTuple


class Packages(NamedTuple):
    modules: tuple[str, ...] = ()
    """Modules to import before the first fork."""
    entries: tuple[Path, ...] = ()
    """Files and folders of all distributions, at the top level of where they are installed."""
    versions: tuple[str, ...] = ()
    """`name==version` of each distribution, in alphabetical order."""
    missing: tuple[str, ...] = ()
    """Names of neither an installed distribution nor a module of one."""

    @property
    def why(self) -> str:
        """What to do about `missing`; "" if there is none."""
        return f"packages of the task are not installed: pip install {' '.join(self.missing)}" if self.missing else ""


@functools.lru_cache(maxsize=256)
def packages(requires: tuple[str, ...]) -> Packages:
    """The distributions that `requires` names, by a module of theirs or by name, with what they need and is here.
    Modules of Python itself are part of none.
    """
    dists, missing, modules = dict[str, metadata.Distribution](), dict[str, None](), dict[str, None]()
    for name in requires:
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            continue
        here = {_key(each) for each in _with_module(name) or [name] if _with_needs(each, dists)}
        public = (module for module in _providers() if re.fullmatch(r"[a-z]\w*", module, re.I))
        own = [module for module in public if here & {*map(_key, _providers()[module])}]
        modules |= dict.fromkeys([top] if top in own else own)
        missing |= {} if here else {name: None}
    files = {(dist, file.parts[0]) for dist in dists.values() for file in dist.files or ()}
    tops = {(dist, top) for dist, top in files if top not in ("..", "__pycache__") and not top.endswith(".pth")}
    entries = {Path(str(dist.locate_file(top))) for dist, top in tops}
    versions = sorted(f"{name}=={dist.version}" for name, dist in dists.items())
    return Packages(tuple(modules), tuple(sorted(entries)), tuple(versions), tuple(missing))


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _with_module(name: str) -> list[str]:
    """Names of the distributions with a file of this module, or with a file that is a module above it: what that one
    holds is known once it is imported.
    """
    suffixes, (top, *below) = tuple(machinery.all_suffixes()), name.split(".")

    def has_module(dist: str) -> bool:
        files = (file for file in metadata.distribution(dist).files or () if file.name.endswith(suffixes))
        modules = ((*file.parent.parts, file.name.partition(".")[0]) for file in files)
        return any(all(map(operator.eq, module, (top, *below))) for module in modules)

    here = _providers().get(top, [])
    return [dist for dist in here if _with_needs(dist, {}) and has_module(dist)] if below else here


def _with_needs(name: str, known: dict[str, metadata.Distribution]) -> bool:
    """Add the distribution `name` and what it needs to `known`; whether it is installed."""
    if (key := _key(name)) not in known:
        try:
            known[key] = dist = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            return False
        for need in dist.requires or ():
            if "extra ==" not in need and (match := re.match(r"[\w.-]+", need)):
                _with_needs(match[0], known)
    return True


@functools.cache
def _providers() -> dict[str, list[str]]:
    """Names of distributions by module."""
    return {module: [name for name in of if name] for module, of in metadata.packages_distributions().items()}
