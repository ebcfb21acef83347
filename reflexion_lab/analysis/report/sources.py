"""What memory gave an attempt, and from where: ids resolved to tasks, attempts and words, as a run holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.analysis.frames.rows import SOURCE
from reflexion_lab.analysis.report.pieces import found, verdict
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Attempt, Episode, Wisdom

Words = list[tuple[str, str]]
"""Labels, and what they say."""


OWN = "this task"


class Gift(NamedTuple):
    """Something that memory gave."""

    kind: str
    """`episode`, `wisdom` or `mistake`."""
    name: str
    """Its id."""
    where: str
    """Where it is from, in words; "" where its id does not say."""
    words: Words
    """What it says; [] where the run does not hold it."""
    was_read: bool
    """False: the prompt had no room for it."""
    is_own: bool
    """Of the very loop that the attempt is of, so that its words stand with that attempt, too."""


class Sources:
    """What is known of the attempts that memory can give.

    Parameters
    ----------
    attempts : Mapping[str, Sequence[Attempt]]
        By task.
    run_id : str, default ""
        The run that they are of; "" for loops outside of any.
    wisdom : Iterable[Wisdom], default ()
        What memory held when the run began.
    """

    def __init__(
        self, attempts: Mapping[str, Sequence[Attempt]], run_id: str = "", wisdom: Iterable[Wisdom] = ()
    ) -> None:
        self._attempts = attempts
        self._run_id = run_id
        self._before = {entry.wisdom_id: entry for entry in wisdom}

    @classmethod
    def of(cls, log: Log) -> Sources:
        return cls(log.attempts, log.manifest.run_id, log.beginning.wisdom if log.beginning else ())

    def gifts(self, attempt: Attempt) -> list[Gift]:
        """All that the attempt was given, in the order in which it read it."""
        kinds = {
            "episode": (attempt.recalled, self._episode),
            "wisdom": (attempt.recalled_wisdom, self._wisdom),
            "mistake": (attempt.recalled_mistakes, self._mistake),
        }
        left_out = attempt.trajectory.left_out
        entries = ((kind, name, of) for kind, (names, of) in kinds.items() for name in names)
        resolved = ((kind, name, *of(name, attempt)) for kind, name, of in entries)
        return [
            Gift(kind, name, where, words, name not in left_out, where.endswith(OWN))
            for kind, name, where, words in resolved
        ]

    def _episode(self, name: str, reader: Attempt) -> tuple[str, Words]:
        attempts, where, last = self._loop(name, reader)
        if not last.isdecimal():
            return where, []
        where = f"attempt {last} at {where}"
        source = next((attempt for attempt in attempts if attempt.number == int(last)), None)
        return where, list(_said(source)) if source else []

    def _mistake(self, name: str, reader: Attempt) -> tuple[str, Words]:
        """Its id names the task, not the attempt: all that failed there is told."""
        attempts, where, _ = self._loop(name, reader)
        failed = [attempt for attempt in attempts if not attempt.evaluation.passed]
        return where, [(f"attempt {attempt.number}", _failure(attempt)) for attempt in failed]

    def _loop(self, name: str, reader: Attempt) -> tuple[Sequence[Attempt], str, str]:
        """The attempts of the loop that the id names, that loop in words, and the end of the id."""
        parts = SOURCE.fullmatch(name.replace(f"-{self._run_id}/", "-", 1) if self._run_id else name)
        if not parts:
            return (), "", ""
        run, task, last = parts["run"] or self._run_id, parts["task"], parts["last"]
        if run != self._run_id:
            return (), f"{task}, run {run}", last
        return self._attempts.get(task, ()), OWN if task == reader.task_id else task, last

    def _wisdom(self, name: str, _: Attempt) -> tuple[str, Words]:
        since = "" if name in self._before else ", as it stood at the end"
        entry = self._before.get(name) or self._found.get(name)
        if not entry:
            return "", []
        tasks = ", ".join(entry.tasks[:3]) + (f" and {len(entry.tasks) - 3} more" if len(entry.tasks) > 3 else "")
        words = [("pattern", entry.pattern), ("advice", entry.advice)]
        seen = f"{entry.frequency} attempts at {tasks}" if tasks else f"{entry.frequency} attempts"
        return seen + since, [(label, text) for label, text in words if text]

    @cached_property
    def _found(self) -> dict[str, Wisdom]:
        """What all attempts together give: memory held less of it earlier."""
        from reflexion_lab.memory.wisdom import extract

        every = (attempt for attempts in self._attempts.values() for attempt in attempts if attempt.reflection)
        return {entry.wisdom_id: entry for entry in extract(map(_as_episode, every))}


def _as_episode(attempt: Attempt) -> Episode:
    words = attempt.reflection
    if words:  # a lone surrogate, which no store can hold, has no id either
        words = replace(words, root_cause=words.root_cause.encode(errors="replace").decode())
    return Episode(
        episode_id=f"{attempt.task_id}-{attempt.number}",
        agent_id="",
        task_id=attempt.task_id,
        attempt_number=attempt.number,
        code=attempt.trajectory.solution,
        test_results="",
        reflection=words,
        passed=attempt.evaluation.passed,
    )


def _said(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """Verdict and reflection of an episode: what a later attempt could learn from it."""
    yield "verdict", verdict(attempt)
    if words := attempt.reflection:
        fields = {"root cause": words.root_cause, "to change": words.what_to_change}
        yield from ((label, text) for label, text in fields.items() if text.strip())


def _failure(attempt: Attempt) -> str:
    failures = attempt.evaluation.failures
    if not failures:
        return verdict(attempt)
    sides = ", ".join(f"{label} {text}" for label, text in found(failures[0]))
    return f"{failures[0].name}: {sides}"
