"""The run folder: the truth about a run. Append-only JSON lines beside a manifest; everything else is a view of it.

manifest.json    what ran, and how to run it again    attempts.jsonl   every attempt, as it ended
summary.json     headline figures                     results.jsonl    one line per task whose loop ended
                                                      grades.jsonl     hidden verdicts, which no loop ever sees

written_tests.jsonl    tests that the model wrote, one line a task, before its loop
suite_verdicts.jsonl   whether the canonical solution passes them, found out after the last loop
set_aside.jsonl        loops that were broken off, since the model gave no answer, and begun anew
memory.json            what memory held of earlier runs, where tasks learn from each other
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from reflexion_lab.records import (
    Attempt,
    Beginning,
    Grade,
    Manifest,
    Record,
    SetAside,
    SuiteVerdict,
    TaskResult,
    WrittenTests,
)

R = TypeVar("R", bound=Record)


class RunFolderError(ValueError):
    """A folder is no run folder, or not one that this version can read."""


class RunFolder:
    """Reads and appends a run's records. Thread-safe.

    A record is handed to the operating system before the next step begins, so that it outlives a killed process;
    `sync` also forces it to the disk. A torn last line, left by a kill, is skipped and counted in `torn`.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.torn = 0
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}

    @classmethod
    def existing(cls, path: Path | str) -> RunFolder:
        """The folder at `path`.

        Raises:
            RunFolderError: there is no manifest in it, or it cannot be read.
        """
        folder = cls(Path(path))
        if not (folder.path / "manifest.json").is_file():
            hint = f"; did you mean '{path}/*'?" if next(folder.path.glob("*/manifest.json"), None) else ""
            expected = f"expected a run folder, as `run` prints at its end{hint}"
            raise RunFolderError(f"{path}: no manifest.json found; {expected}")
        _ = folder.manifest
        return folder

    @property
    def manifest(self) -> Manifest:
        try:
            return msgspec.json.decode((self.path / "manifest.json").read_bytes(), type=Manifest)
        except msgspec.MsgspecError as problem:
            raise RunFolderError(f"{self.path / 'manifest.json'}: {problem}; expected a manifest of schema 1") from None

    def write_manifest(self, manifest: Manifest) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_json("manifest.json", msgspec.to_builtins(manifest))

    def write_json(self, name: str, value: object) -> None:
        """Replace `name` in one step: a reader sees the old text or the new one, never a part."""
        draft = self.path / f".{name}.{os.getpid()}"
        draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        draft.replace(self.path / name)

    @property
    def beginning(self) -> Beginning | None:
        """What memory held when the run began; None where its tasks know nothing of each other."""
        path = self.path / "memory.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Beginning) if path.exists() else None
        except msgspec.MsgspecError as problem:
            raise RunFolderError(f"{path}: {problem}; expected what the store held when the run began") from None

    def append(self, name: str, record: Record) -> None:
        """Add one line to `name`."""
        line = msgspec.json.encode(record) + b"\n"
        with self._lock:
            if name not in self._open:
                self._open[name] = _open_for_append(self.path / name)
            descriptor = self._open[name]
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self.path / name}: the disk took only a part of a record; free some space and resume")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes into the folder meanwhile; the hold falls with the process.

        Raises:
            RunFolderError: another process, or another thread, is at it.
        """
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                said = "another process writes into this run; expected it to be at an end; wait for it, or stop it"
                raise RunFolderError(f"{self.path}: {said}") from None
            yield

    def sync(self) -> None:
        """Force what was appended so far to the disk."""
        with self._lock:
            descriptors = list(self._open.values())
        for descriptor in descriptors:
            os.fsync(descriptor)

    def close(self) -> None:
        with self._lock:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    @property
    def attempts(self) -> dict[str, list[Attempt]]:
        """Attempts by task, in order. A task that a resumed run began anew counts as it went the last time."""
        found: dict[str, dict[int, Attempt]] = {}
        for attempt in self._read("attempts.jsonl", Attempt):
            if attempt.number == 1:
                found.pop(attempt.task_id, None)
            found.setdefault(attempt.task_id, {})[attempt.number] = attempt
        return {task_id: list(by_number.values()) for task_id, by_number in found.items()}

    @property
    def results(self) -> dict[str, TaskResult]:
        return {result.task_id: result for result in self._read("results.jsonl", TaskResult)}

    @property
    def grades(self) -> dict[tuple[str, int], Grade]:
        """Hidden verdicts by task and attempt number."""
        return {(grade.task_id, grade.number): grade for grade in self._read("grades.jsonl", Grade)}

    @property
    def written_tests(self) -> dict[str, WrittenTests]:
        """By task, the tests that the model wrote for it."""
        return {written.task_id: written for written in self._read("written_tests.jsonl", WrittenTests)}

    @property
    def suite_verdicts(self) -> dict[str, SuiteVerdict]:
        """By task, the canonical solution against the tests that the model wrote."""
        return {verdict.task_id: verdict for verdict in self._read("suite_verdicts.jsonl", SuiteVerdict)}

    @property
    def set_aside(self) -> list[SetAside]:
        """Loops that were broken off for want of an answer, in the order in which they were."""
        return self._read("set_aside.jsonl", SetAside)

    def _read(self, name: str, kind: type[R]) -> list[R]:
        path = self.path / name
        if not path.exists():
            return []
        lines, decoder, records = path.read_bytes().split(b"\n"), msgspec.json.Decoder(kind), []
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                records.append(decoder.decode(line))
            except msgspec.ValidationError as problem:
                raise RunFolderError(f"{path}, line {number}: {problem}; was it written by another version?") from None
            except msgspec.DecodeError:
                self.torn += 1
        return records


def _open_for_append(path: Path) -> int:
    """Open for appending, behind a line break if a kill left the last line torn."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor


def folders(*runs: object) -> list[RunFolder]:
    """The run folders that `runs` name, each once, in their order.

    Args:
        runs: paths; patterns such as `runs/*`, of which every folder that holds a run is taken; a `RunFolder`; whatever
            has a `folder` that is one, or `runs`, such as a sweep; or iterables of these.

    Raises:
        RunFolderError: a folder is none, a pattern fits none, or something else was named.
    """
    found: dict[Path, RunFolder] = {}
    for run in runs:
        for folder in _named(run):
            found.setdefault(folder.path.resolve(), folder)
    return list(found.values())


def some_folders(*runs: object) -> list[RunFolder]:
    """`folders`, of which there has to be one. Raises RunFolderError: there is none, or as `folders`."""
    if found := folders(*runs):
        return found
    raise RunFolderError("runs: none found; expected run folders, a pattern such as runs/*, a run or a sweep")


def _named(run: object) -> list[RunFolder]:
    if isinstance(run, str | Path):
        return _matching(str(run))
    if isinstance(folder := getattr(run, "folder", run), RunFolder):
        return [RunFolder.existing(folder.path)]
    if isinstance(several := getattr(run, "runs", run), Iterable):
        return folders(*several)
    expected = "expected a folder, a pattern such as runs/*, a run or a sweep"
    raise RunFolderError(f"{type(run).__name__}: found as a run; {expected}")


def _matching(run: str) -> list[RunFolder]:
    try:
        is_there = Path(run).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        raise RunFolderError(f"{run[:40]!r}…: no path found; expected a run folder, or a pattern") from None
    if is_there or not glob.has_magic(run):
        return [RunFolder.existing(run)]
    paths = map(Path, sorted(glob.glob(run, recursive=True)))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if found := [RunFolder.existing(path) for path in paths if (path / "manifest.json").is_file()]:
        return found
    raise RunFolderError(f"{run}: no manifest.json found in any folder; expected a pattern that fits run folders")
