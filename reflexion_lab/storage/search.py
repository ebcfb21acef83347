"""The rule of all stores for when an episode matches a search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from reflexion_lab.records import Episode, Search


def matching(search: Search, episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes that match, newest first, at most `search.limit`; `episodes` are oldest first."""
    kept: deque[Episode] = deque(maxlen=search.limit if search.limit > 0 else None)
    kept.extend(episode for episode in episodes if matches(search, episode))
    return list(kept)[::-1]


def matches(search: Search, episode: Episode) -> bool:
    wanted = (
        (search.task_id, episode.task_id),
        (search.session_id, episode.session_id),
        (search.agent_id, episode.agent_id),
    )
    return (
        all(value in ("", actual) for value, actual in wanted)
        and (not search.categories or episode.category in search.categories)
        and (search.passed is None or search.passed == episode.passed)
        and episode.confidence >= search.min_confidence
        and _holds(search, episode)
    )


def searched(episode: Episode) -> str:
    """The text that keywords are looked for in, casefolded."""
    reflection = episode.reflection
    words = (reflection.root_cause, reflection.what_went_wrong, reflection.what_to_change) if reflection else ()
    lessons = reflection.lessons if reflection else ()
    return "\n".join((episode.task_description, episode.failure_analysis, *words, *lessons)).casefold()


def _holds(search: Search, episode: Episode) -> bool:
    if not search.keywords:
        return True
    text, enough = searched(episode), all if search.every_keyword else any
    return enough(keyword.casefold() in text for keyword in search.keywords)
