"""Every line of a run's records, read by itself: what is torn, and what is no record, is named and not skipped."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from reflexion_lab.records import Attempt, Grade, Record, Resumption, SetAside, SuiteVerdict, TaskResult, WrittenTests
from reflexion_lab.studies.replay.verify.finding import Disagreement, Finding, unlike

R = TypeVar("R", bound=Record)


class Lines(NamedTuple):
    """The records of a run, in the order in which they were written."""

    attempts: list[Attempt]
    results: list[TaskResult]
    grades: list[Grade]
    written: list[WrittenTests]
    verdicts: list[SuiteVerdict]
    set_aside: list[SetAside]
    resumptions: list[Resumption]
    finding: Finding
    torn: tuple[str, ...]
    """File and line of each line that is no JSON, as a kill leaves one."""


class _Read(NamedTuple):
    """What came of the lines so far."""

    torn: list[str]
    wrong: list[Disagreement]

    def of(self, path: Path, decoder: msgspec.json.Decoder[R]) -> list[R]:
        found = []
        for number, line in enumerate(path.read_bytes().split(b"\n") if path.is_file() else [], 1):
            if not line:
                continue
            try:
                found.append(decoder.decode(line))
            except msgspec.ValidationError as problem:
                self.wrong.append(unlike(f"{path.name}, line {number}", str(problem), "a record of this version"))
            except msgspec.DecodeError:
                self.torn.append(f"{path.name}, line {number}")
        return found


def read(folder: Path) -> Lines:
    """Raises OSError: a file cannot be read."""
    read = _Read([], [])

    def of(name: str, kind: type[R]) -> list[R]:
        return read.of(folder / name, msgspec.json.Decoder(kind))

    found: tuple[
        list[Attempt],
        list[TaskResult],
        list[Grade],
        list[WrittenTests],
        list[SuiteVerdict],
        list[SetAside],
        list[Resumption],
    ]
    found = (
        of("attempts.jsonl", Attempt),
        of("results.jsonl", TaskResult),
        of("grades.jsonl", Grade),
        of("written_tests.jsonl", WrittenTests),
        of("suite_verdicts.jsonl", SuiteVerdict),
        of("set_aside.jsonl", SetAside),
        of("resumptions.jsonl", Resumption),
    )
    told = f"{sum(len(records) for records in found)} records"
    return Lines(*found, Finding(name="lines", told=told, disagreements=tuple(read.wrong)), tuple(read.torn))
