"""Recognition and removal of secrets (keys, passwords, log-ins) in configs and messages."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of environment variables whose values are secrets."""
SHORTEST = 8
"""Minimum length of a secret value, so that `1` and `true` are none."""
SHAPES = re.compile(r"\b(?:sk-[\w-]{20,}|gh[pousr]_\w{30,}|hf_\w{30,}|AKIA[0-9A-Z]{16}|xox[abp]-[\w-]{10,})", re.ASCII)
"""Keys of well-known services."""
FIELD = re.compile(
    r"(?:[\w-]*[_-])?(?:api[_-]?key|key|token|auth|authorization|secret|passw(?:or)?d|credentials?)", re.IGNORECASE
)
"""Names of config fields whose values are secrets; not `api_key_env`, `api_key_file` and `max_tokens`."""
AMBIGUOUS = re.compile(r"(?!.*(?:api|auth|access|secret))(?:.*[_-])?(?:key|token)", re.IGNORECASE)
"""Names of secrets that are also used for other values, such as `sort_key` and `stop_token`."""
PLACEHOLDER = re.compile(
    rf".{{1,{SHORTEST - 1}}}|[A-Za-z_]{{{SHORTEST},15}}|\d{{{SHORTEST},15}}|<[|/\w]{{1,30}}>", re.ASCII | re.DOTALL
)
"""Values that are no secrets: placeholders for local servers (`x`, `EMPTY`) and special tokens."""

_NAMES = (
    r"(?:code|(?:[\w-]*[_-])?(?:(?:api|app|access|auth)?(?:key|token)|sig|signature|secret|passw(?:or)?d|pwd|pass|sas|jwt"
    r"|bearer|auth(?:orization)?|credentials?))"
)
_LOGIN = re.compile(r"(?<=://)[^\s?#]*@")
"""Up to the last `@`: URL parsers take everything before it, slashes included, as the password."""
_DATABASE = re.compile(r"(\bpostgres(?:ql)?(?:\+\w+)?://)[^\s\"<>]{1,500}@")
"""These passwords may contain unescaped `?`, `#` and `/`: SQLAlchemy takes all up to the last `@` as log-in."""
_LOGIN_IN_WORDS = re.compile(r"(?<=://)[^\s?#/\"'<>\\]{1,500}@")
_QUERY = re.compile(rf"((?:[?&;]{_NAMES}|\bpassword)=)[^&#\s\"'<>\\]+", re.IGNORECASE)
_GIVEN = re.compile(
    r"((?:[\w.]{0,80}[_.])?(?:api_?key|passw(?:or)?d|secret|auth_token|access_token|authorization)"
    r"[\"']?[=:](?! )[\"']?)(?:bearer )?[^\s\"',;&}]+",
    re.IGNORECASE,
)
"""A secret within an override of the config."""
_HIDDEN = re.compile(r"\[hidden [0-9a-f]{8}\]")


def without_logins(node: Any) -> Any:
    """A config without secrets: log-ins and keys in URLs, values of fields that are named like secrets, and values that
    look like keys. A slow hash of 8 hex digits replaces such a value, so that configs that differ in it stay different.
    """
    if isinstance(node, dict):
        return {key: _hidden(value) if is_given(key, value) else without_logins(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_logins(value) for value in node]
    if not isinstance(node, str):
        return node
    return _hidden(node) if SHAPES.search(node) else _QUERY.sub(r"\1", _LOGIN.sub("", _DATABASE.sub(r"\1", node)))


def is_given(field: object, value: object) -> bool:
    """Whether a config field holds a secret itself, not its location."""
    if not isinstance(value, str) or not value.strip() or _HIDDEN.fullmatch(value) or not FIELD.fullmatch(str(field)):
        return False
    return not (AMBIGUOUS.fullmatch(str(field)) and PLACEHOLDER.fullmatch(value))


@functools.cache
def _hidden(value: str) -> str:
    """A hash that is equal on every machine; short and slow, so that even a weak password is costly to guess."""
    digest = hashlib.pbkdf2_hmac("sha256", value.encode(errors="replace"), b"reflexion_lab", 200_000, dklen=4)
    return f"[hidden {digest.hex()}]"


def without_keys(text: str) -> str:
    """A message with `[NAME]` for the value of an environment variable that is named like a secret, `[key]` for
    everything that looks like a key, and no log-ins in URLs.
    """
    for name, value in sorted(of_environment(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"[{name}]")
    return _GIVEN.sub(r"\1", SHAPES.sub("[key]", without_login(text)))


def without_login(words: str) -> str:
    """Text, JSON included, without names, passwords and keys in URLs."""
    return _QUERY.sub(r"\1", _LOGIN_IN_WORDS.sub("", _DATABASE.sub(r"\1", words)))


def of_environment() -> Iterator[tuple[str, str]]:
    """Names and values of the environment variables that are named like secrets."""
    for name, value in os.environ.items():
        if VARIABLE.search(name) and len(value.strip()) >= SHORTEST:
            yield name, value.strip()


def without_secrets() -> dict[str, str]:
    """The environment for a helper process that needs no secrets."""
    return {name: value for name, value in os.environ.items() if not VARIABLE.search(name)}
