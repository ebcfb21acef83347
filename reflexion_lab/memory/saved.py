"""Episodes as text: what a buffer writes, and how it is read again."""

from __future__ import annotations

import os
import time

import msgspec
from msgspec.structs import replace

from reflexion_lab.records import Episode, Record

DEFAULT_EPISODES = 1000
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Saved(Record, frozen=True, kw_only=True):
    """A whole buffer."""

    max_episodes: int = DEFAULT_EPISODES
    total: int = 0
    episodes: list[Episode] | None = None
    """Oldest first."""


def read_object(text: str | bytes) -> Saved:
    """A buffer from its JSON.

    Raises:
        ValueError: it is none, or one of its episodes has no agent.
    """
    try:
        saved = msgspec.json.decode(text, type=Saved)
    except _BROKEN as problem:
        raise ValueError(f"a buffer as JSON: {problem}; expected what to_json wrote; nothing changed") from None
    return replace(saved, episodes=[whole(episode) for episode in saved.episodes or ()])


def read_lines(text: str | bytes) -> tuple[list[Episode], int]:
    """Episodes of JSON lines, and the number of lines that are no JSON, as a kill leaves them.

    Raises:
        ValueError: a line is JSON but no episode, or no line is JSON, or an episode has no agent.
    """
    decoder, episodes, torn = msgspec.json.Decoder(Episode), [], 0
    lines = (text.encode() if isinstance(text, str) else text).split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                episodes.append(decoder.decode(line))
        except msgspec.ValidationError as problem:
            raise ValueError(f"episodes as JSON lines, line {number}: {problem}; nothing changed") from None
        except _BROKEN:
            torn += 1
    if torn and not episodes:
        raise ValueError(f"episodes as JSON lines: none of {torn} lines is JSON; nothing changed")
    return [whole(episode) for episode in episodes], torn


def whole(episode: Episode) -> Episode:
    """The episode with an id and a timestamp, if it had none.

    Raises:
        ValueError: it has no `agent_id`.
    """
    if not episode.agent_id:
        raise ValueError(
            f"episode {episode.episode_id or 'without an id'} of task {episode.task_id!r}: agent_id: '' found; "
            "expected who made the attempt"
        )
    if episode.episode_id and episode.timestamp:
        return episode
    return replace(
        episode,
        episode_id=episode.episode_id or f"ep-{os.urandom(16).hex()}",
        timestamp=episode.timestamp or time.time(),
    )
