"""Readable reflection files: a folder per loop, a file per attempt, validated when written and read.

For example reflections/my-loop/001.json, the first attempt. Order is numeric: 1000 follows 999. Their layout:
`reflection_layout.py`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace as with_values

from reflexion_lab.errors import StoreError
from reflexion_lab.io.files import replace
from reflexion_lab.memory.reflection_layout import LOOP_ID, ReflectionFile
from reflexion_lab.records import Category, Episode


def problems(content: object) -> list[str]:
    """Faults of a file's decoded JSON, one per part of the file, as `path: got …, expected …`."""
    if not isinstance(content, dict):
        return [f"the content: got {content!r:.60}, expected an object"]
    if faults := list(_misfits(content)):
        return faults
    is_blank = not content["self_reflection"]["reflection_text"].strip()
    where = "self_reflection.reflection_text"
    is_told = content["evaluator_output"]["passed"] or not is_blank
    return [] if is_told else [f"{where}: got a blank text, expected the reflection on a failed attempt"]


def _misfits(content: dict[str, Any]) -> Iterator[str]:
    """The first missing or wrong value of each part."""
    for field in msgspec.structs.fields(ReflectionFile):
        if field.name not in content and not field.required:
            continue
        value: Any = content.get(field.name)
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError as problem:
            text, _, place = str(problem).replace("`", "").partition(" - at $")
            for name in re.findall(r"[^.\[\]]+", place):
                value = value[int(name) if isinstance(value, list) else name]
            wanted = text[0].lower() + text[1:].partition(", got ")[0]
            wanted = f"expected one of {', '.join(Category)}" if "enum" in wanted else wanted
            yield f"{field.name}{place}: got {value!r:.60}, {wanted}"


_DECODER = msgspec.json.Decoder(ReflectionFile)
ADVICE = "correct the file or move it away"


class ReflectionFiles:
    """Reflection files of all loops in one folder, or of one loop. Threads and processes may write different loops."""

    def __init__(self, folder: Path | str, only: str = "") -> None:
        self.folder = Path(folder)
        self._only = only
        self._has_failed = False

    @classmethod
    def at(cls, path: Path) -> ReflectionFiles:
        """Those of the loops in the folder `path`, or of the loop whose folder it is."""
        path = path.absolute()
        return cls(path.parent, path.name) if cls(path.parent)._paths(path.name) else cls(path)

    def write(self, file: ReflectionFile) -> Path:
        """Write an attempt's file atomically. One of an earlier start of the loop stays if it says the same; else it
        and those after it move to a folder beside them.

        Raises StoreError: the content is invalid (lists its faults), or cannot be written. Older files are unchanged.
        """
        folder = self.folder / file.loop_id
        path = folder / _name(file.number)
        if faults := problems(msgspec.to_builtins(file)):
            raise StoreError(f"{'; '.join(f'{path}: {fault}' for fault in faults)}; nothing was written")
        try:
            if path.exists():
                if not self._faults_of(path) and _timeless(_DECODER.decode(path.read_bytes())) == _timeless(file):
                    return path
                earlier = next(name for n in count(1) if not (name := folder / f"earlier-{n}").exists())
                earlier.mkdir()
                for old in self._paths(file.loop_id):
                    if int(old.stem) >= file.number:
                        old.rename(earlier / old.name)
            folder.mkdir(parents=True, exist_ok=True)
            replace(path, [msgspec.json.format(msgspec.json.encode(file), indent=2), b"\n"])
        except OSError as error:
            raise StoreError(
                f"{path}: not written ({error.strerror}); free some space or name another folder"
            ) from error
        return path

    def note(self, file: ReflectionFile) -> None:
        """As `write`, with a warning in place of errors, since the run folder has the attempt."""
        try:
            self.write(file)
        except StoreError as problem:
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
        """Loop ids, sorted: names of the folders with a file such as 001.json; hidden folders are skipped."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        loops = sorted(name for name in names if not name.startswith(".") and self._paths(name))
        return [self._only] if self._only else loops

    def episodes(self) -> list[Episode]:
        """The attempts of all loops, oldest first. Raises StoreError as `read`."""
        episodes = (file.episode for loop in self.loops() for file in self.read(loop))
        return sorted(episodes, key=lambda episode: episode.timestamp)

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
        expected_values = {"loop_id": path.parent.name, "iteration": int(path.stem) - 1}
        mismatches = [
            f"{field}: got {content[field]!r}, expected {expected!r}, as the path says"
            for field, expected in expected_values.items()
            if content[field] != expected
        ]
        name = _name(int(path.stem))
        return mismatches if path.name == name else [*mismatches, f"name: got {path.name}, expected {name}"]


def _name(attempt_number: int) -> str:
    return f"{attempt_number:03d}.json"


def _timeless(file: ReflectionFile) -> ReflectionFile:
    return with_values(file, timestamp=None)
