"""Recorded runs of other systems, read from transcripts: one object per problem and run, with its attempts.

A recording is one run of one system and model over the tasks of a benchmark. Nothing is executed here.
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
    """One of `records.FEEDBACK_SOURCES`."""
    calls: int
    """Model calls per attempt; 0 if not recorded."""


STRATEGIES = {
    "simple": Strategy("simple", "none", 1),
    "simple_repeat": Strategy("retry", "visible", 1),
    "simple_incr_temp": Strategy("warming", "visible", 1),
    "simple_boosting": Strategy("escalation", "visible", 1),
    "reflexion": Strategy("reflexion", "self_tests", 1),
    "reflexion-ucs": Strategy("reflexion-ucs", "self_tests", 1),
    "ldb": Strategy("ldb", "visible", 0),
}
"""By the name in a row, up to a bracket. LDB makes several calls per attempt."""


class Recording(Record, frozen=True, kw_only=True):
    """One run of a system."""

    file: str
    file_digest: str
    """SHA-256 of its bytes, shortened to 16 hex digits."""
    source: str
    model: str
    """The actor's first model."""
    strategy: str
    run: str
    known: Strategy
    loops: tuple[Transcript, ...]
    """In the order of the file, one per task."""
    excluded: tuple[tuple[str, str], ...] = ()
    """Rows that cannot be used: place and reason."""
    label: str = ""
    """Label for its folder; unique among the variants of the file."""

    @property
    def variant(self) -> str:
        """Name of the run without its number."""
        return re.sub(r"/run\d+$", "", self.run)

    @property
    def seed(self) -> int:
        """Number of the run, by default 1. The system's sampling seed is unknown."""
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
        """Whether every row has the hidden tests and the prompt of its task."""
        return all(isinstance(loop.fields.get(name), str) for loop in self.loops for name in ("prompt", "test"))

    @property
    def is_recomputed(self) -> bool:
        """Whether the feedback was computed from the tests afterwards."""
        steps = (step for loop in self.loops for step in loop.steps)
        return any(isinstance(step.fields.get("feedback"), dict) for step in steps)

    def cut(self, attempts: int | None) -> Recording:
        """The recording with at most `attempts` attempts per loop, and without tests of later feedback."""
        return replace(self, loops=tuple(replace(loop, steps=loop.steps[:attempts]) for loop in self.loops))


def read_recordings(paths: Sequence[Path | str], feedback_source: str = "") -> list[Recording]:
    """Every run in these transcripts, in the order of their first rows. `feedback_source` is that of strategies that
    are not in `STRATEGIES`. Raises OSError: a file cannot be read; DataError: a file holds no transcript; or a strategy
    is unknown and there is no `feedback_source`.
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
        raise DataError(path, "no row", "one JSON object per line, one per problem and run")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    recordings = []
    for (source, model, strategy, run), of_run in rows.items():
        loops, excluded = _loops(of_run)
        recordings.append(
            Recording(
                file=path.name,
                file_digest=digest,
                source=source,
                model=model,
                strategy=strategy,
                run=run,
                known=_known(path, strategy, feedback_source),
                loops=tuple(loops),
                excluded=tuple(excluded),
            )
        )
    yield from _labelled(recordings)


def _labelled(recordings: Sequence[Recording]) -> Iterator[Recording]:
    """The recordings, each with the shortest label that is unique among the variants of its arm."""
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
    """Candidate labels, from short to long. Names of numbered runs contain variant and model; a single run is labelled
    by its model.
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
        unknown = f"strategy {strategy!r}, with an unknown feedback source"
        raise DataError(path, unknown, f"one of {', '.join(STRATEGIES)}, or --feedback-source")
    return Strategy(name or "recorded", feedback_source, 0)


def _loops(rows: Iterable[Row]) -> tuple[list[Transcript], list[tuple[str, str]]]:
    loops: dict[str, Transcript] = {}
    excluded = []
    for row in rows:
        place = f"line {row.line}, {row.fields.get('problem')}"
        try:
            loop = Transcript.of(row)
            if not loop.steps:
                raise row.wrong("attempts", "none", "at least one")
            for step in loop.steps:
                for name in ("code", "raw", "reflection", "model"):
                    step.text(name, "")
            row.text("problem")
        except DataError as problem:
            excluded.append((place, str(problem).partition(", field ")[2] or str(problem)))
            continue
        if first := loops.get(loop.task_id):
            excluded.append((place, f"a second row of this task and run; the first, line {first.line}, counts"))
            continue
        loops[loop.task_id] = loop
    return list(loops.values()), excluded
