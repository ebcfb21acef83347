"""Platform, package versions and command line of a run; nothing that identifies the machine or its user."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reflexion_lab.io.secrets import is_given, without_keys
from reflexion_lab.records import Provenance

PACKAGE = Path(__file__).parents[2]
LOCK = "constraints.txt"
OURS = ("reflexion_lab.", "hydra.")
CODE = {".py", ".yaml", ".jinja", ".json", ".css", ".js"}
"""Suffixes of the files that the lab is made of."""


def provenance(
    config: Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    launcher: str = "",
    embedder: str = "",
    sandbox_version: int = 0,
) -> Provenance:
    """Of a run that begins now, in this process."""
    data = _data(config)
    return Provenance(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=_platform(),
        cpus=os.cpu_count() or 0,
        lock_digest=lock_digest(),
        code_digest=code_digest(),
        diff_digest=_diff_digest(),
        overrides=tuple(map(_without_home, map(_without_secret, overrides))),
        launcher=launcher,
        own_parts=own_parts(config),
        embedder_fingerprint=embedder,
        benchmark_file_digest=file_digest(data) if data else "",
        sandbox_version=sandbox_version,
    )


def lock_digest() -> str:
    """Of the checkout's lock file; "" for an installed wheel."""
    lock = PACKAGE.parent / LOCK
    return file_digest(lock) if is_checkout() and lock.is_file() else ""


@functools.cache
def code_digest() -> str:
    """SHA-256 over the lab's own files, shortened to 16 hex digits: the same for a checkout and the wheel made of it,
    whatever git knows. Of the files as they were when this process first asked.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_code()):
        digest.update(f"{name}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def own_parts(config: Mapping[str, Any]) -> dict[str, str]:
    """By module, the digest of the file in which a part is that this package does not have; "" where there is no file,
    as in a notebook. What such a module imports is not looked at.
    """
    targets = sorted({target for target in _targets(config) if not target.startswith(OURS)})
    return {module: _source_digest(module) for module in filter(None, map(_module, targets))}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, shortened to 16 hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def is_checkout() -> bool:
    return (PACKAGE.parent / "pyproject.toml").is_file()


def _code() -> Iterator[tuple[str, Path]]:
    for path in PACKAGE.rglob("*"):
        if path.suffix in CODE and "__pycache__" not in path.parts:
            yield path.relative_to(PACKAGE).as_posix(), path
    if is_checkout():  # a wheel has it inside the package
        conf = PACKAGE.parent / "conf"
        yield from ((f"conf/{path.relative_to(conf).as_posix()}", path) for path in conf.rglob("*.yaml"))


@functools.cache
def _platform() -> str:
    """Such as `Linux x86_64, glibc 2.36`. A kernel's full name may tell whose machine it is."""
    libc = " ".join(platform.libc_ver())
    return f"{platform.system()} {platform.machine()}{f', {libc}' if libc.strip() else ''}"


def _diff_digest() -> str:
    """Digest of the checkout's uncommitted changes; "" if there are none, or git is not available."""
    if not is_checkout():
        return ""
    command = ["git", "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--binary"]
    try:
        diff = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return hashlib.sha256(diff).hexdigest()[:16] if diff else ""


def _data(config: Mapping[str, Any]) -> Path | None:
    """The file that the benchmark is loaded from, if it is one."""
    node: Any = config.get("benchmark")
    load = node.get("load") if isinstance(node, dict) else None
    path = load.get("path") if isinstance(load, dict) else None
    return Path(path) if isinstance(path, str) and Path(path).is_file() else None


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and isinstance(target := node.get("_target_"), str):
        yield target
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _targets(value)


def _module(target: str) -> str:
    """The module that a target is in; "" where there is none that can be imported."""
    parts = target.split(".")
    for name in (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
            return name
    return ""


def _source_digest(module: str) -> str:
    path = getattr(sys.modules[module], "__file__", None)
    return file_digest(Path(path)) if path and Path(path).is_file() else ""


def _without_secret(override: str) -> str:
    """`KEY=VALUE` without the value of a key that is named like a secret."""
    key, _, value = override.partition("=")
    return f"{key}=" if is_given(key.rpartition(".")[2], value.strip("\"'")) else without_keys(override)


def _without_home(text: str) -> str:
    home = str(Path.home())
    return re.sub(rf"{re.escape(home)}(?=/|$)", "~", text) if len(home) > 1 else text
