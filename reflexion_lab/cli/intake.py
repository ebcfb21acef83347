"""Records from elsewhere into a store: exports, other stores, and run folders."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.cli.place import is_store, kept_at
from reflexion_lab.cli.validation import EXPECTED, problems
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.episodic import after, episode_of, session_id
from reflexion_lab.memory.mistakes import mistakes_of
from reflexion_lab.protocols import Store, Stored
from reflexion_lab.records import Episode, Manifest, Record, Session, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.kinds import KINDS
from reflexion_lab.storage.portable import load

BATCH = 1000


class Taken(Record, frozen=True, kw_only=True):
    """Counts of imported records, by kind."""

    new: dict[str, int]
    replaced: dict[str, int]
    """Records whose ids were in the store already, or were repeated."""
    notes: tuple[str, ...] = ()


def take_in(store: Store, places: Iterable[str]) -> Taken:
    """Append what is at `places`, in their order.

    Raises
    ------
    ConfigError
        Something is wrong with one of them; then nothing was appended.
    StoreError
        The store cannot keep it; what it kept stands, and the import can be begun again.
    """
    places = list(places)
    for place in places:
        _check(place)
    before, notes = counted(store), []
    taken = dict.fromkeys(before, 0)
    for place in places:
        counts, note = _append(store, place)
        taken = {kind: taken[kind] + counts.get(kind, 0) for kind in taken}
        notes += [f"{place}: {note}"] if note else []
    new = {kind: count - before[kind] for kind, count in counted(store).items()}
    return Taken(new=new, replaced={kind: taken[kind] - new[kind] for kind in taken}, notes=tuple(notes))


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
    if is_run and RunFolder.existing(path).manifest.feedback_source == "oracle":
        raise ConfigError(
            place,
            "feedback_source oracle",
            "another, since what it learnt from hidden tests would help later runs past them",
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
    left, count = iter(records), 0
    while batch := list(islice(left, BATCH)):
        store.append(batch)
        count += len(batch)
    return count


def records_of(folder: RunFolder, prompts: Mapping[str, str]) -> list[Stored]:
    """What a run's loops leave in a store: episodes and mistakes as of the time it began, and sessions.

    Without its prompt a task leaves no mistakes, which are found by nothing else.
    """
    manifest = folder.manifest
    began = _seconds(manifest)
    records: list[Stored] = []
    for task_id, attempts in folder.attempts.items():
        task = Task(task_id=task_id, prompt=prompts.get(task_id, ""), entry_point="")
        name = session_id(manifest.run_id, task_id)
        session = Session(session_id=name)
        for attempt in attempts:
            session = after(session, attempt)
            episode = episode_of(task, attempt, name, str(manifest.config.get("arm") or "actor"))
            records.append(replace(episode, timestamp=began))
        records += [session, *(mistakes_of(task, attempts, began) if task.prompt else ())]
    return records


def _completed(record: Stored, known: Mapping[str, Episode]) -> Stored:
    """An episode that the run itself has stored keeps its time, and the prompt that could not be had again."""
    if not isinstance(record, Episode) or record.episode_id not in known:
        return record
    older = known[record.episode_id]
    described = record.task_description or older.task_description
    return replace(record, timestamp=older.timestamp, task_description=described)


def _prompts(path: Path) -> tuple[dict[str, str], str]:
    """By task, from the benchmark that the run names; and why there are none."""
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
