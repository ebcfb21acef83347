"""The records of a run folder, the input of the analysis."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.analysis.stats.clusters import merged
from reflexion_lab.analysis.stats.estimators import Point, curve
from reflexion_lab.errors import FolderError
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.loop.selection import submitted_at, unscored, without_verdict
from reflexion_lab.memory.curators.history import Timeline
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import BY_HAND, RunFolder
from reflexion_lab.runner.folder.tidy import misfit

_CURRENCY = re.compile(r"[^\s/]+/\S+ (\S+) per million")


class Log(records.Record, frozen=True, kw_only=True, dict=True):
    """A run folder, read once: the tasks whose loops have ended, in the order of their ends."""

    manifest: records.Manifest
    results: dict[str, records.TaskResult]
    attempts: Mapping[str, list[records.Attempt]]
    grades: dict[tuple[str, int], records.Grade]
    written: dict[str, records.WrittenTests]
    """Tests that the model wrote, by task; empty unless they were the feedback."""
    suite_verdicts: dict[str, records.SuiteVerdict]
    clusters: dict[str, str]
    """Cluster by task (`Task.cluster`), without tasks that stand alone."""
    updates: tuple[records.Update, ...] = ()
    """Calls of the curator, in order."""
    beginning: records.Beginning | None = None
    """Content of memory at the start of the run; None if tasks do not share memory."""
    began: tuple[tuple[str, str], ...] = ()
    """Of a run from a file of cases, its `comparison.beginnings.facts`."""
    set_aside: tuple[records.SetAside, ...] = ()
    """Loops that were aborted and restarted because the model did not answer."""
    resumptions: tuple[records.Resumption, ...] = ()
    """Resumptions of the run after interruptions."""
    deviations: tuple[str, ...] = ()
    """Deviations of the run from its registered study."""
    torn: int
    """Half-written lines, which are skipped."""
    shard_ids: tuple[str, ...] = ()
    """Ids of the runs over shards of the benchmark that are pooled in it; empty for a run of its own."""
    n_shards: int = 0
    unfinished: tuple[str, ...] = ()
    """Folders of the pooled runs that lack tasks or hidden verdicts."""

    @classmethod
    def read(cls, run: RunFolder, texts: bool | Literal["digests", "on demand"] = True) -> Log:
        """Read a run folder.

        `texts`: False drops prompts, replies and other texts that no figure of a run uses, and takes a quarter of the
        memory. "digests", for comparisons, keeps the prompts of first attempts, and digests of other prompts and of
        replies. Where a user has metrics or figures, which may read any text, all are kept. "on demand" holds no
        attempt: those of a task are read whenever it is asked for. Raises FolderError: a file cannot be read, or a
        result does not fit its attempts.
        """
        fresh = RunFolder(run.path)  # counts torn lines from 0
        results, stored = fresh.results, fresh.stored_attempts
        for task_id, result in sorted(results.items()):
            if problem := misfit(result, list(stored.lines.get(task_id, ()))):
                expected = "both as the run wrote them"
                raise FolderError(run.path / "results.jsonl", problem, expected, BY_HAND)
        written, manifest = fresh.written_tests, fresh.manifest
        clusters = {task_id: result.cluster or task_id for task_id, result in results.items()}
        log = cls(
            manifest=manifest,
            results=results,
            attempts=stored,
            grades=fresh.grades,
            written={task_id: written[task_id] for task_id in results if task_id in written},
            suite_verdicts=fresh.suite_verdicts,
            clusters=merged(clusters),
            updates=tuple(fresh.updates),
            beginning=fresh.beginning,
            set_aside=tuple(fresh.set_aside),
            resumptions=tuple(fresh.resumptions),
            deviations=tuple(registration.deviations_of(fresh.path, fresh.manifest)),
            torn=fresh.torn,
        )
        return log if texts == "on demand" else log.held(texts)

    def held(self, texts: bool | Literal["digests"]) -> Log:
        """Of a log that was read on demand, the one with all attempts; `texts`: as of `read`."""
        ended = ((task_id, self.attempts[task_id]) for task_id in self.results)
        from reflexion_lab.analysis.metrics import all_built_in

        if texts is True or not all_built_in():
            return replace(self, attempts=dict(ended))
        return replace(self, attempts=_bare((each for _, loop in ended for each in loop), texts == "digests"))

    @property
    def by_task(self) -> Log:
        """The same log with sorted tasks: the order changes the last digit of sums of seconds and cost."""
        attempts, results, written = (dict(sorted(d.items())) for d in (self.attempts, self.results, self.written))
        return replace(self, attempts=attempts, results=results, written=written)

    @property
    def train(self) -> Log:
        """The log of the train tasks of a split alone."""
        return self._part(True)

    def _part(self, is_train: bool) -> Log:
        """The log of the train tasks, or of those held out."""
        results = {name: result for name, result in self.results.items() if (result.split == "train") == is_train}
        others = len(self.results) - len(results)
        return replace(
            self,
            manifest=replace(self.manifest, n_expected=self.manifest.n_expected - others),
            results=results,
            attempts={task_id: self.attempts[task_id] for task_id in results},
            grades={case: grade for case, grade in self.grades.items() if case[0] in results},
            written={task_id: written for task_id, written in self.written.items() if task_id in results},
            suite_verdicts={task_id: v for task_id, v in self.suite_verdicts.items() if task_id in results},
        )

    @cached_property
    def headline(self) -> Log:
        """The tasks that rates are computed on: those that a split holds out; without a split, all tasks."""
        return self._part(False) if any(result.split for result in self.results.values()) else self

    @property
    def run_ids(self) -> tuple[str, ...]:
        return self.shard_ids or (self.manifest.run_id,)

    @property
    def shards(self) -> str:
        """`3 of 4 shards`; "" for a run of its own."""
        return f"{len(self.shard_ids)} of {self.n_shards} shards" if self.shard_ids else ""

    @property
    def lacks_shards(self) -> bool:
        return len(self.shard_ids) < self.n_shards

    def is_own(self, episode_id: str, task_id: str) -> bool:
        """Whether the id names an attempt of the run's own loop at the task. Ids in memory of a loop lack a run id."""
        loops = {f"ep-{task_id}", *(f"ep-{run_id}/{task_id}" for run_id in self.run_ids)}
        return episode_id.rpartition("-")[0] in loops

    @property
    def arm(self) -> str:
        """Name of the method; runs with the same name form an arm."""
        return str(self.manifest.config.get("arm", "run"))

    @cached_property
    def rounds(self) -> dict[str, int]:
        """Round of shared memory by task, 0-based: as the curator's calls name it, else by the order of the results;
        for held-out tasks, memory is that of the end.
        """
        memory = self.manifest.config.get("memory")
        shared = memory.get("shared") if isinstance(memory, Mapping) else None
        size = int(shared.get("round_size", 0)) if isinstance(shared, Mapping) else 0
        learnt = [task_id for task_id, result in self.results.items() if result.split in ("", "train")]
        ordered = {task_id: place // size for place, task_id in enumerate(learnt)} if size else {}
        frozen = dict.fromkeys(self.results.keys() - learnt, len(learnt))  # beyond the last round
        return frozen | ordered | {task_id: update.round for update in self.updates for task_id in update.task_ids}

    @cached_property
    def timeline(self) -> Timeline:
        """The curator's items over the rounds. Raises DataError: as of `Timeline`."""
        return Timeline(self.beginning.items if self.beginning else (), self.updates)

    @property
    def study(self) -> str:
        """Name of the registered study to which the run belongs; "" if it is exploratory."""
        return "" if self.deviations else self.manifest.study

    @property
    def max_attempts(self) -> int | None:
        """Attempts that the config allows a loop, with those that progress earns it; None if it does not say."""
        loop = self.manifest.config.get("loop")
        if not isinstance(loop, Mapping) or "max_attempts" not in loop:
            return None
        return int(loop["max_attempts"]) + int(loop.get("extra_attempts", 0))

    @property
    def currencies(self) -> tuple[str, ...]:
        """Sorted currencies of the price lists in its manifest."""
        matches = (_CURRENCY.match(price) for price in self.manifest.prices.values())
        return tuple(sorted({match[1] for match in matches if match}))

    @property
    def is_upper_bound(self) -> bool:
        """Whether hidden tests or solutions reached its loops, so that its shares are not pass@1."""
        return self.manifest.is_upper_bound

    def task_named(self, name: str) -> str:
        """The id of the task that `name` is, or is a part of between slashes that no other task has.

        Raises FolderError: no ended loop of such a task, or several.
        """
        ids, part = list(self.attempts), name.strip("/")
        fits = [task_id for task_id in ids if part and f"/{part}/" in f"/{task_id}/"]
        if name in ids or len(fits) == 1:
            return name if name in ids else fits[0]
        near = fits[:3] or get_close_matches(name[:200], ids, cutoff=0.4) or ids[:1] or ["none yet"]
        got = f"no ended loop of task {name!r:.200}"
        raise FolderError(self.manifest.run_id, got, f"one of the run's tasks, such as {plain(' or '.join(near))}")

    @cached_property
    def every(self) -> list[records.Attempt]:
        return [attempt for attempts in self.attempts.values() for attempt in attempts]

    @cached_property
    def grades_by_task(self) -> dict[str, dict[int, records.Grade]]:
        """Hidden verdicts by task, then by attempt number."""
        by_task: dict[str, dict[int, records.Grade]] = {}
        for (task_id, number), grade in self.grades.items():
            by_task.setdefault(task_id, {})[number] = grade
        return by_task

    @cached_property
    def submitted(self) -> dict[str, tuple[records.Attempt, records.Grade]]:
        """By task, the submitted attempt and its hidden verdict, for submissions with one."""
        submitted = ((task_id, submitted_at(attempts)) for task_id, attempts in self.attempts.items())
        return {
            task_id: (attempt, self.grades[task_id, attempt.number])
            for task_id, attempt in submitted
            if (task_id, attempt.number) in self.grades
        }

    @cached_property
    def no_verdict(self) -> tuple[str, ...]:
        """Sorted tasks without a hidden verdict; no rate counts them."""
        return tuple(sorted(without_verdict(self.every, self.grades.values()) & self.attempts.keys()))

    @cached_property
    def unscored(self) -> tuple[str, ...]:
        """Those of `no_verdict` that the sandbox or the server spoilt."""
        return tuple(sorted(unscored(self.every, self.grades.values()) & self.attempts.keys()))

    @cached_property
    def is_graded(self) -> bool:
        """Whether every attempt has a hidden verdict; in an interrupted run only submissions have."""
        return all((attempt.task_id, attempt.number) in self.grades for attempt in self.every)

    @property
    def sealed_grades(self) -> dict[tuple[str, int], records.Grade]:
        """The grades; empty until `is_graded`."""
        return self.grades if self.is_graded else {}

    @cached_property
    def points(self) -> list[Point]:
        """The convergence curve, up to the longest loop; empty until `is_graded`."""
        return self.curve(max((len(attempts) for attempts in self.headline.attempts.values()), default=0))

    @cached_property
    def overhead(self) -> dict[str, records.Usage]:
        """Spending outside attempts, by task: tests that the model wrote, and curator calls, under their last task."""
        usages = {task_id: written.usage for task_id, written in self.written.items()}
        for update in self.updates:
            if (task_id := update.task_ids[-1]) in self.attempts:
                usages[task_id] = usages.get(task_id, records.Usage()) + update.usage
        return usages

    def curve(self, n_attempts: int) -> list[Point]:
        """The convergence curve up to `n_attempts`; empty until `is_graded`, and without a task that has a verdict."""
        log = self.headline
        before = sum(usage.tokens for usage in log.overhead.values())
        is_ready = log.attempts and self.is_graded
        return curve(log.attempts, log.grades, n_attempts, before, self.clusters) if is_ready else []

    @cached_property
    def judged(self) -> list[tuple[records.Attempt, records.Grade]]:
        """Every attempt with its hidden verdict; empty until `is_graded`."""
        return [(a, self.grades[a.task_id, a.number]) for a in self.every] if self.is_graded else []


def _bare(every: Iterable[records.Attempt], has_digests: bool) -> dict[str, list[records.Attempt]]:
    """Attempts by task without long texts; equal checks share one object."""
    by_task: dict[str, list[records.Attempt]] = {}
    known: dict[records.Check, records.Check] = {}
    for attempt in every:
        work, verdict, words = attempt.trajectory, attempt.evaluation, attempt.reflection
        checks = tuple(known.setdefault(check, check) for check in verdict.checks)
        steps = tuple(replace(step, messages=(), reply="", observation="", program="") for step in work.steps)
        messages, reply = _digested(attempt) if has_digests else ((), "")
        bare = replace(
            attempt,
            retrieved=tuple(replace(item, query="", text="") for item in attempt.retrieved),
            trajectory=replace(work, messages=messages, reply=reply, rationale="", steps=steps),
            evaluation=replace(verdict, checks=checks, feedback="", output=""),
            reflection=replace(words, text="") if words and words.root_cause else words,
        )
        by_task.setdefault(attempt.task_id, []).append(bare)
    return by_task


def _digested(attempt: records.Attempt) -> tuple[tuple[records.Message, ...], str]:
    """Messages and replies of an attempt as digests, but for the messages of a first attempt."""
    messages, turns = attempt.trajectory.messages, [step.reply for step in attempt.trajectory.steps]
    reply = repr([attempt.trajectory.reply, *turns]) if turns else attempt.trajectory.reply
    if attempt.number > 1 and messages:
        messages = (records.Message(role="user", content=_digest(repr([message.content for message in messages]))),)
    return messages, _digest(reply) if reply else ""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
