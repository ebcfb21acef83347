"""A loop's session, updated after each attempt, and its text for the next prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.memory.insights import insight_of, with_insight
from reflexion_lab.records import Attempt, Check, Evaluation, Reflection, Session
from reflexion_lab.tasks.evaluators.trajectory import summary_of
from reflexion_lab.text.shorten import line

NEWEST = 5
"""Reflections that a session keeps."""
NAMED = 5
"""Issues, and suggestions, that a prompt names."""
ENTRY_CHARS = 160
"""Characters of one issue, suggestion, insight or field of a reflection in a prompt."""


def after(session: Session, attempt: Attempt) -> Session:
    """The session once `attempt` is over."""
    reflection = attempt.reflection
    has_words = reflection and (reflection.root_cause or reflection.what_went_wrong or reflection.what_to_change)
    known = session.key_insights
    return replace(
        session,
        reflections=(reflection, *session.reflections)[:NEWEST] if reflection and has_words else session.reflections,
        key_insights=with_insight(known, insight_of(reflection)) if reflection else known,
        last_trajectory_summary=summary_of(attempt.trajectory),
        last_evaluation=attempt.evaluation,
    )


def described(session: Session, max_chars: int = 2000) -> str:
    """The session for a prompt: score, issues, suggestions, summary, then insights and reflections, newest first.

    At most `max_chars` characters: whole lines fall off the end, the oldest reflections before anything else.
    """
    parts = (
        described_evaluation(session.last_evaluation),
        f"Previous trajectory: {line(session.last_trajectory_summary, ENTRY_CHARS) or 'N/A'}",
        f"Key insights:\n{described_insights(session.key_insights[::-1])}",
        f"Previous reflections:\n{described_reflections(session.reflections)}",
    )
    return _whole_lines("\n".join(parts), max_chars)


def described_evaluation(evaluation: Evaluation | None) -> str:
    """Score (the reward, out of 100, halves up), parts, issues and suggestions, a line each.

    Where an evaluator names no issues, the failing checks stand for them.
    """
    if evaluation is None:
        return "Previous score: N/A\nParts: N/A\nIssues: None\nSuggestions: None"
    parts = ", ".join(f"{name.replace('_', ' ')} {_percent(part)} %" for name, part in evaluation.components.items())
    issues = evaluation.issues or [_failure(check) for check in evaluation.failures]
    return (
        f"Previous score: {_percent(evaluation.reward)} of 100\nParts: {parts or 'N/A'}\n"
        f"Issues: {_listed(issues)}\nSuggestions: {_listed(evaluation.suggestions)}"
    )


def described_insights(insights: Sequence[str]) -> str:
    """A numbered line each, in the order given."""
    lines = [f"{number}. {line(insight, ENTRY_CHARS)}" for number, insight in enumerate(insights, 1)]
    return "\n".join(lines) or "No key insights yet."


def described_reflections(reflections: Sequence[Reflection]) -> str:
    """Four lines each, in the order given."""
    entries = [
        f"Reflection on attempt {reflection.about_attempt} (confidence {_percent(reflection.confidence)} %)\n"
        f"- Root cause: {line(reflection.root_cause, ENTRY_CHARS)}\n"
        f"- What went wrong: {line(reflection.what_went_wrong, ENTRY_CHARS)}\n"
        f"- What to change: {line(reflection.what_to_change, ENTRY_CHARS)}"
        for reflection in reflections
    ]
    return "\n".join(entries) or "No previous reflections (this is the first attempt)."


def _failure(check: Check) -> str:
    return f"{check.name}: {check.message or check.error_type or check.outcome}"


def _listed(entries: Sequence[str]) -> str:
    more = [f"and {len(entries) - NAMED} more"] if len(entries) > NAMED else []
    return "; ".join([*(line(entry, ENTRY_CHARS) for entry in entries[:NAMED]), *more]) or "None"


def _percent(share: float) -> int:
    # Rounded first: 100 * 0.285 is 28.499999999999996.
    return math.floor(round(100 * share, 6) + 0.5)


def _whole_lines(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return text[: max_chars + 1].rpartition("\n")[0] or text[:max_chars]
