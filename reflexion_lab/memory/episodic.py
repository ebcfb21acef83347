"""The episodic memory: keeps everything up to a bound, shows what its recall policy selects."""

from __future__ import annotations

import threading
import time
from collections import deque

from reflexion_lab.protocols import Recall
from reflexion_lab.records import Attempt, Episode, MemoryState, Task


class EpisodicMemory:
    """A bounded first-in-first-out buffer of episodes. Thread-safe; callers get lists of their own.

    `max_episodes`: at capacity the oldest leaves before the new one enters; a value of 0 or less means 1000.
    """

    def __init__(self, recall: Recall, max_episodes: int = 1000) -> None:
        self.policy = recall
        self._episodes: deque[Episode] = deque(maxlen=max_episodes if max_episodes > 0 else 1000)
        self._total = 0
        self._lock = threading.Lock()

    def recall(self, task: Task) -> list[Episode]:
        """What the actor may see of the past, oldest first."""
        with self._lock:
            kept = list(self._episodes)
        return self.policy.select(kept, task)

    def remember(self, task: Task, attempt: Attempt) -> None:
        """Keep an attempt, passed or failed: the feedback verdict, never a hidden one."""
        episode = Episode(
            episode_id=f"ep-{task.task_id}-{attempt.number}",
            task_id=task.task_id,
            attempt_number=attempt.number,
            code=attempt.trajectory.solution,
            test_results=attempt.evaluation.feedback,
            reflection=attempt.reflection,
            passed=attempt.evaluation.passed,
            timestamp=time.time(),
        )
        with self._lock:
            self._episodes.append(episode)
            self._total += 1

    def state(self, in_context: int) -> MemoryState:
        with self._lock:
            capacity = self._episodes.maxlen or 0
            return MemoryState(capacity=capacity, size=len(self._episodes), in_context=in_context, total=self._total)
