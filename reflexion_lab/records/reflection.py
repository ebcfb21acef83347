"""Reflections, and the categories of failure that they name."""

from __future__ import annotations

from enum import StrEnum

from reflexion_lab.records.call import Usage
from reflexion_lab.records.record import Record


class Category(StrEnum):
    """What a reflection may call a failure.

    The ten classes and `unknown` say what the evidence shows, and are all that rules ever give; the others say where
    the attempt went astray, in a model's own words.
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
    """A cause was found that has no name of its own here; what any unheard-of name becomes."""
    APPROACH_FLAW = "approach_flaw"
    """The plan was wrong, however well it was carried out."""
    MISSING_CONTEXT = "missing_context"
    """Something about the task was not known or not read."""
    TOOL_MISUSE = "tool_misuse"
    TEST_GAP = "test_gap"
    """The tests at hand did not show the fault."""
    VERIFICATION = "verification"
    """The work was not checked, or the check was misread."""
    EDGE_CASE_MISS = "edge_case_miss"
    """An input at the border was not thought of."""
    INTEGRATION_ERROR = "integration_error"
    """The parts work, and not together."""


class Reflection(Record, frozen=True, kw_only=True):
    """What went wrong, in words. `confidence` is in [0, 1]."""

    reflection_id: str
    about_attempt: int
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    source: str
    """`llm`, `rules:<class>`, `fallback:<class>` when rules stepped in for a model that failed, `failed`
    where nobody did, or `control:<name>`."""
    category: str = "unknown"
    """One of `Category`: the failure class of the evidence, or what the model calls it where it was asked to."""
    action_items: tuple[str, ...] = ()
    key_insight: str = ""
    """What is worth knowing beyond this task, in one sentence; "" when the reflector names none."""
    lessons: tuple[str, ...] = ()
    what_worked: str = ""
    confidence_source: str = "stated"
    """Where `confidence` comes from: `stated` by the model, the `class` of failure, `measured` on earlier ones; `none`
    where it says nothing."""
    flags: tuple[str, ...] = ()
    """What is wrong with these words, by name; see `reflectors/quality.py`."""
    text: str = ""
    """The model's reply as it came, "" for rules."""
    problem: str = ""
    """Why the fallback stepped in; "" when it did not."""
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
