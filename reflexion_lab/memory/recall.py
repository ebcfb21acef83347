"""Recall policies: what memory shows of what it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reflexion_lab.records import Episode, Task


def estimated_tokens(episode: Episode) -> int:
    """Length of an episode's words in tokens, estimated as ⌈characters / 4⌉."""
    reflection = episode.reflection
    words = (reflection.root_cause, reflection.what_went_wrong, reflection.what_to_change) if reflection else ()
    return math.ceil((len(episode.code) + len(episode.test_results) + sum(map(len, words))) / 4)


class Window:
    """The newest Ω episodes of the task at hand (Reflexion, arXiv 2303.11366, section 3: a window of 1 to 3).

    `omega`: an int ≥ 0 (0 shows nothing) or "all". `max_tokens`: what the shown episodes may fill; the newest are
    packed first, and one that does not fit is skipped.
    """

    def __init__(self, omega: int | str = 3, max_tokens: int = 1000) -> None:
        if omega != "all" and (not isinstance(omega, int) or isinstance(omega, bool) or omega < 0):
            raise ValueError(f"recall.omega: {omega!r} found; expected an int of 0 or more, or all")
        if max_tokens < 0:
            raise ValueError(f"recall.max_tokens: {max_tokens} found; expected 0 or more")
        self.omega = omega
        self.max_tokens = max_tokens

    def select(self, episodes: Sequence[Episode], task: Task) -> list[Episode]:
        newest = [episode for episode in reversed(episodes) if episode.task_id == task.task_id]
        shown, left = [], self.max_tokens
        for episode in newest if self.omega == "all" else newest[: int(self.omega)]:
            if (size := estimated_tokens(episode)) <= left:
                shown.append(episode)
                left -= size
        return shown[::-1]
