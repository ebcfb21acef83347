"""Errors that a user can fix. The command line shows these without a traceback; any other exception is a bug.

In: a key, what it holds, what it may hold, what to do. Out: one message, `KEY: got VALUE, expected RULE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflexion_lab.records import Usage


class LabError(Exception):
    """Something that a user can fix.

    Parameters
    ----------
    key
        The config key, the option, the argument, or the file with its line. Without `got`, the whole problem.
    got
        What was there, as it is to be read: `repr` of a text, the number itself.
    expected
        What can stand there.
    hint
        What to do; the command line shows it on a line of its own.
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
    """A config key, an option of a command or an argument of a function holds what it cannot."""


class DataError(LabError, ValueError):
    """A file or dataset is not what it should be."""


class FolderError(LabError, ValueError):
    """A run folder is missing, damaged, held by another process, or of another version."""


class StoreError(LabError, RuntimeError):
    """A store could not read or keep something: which file, what it holds, what to do. What it kept before stands."""


class HarnessError(LabError, RuntimeError):
    """The harness itself is broken; no verdict on any candidate may be drawn from it."""


class ModelError(LabError, RuntimeError):
    """A model could not answer: what was asked of whom, what came back, what to do. Never holds a key."""


class ModelNotFound(ModelError):
    """The server knows no such model, or has no such path: a user has to fix the config."""


class CapReached(LabError, RuntimeError):
    """A cap is reached: no new call may be made. The message names the cap, the spending and how to continue."""


UNANSWERED = ("rate_limited", "server_error", "connection", "timeout", "malformed", "key_refused", "wrong_model")
"""Why a model gave no answer, though the prompt is not to blame."""


class Unanswered(ModelError):
    """No answer was had, after all retries, for a reason that may pass. The prompt is not to blame: nobody may put
    something else in the answer's place, or results would depend on the server's health.

    `outcome`: one of `UNANSWERED`. `is_lasting`: asking for other tasks would end alike, until somebody mends it.
    """

    def __init__(self, message: str, outcome: str, is_lasting: bool = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.is_lasting = is_lasting

    def __reduce__(self) -> tuple[Any, ...]:
        """As itself to other processes, with its notes."""
        return type(self), (str(self), self.outcome, self.is_lasting), self.__dict__


class CritiqueError(LabError, RuntimeError):
    """A critic could not be understood; what its reply said and cost is kept, it has been paid for."""

    def __init__(self, message: str, usage: Usage, reply: str = "") -> None:
        super().__init__(message)
        self.usage = usage
        self.reply = reply
