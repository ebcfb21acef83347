"""The run folder, the complete record of a run: append-only JSON lines beside a manifest; all else is a view of it.

manifest.json         config and environment          attempts.jsonl   every attempt, as it ended
summary.json          headline figures                results.jsonl    one line per finished task
                                                      grades.jsonl     hidden verdicts; loops never see them

written_tests.jsonl   tests written by the model before a task's loop, one line per task
suite_verdicts.jsonl  verdicts of the canonical solutions on these tests, after the last loop
set_aside.jsonl       loops set aside: ended without an answer of the model, restarted later
resumptions.jsonl     code, packages and platform of each resumption of an interrupted run
memory.json           contents of the store at the start, if tasks learn from each other
operations.jsonl      changes of memory across tasks, one line per call of the curator
digests.json          SHA-256 of each of these files, once the run is finished
dropped/              lines that a resumption took out

One file: what is written, and how an interrupted write is read and mended, belong together.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import threading
import time
import warnings
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.errors import DataError, FolderError
from reflexion_lab.io import files
from reflexion_lab.io.files import DRAFT, FULL, UNREADABLE, Scratch, check
from reflexion_lab.runner.folder import registration

R = TypeVar("R", bound=records.Record)
S = TypeVar("S")
T = TypeVar("T")

LOCK = ".lock"
DIGESTS = "digests.json"
RECORD_FILES = (
    "manifest.json", "attempts.jsonl", "results.jsonl", "grades.jsonl", "written_tests.jsonl", "suite_verdicts.jsonl",
    "set_aside.jsonl", "resumptions.jsonl", "memory.json", "operations.jsonl", "recorded.json", registration.FILE,
)  # fmt: skip
"""Files with a run's records; everything else in its folder is a view of them."""
IRREPLACEABLE = "restore it from a copy, or begin again: replies that were paid for are in the call cache"
BY_HAND = "restore the file from a copy, or delete that line and resume: what it held is done again"


class Digest(records.Record, frozen=True, kw_only=True):
    sha256: str
    """In hex."""
    lines: int
    """Line breaks."""


_DECODER = msgspec.json.Decoder(dict[str, Digest])


class _Place(records.Record, frozen=True):
    task_id: str
    number: int


msgspec.json.Decoder(_Place)  # prepared on import, since threads decode it; see the end of `records`


class FolderLost(FolderError):
    """A file of the run, or its folder, was moved, deleted or replaced: further records would be lost."""


class RunFolder:
    """Reads and appends a run's records. Thread-safe.

    When `append` returns, the record is with the operating system and survives a kill of the process; `sync` also
    flushes it to the disk. A torn last line, left by a kill, is skipped and counted in `torn`.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.torn = 0
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}
        self._opened: dict[str, os.stat_result] = {}
        """Descriptors of the files that were appended to, by name."""
        self._held: int | None = None
        """Descriptor of the lock file, while the folder is locked."""

    @classmethod
    def existing(cls, path: Path | str) -> RunFolder:
        """The folder at `path`. Raises FolderError: the manifest is missing or unreadable."""
        folder = cls(Path(path))
        if not (folder.path / "manifest.json").is_file():
            raise FolderError(path, "no manifest.json", "a run folder, as `run` prints at its end")
        _ = folder.manifest
        return folder

    @classmethod
    def create(cls, root: Path, manifest: records.Manifest, fill: Callable[[Path], object] | None = None) -> RunFolder:
        """A new folder in `root`, named by its run. A kill leaves either the complete folder or none.

        `fill`: writes further files into the folder before it gets its name.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FolderError(root, problem.strerror, "a folder that can be made", "run_root=… names another") from None
        with Scratch(root, ".begun-", mode=0o777) as draft:
            if fill:
                fill(draft.path)
            while True:  # the name may be taken: a clock set back, or a run started in the same microsecond
                cls(draft.path).write_manifest(manifest)
                try:
                    return cls(draft.path.rename(root / manifest.run_id))
                except OSError as problem:
                    if problem.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
                day, second, micros, what = manifest.run_id.split("-", 3)
                later = f"{day}-{second}-{(int(micros) + 1) % 1_000_000:06d}-{what}"
                manifest = replace(manifest, run_id=later)

    @property
    def manifest(self) -> records.Manifest:
        path = self.path / "manifest.json"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=records.Manifest)
        except UNREADABLE as problem:
            expected = f"a manifest of schema {records.SCHEMA_VERSION}"
            raise FolderError(f"{path}: {problem}", expected=expected, hint=IRREPLACEABLE) from None
        if manifest.schema_version > records.SCHEMA_VERSION:
            hint = "use the version of reflexion_lab that wrote it, or a newer one"
            raise FolderError(path, f"schema {manifest.schema_version}", f"{records.SCHEMA_VERSION} at most", hint)
        return manifest

    def write_manifest(self, manifest: records.Manifest) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_json("manifest.json", msgspec.to_builtins(manifest))

    def write_json(self, name: str, value: object) -> None:
        """Replace `name` in one step: a reader sees the old text or the new one."""
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        try:
            files.replace(self.path / name, [text.encode()])
        except OSError as problem:
            raise self._failure(name, problem) from None

    def summary(self, kind: type[S]) -> S | None:
        """Fields of `summary.json` as a `kind`; None if they cannot be read."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.path / "summary.json").read_bytes(), type=kind)
        return None

    @property
    def beginning(self) -> records.Beginning | None:
        """Contents of memory at the start of the run; None if its tasks share none."""
        return read_beginning(self.path / "memory.json")

    def append(self, name: str, record: records.Record) -> None:
        """Append one line to `name`, in whole or not at all.

        Raises FolderLost: the file, or the folder, is no longer the one that was opened; OSError: the disk is full, or
        the file may not be written.
        """
        line = msgspec.json.encode(record) + b"\n"
        with self._lock:
            try:
                if name not in self._open:
                    self._open[name] = files.open_for_append(self.path / name)
                    self._opened[name] = os.fstat(self._open[name])
                self._check(name)
                files.append(self._open[name], line)
            except OSError as problem:
                raise self._failure(name, problem) from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder against other processes; the lock ends with the process. Reentrant for the same object.
        Drafts of killed processes are removed.

        Raises FolderError: another process, or another `RunFolder` of this one, holds the lock.
        """
        if self._held is not None:
            yield
            return
        with (self.path / LOCK).open("w") as file:
            for pause in (*[0.05] * 10, 0):  # `reflexion-lab runs` tries the lock, too, for an instant
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not pause:
                        message = f"{self.path}: another process writes into this run"
                        raise FolderError(message, hint="wait for it, or stop it") from None
                time.sleep(pause)
            for draft in self.path.glob(f".*{DRAFT}"):
                draft.unlink(missing_ok=True)
            self._held = file.fileno()
            self._opened[LOCK] = os.fstat(self._held)
            try:
                yield
            finally:
                self._held = None

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was appended since creation or closing."""
        return not self._open

    def sync(self) -> None:
        """Flush appended lines to the disk (fsync). Raises as `append`."""
        with self._lock:
            opened = dict(self._open)
        self._check(*opened)
        for name, descriptor in opened.items():
            try:
                os.fsync(descriptor)
            except OSError as problem:
                raise self._failure(name, problem) from None

    def close(self) -> None:
        with self._lock:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def _check(self, *names: str) -> None:
        """Raises FolderLost: one of `names` or the lock file was moved, deleted or replaced."""
        for file in (*names, *[LOCK] * (self._held is not None)):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"{self.path}/{file}"), self._opened[file]):  # noqa: PTH116
                    continue
            raise self._lost(file)

    def _failure(self, name: str, problem: OSError) -> Exception:
        """The error to raise for an OSError on `name`."""
        if isinstance(problem, FileNotFoundError):
            return self._lost(name)
        advice = "free some space" if problem.errno in FULL else "see what is there, and who may write"
        failure = OSError(
            f"{self.path / name} cannot be written ({problem.strerror}); {advice}, then resume; what had finished "
            "before stands"
        )
        failure.errno = problem.errno
        return failure

    def _lost(self, name: str) -> FolderLost:
        return FolderLost(
            f"{self.path}: {name} was deleted, moved or replaced while the run was writing; put it back and resume, "
            "or start again with the same command: replies that were paid for are in the call cache"
        )

    @property
    def attempts(self) -> dict[str, list[records.Attempt]]:
        """Attempts by task, in order; of a restarted loop, the attempts since its last restart."""
        return dict(self.stored_attempts)

    def each_attempt(self) -> Iterator[records.Attempt]:
        """The same attempts in order of completion, with only one in memory at a time."""
        lines = {line for by_number in self.stored_attempts.lines.values() for line in by_number.values()}
        yield from (attempt for _, attempt in self._read("attempts.jsonl", records.Attempt, lines))

    @property
    def written_attempts(self) -> list[tuple[str, int]]:
        """Task and number of every line of attempts, also of loops that were restarted."""
        return [(place.task_id, place.number) for _, place in self._read("attempts.jsonl", _Place)]

    @property
    def stored_attempts(self) -> StoredAttempts:
        """The same attempts by task, read when a task is asked for."""
        by_task: dict[str, dict[int, int]] = {}
        for line, attempt in self._read("attempts.jsonl", _Place):
            _count(by_task, attempt, line)
        return StoredAttempts(self.path / "attempts.jsonl", by_task)

    @property
    def results(self) -> dict[str, records.TaskResult]:
        return {result.task_id: result for _, result in self._read("results.jsonl", records.TaskResult)}

    @property
    def grades(self) -> dict[tuple[str, int], records.Grade]:
        """Hidden verdicts by task and attempt number."""
        return {(grade.task_id, grade.number): grade for _, grade in self._read("grades.jsonl", records.Grade)}

    @property
    def graded(self) -> set[tuple[str, int]]:
        """Task and number of the attempts with a hidden verdict."""
        return {(grade.task_id, grade.number) for _, grade in self._read("grades.jsonl", _Place)}

    @property
    def written_tests(self) -> dict[str, records.WrittenTests]:
        return {written.task_id: written for _, written in self._read("written_tests.jsonl", records.WrittenTests)}

    @property
    def updates(self) -> list[records.Update]:
        """Calls of the curator, in order."""
        return [update for _, update in self._read("operations.jsonl", records.Update)]

    @property
    def suite_verdicts(self) -> dict[str, records.SuiteVerdict]:
        """Verdicts of the canonical solution on the written tests, by task."""
        return {verdict.task_id: verdict for _, verdict in self._read("suite_verdicts.jsonl", records.SuiteVerdict)}

    @property
    def paid(self) -> records.Usage:
        """Usage of all starts, without cached attempts, and without calls of attempts that never ended."""
        lines = (
            line
            for path in (self.path, self.path / "dropped")
            for line in RunFolder(path)._read("attempts.jsonl", records.Attempt)
        )
        usages = [usage for _, attempt in lines if not attempt.trajectory.cached for usage in attempt.usage.values()]
        usages += [written.usage for written in self.written_tests.values()] + [update.usage for update in self.updates]
        return sum(usages, records.Usage())

    @property
    def unfinished_calls(self) -> int:
        """Calls that were paid for in loops without a result, which a resumed run reads from the cache."""
        results = self.results
        paid = (a for a in self.each_attempt() if a.task_id not in results and not a.trajectory.cached)
        return sum(usage.calls for attempt in paid for usage in attempt.usage.values())

    @property
    def set_aside(self) -> list[records.SetAside]:
        """Loops that ended without an answer of the model, in order."""
        return [loop for _, loop in self._read("set_aside.jsonl", records.SetAside)]

    @property
    def resumptions(self) -> list[records.Resumption]:
        """Resumptions of an interrupted run, in order."""
        return [resumption for _, resumption in self._read("resumptions.jsonl", records.Resumption)]

    def _read(self, name: str, kind: type[R], only: Collection[int] | None = None) -> Iterator[tuple[int, R]]:
        """Records of a file with their line numbers, from 1; `only`: restricted to these lines."""
        path, decoder = self.path / name, msgspec.json.Decoder(kind)
        if not path.exists():
            return
        check(path, "the records of a run")
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line == b"\n" or (only is not None and number not in only):
                    continue
                try:
                    yield number, decoder.decode(line)
                except msgspec.ValidationError as problem:
                    where = f"{path}, line {number}: {problem}; was it written by another version?"
                    raise FolderError(where, hint=BY_HAND) from None
                except UNREADABLE:
                    self.torn += 1


class StoredAttempts(Mapping[str, list[records.Attempt]]):
    """Attempts in a file, by task, given the numbers of their lines from 1 by their own numbers."""

    def __init__(self, path: Path, lines: Mapping[str, Mapping[int, int]]) -> None:
        self._path = path
        self.lines = lines
        self._ends = array("q", [0])
        """Offsets of the ends of the lines."""
        if lines:
            with path.open("rb") as file:
                self._ends.extend(accumulate(map(len, file)))

    def __getitem__(self, task_id: str) -> list[records.Attempt]:
        """Raises FolderError: a line cannot be read, or is another than it was."""
        attempts = []
        with self._path.open("rb") as file:
            for line in self.lines[task_id].values():
                start, end = self._ends[line - 1], self._ends[line]
                try:
                    attempts.append(_ATTEMPT.decode(os.pread(file.fileno(), end - start, start)))
                except UNREADABLE as problem:
                    raise FolderError(f"{self._path}, line {line}: {problem}", hint=BY_HAND) from None
        return attempts

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)


_ATTEMPT = msgspec.json.Decoder(records.Attempt)


def read_beginning(path: Path) -> records.Beginning | None:
    """Contents of a store at the start of a run, read from `path`; None without the file. Raises FolderError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=records.Beginning) if path.exists() else None
    except UNREADABLE as problem:
        expected = "what the store held when the run began"
        raise FolderError(f"{path}: {problem}", expected=expected, hint=IRREPLACEABLE) from None


def _count(by_task: dict[str, dict[int, T]], attempt: records.Attempt | _Place, value: T) -> None:
    """Record `value` under its task and number; a first attempt discards the task's earlier ones."""
    if attempt.number == 1:
        by_task.pop(attempt.task_id, None)
    by_task.setdefault(attempt.task_id, {})[attempt.number] = value


_STARTED = re.compile(r"\d{8}-\d{6}-")
"""Begin of a run's name: day and time of its start, in UTC."""
MANIFEST, CELLS = "manifest.json", "cells.jsonl"
"""Files that mark the folder of a run and that of a sweep."""
RUNS = "runs"
"""The folder of runs by default, in which names are looked up."""


def folders(*runs: object) -> list[RunFolder]:
    """The run folders that `runs` name (see `run_paths`); those that cannot be read are left out with a warning.

    Raises FolderError: none can be read, or as `run_paths`.
    """
    return readable(run_paths(*runs), RunFolder.existing)


def run_paths(*runs: object) -> list[Path]:
    """Paths of the run folders that `runs` name, in order and without repetition.

    Raises FolderError: no run of that name, a pattern matches none, or an argument is something else. `runs`: run
    folders; folders of runs, and of sweeps; a part of the name of one run in `runs/`; patterns such as `runs/*`, which
    match folders with a run; `RunFolder`s; objects with an attribute `folder` (a run) or `runs` (a sweep); or iterables
    of these. Several paths are those of a shell's pattern: those that are no run are left out.
    """
    paths = [run for run in runs if isinstance(run, str | Path)]
    others = {str(path) for path in paths if _is_no_run(path)}
    if len(others) == len(set(map(str, paths))):  # of names alone that are no run, each is wrong
        others = set()
    by_path: dict[Path, Path] = {}
    for run in runs:
        if str(run) not in others:
            for path in _named(run):
                by_path.setdefault(path.resolve(), path)
    if others:
        warnings.warn(f"left out, since they are no runs: {len(others)} of {len(runs)} paths", stacklevel=2)
    return list(by_path.values())


def readable(things: Iterable[S], read: Callable[[S], T], most: int | None = None) -> list[T]:
    """`read` of each thing, until there are `most`. What cannot be read is left out, with a warning that says why.

    Raises the first problem if nothing else is left.
    """
    results: list[T] = []
    problems: list[FolderError | DataError | OSError] = []
    for thing in things:
        if len(results) == most:
            break
        try:
            results.append(read(thing))
        except (FolderError, DataError, OSError) as problem:
            problems.append(problem)
    if problems and not results:
        raise problems[0]
    for text in map(left_out, problems):
        warnings.warn(text, stacklevel=1)  # here, so that it is printed once
    return results


def left_out(problem: Exception) -> str:
    """Why a run is left out; of an unfinished one with its remedy."""
    if isinstance(problem, OSError):
        return f"Not read: {problem.filename}: {problem.strerror}"
    return f"Not read: {problem.problem}" if isinstance(problem, FolderError) else f"Left out: {problem}"


def newest(number: int, root: Path | str = RUNS) -> list[RunFolder]:
    """The `number` newest runs in `root`, oldest first. Raises FolderError: it has none."""
    paths = [path for path in runs_in(Path(root)) if _STARTED.match(path.name)]  # a copy of another name is not new
    runs = readable(reversed(paths), RunFolder.existing, number)
    if len(runs) < number:
        raise FolderError(root, f"{len(runs)} run{'s' * (len(runs) != 1)}", f"{number} or more")
    return runs[::-1]


def _is_no_run(path: str | Path) -> bool:
    """Whether something else than a run, and no folder of runs, is at the path."""
    try:
        return Path(path).exists() and not _is_run(Path(path)) and not runs_in(Path(path))
    except (OSError, ValueError):
        return False


def _is_run(path: Path) -> bool:
    """Whether a run is at the path, or a folder with the name of one, whatever is left of it."""
    try:
        return (path / MANIFEST).is_file() or (bool(_STARTED.match(path.name)) and path.is_dir())
    except PermissionError:
        return True


def runs_in(root: Path) -> list[Path]:
    """Run folders in `root`, oldest first; of the folder of a sweep, those of its cells in their order."""
    if not (root / CELLS).is_file():
        return sorted(filter(_is_run, root.glob("[!.]*")))
    folders: dict[int, str] = {}
    numbers = set()
    for line in (root / CELLS).read_bytes().splitlines():
        with contextlib.suppress(msgspec.MsgspecError):  # torn
            state = msgspec.json.decode(line, type=_Cell)
            folders |= {state.number: state.folder} if state.folder else {}
            numbers.add(state.number)
    paths = (Path(folder) for _, folder in sorted(folders.items()))
    # beside the sweep, where the run root was moved
    beside = (path if path.exists() else root.resolve().parents[1] / path.name for path in paths)
    runs = [path for path in beside if (path / MANIFEST).is_file()]
    if missing := len(numbers) - len(runs):
        warnings.warn(
            f"{root}: {missing} of {len(numbers)} cells have no run: not started, failed, or deleted", stacklevel=2
        )
    return runs


class _Cell(msgspec.Struct):
    """The fields of a cell's state that name its run."""

    number: int
    folder: str = ""


def some_folders(*runs: object) -> list[RunFolder]:
    """As `folders`, for at least one folder. Raises FolderError: there is none, or as `folders`."""
    if named := folders(*runs):
        return named
    raise FolderError("runs", "none", "run folders, a pattern such as runs/*, a run or a sweep")


def _named(run: object) -> list[Path]:
    if isinstance(run, str | Path):
        return _matching(str(run))
    if isinstance(folder := getattr(run, "folder", run), RunFolder):
        return [folder.path]
    if isinstance(several := getattr(run, "runs", run), Iterable):
        return run_paths(*several)
    expected = "a folder, a pattern such as runs/*, a run or a sweep"
    raise FolderError("runs", f"something of type {type(run).__name__}", expected)


def _matching(run: str) -> list[Path]:
    """The runs at a path, in a folder of runs or of a sweep, of a pattern, or of a part of a name in `runs/`."""
    try:
        is_there = Path(run).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        raise FolderError(f"{run[:40]!r}…", "no path", "a run folder, or a pattern") from None
    if is_there:
        return ([] if _is_run(Path(run)) or not Path(run).is_dir() else runs_in(Path(run))) or [Path(run)]
    if glob.has_magic(run):
        paths = map(Path, sorted(glob.glob(run, recursive=True)))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if matches := list(filter(_is_run, paths)):
            return matches
        raise FolderError(run, "no manifest.json in any folder", "a pattern that fits run folders")
    there = runs_in(Path(RUNS)) if run and "/" not in run else []
    if not (named := [path for path in there if run in path.name]) and there:
        hint = f"the newest is {there[-1].name}; `reflexion-lab runs` lists them"
        raise FolderError(f"{run}: no run in {RUNS}/ has that in its name", hint=hint)
    if len(named) > 1:
        names = ", ".join(path.name for path in named[:3])
        raise FolderError(run, f"{len(named)} runs of such a name ({names})", "a part of the name of one run")
    return named or [RunFolder.existing(run).path]


def write_digests(folder: RunFolder) -> None:
    """Write the digests of a finished run, SHA-256 and lines of each file, by which later changes are detected.

    A run that was finished before and added nothing keeps its digests, so that changes since then stay detectable.
    Digests are no signature: whoever can write the records can write digests.
    """
    if folder.is_untouched and is_finished(folder):
        return
    folder.write_json(DIGESTS, msgspec.to_builtins(digests(folder.path)))


def is_finished(folder: RunFolder) -> bool:
    return (folder.path / DIGESTS).exists()


def digests(folder: Path) -> dict[str, Digest]:
    """Current digests of a run's files, by name."""
    return {name: _digest(folder / name) for name in RECORD_FILES if (folder / name).is_file()}


def digests_at_end(folder: Path) -> dict[str, Digest] | None:
    """Digests of a run's files at its end, by name; None if not recorded. Raises FolderError: they cannot be read."""
    path = folder / DIGESTS
    try:
        return _DECODER.decode(path.read_bytes()) if path.exists() else None
    except msgspec.MsgspecError as problem:
        raise FolderError(f"{path}: {problem}", expected="sha256 and lines of each file of records") from None


def _digest(path: Path) -> Digest:
    sha256, lines = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            sha256.update(part)
            lines += part.count(b"\n")
    return Digest(sha256=sha256.hexdigest(), lines=lines)
