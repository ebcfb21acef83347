"""Finished loops in a curator's prompt."""

from __future__ import annotations

from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Finished, Operation
from reflexion_lab.text.prompts.render import without_prompt
from reflexion_lab.text.shorten import bounded, line

WORDS = 300
"""Characters of each statement of a reflection."""


def described(
    finished: Finished, max_chars: int = 3000, submitted_only: bool = True, *, has_verdict: bool = True
) -> str:
    """The task, then its attempts: program, verdict of the feedback, reflection. The middle of long texts is cut, of
    the programs first.

    `max_chars`: maximum length. `submitted_only`: only the submitted attempt; else all, oldest first. `has_verdict`:
    else attempts are their programs alone: numbers and reflections hint at verdicts, too.
    """
    attempts = [submitted_at(finished.attempts)] if submitted_only else list(finished.attempts)
    task = bounded(finished.task.prompt.strip(), max_chars // 2)
    left = (max_chars - len(task)) // len(attempts)
    parts = [f"Task:\n{task}", *(_attempt(finished, attempt, left, has_verdict) for attempt in attempts)]
    return bounded("\n\n".join(parts), max_chars)


def case(finished: Finished, text: str, section: str = "") -> Operation:
    """A new item from a loop, found by the prompt of its task."""
    task = finished.task
    return Operation(
        kind="add", text=text, key=task.prompt, section=section, outcome=finished.passed, sources=(task.loop_id,)
    )


def verdict_word(attempt: Attempt) -> str:
    """`passed`, `failed` or `not tested`, by the feedback."""
    evaluation = attempt.evaluation
    return ("passed" if evaluation.passed else "failed") if evaluation.has_verdict else "not tested"


def _attempt(finished: Finished, attempt: Attempt, chars: int, has_verdict: bool) -> str:
    """One attempt in about `chars` characters."""
    code = without_prompt(attempt.trajectory.solution, finished.task).strip("\n").rstrip() or "(no program)"
    if not has_verdict:
        return f"Program:\n{bounded(code, max(chars - 40, chars // 3))}"
    reflection = attempt.reflection
    words = [f"{label}: {line(text, WORDS)}" for label, text in reflection.statements] if reflection else []
    feedback = [] if attempt.evaluation.passed else [bounded(attempt.evaluation.feedback.strip(), chars // 4)]
    rest = "\n".join(text for text in (*feedback, *words) if text)
    program = bounded(code, max(chars - len(rest) - 40, chars // 3))
    verb = verdict_word(attempt).replace("not tested", "was not tested")
    return f"Attempt {attempt.number}, which {verb}:\n{program}\n{rest}".rstrip()
