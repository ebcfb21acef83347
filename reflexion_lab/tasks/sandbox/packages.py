"""Installed packages that programs of a task may import: their files, and those of what they need.

A server for such a task sees links to exactly these, imports the named ones before it forks, and counts its memory
limit from there. Packages are trusted: the server imports them before it enters its layers.
"""

from __future__ import annotations

import functools
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Environment of a server with packages: a fork has no thread of a pool, and 64 stacks would fill its memory."""


class Packages(NamedTuple):
    modules: tuple[str, ...] = ()
    """Modules to import before the first fork."""
    entries: tuple[Path, ...] = ()
    """Files and folders of all distributions, at the top level of where they are installed."""
    versions: tuple[str, ...] = ()
    """`name==version` of each distribution, in alphabetical order."""
    missing: tuple[str, ...] = ()
    """Names that are not installed."""

    @property
    def why(self) -> str:
        """What to do about `missing`; "" if there is none."""
        return f"packages of the task are not installed: pip install {' '.join(self.missing)}" if self.missing else ""


@functools.lru_cache(maxsize=256)
def packages(requires: tuple[str, ...]) -> Packages:
    """The distributions that `requires` names, by name or by a module of theirs, with what they need and is here."""
    dists, missing, modules = dict[str, metadata.Distribution](), list[str](), list[str]()
    for name in requires:
        names = _providers().get(name) or [name]
        reached = [dist for each in names for dist in _with_needs(each, dists)]
        if not reached:
            missing.append(name)
        own = [top for top, of in _providers().items() if set(names) & set(of) and re.fullmatch(r"[a-z]\w*", top, re.I)]
        modules += ([name] if name in own else own) if reached else []
    entries = {Path(str(dist.locate_file(top))) for dist in dists.values() for top in _tops(dist)}
    versions = sorted(f"{name}=={dist.version}" for name, dist in dists.items())
    return Packages(tuple(dict.fromkeys(modules)), tuple(sorted(entries)), tuple(versions), tuple(missing))


def _with_needs(name: str, known: dict[str, metadata.Distribution]) -> list[metadata.Distribution]:
    """The distribution `name` and what it needs, added to `known`; [] if it is not installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in known:
        return [known[key]]
    try:
        known[key] = dist = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return []
    for need in dist.requires or ():
        if "extra ==" not in need and (match := re.match(r"[\w.-]+", need)):
            _with_needs(match[0], known)
    return [dist]


@functools.cache
def _providers() -> dict[str, list[str]]:
    """Names of distributions by module."""
    return dict(metadata.packages_distributions())


def _tops(dist: metadata.Distribution) -> set[str]:
    tops = {file.parts[0] for file in dist.files or ()}
    return {top for top in tops if top not in ("..", "__pycache__") and not top.endswith(".pth")}
