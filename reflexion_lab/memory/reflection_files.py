"""Readable reflection files: a folder per loop, a file per attempt, validated when written and read.

For example reflections/my-loop/001.json, the first attempt. Order is numeric: 1000 follows 999.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import StoreError
from reflexion_lab.io import files
from reflexion_lab.memory.reflection_layout import LOOP_ID, ReflectionFile, loop_id_of
from reflexion_lab.records import Attempt, Category, Episode


def problems(content: Any) -> list[str]:
    """Faults of a file's decoded JSON, the first of each part of the file, as `path: got …, expected …`."""
    if not isinstance(content, dict):
        return [f"the content: got {content!r:.60}, expected an object"]
    faults = []
    for field in msgspec.structs.fields(ReflectionFile):
        value: Any = content.get(field.name)
        try:
            msgspec.convert(value, field.type if field.name in content or field.required else Any)
        except msgspec.ValidationError as problem:
            text, _, place = str(problem).replace("`", "").partition(" - at $")
            for name in re.findall(r"[^.\[\]]+", place):
                value = value[int(name) if isinstance(value, list) else name]
            wanted = text[0].lower() + text[1:].partition(", got ")[0]
            wanted = f"expected one of {', '.join(Category)}" if "enum" in wanted else wanted
            faults.append(f"{field.name}{place}: got {value!r:.60}, {wanted}")
    return faults or list(_contradictions(msgspec.convert(content, ReflectionFile)))


def _contradictions(file: ReflectionFile) -> Iterator[str]:
    words, memory = file.self_reflection, file.memory_metadata
    if not file.evaluator_output.passed and not words.reflection_text.strip():
        yield "self_reflection.reflection_text: got a blank text, expected the reflection on a failed attempt"
    indices, size = words.credit_assignment.failing_action_indices, len(memory.reflections_in_context)
    for place, numbers, end in (
        ("self_reflection.credit_assignment.failing_action_indices", indices, len(file.actor_output.actions)),
        ("self_reflection.related_reflections", words.related_reflections, file.iteration),
        ("memory_metadata.reflections_in_context", memory.reflections_in_context, file.number),
    ):
        if any(number >= end for number in numbers):
            yield f"{place}: got {list(numbers)!r:.60}, expected numbers below {end}"
    if memory.current_memory_size != size or memory.total_reflections_generated < size:
        got = f"{memory.current_memory_size} of {memory.total_reflections_generated} reflections"
        yield f"memory_metadata.current_memory_size: got {got}, expected {size}, as reflections_in_context has"


_DECODER = msgspec.json.Decoder(ReflectionFile)


class ReflectionFiles:
    """Reflection files of all loops in one folder, or of one loop. Threads and processes may write different loops."""

    def __init__(self, folder: Path | str, only: str = "") -> None:
        self.folder = Path(folder).absolute()
        self._only = only
        self._has_failed = False

    @classmethod
    def at(cls, path: Path) -> ReflectionFiles:
        """Those of the loops in the folder `path`, or of the loop whose folder it is."""
        path = path.absolute()
        return cls(path.parent, path.name) if cls(path.parent)._paths(path.name) else cls(path)

    def write(self, file: ReflectionFile) -> Path:
        """Write an attempt's file atomically. One of an earlier start of the loop stays if it says the same; else
        those from its number on move to a folder beside them.

        Raises StoreError: the content is invalid (lists its faults), or cannot be written. Older files are unchanged.
        """
        folder = self.folder / file.loop_id
        path = folder / _name(file.number)
        if faults := problems(msgspec.to_builtins(file)):
            raise StoreError(f"{'; '.join(f'{path}: {fault}' for fault in faults)}; nothing was written")
        try:
            is_valid = not self._faults_of(path)
            if is_valid and replace(_DECODER.decode(path.read_bytes()), timestamp=file.timestamp) == file:
                return path
            if later := [old for old in self._paths(file.loop_id) if int(old.stem) >= file.number]:
                earlier = next(name for n in count(1) if not (name := folder / f"earlier-{n}").exists())
                earlier.mkdir()
                for old in later[::-1]:  # a kill leaves the beginning of the earlier loop
                    old.rename(earlier / old.name)
            folder.mkdir(parents=True, exist_ok=True)
            for draft in folder.glob(f".*{files.DRAFT}"):  # of a run that was killed
                draft.unlink(missing_ok=True)
            files.replace(path, [msgspec.json.format(msgspec.json.encode(file), indent=2), b"\n"])
        except OSError as error:
            raise StoreError(f"{path}: not written ({error.strerror}); free space, or name another folder") from error
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
            raise StoreError(f"{'; '.join(faults)}; correct the file or move it away")
        return [_DECODER.decode(path.read_bytes()) for path in self._paths(loop_id)]

    def continued(self, run_id: str, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        """The first `attempts` of an interrupted loop that have a file, with its words; their source is `edited` if
        they changed. A loop whose prompts may repeat restarts: a repeated call is a new draw. Raises StoreError.
        """
        files = self.read(loop_id_of(f"{run_id}/{attempts[0].task_id}")) if attempts else ()
        for attempt, file in zip(attempts, files, strict=False):
            if file.number != attempt.number or attempt.memory.omega == 0 or attempt.memory.is_blind:
                return
            words, now = attempt.reflection, file.reflection
            if words and now and {text for _, text in words.statements} != {text for _, text in now.statements}:
                words = replace(now, source="edited")
            yield replace(attempt, reflection=words, trajectory=replace(attempt.trajectory, cached=True))

    def faults(self, loop_id: str) -> list[str]:
        """Faults of a loop's files, each with path and field."""
        if not LOOP_ID.fullmatch(loop_id):
            return [f"loop_id: got {loop_id!r}, expected a name like {LOOP_ID.pattern}"]
        return [f"{path}: {fault}" for path in self._paths(loop_id) for fault in self._faults_of(path)]

    def loops(self) -> list[str]:
        """Loop ids, sorted: names of the folders with a file such as 001.json; hidden folders are skipped."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return [self._only] if self._only else sorted(n for n in names if n[0] != "." and self._paths(n))

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
        got = {"loop_id": content["loop_id"], "iteration": content["iteration"], "name": path.name}
        number = int(path.stem)
        expected = {"loop_id": path.parent.name, "iteration": number - 1, "name": _name(number)}
        return [
            f"{k}: got {v!r}, expected {expected[k]!r}, as the path says" for k, v in got.items() if v != expected[k]
        ]


def _name(attempt_number: int) -> str:
    return f"{attempt_number:03d}.json"
