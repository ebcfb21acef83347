"""SIGKILL at stages of a run: `python -m tests.platform.kill.stages --kills 100`, from the top of the checkout.

A life is a run, or a sweep, that kills itself at a drawn event, is resumed, perhaps killed again, and ends undisturbed.
An event is one occurrence of a stage: a model call, a line of a file, an update of memory, the seal, the summary, the
page. It is reached before the stage's write, in the midst of it (torn) or after it. Every process is a fork of this
one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.analysis.report.page import NAME, save_page
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import bare, canonical_form, figures
from reflexion_lab.io import files
from reflexion_lab.memory.archive import Archive
from reflexion_lab.records import Episode, Item, Wisdom
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder import tidy
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.call_store import CallStore
from reflexion_lab.storage.jsonl import RecordFile, locked
from reflexion_lab.storage.place import opened
from reflexion_lab.studies import run as experiment
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.sweeps import launch, running, sweep
from reflexion_lab.studies.tracking.null import NullTracker

BASE = [
    "model=simulated", "actor=single_shot", "benchmark.load.n=5", "benchmark.load.seed=0", "temperature=0.8",
    "tracker=none", "quiet=true", "workers=2", "sandbox.servers=1",
]  # fmt: skip
LEARNS = ["memory.shared.shown.wisdom=2", "memory.shared.round_size=2"]
KINDS = {
    "run": [], "run with written tests": ["feedback_source=self_tests", "suite_writer=chat"],
    "run with a folder of records": ["store=jsonl", *LEARNS], "run with SQLite": ["store=sqlite", *LEARNS],
    "run with a curator": ["curator._target_=tests.shared.scripted_curator.ScriptedCurator", "store=jsonl",
                           "memory.shared.round_size=2", "workers=2"],
    "sweep": ["recall.omega=0,1"], "sweep with SQLite": ["recall.omega=0,1", "store=sqlite", *LEARNS],
}  # fmt: skip
"""Overrides by kind of life."""
KEYS = {"attempts": ("task_id", "number"), "results": ("task_id",), "grades": ("task_id", "number")}
Event = tuple[str, str, int]
"""Stage, `before`, `torn` or `after`, and its number among its like, from 1."""


class Stages:
    """Counts the events of a process, and kills it at `target`."""

    def __init__(self, target: Event | None, paid: Path) -> None:
        self.target = target
        self.paid = paid
        self.counts: Counter[tuple[str, str]] = Counter()
        self.lock = threading.RLock()

    def reach(self, stage: str, when: str, tear: Callable[[], object] = lambda: None) -> None:
        with self.lock:
            self.counts[stage, when] += 1
            if (stage, when, self.counts[stage, when]) == self.target:
                tear()
                os.kill(os.getpid(), signal.SIGKILL)

    def around(
        self, owner: Any, name: str, stage: Callable[..., str], torn: Callable[..., object] | None = None
    ) -> None:
        """Make the calls of a function events; `torn` does half of its work."""
        whole = getattr(owner, name)

        def function(*args: Any, **options: Any) -> Any:
            named = stage(*args, **options)
            self.reach(named, "before")
            if torn:
                self.reach(named, "torn", lambda: torn(*args, **options))
            result = whole(*args, **options)
            self.reach(named, "after")
            return result

        setattr(owner, name, function)

    def install(self) -> None:
        """For this process alone."""
        ask, create = CachedModel._ask, RunFolder.create.__func__

        def paid(model: CachedModel, messages: Any, sampling: Any, sample: int) -> Any:
            self.reach("call", "before")
            completion = ask(model, messages, sampling, sample)
            with self.paid.open("a") as file:
                file.write(call_key(model.fingerprint, messages, sampling, sample) + "\n")
            self.reach("call", "after")
            return completion

        def created(cls: Any, *args: Any) -> Any:
            self.reach("folder", "before")
            folder = create(cls, *args)
            self.reach("folder", "after")
            return folder

        CachedModel._ask, RunFolder.create = paid, classmethod(created)
        self.around(CallStore, "put", lambda *_: "reply")
        self.around(RunFolder, "append", lambda _, name, record: _named(name, record), _torn_line)
        self.around(RunFolder, "sync", lambda _: "sync")
        self.around(files, "replace", lambda path, *_: f"replace {path.name.partition('-')[0]}", _draft)
        self.around(tidy, "_move", lambda *_: "leftovers")
        self.around(Archive, "absorb", lambda *_: "memory")
        self.around(Archive, "close", lambda _: "end of memory")
        self.around(RecordFile, "append", lambda file, _: f"memory/{file.path.name}", _torn_records)
        self.around(NullTracker, "track", lambda *_: "tracker")
        for module in (launch, sweep):
            self.around(module, "record", lambda *_: "cells.jsonl", _torn_cell)


def _named(name: str, record: Any) -> str:
    return f"{name} after the seal" if getattr(record, "sealed", False) else name


def _torn_line(folder: RunFolder, name: str, record: Any) -> None:
    line = msgspec.json.encode(record)
    os.write(files.open_for_append(folder.path / name), line[: len(line) // 2])


def _draft(path: Path, parts: Any, draft: Path | None = None) -> None:
    (draft or path.with_name(f".{path.name}.0{files.DRAFT}")).write_bytes(b"".join(parts)[:20])


def _torn_records(file: RecordFile, text: bytes) -> None:
    with locked(file.path) as (descriptor, size):
        whole = file._prefix(descriptor, size) + text
        os.write(descriptor, whole[: len(whole) // 2])


def _torn_cell(folder: Path, state: Any) -> None:
    line = msgspec.json.encode(state)
    with (folder / "cells.jsonl").open("ab") as file:
        file.write(line[: len(line) // 2])


class Runs:
    """The runs below `runs`, and their call cache."""

    runs: Path

    @property
    def folders(self) -> list[Path]:
        return sorted(path.parent for path in self.runs.glob("[!.]*/manifest.json"))

    @property
    def stored(self) -> int:
        """Calls that were paid for and are kept."""
        if not (file := self.runs / "calls.sqlite").exists():
            return 0
        with closing(sqlite3.connect(file)) as cache:
            has_table = cache.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchall()
            return cache.execute("SELECT count(*) FROM calls").fetchone()[0] if has_table else 0


class Place(Runs):
    """Where one life is lived."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.runs, self.paid = path / "runs", path / "paid"
        self.overrides = [*BASE, *KINDS[kind], f"run_root={self.runs}"]
        self.is_sweep = kind.startswith("sweep")
        self.lost = self.n_kills = 0
        path.mkdir(parents=True)

    @property
    def n_paid(self) -> int:
        return len(self.paid.read_text().splitlines()) if self.paid.exists() else 0

    def live(self, target: Event | None) -> bool:
        """Run or resume in a fork; whether `target` was reached."""
        process = os.fork()
        if process == 0:
            self._child(target)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, status
            self.n_kills += 1
            self.lost = self.n_paid - self.stored  # replies that were under way
            assert 0 <= self.lost <= 2 * self.n_kills, self.lost
            return True
        assert status == 0, (self.path / "output").read_text()
        return False

    def _child(self, target: Event | None) -> None:
        code = 1
        output = os.open(self.path / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        stages = Stages(target, self.paid)
        try:
            stages.install()
            if self.is_sweep:
                states = running.sweep(self.overrides, quiet=True).states.values()
                assert {state.status for state in states} <= {"done", "kept"}, states
            else:
                resume = [f"resume={folder}" for folder in self.folders]
                experiment.carry_out(compose(*self.overrides, *resume))
                save_page(RunFolder(self.folders[0]))
            events = [[*event, count] for event, count in sorted(stages.counts.items())]
            (self.path / "events").write_text(json.dumps(events))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def outcome(self) -> list[str]:
        """All that the runs and their memory hold, without ids and times."""
        lines = []
        for folder in self.folders:
            log = Log.read(RunFolder.existing(folder))
            assert len(log.results) == log.manifest.n_expected
            lines.append(repr((canonical_form(log), figures(log), bare(log.updates, log.manifest.run_id))))
        store = next((path for name in ("memory", "memory.sqlite") if (path := self.runs / name).exists()), None)
        if store:
            with closing(opened(store)) as memory:
                records = {kind.__name__: list(memory.read(kind)) for kind in (Episode, Wisdom, Item)}
            names = Counter(episode.episode_id for episode in records["Episode"])
            assert set(names.values()) == {1}, names
            if not self.is_sweep:
                lines.append(repr(bare(records, self.folders[0].name)))
        return sorted(lines)

    def check(self, reference: Place) -> None:
        """As the undisturbed life: the same records, none twice, no call paid twice, nothing left."""
        assert self.outcome() == reference.outcome()
        assert self.stored == reference.stored, (self.stored, reference.stored)
        assert self.n_paid - self.lost == self.stored, (self.n_paid, self.lost, self.stored)
        for folder in self.folders:
            for name, keys in KEYS.items():
                lines = (folder / f"{name}.jsonl").read_bytes().splitlines()
                rows = [tuple(row[key] for key in keys) for line in lines if (row := _decoded(line))]
                assert len(rows) == len(set(rows)), (name, rows)
            left_over = {why for reasons in tidy._lines(RunFolder(folder)).values() for why in reasons.values()}
            assert left_over <= {tidy.RESTARTED, tidy.NO_JSON}, left_over
            assert self.is_sweep or (folder / NAME).stat().st_size > 10_000
            verified = verify(folder)
            assert verified.holds, verified
        left = [path.name for path in self.runs.rglob(".*") if files.DRAFT in path.name or "begun" in path.name]
        assert not left, left


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:  # torn
        return None


def drawn_events(place: Place, n: int, draw: random.Random) -> list[Event]:
    """`n` events of an undisturbed life, spread over its stages."""
    counts = json.loads((place.path / "events").read_text())
    draw.shuffle(counts)
    return [(stage, when, draw.randint(1, count)) for stage, when, count in (counts[k % len(counts)] for k in range(n))]


def lives(root: Path, n_kills: int, seed: int) -> Counter[str]:
    """Carry out lives of all kinds with so many kills in all; returns the kills by stage."""
    killed: Counter[str] = Counter()
    compose(*BASE)  # imports what every fork needs
    wholes = {kind: Place(root / kind / "whole", kind) for kind in KINDS}
    for place in wholes.values():
        place.live(None)
    draw, number = random.Random(seed), 0
    targets = {kind: drawn_events(place, 3 * n_kills, draw) for kind, place in wholes.items()}
    while killed.total() < n_kills:
        kind = list(KINDS)[number % len(KINDS)]
        place = Place(root / kind / str(number), kind)
        n_targets = min(1 + number // len(KINDS) % 3, n_kills - killed.total())
        chosen = [targets[kind].pop() for _ in range(n_targets)]
        try:
            for stage, when, nth in chosen:
                if not place.live((stage, when, nth)):  # what was resumed did not come so far again
                    break
                killed[f"{stage}, {when}"] += 1
            place.live(None)
            place.check(wholes[kind])
        except AssertionError as problem:
            problem.add_note(f"{place.path}, to be killed at {chosen}")
            raise
        shutil.rmtree(place.path)
        number += 1
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        killed = lives(Path(folder), options.kills, options.seed)
    for stage, count in sorted(killed.items()):
        print(f"{count:4} {stage}")
    print(f"{killed.total()} kills at {len(killed)} stages, {time.monotonic() - began:.0f} s; nothing differs")


if __name__ == "__main__":
    main()
