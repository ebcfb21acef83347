"""Several processes of the lab at once in one place, against a model server that counts what it is asked."""

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest
from fault_server import FaultServer

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.memory.lessons.wisdom import wisdom_of
from reflexion_lab.records import Episode, Wisdom
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.tracking import writing
from reflexion_lab.tasks.benchmarks.basics import basics
from tests.platform.kill.stages import Runs

PATIENCE = 900
"""Seconds after which a test gives up on a process; nothing takes so long, on however loaded a machine."""
CAUSES = "the sign is wrong", "the list is empty", "the border is left out"
TROUBLE = re.compile(r"Traceback|locked|warning:|disk I/O|malformed", re.IGNORECASE)


def student():
    """Draws its reply by the request; what it says of its failures has one of a few causes."""
    solutions = {task.entry_point: task.canonical_program for task in basics(n=12, seed=0)}

    def reply(body):
        texts = [part["content"] for part in body["messages"]]
        drawn = hashlib.sha256(json.dumps(body).encode()).digest()
        if "ROOT_CAUSE" in texts[-1]:
            words = f"WHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: return {drawn[1]}\nCONFIDENCE: 0.{drawn[3] % 9 + 1}"
            return f"ROOT_CAUSE: {CAUSES[drawn[0] % len(CAUSES)]}\n{words}"
        name = next(name for name in re.findall(r"def (\w+)", "\n".join(texts)) if name in solutions)
        wrong = f"def {name}(*values):\n    return {drawn[0]}"
        return f"```python\n{solutions[name] if drawn[2] < 90 else wrong}\n```"

    return reply


class Crowd(Runs):
    """A folder in which processes sweep into one run root."""

    def __init__(self, path, server, overrides=()):
        self.path, self.server, self.overrides = path, server, overrides
        self.runs, self.temporary = path / "runs", path / "tmp"
        self.temporary.mkdir(parents=True)
        self.number = 0

    def start(self, *more, key="crowd"):
        """One process, with a session of its own and its words in a file."""
        self.number += 1
        command = [
            sys.executable, "-m", "reflexion_lab", "run", "-m", "model=openai", "model.model=student",
            f"model.base_url={self.server.url}", "model.price_per_million=[0,0]", "actor=single_shot",
            "benchmark.load.n=4", "benchmark.load.seed=0", "temperature=0.8", "workers=2", "sandbox.servers=1",
            "quiet=true", f"run_root={self.runs}", *self.overrides, *more,
        ]  # fmt: skip
        env = os.environ | {"TMPDIR": str(self.temporary), "NO_PROXY": "*", "OPENAI_API_KEY": f"sk-{key}"}
        output = self.path / f"process-{self.number}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.path, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        process.log = output
        return process

    def all(self, *commands):
        """Start them at once; the code of each and what it said, when all have ended."""
        return self.ended([self.start(*command) for command in commands])

    def ended(self, processes):
        try:
            codes = [process.wait(PATIENCE) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return list(zip(codes, (process.log.read_text() for process in processes), strict=True))

    def check_runs(self, expected):
        """So many runs, no two of the same cell, each complete and in agreement with itself, no attempt twice."""
        folders = [RunFolder.existing(path) for path in self.folders]
        assert Counter(run.manifest.config_digest for run in folders).most_common(1)[0][1] == 1
        assert len(folders) == len({run.manifest.run_id for run in folders}) == expected
        for run in folders:
            assert len(run.results) == run.manifest.n_expected
            lines = [line for line in (run.path / "attempts.jsonl").read_bytes().splitlines() if line]
            assert len(lines) == sum(map(len, run.attempts.values()))
            verification = verify(run.path)
            assert verification.holds, verification
            assert json.loads((run.path / "summary.json").read_text())["n_logged"] == run.manifest.n_expected
        return folders

    def check_calls(self, lost=0):
        """Each distinct call is stored once and was paid once, but for those that a killed process `lost`."""
        with closing(sqlite3.connect(self.runs / "calls.sqlite")) as cache:
            assert cache.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            (stored,) = cache.execute("SELECT count(*) FROM calls").fetchone()
        assert stored == len(self.server.sent)
        assert stored <= sum(self.server.sent.values()) <= stored + lost

    def check_ledger(self):
        """The ledger has every call that was paid; returns how many."""
        with closing(sqlite3.connect(self.runs / "spending.sqlite")) as ledger:
            (calls,) = ledger.execute("SELECT sum(calls) FROM spending WHERE scope NOT LIKE 'under way:%'").fetchone()
        assert calls == len(self.server.requests)
        return calls

    def check_files(self):
        # What a killed process and its sandbox left is removed by the next one in whose time they are gone.
        next_one = [sys.executable, "-c", "from reflexion_lab.io.files import Scratch; Scratch().close()"]
        subprocess.run(next_one, check=True, env=os.environ | {"TMPDIR": str(self.temporary)})
        assert list(self.temporary.iterdir()) == []
        for path in [*self.runs.rglob("*.sqlite"), *self.runs.rglob("*.db")]:
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path

    def check_memory(self, place):
        """Every attempt is there once, and the wisdom is what the episodes say, with its uses."""
        with closing(opened(place)) as store:
            episodes, wisdom = list(store.read(Episode)), {lesson.wisdom_id: lesson for lesson in store.read(Wisdom)}
        runs = [RunFolder.existing(path) for path in self.folders]
        attempts = sum(len(attempts) for run in runs for attempts in run.attempts.values())
        assert len(episodes) == len({episode.episode_id for episode in episodes}) == attempts
        expected = {lesson.wisdom_id: lesson for lesson in wisdom_of(episodes)}
        assert set(wisdom) == set(expected)
        counted = [episode for episode in episodes if episode.has_verdict]
        uses = Counter(name for episode in counted for name in episode.metadata.get("wisdom", "").split())
        for name, lesson in wisdom.items():
            assert lesson.frequency == expected[name].frequency
            assert set(lesson.sources) == set(expected[name].sources)
            assert lesson.use_count == uses[name]
        return uses

    def check_tracked(self, expected):
        """Each run is in MLflow once, finished, with the same metrics; each arm of each sweep once."""
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{self.runs / 'mlflow.db'}")
        (experiment,) = [
            search_experiment
            for search_experiment in client.search_experiments()
            if search_experiment.name == "reflexion"
        ]
        tracked = client.search_runs([experiment.experiment_id], max_results=1000)
        logs = {RunFolder.existing(path).manifest.run_id: path for path in self.folders}
        runs = [run for run in tracked if "run_id" in run.data.tags]
        assert Counter(run.data.tags["run_id"] for run in runs) == Counter(list(logs))
        assert len(runs) == expected
        assert {run.info.status for run in tracked} == {"FINISHED"}
        for run in runs:
            folder = logs[run.data.tags["run_id"]]
            log = Log.read(RunFolder.existing(folder), texts=False)
            last = {
                metric.name: writing.short(metric.value) for metric in writing.job(folder, log, summary(log)).metrics
            }
            assert {name: run.data.metrics.get(name) for name in last} == pytest.approx(last, nan_ok=True)
        arms = [run for run in tracked if "run_id" not in run.data.tags]
        names = Counter((run.data.tags.get("sweep_id", ""), run.info.run_name) for run in arms)
        assert names and set(names.values()) == {1}
        return runs


ACROSS_CELLS = "warning: memory.shared.across_cells: true"


def quiet(ended, codes=(0,)):
    """What they said is no trouble, and each ended as it may."""
    for code, output in ended:
        assert code in codes, output
        assert not TROUBLE.search(output.replace(ACROSS_CELLS, "")), output


@pytest.fixture(scope="session")
def server():
    with FaultServer(student()) as running:
        yield running


@pytest.fixture
def crowd(server, tmp_path):
    """Makes a place of its own; the overrides hold for all that runs there."""

    def make(*overrides):
        server.plan = lambda request: ""
        server.requests.clear()
        server.sent.clear()
        return Crowd(tmp_path / f"crowd-{len(list(tmp_path.iterdir()))}", server, overrides)

    return make


@pytest.fixture(scope="session")
def peaceful():
    return quiet
