"""Tasks whose model gave no answer: deferred to the end of the round, unless the server seems to be down."""

from __future__ import annotations

import threading
import time
from collections import Counter

from reflexion_lab.errors import Unanswered
from reflexion_lab.records import SetAside, Task
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder.folder import RunFolder


class DeferredTasks:
    """Deferred tasks, each with a line in the run folder's `set_aside.jsonl`. Thread-safe.

    `limit`: failures in a row, without an answered task between them, after which the run stops.
    """

    def __init__(self, folder: RunFolder, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._tasks: dict[str, tuple[Task, Unanswered]] = {}
        self._failures = 0
        self._lock = threading.Lock()

    def defer(self, task: Task, problem: Unanswered) -> None:
        """Defer `task`.

        Raises
        ------
        Unanswered
            `problem` is lasting, or more than `limit` tasks in a row had no answer.
        """
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = one_line(problem)
        self.folder.append(
            "set_aside.jsonl", SetAside(task_id=task.task_id, outcome=problem.outcome, problem=text, at=now)
        )
        with self._lock:
            self._tasks[task.task_id] = task, problem
            self._failures += 1
            if problem.is_lasting:
                raise problem
            if self._failures > self.limit:
                many = f"{self._failures} loops in a row had no answer, so the run stops. The last: "
                raise Unanswered(many + text, problem.outcome)

    def reset_failures(self) -> None:
        """Reset the count of failures in a row after an answered task."""
        with self._lock:
            self._failures = 0

    def ready(self) -> list[Task]:
        """Return the deferred tasks in order of deferral, and clear the list."""
        with self._lock:
            tasks = [task for task, _ in self._tasks.values()]
            self._tasks.clear()
            self._failures = 0
            return tasks

    def check(self) -> None:
        """Raises Unanswered: tasks are still deferred."""
        with self._lock:
            problems = [problem for _, problem in self._tasks.values()]
        if problems:
            counts = Counter(problem.outcome for problem in problems)
            named = ", ".join(f"{name} {n}" for name, n in counts.items())
            many = f"{len(problems)} task{'s' * (len(problems) > 1)} had no answer twice"
            summary = f"{many} ({named}); all others that had begun have ended. The first: "
            raise Unanswered(summary + one_line(problems[0]), problems[0].outcome)
