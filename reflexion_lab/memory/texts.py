"""Retrieval's texts: the document of an episode, the queries of a task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from reflexion_lab.records import Episode, Evaluation, Task

Match = Literal["task", "task_error", "task_code"]
MATCHES = get_args(Match)
"""Texts to compare: the task's; with the error signature; with the program."""
SHOWN = 3
"""Failing checks that enter a signature."""
QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|‘[^‘’\n]*’|(?<!\w)(?:[bru]|br|rb)?'[^'\n]*'(?!\w)", re.IGNORECASE
)
"""A quotation or literal. An apostrophe within a word opens none."""
_VALUE = re.compile(rf"{QUOTED.pattern}|\d[\w.]*", re.IGNORECASE)


def signature(evaluation: Evaluation) -> str:
    """The error signature: kind and message of the first failures that differ, without the values of this one task;
    "" when all passed.
    """
    kinds = (f"{check.error_type or check.outcome} {_VALUE.sub('', check.message)}" for check in evaluation.failures)
    return "\n".join(list(dict.fromkeys(" ".join(kind.split())[:200] for kind in kinds))[:SHOWN])


def document(episode: Episode, match: str) -> str:
    """The document of an episode."""
    return _joined(episode.task_description, episode, match)


def query(task: Task, own: Sequence[Episode], match: str) -> str:
    """The query for episodes: the task's text, with the error signature or program of its newest episode."""
    return _joined(task.prompt, own[-1] if own else None, match)


def failure_query(task: Task, own: Sequence[Episode]) -> str:
    """The query for wisdom: cause and error signature of the newest failure, and the task's text."""
    last = own[-1] if own else None
    words = (last.failure_analysis, last.reflection.root_cause if last.reflection else "") if last else ()
    return "\n".join(text for text in (*words, task.prompt) if text)


def _joined(text: str, episode: Episode | None, match: str) -> str:
    more = {"task_error": "failure_analysis", "task_code": "code"}.get(match)
    # An embedder reads the beginning of a text alone, so the shorter part stands first.
    parts = sorted((text, getattr(episode, more)), key=len) if more and episode else [text]
    return "\n".join(part for part in parts if part)
