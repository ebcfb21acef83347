"""Overrides from Python values, and one-line errors about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reflexion_lab.runner.config.messages import is_user_error, one_line

Override = str | Mapping[str, Any] | Sequence[str]
"""An override as on the command line, a list of them, or a mapping of keys to values."""

SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)' 1\. ")


def as_lines(overrides: Sequence[Override]) -> list[str]:
    """Overrides as `reflexion-lab run` takes them. Raises TypeError: one is neither string, mapping nor list."""
    return [line for override in overrides for line in _lines(override)]


@contextmanager
def one_line_errors(applies: Callable[[Exception], bool] = is_user_error) -> Iterator[None]:
    """Raise errors for which `applies`, except CapReached, as a one-line ConfigError without Hydra's traceback."""
    from reflexion_lab.errors import CapReached, ConfigError

    try:
        yield
    except CapReached:
        raise
    except Exception as problem:
        if not applies(problem):
            raise
        message = _in_python(one_line(problem, "`rl.compose()` shows those that there are"))
        raise ConfigError(message) from None


def _lines(override: Override) -> list[str]:
    from reflexion_lab.runner.config.grid import lines

    if isinstance(override, str):
        return [override]
    if isinstance(override, Mapping) and not type(override).__module__.startswith("omegaconf"):
        return lines(dict(override))
    if isinstance(override, list | tuple) and all(isinstance(line, str) for line in override):
        return list(override)
    expected = "expected words such as 'seed=1', mappings such as {'seed': 1}, or lists of words"
    raise TypeError(f"overrides: got {type(override).__name__}, {expected}")


def _in_python(message: str) -> str:
    """The message with the Python function to call."""
    if several := SEVERAL.match(message):
        return f"{several[1]}: got several values, expected one; `rl.sweep` runs each, and key=[a,b] is a list"
    return message
