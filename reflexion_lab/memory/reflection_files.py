"""Readable reflection files: a folder per loop, a file per attempt, validated when written and read.

For example reflections/my-loop/001.json, the first attempt. Order is numeric: 1000 follows 999.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args
from urllib.parse import quote

import msgspec

from reflexion_lab.errors import StoreError
from reflexion_lab.io.files import replace
from reflexion_lab.records import Attempt, Category, Delta, MemoryState, Record, Reflection

SCHEMA = 1
WORDS = ("root_cause", "what_went_wrong", "what_to_change", "what_worked", "text")
"""Text fields of a reflection, at least one of which is not blank. Control reflectors leave some empty; a rejected
reply is in `text` only."""


class ReflectionFile(Record, frozen=True, kw_only=True):
    """The file of one attempt."""

    loop_id: str
    """Folder name."""
    attempt_number: int
    """1-based; file name."""
    task_id: str = ""
    passed: bool
    """The feedback verdict."""
    reward: float
    """In [0, 1]."""
    reflection: Reflection | None
    """None only for a pass."""
    delta: Delta = Delta()
    memory: MemoryState
    in_context: tuple[int, ...] = ()
    """Attempt numbers of the reflections in the actor's prompt."""
    schema_version: int = SCHEMA


def file_of(attempt: Attempt, session_id: str, in_context: Sequence[int]) -> ReflectionFile:
    """The file of an attempt; the loop id is the session id with path separators quoted."""
    return ReflectionFile(
        loop_id=quote(session_id, safe=" ").lstrip("."),
        attempt_number=attempt.number,
        task_id=attempt.task_id,
        passed=attempt.evaluation.passed,
        reward=attempt.evaluation.reward,
        reflection=attempt.reflection,
        delta=attempt.delta,
        memory=attempt.memory,
        in_context=tuple(in_context),
    )


LOOP_ID = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
"""Loop ids: no path separators and no leading dot, so that folders stay inside the parent folder."""


def problems(content: object) -> list[str]:
    """All faults of a file's decoded JSON, as `path: got …, expected …`."""
    misfits = dict(_misfits(content, ReflectionFile, ""))
    if not isinstance(content, dict):
        return list(misfits.values())
    limits = [
        f"{path}: got {value!r:.60}, expected {expected}"
        for path, holds, expected in _LIMITS
        if path not in misfits and (value := _at(content, path)) is not _MISSING and not holds(value)
    ]
    reflection = content.get("reflection", "")
    if reflection is None and content.get("passed") is False:
        limits.append("reflection: got None, expected the reflection on a failed attempt")
    if isinstance(reflection, dict) and not any(str(reflection.get(field, "")).strip() for field in WORDS):
        limits.append(f"reflection: got blank texts, expected at least one of {', '.join(WORDS)}")
    return [*misfits.values(), *limits]


_MISSING = object()
_Limit = tuple[str, Callable[..., bool], str]
_LIMITS: tuple[_Limit, ...] = (
    ("loop_id", lambda name: bool(LOOP_ID.fullmatch(name)), f"a name like {LOOP_ID.pattern}"),
    ("schema_version", lambda version: version == SCHEMA, str(SCHEMA)),
    ("attempt_number", lambda number: number >= 1, "1 or more"),
    ("reward", lambda share: 0 <= share <= 1, "0..1"),
    ("reflection.confidence", lambda share: 0 <= share <= 1, "0..1"),
    ("reflection.category", lambda category: category in set(Category), f"one of {', '.join(Category)}"),
    ("memory.capacity", lambda number: number >= 1, "1 or more"),
    *((f"memory.{field}", lambda number: number >= 0, "0 or more") for field in ("size", "in_context", "total")),
    ("memory.omega", lambda omega: omega is None or omega >= 0, "0 or more, or null"),
)
"""Field paths with a condition and its description; checked where the type is right."""


def _at(content: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            return _MISSING
        content = content[name]
    return content


def _misfits(content: object, kind: type[msgspec.Struct], path: str) -> Iterator[tuple[str, str]]:
    """Paths of missing and wrongly typed fields, with messages."""
    if not isinstance(content, dict):
        yield path, f"{path or 'the content'}: got {content!r:.60}, expected an object"
        return
    for field in msgspec.structs.fields(kind):
        where = f"{path}.{field.name}" if path else field.name
        value = content.get(field.name, _MISSING)
        parts = (field.type, *get_args(field.type))
        nested = [part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)]
        if value is _MISSING:
            if field.required:
                yield where, f"{where}: got nothing, expected a value"
        elif nested and isinstance(value, dict):
            yield from _misfits(value, nested[0], where)
        else:
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError as problem:
                wanted, _, place = str(problem).partition(" - at `$")
                expected = wanted.partition(", got ")[0].removeprefix("Expected ").replace("`", "")
                yield where, f"{where}{place.rstrip('`')}: got {value!r:.60}, expected {expected}"


_DECODER = msgspec.json.Decoder(ReflectionFile)
ADVICE = "correct the file or move it away"


class ReflectionFiles:
    """Reflection files of all loops in one folder. Safe for threads and processes."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._has_failed = False

    def write(self, file: ReflectionFile) -> Path:
        """Write an attempt's file atomically.

        Raises StoreError: the content is invalid (lists every fault), or cannot be written. An older file is unchanged.
        """
        path = self.folder / file.loop_id / _name(file.attempt_number)
        if faults := problems(msgspec.to_builtins(file)):
            raise StoreError(f"{'; '.join(f'{path}: {fault}' for fault in faults)}; nothing was written")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, [msgspec.json.format(msgspec.json.encode(file), indent=2), b"\n"])
        except OSError as error:
            raise StoreError(
                f"{path}: not written ({error.strerror}); free some space or name another folder"
            ) from error
        return path

    def note(self, file: ReflectionFile) -> None:
        """Write the newest attempt's file and remove those of later attempts, left by an interrupted loop. Errors
        become warnings, since the run folder has the attempt.
        """
        try:
            self.write(file)
            for path in self._paths(file.loop_id):
                if int(path.stem) > file.attempt_number:
                    path.unlink(missing_ok=True)
        except (StoreError, OSError) as problem:
            if not self._has_failed:  # one line, not one an attempt
                warnings.warn(f"{problem}; the run continues", RuntimeWarning, stacklevel=2)
            self._has_failed = True

    def read(self, loop_id: str) -> list[ReflectionFile]:
        """A loop's attempts, oldest first; [] without a folder.

        Raises StoreError: invalid files, with every fault; or an invalid `loop_id`.
        """
        if faults := self.faults(loop_id):
            raise StoreError(f"{'; '.join(faults)}; {ADVICE}")
        return [_DECODER.decode(path.read_bytes()) for path in self._paths(loop_id)]

    def faults(self, loop_id: str) -> list[str]:
        """Faults of a loop's files, each with path and field."""
        if not LOOP_ID.fullmatch(loop_id):
            return [f"loop_id: got {loop_id!r}, expected a name like {LOOP_ID.pattern}"]
        return [f"{path}: {fault}" for path in self._paths(loop_id) for fault in self._faults_of(path)]

    def loops(self) -> list[str]:
        """Loop ids, sorted; hidden folders are skipped."""
        folders = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path.name for path in folders if path.is_dir() and not path.name.startswith("."))

    def _paths(self, loop_id: str) -> list[Path]:
        numbered = (path for path in (self.folder / loop_id).glob("*.json") if re.fullmatch("[0-9]+", path.stem))
        return sorted(numbered, key=lambda path: int(path.stem))

    def _faults_of(self, path: Path) -> list[str]:
        try:
            content = msgspec.json.decode(path.read_bytes())
        except (OSError, ValueError, RecursionError) as problem:
            return [f"not readable as JSON ({problem})"]
        if faults := problems(content):
            return faults
        expected_values = {"loop_id": path.parent.name, "attempt_number": int(path.stem)}
        mismatches = [
            f"{field}: got {content[field]!r}, expected {expected!r}, as the path says"
            for field, expected in expected_values.items()
            if content[field] != expected
        ]
        name = _name(int(path.stem))
        return mismatches if path.name == name else [*mismatches, f"name: got {path.name}, expected {name}"]


def _name(attempt_number: int) -> str:
    return f"{attempt_number:03d}.json"
