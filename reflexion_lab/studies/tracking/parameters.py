"""The config of a run as flat parameters: what it measures, without machine details and secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from reflexion_lab.io.secrets import without_login
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.manifest import EXECUTION_KEYS

LONGEST_VALUE = 500
"""Characters of a parameter."""
FIRST = ("arm", "seed", "feedback_source", "benchmark.name", "benchmark.load.n", "loop.max_attempts", "recall.omega")
"""What a reader looks for, above all else; classes of parts follow, then all other keys."""

SECRET = re.compile(r"key|secret|passw|credential|auth|token(?!s)", re.IGNORECASE)
"""Names whose values are not shown; `max_tokens` is none of them."""
PATH = re.compile(r"(^|[._])(path|files?|dir|folder|root|place)$", re.IGNORECASE)
"""Names whose values are shown without their folders, which describe the machine and not the run."""
UNFIT = re.compile(r"[^\w. -]")


def params(manifest: Manifest) -> dict[str, str]:
    """Flattened config parameters for MLflow: dotted keys; a group's value is its class name.

    Left out: execution settings, parts that the run never called, secrets, and unset values.
    """
    silent = {*EXECUTION_KEYS, *_idle(manifest)}
    what = {key: value for key, value in manifest.config.items() if key not in silent}
    keys = {UNFIT.sub("_", key)[:250]: value for key, value in _flat(what, ()) if not SECRET.search(key)}
    classes = ((group, at(what, group, "_target_")) for group in what)
    parts = {UNFIT.sub("_", group): str(target).rpartition(".")[2] for group, target in classes if target}
    first = {key: keys[key] for key in FIRST if key in keys}
    parameters = first | parts | {key: value for key, value in keys.items() if key not in parts}
    return {key: value[:LONGEST_VALUE] for key, value in parameters.items()}


def text(value: object) -> str:
    """Words as they are, the rest as a config file writes it."""
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return visible(without_login(words))


def at(config: Mapping[str, object], group: str, key: str) -> object:
    """The value of `group.key`; None where there is none."""
    node = config.get(group)
    return node.get(key) if isinstance(node, Mapping) else None


def _idle(manifest: Manifest) -> Iterator[str]:
    """Groups that every config has and few runs ask: a third of all keys."""
    if manifest.feedback_source != "self_tests":
        yield "suite_writer"
    if "critique_revise" not in str(manifest.config.get("actor")):
        yield from ("critic", "reviser")


def _flat(node: object, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Dotted keys and values of what is set below `node`. A leading `_` marks keys of the config system."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not str(key).startswith("_"):
                yield from _flat(value, (*keys, str(key)))
    elif isinstance(node, list) and any(isinstance(item, Mapping | list) for item in node):
        for number, item in enumerate(node):
            yield from _flat(item, (*keys, str(number)))
    elif node is not None:
        name = ".".join(keys)
        yield name, Path(node).name if isinstance(node, str) and PATH.search(name) else text(node)
