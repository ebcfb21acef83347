"""Validation of kept records, and their import into a store: exports, other stores, run folders, reflection files."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.cli.place import is_store, kept_at, shown
from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.memory.episodic import episode_of, session_after, session_id
from reflexion_lab.memory.mistakes import mistakes_of
from reflexion_lab.protocols import Store, Stored
from reflexion_lab.records import SCHEMA_VERSION, Episode, Manifest, Mistake, Record, Session, Task, Wisdom
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.jsonl import Header, check_schema, header_text
from reflexion_lab.storage.kinds import KINDS, prepared
from reflexion_lab.storage.place import load

EXPECTED = "a store, an export (*.jsonl, *.json), a run folder, or a folder of reflection files"


def problems(place: str) -> Iterator[str]:
    """One sentence per invalid record at `place`: file, line or field, got, expected."""
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
    """Numbers out of range: field, got, expected."""
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


BATCH = 1000


class Imported(Record, frozen=True, kw_only=True):
    """Counts of imported records, by kind."""

    new: dict[str, int]
    replaced: dict[str, int]
    """Records whose ids were in the store already, or were repeated."""
    notes: tuple[str, ...] = ()


def import_records(store: Store, places: Iterable[str]) -> Imported:
    """Append the records at `places`, in their order.

    Raises
    ------
    ConfigError
        One of them is invalid; nothing was appended.
    StoreError
        The store failed; records appended before stay, and the import can be repeated.
    """
    places = list(places)
    for place in places:
        _check(place)
    before, notes = counted(store), []
    appended = dict.fromkeys(before, 0)
    for place in places:
        counts, note = _append(store, place)
        appended = {kind: appended[kind] + counts.get(kind, 0) for kind in appended}
        notes += [f"{place}: {note}"] if note else []
    new = {kind: count - before[kind] for kind, count in counted(store).items()}
    return Imported(new=new, replaced={kind: appended[kind] - new[kind] for kind in appended}, notes=tuple(notes))


def counted(store: Store) -> dict[str, int]:
    """Records by kind."""
    return {kind.name: sum(1 for _ in store.read(kind.record)) for kind in KINDS}


def _check(place: str) -> None:
    """Raises ConfigError."""
    path = Path(place)
    is_run = (path / "manifest.json").is_file()
    if path.is_dir() and not is_run and not is_store(place):
        raise ConfigError(place, "a folder of something else", EXPECTED.rpartition(", or")[0])
    if errors := list(islice(problems(place), 100)):
        more = f"; `reflexion-lab memory validate {place}` names all" if errors[1:] else ""
        raise ConfigError(f"{errors[0]}{more}; nothing was imported")
    if is_run and (leak := RunFolder.existing(path).manifest.leak):
        raise ConfigError(
            place,
            f"words of a loop that was shown {leak}",
            "another run, since what it learnt from them would help later runs past the hidden tests",
            "nothing was imported",
        )


def _append(store: Store, place: str) -> tuple[dict[str, int], str]:
    """Counts by kind, and a note or ""."""
    path = Path(place)
    if (path / "manifest.json").is_file():
        return _append_run(store, path)
    if not is_store(place):
        return load(store, path), ""
    counts = {}
    with kept_at(place) as other:
        for kind in KINDS:
            counts[kind.name] = _append_all(store, other.read(kind.record))
    return counts, ""


def _append_run(store: Store, path: Path) -> tuple[dict[str, int], str]:
    prompts, missing = _prompts(path)
    folder = RunFolder.existing(path)
    records = records_of(folder, prompts)
    ids = {record.episode_id for record in records if isinstance(record, Episode)}
    known = {episode.episode_id: episode for episode in store.read(Episode) if episode.episode_id in ids}
    _append_all(store, (_completed(record, known) for record in records))
    kinds = [next(kind.name for kind in KINDS if kind.record is type(record)) for record in records]
    return {name: kinds.count(name) for name in set(kinds)}, missing


def _append_all(store: Store, records: Iterable[Stored]) -> int:
    remaining, count = iter(records), 0
    while batch := list(islice(remaining, BATCH)):
        store.append(batch)
        count += len(batch)
    return count


def records_of(folder: RunFolder, prompts: Mapping[str, str]) -> list[Stored]:
    """Records of a run's loops for a store: episodes and mistakes dated at the run's start, and sessions.

    A task without its prompt yields no mistakes, since they are searched by prompt.
    """
    manifest = folder.manifest
    began = _seconds(manifest)
    records: list[Stored] = []
    for task_id, attempts in folder.attempts.items():
        task = Task(task_id=task_id, prompt=prompts.get(task_id, ""), entry_point="")
        name = session_id(manifest.run_id, task_id)
        session = Session(session_id=name)
        for attempt in attempts:
            session = session_after(session, attempt)
            episode = episode_of(task, attempt, name, str(manifest.config.get("arm") or "actor"))
            records.append(replace(episode, timestamp=began))
        records += [session, *(mistakes_of(task, attempts, began) if task.prompt else ())]
    return records


def _completed(record: Stored, known: Mapping[str, Episode]) -> Stored:
    """`record` with the time and prompt of the stored episode of the same id."""
    if not isinstance(record, Episode) or record.episode_id not in known:
        return record
    older = known[record.episode_id]
    described = record.task_description or older.task_description
    return replace(record, timestamp=older.timestamp, task_description=described)


def _prompts(path: Path) -> tuple[dict[str, str], str]:
    """Prompts by task, from the benchmark that the run names; and the reason if there are none."""
    from reflexion_lab.audit.own_runs import run_samples

    try:
        return {sample.task_id: sample.prompt for sample in run_samples(path, attempts=False)}, ""
    except Exception as problem:  # a file moved, a package gone, another version: the attempts are worth having anyway
        why = str(problem).removeprefix(f"{path}: ")
        return {}, f"without the tasks' prompts, so that no search finds them by those ({why})"


def _seconds(manifest: Manifest) -> float:
    try:
        return float(calendar.timegm(time.strptime(manifest.created_at, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return time.time()


def old(store: Store, before: float) -> Iterator[Stored]:
    """What `store.prune(before)` would remove."""
    from reflexion_lab.storage.kinds import is_old

    for kind in KINDS:
        yield from (record for record in store.read(kind.record) if is_old(record, before))
