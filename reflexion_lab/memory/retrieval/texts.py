"""Texts for retrieval: documents of episodes and queries of tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from reflexion_lab.records import Episode, Evaluation, Task

Match = Literal["task", "task_error", "task_code"]
MATCHES = get_args(Match)
"""Compared texts: the task description; with the error signature; with the program."""
MAX_FAILURES = 3
"""Maximum failures in a signature."""
QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|‘[^‘’\n]*’|(?<!\w)(?:[bru]|br|rb)?'[^'\n]*'(?!\w)", re.IGNORECASE
)
"""A quotation or string literal; not an apostrophe within a word."""
_VALUE = re.compile(rf"{QUOTED.pattern}|\d[\w.]*", re.IGNORECASE)


def signature(evaluation: Evaluation) -> str:
    """Error signature: types and messages of the first distinct failures, without their values; "" for a pass."""
    kinds = (f"{check.error_type or check.outcome} {_VALUE.sub('', check.message)}" for check in evaluation.failures)
    return "\n".join(list(dict.fromkeys(" ".join(kind.split())[:200] for kind in kinds))[:MAX_FAILURES])


def document(episode: Episode, match: str) -> str:
    return _joined(episode.task_description, episode, match)


def query(task: Task, own: Sequence[Episode], match: str) -> str:
    """Query for episodes: the prompt, with the error signature or program of the task's newest episode."""
    return _joined(task.prompt, own[-1] if own else None, match)


def failure_query(task: Task, own: Sequence[Episode]) -> str:
    """Query for wisdom: error signature and root cause of the newest episode, and the prompt."""
    last = own[-1] if own else None
    words = (last.failure_analysis, last.reflection.root_cause if last.reflection else "") if last else ()
    return "\n".join(text for text in (*words, task.prompt) if text)


def _joined(text: str, episode: Episode | None, match: str) -> str:
    more = {"task_error": "failure_analysis", "task_code": "code"}.get(match)
    # The shorter part comes first, since embedders truncate long texts.
    parts = sorted((text, getattr(episode, more)), key=len) if more and episode else [text]
    return "\n".join(part for part in parts if part)
