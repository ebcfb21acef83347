"""What a transcript holds of feedback: tests that passed and tests that failed, in one of four forms.

Text under two headings, as the Reflexion paper's system wrote it; a list of the failing asserts; two lists, computed
afterwards; or the bare verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from reflexion_lab.audit.rows import Row
from reflexion_lab.text.replies.syntax import Parser


def tests_of(row: Row, steps: Iterable[Row]) -> tuple[str, ...]:
    """The tests that the row names, else all that the feedback on its attempts holds, as they first come."""
    shown = row.fields.get("visible_tests")
    if isinstance(shown, list):
        return tuple(str(test) for test in shown)
    said = (test for step in steps for part in _said(step.fields.get("feedback")) for test in part)
    return tuple(dict.fromkeys(said))


def feedback_verdict(step: Row) -> bool | None:
    """Whether the attempt passed its feedback tests, as recorded; None where that is not."""
    if isinstance(passed := step.fields.get("visible_pass"), bool):
        return passed
    feedback = step.fields.get("feedback")
    passing, failing = _said(feedback)
    if isinstance(feedback, list):  # of failing tests alone
        return not feedback
    return not failing if passing or failing else None


def _said(feedback: Any) -> tuple[list[str], list[str]]:
    """The tests that passed, and those that failed, as far as the feedback lists them."""
    if isinstance(feedback, dict):
        return [str(test) for test in feedback.get("recomputed_passed") or ()], [
            str(test) for test in feedback.get("recomputed_failed") or ()
        ]
    if isinstance(feedback, list):
        return [], [_bare(str(test)).strip() for test in feedback]
    parts: dict[str, list[str]] = {"Tested passed:": [], "Tests failed:": []}
    under = ""
    for line in feedback.splitlines() if isinstance(feedback, str) else ():
        if line.strip() in parts:
            under = line.strip()
        elif line.strip() and under:
            tests = parts[under]
            is_new = line.startswith(("assert", "self.assert"))
            if tests and not is_new and Parser().ran_out(tests[-1]):  # a test over several lines
                tests[-1] += f"\n{_bare(line)}"
            else:
                tests.append(_bare(line).strip())
    passing, failing = parts.values()
    return passing, failing


def _bare(line: str) -> str:
    """A test without what the feedback says it gave."""
    return re.split(r" # (?:output:|Real Execution Output:)", line)[0].rstrip()
