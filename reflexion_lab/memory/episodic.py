"""The episodic memory of one loop: keeps everything up to a bound, shows what its recall policy selects."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.omega import DEFAULT
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.memory.reflection_schema import file_of
from reflexion_lab.memory.session import after, described
from reflexion_lab.memory.texts import signature
from reflexion_lab.protocols import Known, Recall
from reflexion_lab.records import Attempt, Episode, MemoryState, Recollection, Session, Task


class NothingKnown:
    """Shared memory of independent tasks: empty."""

    omega = DEFAULT
    outcomes: Mapping[str, tuple[int, int]] = {}

    def similar(self, task: Task, own: object, k: int, min_score: float) -> list[Episode]:
        return []

    def lessons(self, task: Task, own: object) -> Recollection:
        return Recollection()


class EpisodicMemory:
    """One task's memory: its own episodes, and through `known` those of all others.

    `max_episodes`: at capacity the oldest leaves before the new one enters; a value of 0 or less means 1000.
    `run_id`: makes the ids of sessions and episodes unique across runs; "" where they stay within one.
    `agent_id`: who acts. `show_session`: the actor reads the session's history, too. `files`: where each attempt's
    reflection is also written for people to read; one that fails is told and costs nothing else.
    """

    def __init__(
        self,
        recall: Recall,
        max_episodes: int = 1000,
        *,
        known: Known | None = None,
        run_id: str = "",
        agent_id: str = "actor",
        show_session: bool = False,
        files: ReflectionFiles | None = None,
    ) -> None:
        self.policy = recall
        self.known = known or NothingKnown()
        self.run_id = run_id
        self.agent_id = agent_id
        self.show_session = show_session
        self.files = files
        self.buffer = EpisodeBuffer(max_episodes)
        self.session = Session(session_id="")

    def recall(self, task: Task) -> Recollection:
        """The episodes and lessons that the actor reads."""
        own = self.buffer.by_task(task.task_id)
        selected, lessons = self.policy.select(own, task, self.known), self.known.lessons(task, own)
        return replace(
            lessons,
            episodes=selected.episodes,
            omega=selected.omega,
            left_out=tuple(sorted({*selected.left_out, *lessons.left_out})),
            session=described(self.session) if self.show_session and own else "",
        )

    def remember(self, task: Task, attempt: Attempt) -> None:
        """Keep an attempt, passed or failed: the feedback verdict, never a hidden one."""
        own = {episode.episode_id: episode.attempt_number for episode in self.buffer.by_task(task.task_id)}
        episode = episode_of(task, attempt, session_id(self.run_id, task.task_id), self.agent_id)
        self.buffer.store(episode)
        if self.files and (attempt.reflection or attempt.evaluation.passed):
            in_context = [own[name] for name in attempt.recalled if name in own]
            self.files.note(file_of(attempt, episode.session_id, in_context))
        self.session = after(replace(self.session, session_id=episode.session_id), attempt)

    def state(self, recollection: Recollection) -> MemoryState:
        return MemoryState(
            capacity=self.buffer.capacity,
            size=len(self.buffer),
            in_context=len(recollection.episodes),
            total=self.buffer.total,
            omega=recollection.omega,
        )


def session_id(run_id: str, task_id: str) -> str:
    """One task's loop in one run."""
    return f"{run_id}/{task_id}" if run_id else task_id


def episode_of(task: Task, attempt: Attempt, session_id: str, agent_id: str) -> Episode:
    """An attempt as memory keeps it."""
    reflection, evaluation = attempt.reflection, attempt.evaluation
    metadata = {"verification_type": evaluation.verification_type, "outcome": evaluation.outcome}
    if attempt.recalled_wisdom:
        metadata["wisdom"] = " ".join(attempt.recalled_wisdom)
    return Episode(
        episode_id=f"ep-{session_id}-{attempt.number}",
        session_id=session_id,
        turn_id=str(attempt.number),
        agent_id=agent_id,
        task_id=attempt.task_id,
        task_description=task.prompt,
        attempt_number=attempt.number,
        code=attempt.trajectory.solution,
        test_results=evaluation.feedback,
        failure_analysis=signature(evaluation),
        reflection=reflection,
        improvement=reflection.what_to_change if reflection else "",
        confidence=reflection.confidence if reflection else 0.0,
        passed=evaluation.passed,
        reward=evaluation.reward,
        timestamp=time.time(),
        metadata=metadata,
    )
