"""Reflections as files that a person can read: one folder a loop, one file an attempt, checked both ways.

reflections/my-loop/001.json    the first attempt
reflections/my-loop/010.json    the tenth, behind 009; 1000 comes behind 999
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import msgspec

from reflexion_lab.errors import StoreError
from reflexion_lab.io.files import replace
from reflexion_lab.memory.reflection_schema import LOOP_ID, ReflectionFile, problems

_DECODER = msgspec.json.Decoder(ReflectionFile)
ADVICE = "correct the file or move it away"


class ReflectionFiles:
    """The reflections of loops, below one folder. Threads and processes may read and write at once."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def write(self, file: ReflectionFile) -> Path:
        """Write an attempt's file in one step, in place of an older one: a reader sees all of it or none.

        Raises
        ------
        StoreError
            The content is wrong, each fault named; or the disk did not take it. An older file stands then.
        """
        path = self.folder / file.loop_id / _name(file.attempt_number)
        if faults := problems(msgspec.to_builtins(file)):
            raise StoreError(f"{'; '.join(f'{path}: {fault}' for fault in faults)}; nothing was written")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, [msgspec.json.format(msgspec.json.encode(file), indent=2), b"\n"])
        except OSError as error:
            raise StoreError(f"{path}: not written ({error.strerror}); make room or name another folder") from error
        return path

    def note(self, file: ReflectionFile) -> None:
        """Write the newest attempt's file; a failure is a warning, since the run folder has the attempt.

        Files of later attempts, left by an interrupted loop that was restarted, are removed.
        """
        try:
            self.write(file)
            for path in self._paths(file.loop_id):
                if int(path.stem) > file.attempt_number:
                    path.unlink(missing_ok=True)
        except (StoreError, OSError) as problem:
            warnings.warn(f"{problem}; the run goes on", RuntimeWarning, stacklevel=2)

    def read(self, loop_id: str) -> list[ReflectionFile]:
        """A loop's attempts, oldest first; [] for a loop that has no folder.

        Raises
        ------
        StoreError
            Files that cannot be used, every fault of each named; or `loop_id` is no name for a loop.
        """
        if faults := self.faults(loop_id):
            raise StoreError(f"{'; '.join(faults)}; {ADVICE}")
        return [_DECODER.decode(path.read_bytes()) for path in self._paths(loop_id)]

    def faults(self, loop_id: str) -> list[str]:
        """Faults of a loop's files, a sentence each with file and place; [] for none."""
        if not LOOP_ID.fullmatch(loop_id):
            return [f"loop_id: got {loop_id!r}, expected a name like {LOOP_ID.pattern}"]
        return [f"{path}: {fault}" for path in self._paths(loop_id) for fault in self._faults_of(path)]

    def loops(self) -> list[str]:
        """Names of the folders, sorted; files and hidden folders beside them are no loops."""
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
