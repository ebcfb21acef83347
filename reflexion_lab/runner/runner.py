"""The runner: loops over the tasks in a thread pool, records in a run folder, hidden grades after the loops."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import length_hint
from typing import TypeVar

from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.errors import ConfigError, FolderError, Unanswered
from reflexion_lab.io.terminal import Progress, ended
from reflexion_lab.loop.selection import best_of, submitted_at
from reflexion_lab.memory.archive import Rounds
from reflexion_lab.protocols import Loop, SuiteWriter
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder.folder import RunFolder, is_finished, write_digests
from reflexion_lab.runner.folder.manifest import changes
from reflexion_lab.runner.folder.tidy import DROPPED, take_out, tidy, unanswered
from reflexion_lab.runner.silence import FirstReplies
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.shorten import number_of

T = TypeVar("T")

PATIENCE = 2
"""Consecutive failures, beyond one per worker, after which the model counts as down."""


class Runner:
    """One run, or the rest of an interrupted one. Raises ConfigError: `self_tests` without a `suite_writer`.

    `tasks`: complete; only the judge sees their hidden tests. `loop` makes one task's loop, with a memory of its own.
    `folder` receives every record: tasks with a result are not run again; an interrupted task restarts, and its
    finished model calls come from the call cache. `feedback_source`: tests that drive the loops; see `teach`.
    `workers`: tasks at once. `suite_writer` makes the test writer of one task; tests in the folder are reused.
    `resumption`: the environment of a resumed run. `rounds`: when memory shared across tasks is updated; None: tasks
    share nothing and form one round. `held_out`: ids of the tasks that a split holds out, and `part` their name in
    results, `test` or `validation`. `spent`: spending of uncached calls, for the progress line. `silent_replies`:
    number of first attempts with silent replies alone after which the run stops (`FirstReplies`); None: it goes on.
    `continued`: those attempts of an interrupted loop after which it continues; None: it restarts. `is_unscored_only`:
    run again only the tasks that server or sandbox failed, and grade again what that spoilt.
    """

    def __init__(
        self,
        *,
        tasks: Iterable[records.Task],
        loop: Callable[[], Loop],
        judge: HiddenTests,
        folder: RunFolder,
        feedback_source: records.FeedbackSource,
        workers: int,
        quiet: bool = False,
        suite_writer: Callable[[], SuiteWriter] | None = None,
        rounds: Rounds | None = None,
        held_out: frozenset[str] = frozenset(),
        part: str = "test",
        spent: Callable[[], records.Usage] = records.Usage,
        resumption: records.Resumption | None = None,
        silent_replies: int | None = None,
        continued: Callable[[list[records.Attempt]], Iterable[records.Attempt]] | None = None,
        is_unscored_only: bool = False,
    ) -> None:
        if feedback_source == "self_tests" and suite_writer is None:
            raise ConfigError(
                "feedback_source", "self_tests without a suite_writer", "suite_writer=chat or suite_writer=continuation"
            )
        self.tasks = {task.loop_id: task for task in tasks}
        self.loop = loop
        self.judge = judge
        self.folder = folder
        self.feedback_source = feedback_source
        self.workers = workers
        self.suite_writer = suite_writer
        self.rounds = rounds
        self.held_out = held_out
        self.part = part
        self.set_aside = SetAsideTasks(folder, limit=workers + PATIENCE)
        self.quiet = quiet
        self.spent = spent
        self.resumption = resumption
        self.first_replies = FirstReplies([*self.tasks], silent_replies, folder)
        self.continued = continued
        self.is_unscored_only = is_unscored_only
        self._begun: dict[str, list[records.Attempt]] = {}  # of loops without a result
        self._cancelled = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Run all remaining tasks, seal the judge, then grade all other attempts and the written tests.

        A task whose model gave no answer is repeated after the others. Any other exception, or an interrupt, stops the
        run and is raised once everything finished has been written. Raises Unanswered: the model did not answer for
        some tasks, or is down; FolderError: another process is writing into the folder.
        """
        with self.folder.held():
            self._read()  # under the lock: another process may have written until now
            self._run()

    def _read(self) -> None:
        """Read the remaining tasks of an interrupted run."""
        again = self._take_out_unscored() if self.is_unscored_only else self.tasks.keys()
        results = self.folder.results
        self.waiting = {task_id for task_id in again if task_id not in results}
        if self.continued and not self.is_unscored_only:
            for attempt in self.folder.each_attempt():
                if attempt.task_id in self.waiting:
                    self._begun.setdefault(attempt.task_id, []).append(attempt)
        if self.waiting or not is_finished(self.folder):
            rounds = self.rounds.of(list(self.tasks.values())) if self.rounds else []
            is_left = (any(task.loop_id in self.waiting for task in tasks) for tasks in rounds)
            tidy(self.folder, next((n for n, is_incomplete in enumerate(is_left) if is_incomplete), None))
        if others := sorted(results.keys() - self.tasks.keys()):
            got = f"results of {len(others)} other tasks, such as {others[0]}"
            raise FolderError(self.folder.path, got, f"of the {len(self.tasks)} tasks of this run alone")
        if self.rounds:
            self.rounds.resume(self.folder.updates, is_over=not self.waiting and is_finished(self.folder))
        self.attempts = self.folder.stored_attempts if results else {}
        grades, written = self.folder.grades, self.folder.written_tests
        self.suites = {task_id: tests for task_id, tests in written.items() if task_id in self.tasks}
        self.ungraded = [r for r in results.values() if (r.task_id, r.submitted) not in grades]
        submitted = [grades[r.task_id, r.submitted] for r in results.values() if (r.task_id, r.submitted) in grades]
        self.judge.resume(grade.task_id for grade in grades.values() if not grade.sealed)
        passed = sum(grade.passed for grade in submitted)
        self.progress = Progress(len(self.tasks), len(submitted), passed, self.quiet, self.spent)

    def _take_out_unscored(self) -> set[str]:
        """Take out what server or sandbox spoilt; returns the tasks whose loops run again. Raises ConfigError."""
        again = unanswered(self.folder)
        if self.rounds and (again or len(self.folder.results) < len(self.tasks)):
            expected = "resume alone, or a new run: later tasks have read what these had learnt"
            raise ConfigError("only", "unscored with memory across tasks", expected)
        take_out(self.folder, again)
        where = self.folder.path / DROPPED
        print(f"only=unscored: {number_of(len(again), 'task')} asked again; earlier lines in {where}", file=sys.stderr)
        return again

    def _run(self) -> None:
        try:
            self._complete_resumed()
            self.first_replies.stored = self.attempts
            self.first_replies.check()
            tasks = list(self.tasks.values())
            for of_round in self.rounds.of(tasks) if self.rounds else [tasks]:
                self._round([task for task in of_round if task.loop_id in self.waiting])
                if self.rounds:
                    for task in of_round:
                        if task.loop_id not in self.waiting:  # finished before the run was resumed
                            self.rounds.finished(task, self.attempts[task.loop_id])
                    self.rounds.end(of_round)
            if self.is_unscored_only and self.folder.results.keys() != self.tasks.keys():
                return  # the others have yet to run
            self.judge.seal()
            graded, every = self.folder.graded, self.folder.each_attempt()
            self._each(self._grade, (a for a in every if (a.task_id, a.number) not in graded))
            self._each(self._judge_suite, self._unjudged_suites())
            self.folder.sync()
            write_digests(self.folder)
        finally:
            self._is_over = True
            self.progress.close()
            self.folder.sync()
            self.folder.close()

    def _complete_resumed(self) -> None:
        """Complete the finished tasks of a resumed run: their missing grades."""
        if self.resumption and (self.waiting or not is_finished(self.folder)):
            if changed := ", ".join(changes(self.folder.manifest, self.resumption)):
                print(f"warning: {self.folder.path} is resumed with changes: {changed}", file=sys.stderr)
            self.folder.append("resumptions.jsonl", self.resumption)
        for result in self.ungraded:
            self.progress.task(self._grade(self.attempts[result.task_id][result.submitted - 1]))

    def _round(self, tasks: list[records.Task]) -> None:
        """Run the loop of each task; repeat unanswered tasks once, after the others."""
        self._each(self._task, tasks)
        self._each(self._task, self.set_aside.ready())
        self.set_aside.check()

    def _each(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Call `work` on every item; items are drawn lazily, when a worker is free."""
        remaining, lock = iter(items), threading.Lock()

        def next_item() -> T | None:
            with lock:
                return None if self._cancelled.is_set() else next(remaining, None)

        def work_on_items() -> None:
            while (item := next_item()) is not None:
                work(item)

        workers = min(self.workers, max(1, length_hint(items, self.workers)))  # a model may have 64 slots
        pool = ThreadPoolExecutor(workers, thread_name_prefix="task")
        futures = [pool.submit(work_on_items) for _ in range(workers)]
        try:
            for future in ended(futures):
                future.result()
        except BaseException as problem:
            self._cancelled.set()
            if isinstance(problem, KeyboardInterrupt):
                print("stopping when the attempts under way have ended; Ctrl-C stops at once", file=sys.stderr)
            raise
        finally:
            for _ in ended(futures):
                pass
            pool.shutdown()

    def _task(self, task: records.Task) -> None:
        try:
            self._run_loop(task)
        except Unanswered as problem:
            self.set_aside.add(task, problem)
            self.first_replies.check(set_aside=task.loop_id)
        except Exception as problem:
            if getattr(problem, "judged", None):  # a failing reflector must not lose the verdict
                self.set_aside.note(task, problem, "reflector_error")
            raise

    def _run_loop(self, task: records.Task) -> None:
        start = time.monotonic()
        attempts: list[records.Attempt] = []
        earlier = self.continued(self._begun.get(task.loop_id, [])) if self.continued else ()
        self._begun[task.loop_id] = attempts
        for attempt in self.loop().attempts(teach(task, self.feedback_source, self._suite(task)), earlier):
            if self._is_over:  # after a second interrupt in a notebook, another process may own the folder
                return
            self.folder.append("attempts.jsonl", attempt)
            self.progress.attempt()
            if not attempt.trajectory.cached:  # a cached reply does not show that the server is up
                self.set_aside.reset_failures()
            attempts.append(attempt)
            self.first_replies.check(attempt)
            if self._cancelled.is_set() and not attempt.stop_reason:
                return
        del self._begun[task.loop_id]
        split = (self.part if task.loop_id in self.held_out else "train") if self.held_out else ""
        result = result_of(task, attempts, self.feedback_source, time.monotonic() - start, split)
        self.folder.append("results.jsonl", result)
        self.folder.sync()
        if self.rounds:
            self.rounds.finished(task, attempts)
        self.progress.task(self._grade(attempts[result.submitted - 1]))

    def _suite(self, task: records.Task) -> tuple[str, ...]:
        """Tests written by the model for `task`, once per run; () unless they are the feedback."""
        if self.suite_writer is None or self.feedback_source != "self_tests":
            return ()
        if task.loop_id not in self.suites:
            try:
                written = self.suite_writer().write(task.public)
            except Exception as problem:
                problem.add_note(f"while writing tests: task {task.loop_id}")
                raise
            self.folder.append("written_tests.jsonl", written)
            self.suites[task.loop_id] = written
        return self.suites[task.loop_id].tests

    def _grade(self, attempt: records.Attempt) -> records.Grade:
        """Record the hidden verdict on an attempt. Loops never see it; curves need those that were not submitted."""
        grade = self.judge.grade(self.tasks[attempt.task_id], attempt.number, attempt.trajectory.solution)
        self.folder.append("grades.jsonl", grade)
        return grade

    def _judge_suite(self, written: records.WrittenTests) -> None:
        """Run the canonical solution against each written test separately, since a test may hang."""
        task = self.tasks[written.task_id]
        runs = [run_tests(self.judge.sandbox, task, task.canonical_program, (test,)) for test in written.tests]
        checks = tuple(check for run in runs for check in run.checks)
        self.folder.append("suite_verdicts.jsonl", records.SuiteVerdict(task_id=task.loop_id, checks=checks))

    def _unjudged_suites(self) -> list[records.WrittenTests]:
        judged = self.folder.suite_verdicts
        waiting = (written for task_id, written in self.suites.items() if task_id not in judged)
        return [w for w in waiting if w.tests and self.tasks[w.task_id].canonical_solution.strip()]


def result_of(
    task: records.Task, attempts: Sequence[records.Attempt], feedback_source: str, seconds: float, split: str = ""
) -> records.TaskResult:
    """The end of a loop, of these `attempts` at `task`."""
    return records.TaskResult(
        task_id=task.loop_id,
        attempts=len(attempts),
        submitted=submitted_at(attempts).number,
        best=best_of(attempts).number,
        last=attempts[-1].number,
        stop_reason=attempts[-1].stop_reason,
        feedback_source=feedback_source,
        duration=round(seconds, 6),
        cluster=task.cluster_id,
        released=task.released,
        split=split,
    )


def teach(task: records.Task, feedback_source: str, written: tuple[str, ...] = ()) -> records.Task:
    """The task as the loop sees it. `written`: tests written by the model.

    Only `oracle` turns hidden tests into feedback.
    """
    tests = {"visible": task.visible_tests, "self_tests": written, "oracle": task.hidden_tests, "none": ()}
    return replace(task.public, visible_tests=tests[feedback_source])


class SetAsideTasks:
    """Tasks that are set aside, each with a line in the run folder's `set_aside.jsonl`. Thread-safe.

    `limit`: consecutive failures, without an answered task between them, after which the run stops; it stops after
    `PATIENCE` if the server refuses all prompts.
    """

    def __init__(self, folder: RunFolder, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._tasks: dict[str, tuple[records.Task, Unanswered]] = {}
        self._failures = 0
        self._lock = threading.Lock()

    def add(self, task: records.Task, problem: Unanswered) -> None:
        """Set `task` aside.

        Raises Unanswered: `problem` is lasting, or more than `limit` consecutive tasks had no answer.
        """
        text = self.note(task, problem, problem.outcome)
        with self._lock:
            self._tasks[task.loop_id] = task, problem
            self._failures += 1
            if problem.is_lasting:
                raise problem
            if self._failures > (self.limit if problem.outcome != "refused" else PATIENCE):
                many = f"{self._failures} loops in a row had no answer, so the run stops. The last: "
                raise Unanswered(many + text, problem.outcome)

    def note(self, task: records.Task, problem: Exception, outcome: str) -> str:
        """Record the exception that ended the loop of `task`; return it in one line."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text, judged = one_line(problem), getattr(problem, "judged", None)
        self.folder.append(
            "set_aside.jsonl",
            records.SetAside(task_id=task.loop_id, outcome=outcome, problem=text, at=now, judged=judged),
        )
        return text

    def reset_failures(self) -> None:
        """Reset the count of consecutive failures after an answered task."""
        with self._lock:
            self._failures = 0

    def ready(self) -> list[records.Task]:
        """Return the tasks in the order in which they were set aside, and clear the list."""
        with self._lock:
            tasks = [task for task, _ in self._tasks.values()]
            self._tasks.clear()
            self._failures = 0
            return tasks

    def check(self) -> None:
        """Raises Unanswered: tasks are still set aside."""
        with self._lock:
            problems = [problem for _, problem in self._tasks.values()]
        if problems:
            counts = Counter(problem.outcome for problem in problems)
            named = ", ".join(f"{name} {n}" for name, n in counts.items())
            many = f"{number_of(len(problems), 'task')} got no answer in two tries"
            summary = f"{many} ({named}); the others finished. First error: "
            raise Unanswered(summary + one_line(problems[0]), problems[0].outcome)
