"""Everything that is wrong with kept records, wherever they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.cli.place import is_store, kept_at, shown
from reflexion_lab.errors import StoreError
from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.records import SCHEMA_VERSION, Episode, Mistake, Record, Session, Wisdom
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.jsonl import Header, check_schema, header_text
from reflexion_lab.storage.kinds import KINDS, prepared

EXPECTED = "a store, an export (*.jsonl, *.json), a run folder, or a folder of reflection files"


def problems(place: str) -> Iterator[str]:
    """A sentence for each thing wrong with what is at `place`: which file, line or field, got, expected."""
    path = Path(place)
    if path.is_dir() and is_store(place):
        for kind in KINDS:
            if (file := path / f"{kind.name}.jsonl").is_file():
                yield from _of_lines(file)
    elif is_store(place):
        yield from _of_database(place)
    elif (path / "manifest.json").is_file():
        yield from _of_run(path)
    elif path.is_dir():
        yield from _of_reflections(path)
    elif path.is_file():
        yield from _of_object(path) if path.suffix == ".json" else _of_lines(path)
    else:
        yield f"{place}: got nothing, expected {EXPECTED}"


def _of_lines(path: Path) -> Iterator[str]:
    kinds = {kind.name: kind.record for kind in KINDS}
    record: type[Record] | None = None
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            try:
                head = msgspec.json.decode(line, type=Header)
                check_schema(where, head.schema)
                record = kinds[head.kind]
            except (msgspec.ValidationError, KeyError):
                if record is None:
                    expected = header_text(next(iter(kinds)))
                    yield f"{where}: got no header, expected one such as {expected}; nothing below it was checked"
                    return
                yield from _of_record(where, line, record)
            except UNREADABLE as problem:
                if line.strip():
                    yield f"{where}: got no JSON ({problem}), expected some; a kill tore it, or the disk"
            except StoreError as problem:
                yield f"{problem}; nothing below it was checked"
                return
    if record is None:
        yield f"{path}: got no header, expected one such as {header_text(next(iter(kinds)))}, and records below it"


def _of_object(path: Path) -> Iterator[str]:
    try:
        whole = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        schema = whole.get("schema", 0)
        if not isinstance(schema, int):
            raise StoreError(f"{path}, schema", repr(schema), SCHEMA_VERSION)
        check_schema(str(path), schema)
    except (*UNREADABLE, StoreError) as problem:
        yield str(problem) if isinstance(problem, StoreError) else f"{path}: {problem}; expected an export"
        return
    for kind in KINDS:
        rows = whole.get(kind.name, [])
        if not isinstance(rows, list):
            yield f"{path}, {kind.name}: got {type(rows).__name__}, expected a list"
            continue
        for number, row in enumerate(rows):
            yield from _of_record(f"{path}, {kind.name}[{number}]", msgspec.json.encode(row), kind.record)


def _of_database(place: str) -> Iterator[str]:
    try:
        with kept_at(place) as store:
            for kind in KINDS:
                for record in store.read(kind.record):
                    where = f"{shown(place)}, {kind.name} {getattr(record, kind.id_field)!r}"
                    yield from (f"{where}: {fault}" for fault in faults(record))
    except (StoreError, ValueError) as problem:
        yield str(problem)


def _of_run(path: Path) -> Iterator[str]:
    try:
        folder = RunFolder.existing(path)
        _ = folder.attempts
    except ValueError as problem:
        yield str(problem)
        return
    if folder.torn:
        torn = f"{folder.torn} lines that are no JSON"
        yield f"{path / 'attempts.jsonl'}: got {torn}, expected an attempt a line; a kill tore them"


def _of_reflections(path: Path) -> Iterator[str]:
    from reflexion_lab.memory.reflection_files import ReflectionFiles

    def is_loop(folder: Path) -> bool:
        return any(file.stem.isdecimal() for file in folder.glob("*.json"))

    files, loops = ReflectionFiles(path.absolute().parent), [path.absolute().name]
    if not is_loop(path):
        files = ReflectionFiles(path)
        loops = [name for name in files.loops() if is_loop(path / name)]
    if not loops:
        yield f"{path}: got no file such as 001.json in it or its folders, expected {EXPECTED}"
    for loop in loops:
        yield from files.faults(loop)


def _of_record(where: str, line: bytes, kind: type[Record]) -> Iterator[str]:
    try:
        record: Any = msgspec.json.decode(line, type=kind)
        prepared([record])
    except UNREADABLE as problem:
        yield f"{where}: {problem}; expected one of {kind.__name__}"
    except ValueError as problem:
        yield f"{where}: {problem}"
    else:
        yield from (f"{where}: {fault}" for fault in faults(record))


def faults(record: Episode | Wisdom | Mistake | Session) -> Iterator[str]:
    """Numbers out of their range: which field, what it holds, what was expected."""
    shares: dict[str, float] = {}
    counts: dict[str, tuple[int, int]] = {}
    match record:
        case Episode(confidence=confidence, reward=reward, reflection=reflection):
            shares = {"confidence": confidence, "reward": reward}
            shares |= {"reflection.confidence": reflection.confidence} if reflection else {}
            counts = {"attempt_number": (record.attempt_number, 1)}
        case Wisdom():
            shares = {"impact": record.impact, "success_rate": record.success_rate}
            counts = {"frequency": (record.frequency, 2), "use_count": (record.use_count, 0)}
        case Mistake():
            shares = {"severity": record.severity}
    for field, share in shares.items():
        if not 0 <= share <= 1:
            yield f"{field}: got {share}, expected a share in [0, 1]"
    for field, (count, least) in counts.items():
        if count < least:
            yield f"{field}: got {count}, expected {least} or more"
