"""Reflections, and the categories of failure that they name."""

from __future__ import annotations

from enum import StrEnum

from reflexion_lab.records.call import Usage
from reflexion_lab.records.record import Record


class Category(StrEnum):
    """Categories of failures.

    The ten classes and `unknown` follow from the evidence, and rules give no others; the rest are a model's judgement
    of where the attempt went wrong.
    """

    SYNTAX = "syntax"
    ASSERTION = "assertion"
    TIMEOUT = "timeout"
    NULL = "null"
    INDEX = "index"
    PERMISSION = "permission"
    IMPORT = "import"
    TYPE = "type"
    CONCURRENCY = "concurrency"
    MEMORY = "memory"
    UNKNOWN = "unknown"
    ROOT_CAUSE = "root_cause"
    """A cause without a category of its own here; also for unknown names."""
    APPROACH_FLAW = "approach_flaw"
    """The plan was wrong, however well it was implemented."""
    MISSING_CONTEXT = "missing_context"
    """Something about the task was not known or not read."""
    TOOL_MISUSE = "tool_misuse"
    TEST_GAP = "test_gap"
    """The tests at hand did not show the fault."""
    VERIFICATION = "verification"
    """The work was not checked, or the check was misread."""
    EDGE_CASE_MISS = "edge_case_miss"
    """A boundary input was not considered."""
    INTEGRATION_ERROR = "integration_error"
    """The parts work, but not together."""


class Reflection(Record, frozen=True, kw_only=True):
    """An explanation of an attempt. `confidence` is in [0, 1]."""

    reflection_id: str
    about_attempt: int
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    source: str
    """`llm`, `rules:<class>`, `fallback:<class>` where rules stepped in for a model that failed, `failed` where none
    did, or `control:<name>`."""
    category: str = "unknown"
    """One of `Category`: the failure class of the evidence, or the model's, where it was asked for one."""
    action_items: tuple[str, ...] = ()
    key_insight: str = ""
    """A lesson beyond this task, in one sentence; "" without one."""
    lessons: tuple[str, ...] = ()
    what_worked: str = ""
    confidence_source: str = "stated"
    """Source of `confidence`: `stated` by the model, the `class` of failure, `measured` on earlier ones, or `none`."""
    flags: tuple[str, ...] = ()
    """Quality flags; see `reflectors/quality.py`."""
    text: str = ""
    """The model's raw reply, "" for rules."""
    problem: str = ""
    """Why the fallback stepped in; "" where it did not."""
    usage: Usage = Usage()

    @property
    def texts(self) -> tuple[str, ...]:
        """All that it says, empty texts included."""
        return (
            self.root_cause,
            self.what_went_wrong,
            self.what_to_change,
            self.what_worked,
            self.key_insight,
            *self.action_items,
            *self.lessons,
        )
