"""A verdict in words, as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.records import Check

SHOWN = 3
"""Failing checks that are spelled out; the rest is counted."""


def feedback(checks: Sequence[Check], printed: str = "", max_chars: int = 900) -> str:
    """The failing checks, one a line, at most `max_chars` characters; "" when every check passed."""
    failing = [check for check in checks if check.outcome != "pass"]
    if not failing:
        return ""
    lines = [f"{len(checks) - len(failing)} of {len(checks)} tests passed. Failing:"]
    lines += [f"- {check.name[:200]}  # {describe(check)}" for check in failing[:SHOWN]]
    if len(failing) > SHOWN:
        lines.append(f"- and {len(failing) - SHOWN} more")
    if printed.strip():
        lines.append(f"The program printed: {printed.strip()[:200]}")
    return "\n".join(lines)[:max_chars]


def describe(check: Check) -> str:
    """One failing check's outcome, with the exception and the line of the program where there is one."""
    if check.outcome == "fail":
        return check.message or "the assertion is false"
    where = f" (line {check.line} of the program)" if check.line else ""
    what = f"{check.error_type}: {check.message}" if check.error_type else f"{check.outcome}: {check.message}"
    return what.rstrip(": ")[:250] + where
