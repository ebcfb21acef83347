"""Errors that a user can fix. The command line shows these without a traceback; any other exception is a bug.

In: a key, what it holds, what it may hold, what to do. Out: one message, `KEY: got VALUE, expected RULE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflexion_lab.records import Usage


class LabError(Exception):
    """Something that a user can fix.

    `key`: the config key, option, argument, or file with its line. Without `got`, the whole problem. `got`: the invalid
    value, formatted: `repr` of a text, the number itself. `expected`: the valid values. `hint`: how to fix it; the
    command line shows it on a separate line.
    """

    def __init__(self, key: object, got: object = "", expected: object = "", hint: str = "") -> None:
        super().__init__(str(key), str(got), str(expected), hint)
        self.hint = hint

    @property
    def problem(self) -> str:
        """The message without the hint."""
        key, got, expected, _ = self.args
        if got:
            return f"{key}: got {got}, expected {expected}"
        return f"{key}; expected {expected}" if expected else key

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.problem, self.hint)))


class ConfigError(LabError, ValueError):
    """A config key, command option or function argument has an invalid value."""


class DataError(LabError, ValueError):
    """A file or dataset is invalid."""


class FolderError(LabError, ValueError):
    """A run folder is missing, damaged, held by another process, or of another version."""


class StoreError(LabError, RuntimeError):
    """A store could not read or write. Earlier records are safe."""


class HarnessError(LabError, RuntimeError):
    """The harness itself failed; this allows no verdict on a candidate."""


class ModelError(LabError, RuntimeError):
    """A model could not answer. The message never contains a key."""


class ModelNotFound(ModelError):
    """The server has no such model or path: the config is wrong."""


class CapReached(LabError, RuntimeError):
    """A cap on spending is reached. The message names the cap, the spending and how to continue.

    `override`: with it the same command goes on, such as `caps.calls=12`.
    """

    def __init__(self, message: str, override: str = "") -> None:
        super().__init__(message)
        self.override = override


class SilentModel(CapReached):
    """All replies in the first `limit` attempts are empty, or cut before a program: `message`, in words."""

    def __init__(self, message: str, limit: int = 0) -> None:
        super().__init__(
            f"the first {limit} attempts hold no program and no word: {message} in a new run, or go on with this one: "
            "silent_replies=null",
            "silent_replies=null",
        )


UNANSWERED = ("rate_limited", "server_error", "connection", "timeout", "malformed", "key_refused", "wrong_model")
"""Reasons for a missing answer that do not depend on the prompt."""


class Unanswered(ModelError):
    """No answer after all retries, for a temporary reason that does not depend on the prompt. Nothing may replace the
    answer, or results would depend on the server's health.

    `outcome`: one of `UNANSWERED`, or `refused`: a prompt of a role that the server has not answered yet. `is_lasting`:
    calls for other tasks would fail as well until a user fixes it.
    """

    def __init__(self, message: str, outcome: str, is_lasting: bool = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.is_lasting = is_lasting


class CritiqueError(LabError, RuntimeError):
    """A critic's reply could not be read. Has the reply and its cost."""

    def __init__(self, message: str, usage: Usage, reply: str = "") -> None:
        super().__init__(message)
        self.usage = usage
        self.reply = reply
