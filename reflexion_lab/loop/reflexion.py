"""The Reflexion loop (Shinn et al., arXiv 2303.11366, algorithm 1): recall, act, evaluate, reflect, remember, retry."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.loop.policy import Chain, path_to
from reflexion_lab.loop.selection import Solution, submitted_at
from reflexion_lab.loop.stop import Stuck
from reflexion_lab.protocols import Actor, Evaluator, Memory, Policy, Reflector, Stop
from reflexion_lab.records import DIGITS, Attempt, Delta, Evaluation, Recollection, Task, Trajectory


class Reflexion:
    """The loop of one task. With `max_attempts=1` it is a single attempt without learning.

    `actor`, `evaluator`, `reflector`, `memory`, `stop`: implementations of `reflexion_lab.protocols`. `policy`: which
    attempt the next one continues; default: the last. `stuck`: advice to the actor when attempts repeat; `stop` decides
    whether repetition also ends the loop. Default: none.
    `reflect_on_last`: also reflect on the last attempt, for later tasks. Default True. `reflect_on_success`: also
    reflect on attempts that passed. Default False. `reflect_below`: reflect on failed attempts with a reward below
    this, in (0, 1], and on all that did not merely give a wrong answer (error, timeout, no program). Default 1.
    `reflect_unjudged`: also reflect on attempts without a feedback verdict. Default False.
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
        policy: Policy | None = None,
        stuck: Stuck | None = None,
        reflect_on_last: bool = True,
        reflect_on_success: bool = False,
        reflect_below: PositiveShare = 1.0,
        reflect_unjudged: bool = False,
    ) -> None:
        self.actor = actor
        self.evaluator = evaluator
        self.reflector = reflector
        self.memory = memory
        self.stop = stop
        self.policy = policy or Chain()
        self.stuck = stuck or Stuck(None)
        self.reflect_on_last = reflect_on_last
        self.reflect_on_success = reflect_on_success
        self.reflect_below = reflect_below
        self.reflect_unjudged = reflect_unjudged

    def attempts(self, task: Task, earlier: Iterable[Attempt] = ()) -> Iterator[Attempt]:
        """Yield the attempts at `task`, first the `earlier` ones of an interrupted loop; the last has a stop reason.

        An attempt is yielded, and so written to disk, before memory stores it, which happens when the iterator is
        advanced. An exception is a failure of the harness: its note names stage and attempt, and all attempts yielded
        before it stand. An exception of the reflector carries the evaluated attempt as `judged`.
        """
        history: list[Attempt] = []
        for attempt in earlier:
            yield attempt
            self.memory.remember(task, attempt)
            history.append(attempt)
        while not history or not history[-1].stop_reason:
            path = path_to(self.policy.parent(history) or 0, history)
            recollection = self.recall(task, path, len(history) + 1)
            trajectory = self.act(task, recollection)
            evaluation = self.evaluate(task, recollection, trajectory)
            attempt = self.record(task, recollection, trajectory, evaluation, path)
            attempt = self.reflect(task, recollection, attempt, history)
            yield attempt
            self.memory.remember(task, attempt)
            history.append(attempt)

    def solve(self, task: Task) -> Solution:
        """Run the loop and sum up its attempts. Raises what `attempts` raises."""
        start = time.monotonic()
        attempts = tuple(self.attempts(task))
        return self.solution(task, attempts, time.monotonic() - start)

    def solution(self, task: Task, attempts: Sequence[Attempt], seconds: float) -> Solution:
        """The sum of the `attempts` of a loop that has ended."""
        best = submitted_at(attempts)
        of_task = [each for each in getattr(self.memory, "buffer", ()) if each.task_id == task.task_id]
        return Solution(
            output=best.trajectory.solution,
            passed=best.evaluation.passed,
            tests=best.evaluation.checks,
            confidence=best.evaluation.pass_rate,
            attempts=tuple(attempts),
            reflections=tuple(attempt.reflection for attempt in attempts if attempt.reflection),
            episodes=tuple(of_task),
            seconds=seconds,
            stop_reason=attempts[-1].stop_reason,
            session=of_task[-1].session_id if of_task else "",
        )

    def recall(self, task: Task, path: Sequence[Attempt], number: int) -> Recollection:
        """Memory of attempt `number` after `path`, with advice of `stuck` if the actor reads any of the loop's past."""
        with stage("recalling", task, number):
            recollection = self.memory.recall(task, path)
            stuck = self.stuck.advice(path, task.kind) if recollection.of_loop else ""
            return replace(recollection, attempt=number, stuck=stuck)

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """The actor's program; of attempt 1 any initial code of the task, reading nothing unless drafts are revised."""
        if recollection.attempt == 1 and task.initial_code and not getattr(self.actor, "revises", False):
            unread = tuple(sorted(recollection.ids))
            return Trajectory(
                solution=task.initial_code, strategy="given", extraction="given", left_out=unread, cached=True
            )
        with stage("acting", task, recollection.attempt):
            return self.actor.act(task, recollection)

    def evaluate(self, task: Task, recollection: Recollection, trajectory: Trajectory) -> Evaluation:
        with stage("evaluating", task, recollection.attempt):
            return self.evaluator.evaluate(task, trajectory)

    def record(
        self,
        task: Task,
        recollection: Recollection,
        trajectory: Trajectory,
        evaluation: Evaluation,
        path: Sequence[Attempt],
    ) -> Attempt:
        """An attempt before its reflection, a child of `path[-1]`; `recalled` names the items that fit the prompt."""
        left_out = tuple(sorted({*recollection.left_out, *trajectory.left_out}))
        read = recollection.without(left_out)
        return Attempt(
            task_id=task.loop_id,
            number=recollection.attempt,
            parent=path[-1].number if path else 0,
            recalled=tuple(episode.episode_id for episode in read.episodes),
            recalled_wisdom=tuple(entry.wisdom_id for entry in read.wisdom),
            recalled_mistakes=tuple(mistake.mistake_id for mistake in read.mistakes),
            recalled_items=tuple(item.item_id for item in read.items),
            recalled_insights=read.further_insights,
            retrieved=read.retrieved,
            written_items=recollection.written_items,
            selection_usage=recollection.selection_usage,
            trajectory=replace(trajectory, left_out=left_out),
            evaluation=evaluation,
            delta=delta(evaluation, path),
            memory=self.memory.state(read),
        )

    def reflect(self, task: Task, recollection: Recollection, attempt: Attempt, history: Sequence[Attempt]) -> Attempt:
        """The attempt with its stop reason and, if the loop reflects on it, its reflection."""
        stop = self.stop.reached(attempt, history)
        if not stop and self.policy.parent((*history, attempt)) is None:
            stop = "tree_complete"
        if self.reflects_on(attempt, stop):
            failed = [each for each in recollection.of_loop if not each.passed]  # their changes were not enough
            episodes = [each for each in failed if each.episode_id in attempt.recalled]
            with stage("reflecting", task, attempt.number, attempt):
                attempt = replace(attempt, reflection=self.reflector.reflect(task, attempt, episodes))
            stop = stop or self.stop.reached(attempt, history)  # the reflection used some of the budget
        return replace(attempt, stop_reason=stop or "")

    def reflects_on(self, attempt: Attempt, stop: str | None) -> bool:
        """Whether to reflect: on failures with feedback and a reward below `reflect_below`, or that broke."""
        evaluation = attempt.evaluation
        if evaluation.passed:
            return self.reflect_on_success
        is_wanted = round(evaluation.reward, DIGITS) < self.reflect_below or evaluation.outcome != "fail"
        is_read = self.reflect_on_last or (not stop and self.policy.continues(attempt))
        return (evaluation.has_verdict or self.reflect_unjudged) and is_wanted and is_read


def delta(evaluation: Evaluation, path: Sequence[Attempt]) -> Delta:
    """The change since the last attempt of `path`; zeros for a fresh draw."""
    if not path:
        return Delta()
    before = path[-1].evaluation
    return Delta(
        reward_change=evaluation.reward - before.reward,
        error_count_change=len(evaluation.failures) - len(before.failures),
        is_improvement=evaluation.rank > before.rank,
    )


@contextmanager
def stage(doing: str, task: Task, number: int, judged: Attempt | None = None) -> Iterator[None]:
    """Add stage, task and attempt as a note, and the `judged` attempt, to an exception raised inside."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"while {doing}: task {task.loop_id}, attempt {number}")
        problem.__dict__["judged"] = judged
        raise
