"""A failing check in words."""

from __future__ import annotations

from collections.abc import Mapping

from reflexion_lab.records import Check
from reflexion_lab.text.shorten import line

OUTCOMES = {
    "fail": "it did not hold",
    "error": "it raised an error",
    "timeout": "time ran out",
    "memory": "memory ran out",
    "early_exit": "the program ended before its checks did",
}
"""What is said of a check that has neither an exception nor a message."""


def described(
    check: Check, where: str, outcomes: Mapping[str, str] = OUTCOMES, chars: int = 300, mark: str = "…"
) -> str:
    """One line: the check's source, its exception and message (cut at `chars`), and `where`."""
    # `assert` says it already: the type is news only when it is another exception.
    error = "" if check.error_type == "AssertionError" and check.message else check.error_type
    cause = ": ".join(filter(None, (error, line(check.message, chars, mark))))
    return f"`{line(check.name, 200, mark)}` -> {cause or outcomes.get(check.outcome, check.outcome)}{where}"
