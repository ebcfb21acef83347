"""Reflections as lines of OpenAgents' `reflections.jsonl`, which `KEY` is in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

import msgspec

from reflexion_lab.records import Episode, Record, Reflection

Category = Literal["root_cause", "approach_flaw", "missing_context", "tool_misuse", "test_gap", "verification"]
KEY = b'"subtaskId"'


class Line(Record, frozen=True, kw_only=True, rename="camel"):
    """A reflection on an attempt at a part of a task."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    session_id: str
    task_id: str
    subtask_id: str
    attempt_number: Annotated[int, msgspec.Meta(ge=1)]
    category: Category
    analysis: str
    suggestion: str
    action_items: tuple[str, ...]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]

    @property
    def episode(self) -> Episode:
        """The reflection in an episode without program and tests."""
        words = Reflection(
            reflection_id=self.id, about_attempt=self.attempt_number, root_cause=self.analysis, what_went_wrong="",
            what_to_change=self.suggestion, confidence=self.confidence, source="llm", category=self.category,
            action_items=self.action_items,
        )  # fmt: skip
        return Episode(
            episode_id=self.id, session_id=self.session_id, agent_id="openagents", task_id=self.subtask_id,
            attempt_number=self.attempt_number, code="", test_results="", reflection=words, passed=False,
            improvement=self.suggestion, confidence=self.confidence, timestamp=self.created_at.timestamp(),
            metadata={"taskId": self.task_id},
        )  # fmt: skip


def line_of(episode: Episode, words: Reflection) -> bytes:
    """The line of an episode's reflection. A category that OpenAgents lacks becomes `root_cause`."""
    at = datetime.fromtimestamp(round(episode.timestamp, 3), UTC)
    line = Line(
        id=episode.episode_id, session_id=episode.session_id, attempt_number=episode.attempt_number, created_at=at,
        task_id=episode.metadata.get("taskId", episode.task_id), subtask_id=episode.task_id,
        category=words.category if words.category in get_args(Category) else "root_cause",  # type: ignore[arg-type]
        analysis="\n".join(dict.fromkeys(filter(None, (words.root_cause, words.what_went_wrong)))),
        suggestion=words.what_to_change, action_items=words.action_items, confidence=words.confidence,
    )  # fmt: skip
    stamp = {"createdAt": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    return msgspec.json.encode(msgspec.to_builtins(line) | stamp) + b"\n"
