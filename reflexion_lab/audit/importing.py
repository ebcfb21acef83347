"""Recorded runs of other systems, read from transcripts: one object a problem and run, with its attempts.

A recording is what one system, with one model, did once with each task of a benchmark. Nothing is executed here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.audit.transcripts import Row, Transcript, read_rows
from reflexion_lab.errors import DataError
from reflexion_lab.records import FEEDBACK_SOURCES, Record


class Strategy(NamedTuple):
    """Known properties of a system's loop."""

    arm: str
    feedback_source: str
    """Feedback source of its loop, one of `records.FEEDBACK_SOURCES`."""
    calls: int
    """Model calls per attempt; 0 where they were not recorded."""


STRATEGIES = {
    "simple": Strategy("simple", "none", 1),
    "simple_repeat": Strategy("retry", "visible", 1),
    "simple_incr_temp": Strategy("warming", "visible", 1),
    "simple_boosting": Strategy("escalation", "visible", 1),
    "reflexion": Strategy("reflexion", "self_tests", 1),
    "reflexion-ucs": Strategy("reflexion-ucs", "self_tests", 1),
    "ldb": Strategy("ldb", "visible", 0),
}
"""By the name in a row, up to a bracket. A single shot has no feedback; LDB makes several calls per attempt."""


class Recording(Record, frozen=True, kw_only=True):
    """One run of a system."""

    file: str
    file_digest: str
    """SHA-256 of its bytes, shortened to 16 hex digits."""
    source: str
    model: str
    """The actor's first."""
    strategy: str
    run: str
    known: Strategy
    loops: tuple[Transcript, ...]
    """In the order of the file, one a task."""
    excluded: tuple[tuple[str, str], ...] = ()
    """Rows that cannot be used: file, line and task, and why."""
    label: str = ""
    """Label for its folder; unique among the variants of the file."""

    @property
    def variant(self) -> str:
        """Name of the run without its number."""
        return re.sub(r"/run\d+$", "", self.run)

    @property
    def seed(self) -> int:
        """Number of the run, 1 if it has none. The system's sampling seed is not known."""
        number = re.search(r"/run(\d+)$", self.run)
        return int(number[1]) if number else 1

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the attempts, in the order of their first call within a loop."""
        longest = max(self.loops, key=lambda loop: len(loop.steps), default=None)
        named = [step.text("model", self.model) for step in longest.steps] if longest else []
        return tuple(dict.fromkeys(named)) or (self.model,)

    @property
    def longest(self) -> int:
        """Attempts of the longest loop."""
        return max((len(loop.steps) for loop in self.loops), default=0)

    @property
    def has_tests(self) -> bool:
        """Every row brings the hidden tests and the prompt of its task."""
        return all(isinstance(loop.fields.get(name), str) for loop in self.loops for name in ("prompt", "test"))

    @property
    def is_recomputed(self) -> bool:
        """The feedback was not recorded but computed from the tests afterwards."""
        steps = (step for loop in self.loops for step in loop.steps)
        return any(isinstance(step.fields.get("feedback"), dict) for step in steps)

    def cut(self, attempts: int | None) -> Recording:
        """The recording with every loop cut after this many attempts: later feedback and its tests are unknown."""
        return replace(self, loops=tuple(replace(loop, steps=loop.steps[:attempts]) for loop in self.loops))


def read_recordings(paths: Sequence[Path | str], feedback_source: str = "") -> list[Recording]:
    """Every run in these transcripts, in the order in which they first come.

    `feedback_source`: what drove loops of a strategy that is not in `STRATEGIES`.

    Raises
    ------
    OSError
        A file cannot be read.
    DataError
        A file holds no transcript; or a strategy is unknown and `feedback_source` does not say.
    """
    return [recording for path in paths for recording in _recordings(Path(path), feedback_source)]


def _recordings(path: Path, feedback_source: str) -> Iterator[Recording]:
    rows: dict[tuple[str, ...], list[Row]] = {}
    for row in read_rows(path):
        if "attempts" not in row.fields:
            fields = ", ".join(list(row.fields)[:6]) or "no field"
            raise DataError(f"{path}, line {row.line}", fields, "a transcript, with `attempts`")
        rows.setdefault(tuple(row.text(name, "") for name in ("source", "model", "strategy", "run")), []).append(row)
    if not rows:
        raise DataError(path, "no row", "one JSON object a line, one a problem and run")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    recordings = []
    for (source, model, strategy, run), of_run in rows.items():
        loops, excluded = _loops(of_run)
        known = _known(path, strategy, feedback_source)
        recording = Recording(
            file=path.name,
            file_digest=digest,
            source=source,
            model=model,
            strategy=strategy,
            run=run,
            known=known,
            loops=tuple(loops),
            excluded=tuple(excluded),
        )
        recordings.append(recording)
    yield from _labelled(recordings)


def _labelled(recordings: Sequence[Recording]) -> Iterator[Recording]:
    """Each with the shortest label that distinguishes its variant from the others of its arm."""
    variants: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for recording in recordings:
        variant = (recording.source, recording.model, recording.strategy, recording.variant)
        for label in _labels(recording):
            variants.setdefault((recording.known.arm, label), set()).add(variant)
    for recording in recordings:
        labels = _labels(recording)
        unique = (label for label in labels if len(variants[recording.known.arm, label]) == 1)
        yield replace(recording, label=next(unique, labels[-1]))


def _labels(recording: Recording) -> list[str]:
    """From short to long. Names of numbered runs tell variants apart, and name the model; of a lone run the model is
    enough, unless the file has another one.
    """
    is_numbered = recording.variant != recording.run
    short = recording.variant.split("/")[-1] if is_numbered else recording.model
    whole = f"{recording.source} {recording.model} {recording.strategy} {recording.variant}"
    return [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") for name in (short, recording.variant, whole)]


def _known(path: Path, strategy: str, feedback_source: str) -> Strategy:
    name = strategy.partition("(")[0]
    if name in STRATEGIES:
        return STRATEGIES[name]
    if feedback_source not in FEEDBACK_SOURCES:
        unknown = f"strategy {strategy!r}, of which it is not known what drove its loop"
        raise DataError(path, unknown, f"one of {', '.join(STRATEGIES)}, or --feedback-source")
    return Strategy(name or "recorded", feedback_source, 0)


def _loops(rows: Iterable[Row]) -> tuple[list[Transcript], list[tuple[str, str]]]:
    loops: dict[str, Transcript] = {}
    excluded = []
    for row in rows:
        place = f"line {row.line}, {row.fields.get('problem')}"
        try:
            loop = _loop(row)
        except DataError as problem:
            excluded.append((place, str(problem).partition(", field ")[2] or str(problem)))
            continue
        if first := loops.get(loop.task_id):
            excluded.append((place, f"a second row of this task and run; the first, line {first.line}, counts"))
            continue
        loops[loop.task_id] = loop
    return list(loops.values()), excluded


def _loop(row: Row) -> Transcript:
    """Raises DataError: it has no problem or attempt, or a field is no text."""
    loop = Transcript.of(row)
    if not loop.steps:
        raise row.wrong("attempts", "none", "one at least")
    for step in loop.steps:
        for name in ("code", "raw", "reflection", "model"):
            step.text(name, "")
    row.text("problem")
    return loop
