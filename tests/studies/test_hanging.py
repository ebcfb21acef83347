"""Parts that hang or are slow: attempts are kept, one line says so, and the run ends, or resumes, as without them."""

from __future__ import annotations

import os
import re
import socket
import threading
import time

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.cli.main import main
from reflexion_lab.loop import deadline
from reflexion_lab.memory import archive
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.studies import run
from tests import builders

RUN = ("run", "model=simulated", "model.first=0.3", "benchmark.load.n=4", "quiet=true", "workers=2", "tracker=none",
       "memory.shared.round_size=2", "memory.shared.shown.wisdom=2", "memory.shared.shown.insights=2",
       "loop.timeout=4", "reflector=rules")  # fmt: skip
WELL = threading.Event()
"""While it is clear, the parts below hang."""
OWN = "tests.studies.test_hanging"


class HangingStore(InMemory):
    is_durable = True

    def append(self, records):
        WELL.wait()
        super().append(records)


class HangingRetriever(Jaccard):
    def rank(self, query, k):
        WELL.wait()
        return super().rank(query, k)


class HangingReflector:
    def reflect(self, task: Task, attempt: Attempt, episodes: list[Episode]) -> Reflection:
        WELL.wait()
        return builders.reflection(attempt.number, root_cause="it is wrong")


class HangingTracker:
    command = ""

    def track(self, folder, log=None):
        WELL.wait()
        return ""


@pytest.fixture(autouse=True)
def impatient(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(archive, "PATIENCE", 1.0)
    monkeypatch.setattr(run, "PATIENCE", 1.0)
    monkeypatch.setattr(deadline, "QUIET", 0.1)
    WELL.clear()
    yield
    WELL.set()


def own(group, part):
    return f"~{group}", f"+{group}._target_={OWN}.{part}"


def carried_out(root, *overrides, code=0):
    """The folder of a run that ends with `code`."""
    assert main([*RUN, f"run_root={root}", *overrides]) == code
    (folder,) = (path.parent for path in root.glob("[!.]*/manifest.json"))
    return folder


def outcome(folder):
    return canonical_form(Log.read(RunFolder.existing(folder)))


def undisturbed(tmp_path, *overrides):
    WELL.set()
    folder = carried_out(tmp_path / "well", *overrides)
    WELL.clear()
    return outcome(folder)


def test_a_store_that_hangs_costs_only_its_own_copy(tmp_path, capfd):
    whole = undisturbed(tmp_path)
    capfd.readouterr()
    folder = carried_out(tmp_path / "hung", *own("store", "HangingStore"))
    waits, warning = capfd.readouterr().err.splitlines()
    assert waits == "still waiting for the store, at most 1 s; Ctrl-C stops"
    assert warning == (
        "warning: store: no answer within 1 s; the run continues; `reflexion-lab memory import` can import its folder "
        "later"
    )
    assert outcome(folder) == whole


def test_a_tracker_that_hangs_is_left_alone_and_the_run_is_complete(tmp_path, capsys):
    whole = undisturbed(tmp_path)
    folder = carried_out(tmp_path / "hung", *own("tracker", "HangingTracker"))
    later = f"not tracked: tracker: `reflexion-lab track {folder}` shows the run later; no answer within 1 s\n"
    assert capsys.readouterr().err.endswith(later)
    assert (folder / "summary.json").exists()
    assert outcome(folder) == whole


def test_a_tracking_server_that_never_answers_is_left_alone(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        folder = carried_out(tmp_path / "hung", "tracker=mlflow", f"storage.tracking={address}")
        assert f"`reflexion-lab track {folder}` shows the run later; no answer within 1 s" in capsys.readouterr().err
    assert len(outcome(folder)) == 4


@pytest.mark.parametrize(("group", "part"), [("retriever", "HangingRetriever"), ("reflector", "HangingReflector")])
@pytest.mark.slow
def test_a_part_that_hangs_stops_the_run_which_resumes_to_the_same(tmp_path, capsys, group, part):
    overrides = own(group, part)
    whole = undisturbed(tmp_path, *overrides)
    capsys.readouterr()
    folder = carried_out(tmp_path / "hung", *overrides, code=2)
    stopped, error = capsys.readouterr().err.splitlines()
    assert stopped == f"stopped; finish it with the same command and resume={folder}"
    assert re.match(r"error: \d+ tasks had no answer twice \(timeout \d+\).* gave no result within 4 s", error)
    before = (folder / "results.jsonl").read_bytes() if (folder / "results.jsonl").exists() else b""
    WELL.set()
    assert carried_out(tmp_path / "hung", *overrides, f"resume={folder}") == folder
    assert (folder / "results.jsonl").read_bytes().startswith(before)
    assert outcome(folder) == whole


def test_a_slow_disk_changes_no_result(tmp_path, monkeypatch):
    whole = undisturbed(tmp_path)
    calls = []

    def slow(call):
        def late(*arguments):
            calls.append(call)
            time.sleep(0.02)
            return call(*arguments)

        return late

    for name in ("fsync", "write", "pwrite"):
        monkeypatch.setattr(os, name, slow(getattr(os, name)))
    folder = carried_out(tmp_path / "slow", "store=jsonl", f"store.place={tmp_path / 'memory'}")
    assert outcome(folder) == whole
    assert len(calls) > 20
    assert len((tmp_path / "memory" / "episodes.jsonl").read_bytes().splitlines()) > 4
