"""No reflection: the arm that retries with feedback only."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.records import Attempt, Episode, Task


class NoReflection:
    """Returns no reflection. No model call."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> None:
        return None
