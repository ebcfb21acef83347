"""Recorded loops as episodes: every failed attempt with a reflection, as the lab's memory would store it.

Logs record failures in several forms or not at all. Each program is therefore executed again on the asserts that its
loop saw fail, and the lab's own rules derive class and error signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from experiments._tools.probes import ENTRY_POINT
from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.audit.stored_programs import StoredPrograms
from reflexion_lab.audit.transcripts import read_transcripts
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.protocols import Sandbox
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

EMPTY = MemoryState(capacity=0, size=0, in_context=0, total=0)


class Logged(Record, frozen=True, kw_only=True):
    """A failed attempt with its reflection, before its execution."""

    task: Task
    """With the asserts that the loop saw fail as visible tests."""
    model: str
    session: str
    number: int
    program: str
    words: str


class Recollected(Record, frozen=True, kw_only=True):
    """Episodes of some files of recorded loops."""

    sources: tuple[str, ...]
    """Names of the files."""
    episodes: tuple[Episode, ...]
    """In the order of the files. `agent_id` is the model; the reflection's words are its `text`."""
    unshown: int
    """Number of reflections left out: no failing assert is recorded, or none fails in the new execution."""


def recollect(paths: Sequence[Path | str], limit: int | None = None, workers: int | None = None) -> Recollected:
    """Read transcripts (`.jsonl`, gzipped or not) and execute their attempts with a reflection.

    Parameters
    ----------
    limit : int, optional
        Maximum number of rows per file.

    Raises OSError, ValueError: a file cannot be read as transcripts, or none has a reflection. HarnessError: the
    sandbox is broken.
    """
    logged = [attempt for path in map(Path, paths) for attempt in _read(path, limit)]
    if not logged:
        names = ", ".join(map(str, paths)) or "no file"
        where = "" if limit is None else f" in the first {limit} rows"
        raise ConfigError(names, f"no reflection{where}", "transcripts with `attempts` that hold `reflection`")
    with StoredPrograms(workers) as programs:
        verdicts = programs.map(_verdict, logged)
    failing = [
        (attempt, verdict)
        for attempt, verdict in zip(logged, verdicts, strict=True)
        if verdict.failures and verdict.outcome not in UNKNOWN
    ]
    return Recollected(
        sources=tuple(Path(path).name for path in paths),
        episodes=tuple(_episode(attempt, verdict) for attempt, verdict in failing),
        unshown=len(logged) - len(failing),
    )


def _verdict(sandbox: Sandbox, logged: Logged) -> Evaluation:
    return run_tests(sandbox, logged.task, logged.program, logged.task.visible_tests)


def _read(path: Path, limit: int | None) -> Iterator[Logged]:
    for row in read_transcripts(path, limit):
        if not any(step.reflection for step in row.steps):
            continue  # its task may be unknown
        task = row.task
        for step in row.steps:
            if step.reflection:
                failing = tuple(test for test in step.feedback.failing if test.startswith("assert "))
                yield Logged(
                    task=replace(task.public, visible_tests=failing, setup=""),  # as the harness of the log ran it
                    model=row.text("model"),
                    session=f"{path.name}/{row.run}/{task.task_id}",
                    number=step.number,
                    program=step.code,
                    words=step.reflection,
                )


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
    episode = episode_of(logged.task, attempt, logged.session, logged.model)
    return replace(episode, metadata={**episode.metadata, ENTRY_POINT: logged.task.entry_point})
