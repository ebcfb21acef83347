"""The episodic memory of one loop."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.lessons.mistakes import CHECK_CHARS
from reflexion_lab.memory.recall import DEFAULT
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.memory.reflection_layout import file_of
from reflexion_lab.memory.retrieval.texts import signature
from reflexion_lab.memory.retrieval.trace import SEARCHES, Ranking, retrieved
from reflexion_lab.memory.session import session_after, session_of, session_text
from reflexion_lab.protocols import Recall, SharedMemory
from reflexion_lab.tasks.evaluators.trajectory import summary_of
from reflexion_lab.text.prompts.render import OVERHEAD
from reflexion_lab.text.shorten import estimated


class NoSharedMemory(SharedMemory):
    """Empty shared memory, for independent tasks."""

    omega = DEFAULT


class EpisodicMemory:
    """The memory of one task's loop: its own episodes, and those of other tasks through `shared`.

    `max_episodes`: capacity; the oldest episode is evicted. 0 or less: 1000. `shared`: memory shared by all tasks of a
    round. `run_id`: prefix of session and episode ids, unique per run; "" if they stay within one run. `show_session`:
    include the session's history in prompts. `files`: also write reflections to readable files; errors become warnings.
    `heading`: of the episodes in prompts that have one.
    """

    def __init__(
        self,
        recall: Recall,
        max_episodes: int = 1000,
        *,
        shared: SharedMemory | None = None,
        run_id: str = "",
        agent_id: str = "actor",
        show_session: bool = False,
        files: ReflectionFiles | None = None,
        heading: str = records.Recollection().heading,
    ) -> None:
        self.policy = recall
        self.shared = shared or NoSharedMemory()
        self.run_id = run_id
        self.agent_id = agent_id
        self.show_session = show_session
        self.files = files
        self.heading = heading
        self.buffer = EpisodeBuffer(max_episodes)
        self.session = records.Session(session_id="")
        self.token_ratio = 0.0
        self.items: tuple[records.Item, ...] | None = None

    def recall(self, task: records.Task, path: Sequence[records.Attempt] | None = None) -> records.Recollection:
        """All that the actor reads: episodes of `path` by the recall policy, lessons of shared memory, its curator's
        items, which are selected once per loop, and the session.
        """
        own = self.buffer.by_task(task.task_id)
        if path is not None and len(path) < self.buffer.total:
            numbers = {attempt.number for attempt in path}
            own = [episode for episode in own if episode.attempt_number in numbers]
        if not own and self.show_session:
            self.session = session_of(self.shared.past(task), self.session)
        has_session = self.show_session and self.session.last_evaluation is not None
        searches: list[Ranking] = []
        before = SEARCHES.set(searches)
        selected = with_own(self.policy.select(own, task, self.shared), task)
        lessons = self.shared.lessons(task, own)
        chosen = records.Selection() if self.items is not None else self.shared.selection(task)  # once per loop
        SEARCHES.reset(before)
        self.items = chosen.items if self.items is None else self.items
        recollection = replace(
            lessons, items=self.items, written_items=chosen.written, selection_usage=chosen.usage, heading=self.heading,
            others=selected.others, own=selected.own, omega=selected.omega,
            session_id=session_id(self.run_id, task.loop_id),
            left_out=tuple(sorted({*selected.left_out, *lessons.left_out})), token_ratio=self.token_ratio or 1.0,
            session=session_text(self.session, selected=selected, lessons=lessons) if has_session else "",
        )  # fmt: skip
        return replace(recollection, retrieved=retrieved(searches, recollection.ids))

    def remember(self, task: records.Task, attempt: records.Attempt) -> None:
        """Store an attempt with its feedback verdict."""
        own = self.buffer.by_task(task.task_id)
        episode = episode_of(task, attempt, session_id(self.run_id, task.loop_id), self.agent_id)
        self.buffer.store(episode)
        if self.files and (attempt.reflection or attempt.evaluation.passed):
            self.files.note(file_of(task, attempt, episode.session_id, self.agent_id, own))
        self.session = session_after(replace(self.session, session_id=episode.session_id), attempt)
        self.token_ratio = max(self.token_ratio, token_ratio(attempt.trajectory))

    def state(self, recollection: records.Recollection) -> records.MemoryState:
        return records.MemoryState(
            capacity=self.buffer.capacity, size=len(self.buffer), in_context=len(recollection.episodes),
            total=self.buffer.total, omega=recollection.omega,
            own=len(recollection.of_loop),
        )  # fmt: skip


SMALLEST_RATIO, SMALLEST_BEYOND_ASCII = 0.75, 0.25
"""Credible ratios are raised to this: some servers count a truncated prompt. SmolLM2's median is 0.77."""
CREDIBLE = 2 / 3
"""Share of the smallest ratio below which a count is ignored: some servers leave out cached tokens."""


def token_ratio(trajectory: records.Trajectory) -> float:
    """Prompt tokens counted by the model per estimated token; 0.0 where the count is missing or not credible.

    Tokens beyond the estimate are the chat template's, up to `OVERHEAD`, which every prompt leaves free.
    Read from the recorded call, so that a replay, which has no tokenizer, fits prompts alike.
    """
    usage = trajectory.usage
    texts = [message.content for message in trajectory.messages]
    size, ascii_size = sum(map(estimated, texts)), sum(estimated(re.sub(r"[^\0-\x7f]", "", text)) for text in texts)
    if usage.calls - usage.refused != 1 or not size:
        return 0.0
    of_ascii = min(ascii_size / size, 1.0)
    smallest = SMALLEST_RATIO * of_ascii + SMALLEST_BEYOND_ASCII * (1 - of_ascii)
    ratio = max(min(usage.prompt_tokens, size), usage.prompt_tokens - OVERHEAD) / size
    return max(ratio, smallest) if ratio >= CREDIBLE * smallest else 0.0


def with_own(selected: records.Recollection, task: records.Task) -> records.Recollection:
    """The selection with all episodes of the task, also of earlier passes and runs, among its own ones."""
    before = tuple(episode for episode in selected.others if episode.task_id == task.task_id)
    others = tuple(episode for episode in selected.others if episode.task_id != task.task_id)
    return replace(selected, others=others, own=(*before, *selected.own))


def session_id(run_id: str, loop_id: str) -> str:
    """Id of a loop, of this `Task.loop_id`, in a run."""
    return f"{run_id}/{loop_id}" if run_id else loop_id


def episode_of(task: records.Task, attempt: records.Attempt, session_id: str, agent_id: str) -> records.Episode:
    reflection, evaluation = attempt.reflection, attempt.evaluation
    metadata = {"verification_type": evaluation.verification_type, "outcome": evaluation.outcome}
    metadata |= {"errors": str(len(evaluation.failures)), "trajectory": summary_of(attempt.trajectory)}
    if attempt.recalled_wisdom:
        metadata["wisdom"] = " ".join(attempt.recalled_wisdom)
    critiques = [step.critique for step in attempt.trajectory.steps if step.critique]
    if critiques and critiques[-1].issues:  # with the submitted program
        metadata["issue"] = critiques[-1].issues[0][:CHECK_CHARS]
    total, failed = len(evaluation.checks), len(evaluation.failures)
    results = records.Results(
        total=total, passed=total - failed, failed=failed, failing=evaluation.failures,
        tests=sum(check.kind == "test" for check in evaluation.checks), components=evaluation.components,
        issues=evaluation.issues, suggestions=evaluation.suggestions,
    )  # fmt: skip
    return records.Episode(
        episode_id=f"ep-{session_id}-{attempt.number}", session_id=session_id, turn_id=str(attempt.number),
        agent_id=agent_id, task_id=task.task_id, task_description=task.prompt, attempt_number=attempt.number,
        code=attempt.trajectory.solution, test_results=evaluation.feedback, failure_analysis=signature(evaluation),
        results=results, reflection=reflection, improvement=reflection.what_to_change if reflection else "",
        confidence=reflection.confidence if reflection else 0.0, passed=evaluation.passed, reward=evaluation.reward,
        timestamp=time.time(), metadata=metadata,
    )  # fmt: skip
