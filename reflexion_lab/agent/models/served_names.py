"""Whether the model that answered is the one that was asked."""

from __future__ import annotations

import re

VERSION = re.compile(
    r"(?:[-_](?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{8}|\d{6}|\d{3,4}|v\d+(?:\.\d+)*|latest))?(?:\.gguf)?(?:[:@]latest|@.+)?"
)
"""Suffixes of one model: a date or a number of three digits and more, a version, a file extension, the tag `latest`.
`-mini`, `.1` and `:70b` are other models."""


def is_same(requested: str, served: str) -> bool:
    """Whether two names differ at most in case, a provider's path before one and a version after the asked one."""
    *asked_path, name = requested.casefold().strip("/").split("/")
    *answered_path, answer = served.casefold().strip("/").split("/")
    shorter = min(len(asked_path), len(answered_path))
    if asked_path[len(asked_path) - shorter :] != answered_path[len(answered_path) - shorter :]:
        return False
    name = name if answer == name else name.removesuffix("-latest")
    return answer.startswith(name) and VERSION.fullmatch(answer.removeprefix(name)) is not None
