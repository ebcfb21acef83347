"""No reflection: the arm that retries on feedback alone."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.records import Attempt, Episode, Task


class NoReflection:
    """No reflection, no call."""

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> None:
        return None
