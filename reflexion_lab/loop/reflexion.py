"""The Reflexion loop (Shinn et al., arXiv 2303.11366, algorithm 1): recall, act, evaluate, reflect, remember, retry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.loop.stuck import Stuck
from reflexion_lab.protocols import Actor, Evaluator, Memory, Reflector, Stop
from reflexion_lab.records import DIGITS, UNKNOWN, Attempt, Delta, Evaluation, Recollection, Task


class Reflexion:
    """One task's loop. The plain single attempt is this very loop with `max_attempts=1`.

    `stuck`: what it advises goes to the actor; whether it also ends the loop is for `stop` to say.
    `reflect_on_last`: also on the attempt that no other follows; its words serve later tasks alone.
    `reflect_on_success`: also on attempts that passed.
    `reflect_below`: only below this reward, unless the program broke in another way than by a wrong answer.
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
        """Attempts at `task` as they are made; the last one carries the reason why the loop ended.

        An exception is a broken harness; it says at which stage and attempt it came, and the attempts yielded before
        it stand.
        """
        history: list[Attempt] = []
        stop: str | None = None
        while not stop:
            number = len(history) + 1
            with stage("recalling", task, number):
                recollection = self.told(self.memory.recall(task), task, history)
            with stage("acting", task, number):
                trajectory = self.actor.act(task, recollection)
                left_out = tuple(sorted({*recollection.left_out, *trajectory.left_out}))
                trajectory = replace(trajectory, left_out=left_out)
                recollection = recollection.without(left_out)
            with stage("evaluating", task, number):
                evaluation = self.evaluator.evaluate(task, trajectory)
            attempt = Attempt(
                task_id=task.task_id,
                number=number,
                recalled=tuple(episode.episode_id for episode in recollection.episodes),
                recalled_wisdom=tuple(entry.wisdom_id for entry in recollection.wisdom),
                recalled_mistakes=tuple(mistake.mistake_id for mistake in recollection.mistakes),
                trajectory=trajectory,
                evaluation=evaluation,
                delta=delta(evaluation, history),
                memory=self.memory.state(recollection),
            )
            stop = self.stop.reached(attempt, history)
            if self.reflects_on(attempt, stop):
                # Another task's change was never tried on this one: "not enough" would be said of it in vain.
                own = [episode for episode in recollection.episodes if episode.task_id == task.task_id]
                with stage("reflecting", task, number):
                    attempt = replace(attempt, reflection=self.reflector.reflect(task, attempt, own))
                # Reflecting costs too: what it used up is not there for another attempt.
                stop = stop or self.stop.reached(attempt, history)
            attempt = replace(attempt, stop_reason=stop or "")
            self.memory.remember(task, attempt)
            history.append(attempt)
            yield attempt

    def told(self, recollection: Recollection, task: Task, history: Sequence[Attempt]) -> Recollection:
        """What the loop adds: the attempt's number; and that it is stuck, to an actor that is shown its past at all."""
        has_past = any(episode.task_id == task.task_id for episode in recollection.episodes)
        return replace(recollection, attempt=len(history) + 1, stuck=self.stuck.advice(history) if has_past else "")

    def reflects_on(self, attempt: Attempt, stop: str | None) -> bool:
        """Failures that there is feedback on; of those near a pass, the ones that broke."""
        evaluation = attempt.evaluation
        if evaluation.passed:
            return self.reflect_on_success
        is_wanted = round(evaluation.reward, DIGITS) < self.reflect_below or evaluation.outcome != "fail"
        return evaluation.outcome not in UNKNOWN and is_wanted and (self.reflect_on_last or not stop)


def delta(evaluation: Evaluation, history: Sequence[Attempt]) -> Delta:
    """What changed since the attempt before; nothing at the first."""
    if not history:
        return Delta()
    before = history[-1].evaluation
    return Delta(
        reward_change=evaluation.reward - before.reward,
        error_count_change=len(evaluation.failures) - len(before.failures),
        is_improvement=evaluation.rank > before.rank,
    )


@contextmanager
def stage(doing: str, task: Task, number: int) -> Iterator[None]:
    """Name the stage, task and attempt on whatever breaks inside."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"while {doing}: task {task.task_id}, attempt {number}")
        raise
