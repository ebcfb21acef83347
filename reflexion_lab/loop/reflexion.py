"""The Reflexion loop (Shinn et al., arXiv 2303.11366, algorithm 1): recall, act, evaluate, reflect, remember, retry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.loop.stop import Stuck
from reflexion_lab.protocols import Actor, Evaluator, Memory, Reflector, Stop
from reflexion_lab.records import DIGITS, UNKNOWN, Attempt, Delta, Episode, Evaluation, Recollection, Task, Trajectory


class Reflexion:
    """The loop of one task. A single attempt without any learning is this loop with `max_attempts=1`.

    Parameters
    ----------
    actor, evaluator, reflector, memory, stop : parts
        As of `reflexion_lab.protocols`.
    stuck : Stuck, optional
        Its advice goes to the actor; whether it also ends the loop is for `stop` to say. Default: no advice.
    reflect_on_last : bool
        Reflect also on the attempt that no other follows; its reflection serves later tasks alone. Default True.
    reflect_on_success : bool
        Reflect also on attempts that passed. Default False.
    reflect_below : float
        Reflect on failed attempts with a reward below this, in (0, 1], and on all whose program broke in another way
        than by a wrong answer. Default 1.
    """

    @validated
    def __init__(
        self,
        *,
        actor: Actor,
        evaluator: Evaluator,
        reflector: Reflector,
        memory: Memory,
        stop: Stop,
        stuck: Stuck | None = None,
        reflect_on_last: bool = True,
        reflect_on_success: bool = False,
        reflect_below: PositiveShare = 1.0,
    ) -> None:
        self.actor = actor
        self.evaluator = evaluator
        self.reflector = reflector
        self.memory = memory
        self.stop = stop
        self.stuck = stuck or Stuck(None)
        self.reflect_on_last = reflect_on_last
        self.reflect_on_success = reflect_on_success
        self.reflect_below = reflect_below

    def attempts(self, task: Task) -> Iterator[Attempt]:
        """Attempts at `task` as they are made; the last one has a stop reason.

        An exception is a broken harness: it has a note with the stage and attempt, and the attempts yielded before it
        stand. One of the reflector has the judged attempt as `judged`.
        """
        history: list[Attempt] = []
        while not history or not history[-1].stop_reason:
            number = len(history) + 1
            with stage("recalling", task, number):
                recollection = self.advised(self.memory.recall(task), task, history)
            with stage("acting", task, number):
                trajectory = self.first_draft(task, recollection) or self.actor.act(task, recollection)
            with stage("evaluating", task, number):
                evaluation = self.evaluator.evaluate(task, trajectory)
            attempt = self.attempt(task, recollection, trajectory, evaluation, history)
            stop = self.stop.reached(attempt, history)
            if self.reflects_on(attempt, stop):
                with stage("reflecting", task, number, attempt):
                    episodes = own_episodes(recollection, attempt)
                    attempt = replace(attempt, reflection=self.reflector.reflect(task, attempt, episodes))
                # Reflecting costs too: what it used up is not there for another attempt.
                stop = stop or self.stop.reached(attempt, history)
            attempt = replace(attempt, stop_reason=stop or "")
            self.memory.remember(task, attempt)
            history.append(attempt)
            yield attempt

    def first_draft(self, task: Task, recollection: Recollection) -> Trajectory | None:
        """The task's initial code as attempt 1, which reads nothing; None where it has none, and at later attempts."""
        if recollection.attempt > 1 or not task.initial_code:
            return None
        unread = tuple(sorted(recollection.ids))
        return Trajectory(
            solution=task.initial_code, strategy="given", extraction="given", left_out=unread, cached=True
        )

    def advised(self, recollection: Recollection, task: Task, history: Sequence[Attempt]) -> Recollection:
        """With the attempt's number; and with the advice of `stuck`, for an actor that is shown its past at all."""
        has_past = any(episode.task_id == task.task_id for episode in recollection.episodes)
        return replace(recollection, attempt=len(history) + 1, stuck=self.stuck.advice(history) if has_past else "")

    def attempt(
        self,
        task: Task,
        recollection: Recollection,
        trajectory: Trajectory,
        evaluation: Evaluation,
        history: Sequence[Attempt],
    ) -> Attempt:
        """The record of one attempt, before its reflection; `recalled` names what the actor's prompt had room for."""
        left_out = tuple(sorted({*recollection.left_out, *trajectory.left_out}))
        read = recollection.without(left_out)
        return Attempt(
            task_id=task.task_id,
            number=len(history) + 1,
            recalled=tuple(episode.episode_id for episode in read.episodes),
            recalled_wisdom=tuple(entry.wisdom_id for entry in read.wisdom),
            recalled_mistakes=tuple(mistake.mistake_id for mistake in read.mistakes),
            trajectory=replace(trajectory, left_out=left_out),
            evaluation=evaluation,
            delta=delta(evaluation, history),
            memory=self.memory.state(read),
        )

    def reflects_on(self, attempt: Attempt, stop: str | None) -> bool:
        """Failures with feedback; of those with a reward of `reflect_below` or more, the ones that broke."""
        evaluation = attempt.evaluation
        if evaluation.passed:
            return self.reflect_on_success
        is_wanted = round(evaluation.reward, DIGITS) < self.reflect_below or evaluation.outcome != "fail"
        return evaluation.outcome not in UNKNOWN and is_wanted and (self.reflect_on_last or not stop)


def own_episodes(recollection: Recollection, attempt: Attempt) -> list[Episode]:
    """Those of this task that the actor read: another task's change was never tried on this one."""
    return [
        episode
        for episode in recollection.episodes
        if episode.task_id == attempt.task_id and episode.episode_id in attempt.recalled
    ]


def delta(evaluation: Evaluation, history: Sequence[Attempt]) -> Delta:
    """The change since the attempt before; zeros at the first."""
    if not history:
        return Delta()
    before = history[-1].evaluation
    return Delta(
        reward_change=evaluation.reward - before.reward,
        error_count_change=len(evaluation.failures) - len(before.failures),
        is_improvement=evaluation.rank > before.rank,
    )


@contextmanager
def stage(doing: str, task: Task, number: int, judged: Attempt | None = None) -> Iterator[None]:
    """Add stage, task and attempt as a note, and the `judged` attempt, to an exception that is raised inside."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"while {doing}: task {task.task_id}, attempt {number}")
        problem.__dict__["judged"] = judged
        raise
