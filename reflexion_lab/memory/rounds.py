"""Rounds. Memory shared across tasks is updated only between rounds, so results do not depend on scheduling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.archive import Archive, Learnt
from reflexion_lab.memory.episodic import after, episode_of, session_id
from reflexion_lab.memory.mistakes import mistakes_of
from reflexion_lab.records import Attempt, Session, Task


class OneRound:
    """Independent tasks in one round; nothing is shared."""

    def of(self, tasks: Sequence[Task]) -> list[Sequence[Task]]:
        return [tasks]

    def finished(self, task: Task, attempts: Sequence[Attempt]) -> None:
        pass

    def end(self, tasks: Sequence[Task]) -> None:
        pass


class Rounds:
    """Tasks in their order, `size` at a time.

    `tell`: called with the lessons of each round.

    Raises
    ------
    ConfigError
        `size` is below 1.
    """

    @validated
    def __init__(
        self,
        archive: Archive,
        size: Positive,
        run_id: str,
        agent_id: str,
        tell: Callable[[Sequence[Learnt]], None] = lambda learnt: None,
    ) -> None:
        self.archive = archive
        self.size = size
        self.run_id = run_id
        self.agent_id = agent_id
        self.tell = tell
        self._learnt: dict[str, Learnt] = {}

    def of(self, tasks: Sequence[Task]) -> list[Sequence[Task]]:
        return [tasks[start : start + self.size] for start in range(0, len(tasks), self.size)]

    def finished(self, task: Task, attempts: Sequence[Attempt]) -> None:
        """Keep a task's lessons until its round ends. Thread-safe."""
        name = session_id(self.run_id, task.task_id)
        session = Session(session_id=name)
        for attempt in attempts:
            session = after(session, attempt)
        self._learnt[task.task_id] = Learnt(
            episodes=tuple(episode_of(task, attempt, name, self.agent_id) for attempt in attempts),
            mistakes=tuple(mistakes_of(task, attempts, session_id=name)),
            session=session,
        )

    def end(self, tasks: Sequence[Task]) -> None:
        """Share the round's lessons, in task order."""
        learnt = [self._learnt.pop(task.task_id) for task in tasks]
        self.archive.absorb(learnt)
        self.tell(learnt)
