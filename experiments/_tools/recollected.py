"""Recorded loops as episodes: every failed attempt that its model reflected on, as the lab's memory would keep it.

What failed is not taken from the logs, which tell it in several forms or not at all: each program runs once more on the
asserts that its loop saw fail, and class and error signature are made of that by the lab's own rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from experiments._tools.probes import ENTRY_POINT
from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.audit.audit import LIMITS, PATIENT
from reflexion_lab.audit.known_tasks import task_of
from reflexion_lab.audit.rows import read_rows
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.records import (
    UNKNOWN,
    Attempt,
    Episode,
    Evaluation,
    MemoryState,
    Record,
    Reflection,
    Task,
    Trajectory,
)
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.sandbox import Sandbox

EMPTY = MemoryState(capacity=0, size=0, in_context=0, total=0)


class Logged(Record, frozen=True, kw_only=True):
    """A failed attempt with the words on it, before it is run once more."""

    task: Task
    """Its visible tests are the asserts that the loop saw fail."""
    model: str
    session: str
    number: int
    program: str
    words: str


class Recollected(Record, frozen=True, kw_only=True):
    """What files of recorded loops hold for retrieval."""

    sources: tuple[str, ...]
    """The files' names."""
    episodes: tuple[Episode, ...]
    """In the order of the files. `agent_id` is the model; the reflection's words stand in its `text`."""
    unshown: int
    """Reflections left out: no failing assert is recorded, or none fails when the program runs again."""


def recollect(paths: Sequence[Path | str], limit: int | None = None, workers: int | None = None) -> Recollected:
    """Read transcripts (`.jsonl`, gzipped or not) and run their reflected attempts, each in a namespace of its own.

    `limit`: only the first so many rows of each file.

    Raises:
        OSError, ValueError: a file cannot be read as transcripts, or none of them holds a reflection.
        HarnessError: the sandbox is broken.
    """
    logged = [attempt for path in map(Path, paths) for attempt in _read(path, limit)]
    if not logged:
        names = ", ".join(map(str, paths)) or "no file"
        where = "" if limit is None else f" in the first {limit} rows"
        raise ConfigError(names, f"no reflection{where}", "transcripts with `attempts` that hold `reflection`")
    workers = workers or os.cpu_count() or 1
    with Sandbox(LIMITS, servers=workers) as sandbox, ThreadPoolExecutor(workers) as pool:
        verdicts = list(pool.map(partial(_verdict, sandbox), logged))
    with Sandbox(PATIENT, servers=1) as alone:  # a time-out may say more of a busy machine than of the program
        verdicts = [
            _verdict(alone, one) if verdict.outcome == "timeout" else verdict
            for one, verdict in zip(logged, verdicts, strict=True)
        ]
    shown = [
        (one, verdict)
        for one, verdict in zip(logged, verdicts, strict=True)
        if verdict.failures and verdict.outcome not in UNKNOWN
    ]
    return Recollected(
        sources=tuple(Path(path).name for path in paths),
        episodes=tuple(_episode(one, verdict) for one, verdict in shown),
        unshown=len(logged) - len(shown),
    )


def _verdict(sandbox: Sandbox, logged: Logged) -> Evaluation:
    return run_tests(sandbox, logged.task, logged.program, logged.task.visible_tests)


def _read(path: Path, limit: int | None) -> Iterator[Logged]:
    for count, row in enumerate(read_rows(path)):
        if limit is not None and count >= limit:
            return
        attempts = row.fields.get("attempts")
        if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
            raise row.wrong("attempts", repr(attempts)[:60], "a list of objects, one an attempt")
        if not any(attempt.get("reflection") for attempt in attempts):
            continue  # and its task may be unknown
        task, model, run = task_of(row, row.text("problem")), row.text("model"), row.text("run", "")
        for number, attempt in enumerate(attempts, 1):
            step = replace(row, fields=attempt)
            if words := step.text("reflection", ""):
                yield Logged(
                    task=replace(task.public, visible_tests=failed_asserts(attempt.get("feedback"))),
                    model=model,
                    session=f"{path.name}/{run}/{task.task_id}",
                    number=number,
                    program=step.text("code", ""),
                    words=words,
                )


def failed_asserts(feedback: Any) -> tuple[str, ...]:
    """The asserts that a log says failed: a list by that name, or the text below "Tests failed:"."""
    if isinstance(feedback, dict):
        feedback = feedback.get("recomputed_failed")
        return tuple(line for line in feedback if isinstance(line, str)) if isinstance(feedback, list) else ()
    below = feedback.partition("Tests failed:")[2] if isinstance(feedback, str) else ""
    lines = (line.partition(" # output:")[0].strip() for line in below.splitlines())
    return tuple(line for line in lines if line.startswith("assert "))


def _episode(logged: Logged, evaluation: Evaluation) -> Episode:
    reflection = Reflection(
        reflection_id=f"{logged.session}-{logged.number}",
        about_attempt=logged.number,
        root_cause="",
        what_went_wrong=logged.words,
        what_to_change="",
        confidence=0.0,  # the logs hold none
        source="llm",
        category=classify_evaluation(evaluation)[0],
        text=logged.words,
    )
    attempt = Attempt(
        task_id=logged.task.task_id,
        number=logged.number,
        recalled=(),
        trajectory=Trajectory(solution=logged.program, strategy="recorded"),
        evaluation=evaluation,
        reflection=reflection,
        memory=EMPTY,
    )
    made = episode_of(logged.task, attempt, logged.session, logged.model)
    return replace(made, metadata={**made.metadata, ENTRY_POINT: logged.task.entry_point})
