"""Loops whose model gave no answer: kept for later, as long as it answers others."""

from __future__ import annotations

import threading
import time
from collections import Counter

from reflexion_lab.errors import Unanswered
from reflexion_lab.records import SetAside, Task
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder.folder import RunFolder


class Waiting:
    """Tasks that were set aside, each with a line in the run folder. Thread-safe.

    `most`: so many in a row, none answered between them, and the server is taken to be down.
    """

    def __init__(self, folder: RunFolder, most: int) -> None:
        self.folder = folder
        self.most = most
        self._tasks: dict[str, tuple[Task, Unanswered]] = {}
        self._in_a_row = 0
        self._lock = threading.Lock()

    def take(self, task: Task, problem: Unanswered) -> None:
        """Keep `task` for later.

        Raises:
            Unanswered: `problem` lasts, or nobody gets an answer any more.
        """
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = one_line(problem)
        self.folder.append(
            "set_aside.jsonl", SetAside(task_id=task.task_id, outcome=problem.outcome, problem=said, at=now)
        )
        with self._lock:
            self._tasks[task.task_id] = task, problem
            self._in_a_row += 1
            if problem.is_lasting:
                raise problem
            if self._in_a_row > self.most:
                many = f"{self._in_a_row} loops in a row had no answer, so the run stops. The last: "
                raise Unanswered(many + said, problem.outcome)

    def answered(self) -> None:
        with self._lock:
            self._in_a_row = 0

    def released(self) -> list[Task]:
        """The tasks that wait, in the order in which they came; none waits any more."""
        with self._lock:
            tasks = [task for task, _ in self._tasks.values()]
            self._tasks.clear()
            self._in_a_row = 0
            return tasks

    def check(self) -> None:
        """Raises Unanswered: tasks are waiting still."""
        with self._lock:
            problems = [problem for _, problem in self._tasks.values()]
        if problems:
            counts = Counter(problem.outcome for problem in problems)
            named = ", ".join(f"{name} {n}" for name, n in counts.items())
            many = f"{len(problems)} task{'s' * (len(problems) > 1)} had no answer twice"
            said = f"{many} ({named}); all others that had begun have ended. The first: "
            raise Unanswered(said + one_line(problems[0]), problems[0].outcome)
