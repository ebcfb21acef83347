"""Validation and import of memory records: exports, other stores, run folders, reflection files."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reflexion_lab.cli.place import counted, is_store, kept_at, without_password
from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.memory.curators.items import after
from reflexion_lab.memory.episodic import episode_of, session_id
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.protocols import Store, Stored
from reflexion_lab.records import Episode, Item, Manifest, Record, Task, Wisdom, id_of, identity
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.objects import method_of
from reflexion_lab.storage.kinds import KINDS
from reflexion_lab.storage.place import append_all, entries, load

EXPECTED = "a store, an export (*.jsonl, *.json), a run folder, or a folder of reflection files"


def problems(place: str) -> Iterator[str]:
    """One sentence per invalid record at `place`: file, line or field, value, expected value."""
    path = Path(place)
    if path.is_dir() and is_store(place):
        for kind in KINDS:
            if (file := path / f"{kind}.jsonl").is_file():
                yield from _of_file(file)
    elif is_store(place):
        yield from _of_database(place)
    elif (path / "manifest.json").is_file():
        yield from _of_run(path)
    elif path.is_dir():
        yield from _of_reflections(path)
    elif path.is_file():
        yield from _of_file(path)
    else:
        yield f"{place}: got nothing, expected {EXPECTED}"


def _of_file(path: Path) -> Iterator[str]:
    for entry in entries(path):
        yield from [entry.problem] if entry.problem else (f"{entry.where}: {fault}" for fault in faults(entry.record))


def _of_database(place: str) -> Iterator[str]:
    try:
        with kept_at(place) as store:
            for kind in KINDS:
                for record in store.read(KINDS[kind]):
                    where = f"{without_password(place)}, {kind} {id_of(record)!r}"
                    yield from (f"{where}: {fault}" for fault in faults(record))
    except (StoreError, ValueError) as problem:
        yield str(problem)


def _of_run(path: Path) -> Iterator[str]:
    try:
        folder = RunFolder.existing(path)
        _ = folder.attempts
        _ = _items_of(folder)
    except ValueError as problem:
        yield str(problem)
        return
    if folder.torn:
        torn = f"{folder.torn} lines without valid JSON"
        yield f"{path / 'attempts.jsonl'}: got {torn}, expected one attempt per line; the run was killed"


def _of_reflections(path: Path) -> Iterator[str]:
    files = ReflectionFiles.at(path)
    if not files.loops():
        yield f"{path}: got no file such as 001.json, expected {EXPECTED}"
    for loop in files.loops():
        yield from files.faults(loop)


SHARES: dict[type, tuple[str, ...]] = {Episode: ("confidence", "reward"), Wisdom: ("impact", "success_rate")}
"""Fields in [0, 1]."""
MINIMA: dict[type, dict[str, int]] = {Episode: {"attempt_number": 1}, Wisdom: {"frequency": 2, "use_count": 0}}


def faults(record: Any) -> Iterator[str]:
    """Numbers of a record that are out of range: field, value, expected range."""
    shares = {field: getattr(record, field) for field in SHARES.get(type(record), ())}
    if isinstance(record, Episode) and record.reflection:
        shares["reflection.confidence"] = record.reflection.confidence
    for field, share in shares.items():
        if not 0 <= share <= 1:
            yield f"{field}: got {share}, expected a share in [0, 1]"
    for field, minimum in MINIMA.get(type(record), {}).items():
        if getattr(record, field) < minimum:
            yield f"{field}: got {getattr(record, field)}, expected {minimum} or more"


class Imported(Record, frozen=True, kw_only=True):
    new: dict[str, int]
    replaced: dict[str, int]
    """Records whose ids were in the store already, or were repeated."""
    notes: tuple[str, ...] = ()


def import_records(store: Store, places: Iterable[str]) -> Imported:
    """Append the records at `places`, in their order. Raises ConfigError: a record is invalid; nothing was appended;
    StoreError: the store failed; earlier records stay, and the import can be repeated.
    """
    places = list(places)
    for place in places:
        _check(place)
    before, notes = counted(store), []
    appended = dict.fromkeys(before, 0)
    for place in places:
        counts, note = _append(store, place)
        appended = {kind: appended[kind] + counts[kind] for kind in appended}
        notes += [f"{place}: {note}"] if note else []
    new = {kind: count - before[kind] for kind, count in counted(store).items()}
    return Imported(new=new, replaced={kind: appended[kind] - new[kind] for kind in appended}, notes=tuple(notes))


def _check(place: str) -> None:
    """Raises ConfigError."""
    path = Path(place)
    if errors := list(islice(problems(place), 100)):
        more = f"; `reflexion-lab memory validate {place}` lists all" if errors[1:] else ""
        raise ConfigError(f"{errors[0]}{more}; nothing was imported")
    if (path / "manifest.json").is_file() and (leak := RunFolder.existing(path).manifest.leak):
        expected = "another run: its reflections would leak hidden tests into later runs"
        raise ConfigError(place, f"reflections of a loop that was shown {leak}", expected, "nothing was imported")


def _append(store: Store, place: str) -> tuple[dict[str, int], str]:
    """Counts by kind, and a note or ""."""
    path = Path(place)
    if (path / "manifest.json").is_file():
        return _append_run(store, path)
    if path.is_file() and not is_store(place):
        return load(store, path), ""
    if not is_store(place):
        known, episodes = {episode.episode_id for episode in store.read(Episode)}, ReflectionFiles.at(path).episodes()
        new = [episode for episode in episodes if episode.episode_id not in known]  # a run's own episodes say more
        note = f"reflection files left out, since the store has their episodes: {len(episodes) - len(new):,}"
        return append_all(store, new), note if new != episodes else ""
    with kept_at(place) as other:
        return append_all(store, chain.from_iterable(map(other.read, KINDS.values()))), ""


def _append_run(store: Store, path: Path) -> tuple[dict[str, int], str]:
    prompts, missing = _prompts(path)
    folder = RunFolder.existing(path)
    records = records_of(folder, prompts)
    ids = {id_of(record) for record in records}
    known = {each.episode_id: each for each in store.read(Episode) if each.episode_id in ids}
    return append_all(store, (_completed(record, known) for record in records)), missing


def records_of(folder: RunFolder, prompts: Mapping[str, str]) -> list[Stored]:
    """Episodes of a run's loops, dated at the run's start, and its items."""
    manifest = folder.manifest
    start = _seconds(manifest)
    records: list[Stored] = []
    for task_id, attempts in folder.attempts.items():
        (base, repetition), prompt = identity(task_id), prompts.get(task_id, "")
        task = Task(task_id=base, repetition=repetition, prompt=prompt, entry_point="")
        name = session_id(manifest.run_id, task_id)
        for attempt in attempts:
            episode = episode_of(task, attempt, name, str(manifest.config.get("arm") or "actor"))
            records.append(replace(episode, timestamp=start))
    return records + _items_of(folder)


def _items_of(folder: RunFolder) -> list[Stored]:
    """The items of a run after its last call of the curator, and those that it removed. Raises DataError."""
    beginning, updates = folder.beginning, folder.updates
    items = after(beginning.items, updates) if beginning else ()
    known = {name for update in updates for operation in update.operations for name in operation.item_ids}
    removed = known - {item.item_id for item in items} if beginning else ()
    owner = method_of(folder.manifest.config["curator"]) if updates or items else ""
    return [replace(item, owner=owner) for item in (*items, *(Item(item_id=name, text="") for name in sorted(removed)))]


def _completed(record: Stored, known: Mapping[str, Episode]) -> Stored:
    """An episode with the time and prompt of the stored one of the same id."""
    if not isinstance(record, Episode) or (older := known.get(record.episode_id)) is None:
        return record
    description = record.task_description or older.task_description
    return replace(record, task_description=description, timestamp=older.timestamp)


def _prompts(path: Path) -> tuple[dict[str, str], str]:
    """Prompts by task, from the run's benchmark; and the reason if there are none."""
    from reflexion_lab.audit.samples import run_samples

    try:
        return {sample.task_id: sample.prompt for sample in run_samples(path, attempts=False)}, ""
    except Exception as problem:  # a missing file or package, another version: the attempts are useful anyway
        reason = str(problem).removeprefix(f"{path}: ")
        return {}, f"without the tasks' prompts, so searches for their words find nothing ({reason})"


def _seconds(manifest: Manifest) -> float:
    try:
        return float(calendar.timegm(time.strptime(manifest.created_at, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return time.time()
