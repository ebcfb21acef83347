"""What may leave the machine: no key, no log-in, no place on its disks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from msgspec.structs import replace

from reflexion_lab.io.secrets import SHAPES, of_environment, without_logins
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.manifest import HOW_NOT_WHAT
from reflexion_lab.studies.replay.bundle import BundleError

KEYS = re.compile(SHAPES.pattern.encode())
KEPT = ("workers", "quiet")
"""Of what says how a run was carried out, what says nothing of the machine."""


def portable(manifest: Manifest) -> Manifest:
    """The manifest without places: of an absolute path its last part is left, and what says where a run lay is empty.
    The digests stay those of the run.
    """
    config = {key: value for key, value in manifest.config.items() if key not in HOW_NOT_WHAT or key in KEPT}
    config = {key: _without_places(value) for key, value in without_logins(config).items()}
    made = replace(manifest.provenance, overrides=())  # they hold places too, and the config says it all
    return replace(manifest, config=config, provenance=made)


def check_secrets(members: Mapping[str, bytes], run: Path) -> None:
    """Raises BundleError: a member holds a key, the value of a variable that is named like one, or where this machine
    keeps the run, the package or its user's files. What it holds is not told.
    """
    for name, content in members.items():
        for what, text in _unwanted(run):
            if text in content:
                raise BundleError(f"{run}: {name} holds {what}; a bundle goes to others, so nothing was packed")
        if KEYS.search(content):
            raise BundleError(f"{run}: {name} holds what looks like an API key; nothing was packed")


def _unwanted(run: Path) -> Iterator[tuple[str, bytes]]:
    for variable, value in of_environment():
        yield f"the value of the environment variable {variable}", value.encode()
    for what, place in {"run folder": run.resolve(), "package": Path(__file__).parents[2], "home": Path.home()}.items():
        if len(place.parts) > 2:  # `/root` or `/` may stand in any text
            yield f"the path of this machine's {what}", str(place).encode()


def _without_places(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_places(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_places(value) for value in node]
    if not isinstance(node, str):
        return node
    address = re.fullmatch(r"(sqlite|file):/+(.*)", node)
    if PurePosixPath(node).is_absolute() or address or node.startswith("~"):
        return PurePosixPath(node).name
    return PureWindowsPath(node).name if PureWindowsPath(node).is_absolute() else node
