"""The lab as processes of their own, against a model server that counts what it is paid for: to be killed."""

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import msgspec
import pytest
from model_server import Handler, ModelServer, completion

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form, figures
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.basics import basics
from tests.platform.kill.stages import Runs

TASKS, WORKERS = 6, 3
PATIENCE = 120
"""Seconds after which a test that waits for something gives up; nothing takes so long, on however loaded a machine."""
OURS = re.compile(r"\.lock|\.calls\.sqlite\.lock|\.tracked|\.[0-9a-f]+\.lock")
"""Hidden files that stay."""


class Counted(Handler):
    """Counts the open connections."""

    def setup(self):
        super().setup()
        self.server.count(1)

    def finish(self):
        self.server.count(-1)
        super().finish()


class Served(ModelServer):
    """A model whose reply is drawn by the request. `gate`: while it is shut, no reply is given."""

    def __init__(self):
        self.solutions = {task.entry_point: task.canonical_program for task in basics(n=TASKS, seed=0)}
        self.paid, self.open, self.changed = [], 0, threading.Condition()
        self.hold, self.gate = 0.0, threading.Event()
        self.gate.set()
        super().__init__(handler=Counted)

    def begin(self):
        self.paid.clear()
        self.hold = 0.01

    def count(self, opened):
        with self.changed:
            self.open += opened
            self.changed.notify_all()

    def wait_for(self, is_so):
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE), "it never came so far"

    def settle(self):
        """Nobody is connected any more: whatever was sent has been counted."""
        import http.client

        with closing(http.client.HTTPConnection(*self.server_address)) as last:  # accepted behind all others
            last.request("GET", "/")
            last.getresponse().read()
        self.wait_for(lambda: self.open == 0)

    def answer(self, handler, raw):
        request = json.loads(raw)
        with self.changed:
            self.paid.append(request)
            self.changed.notify_all()
        self.gate.wait(PATIENCE)
        time.sleep(self.hold)
        handler.send(completion(self.reply(request), model=request["model"]))

    def reply(self, request):
        text, drawn = request["messages"][-1]["content"], hashlib.sha256(json.dumps(request).encode()).digest()
        if "ROOT_CAUSE" in text:
            return (
                f"ROOT_CAUSE: number {drawn[0]}\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: return {drawn[1]}\nCONFIDENCE: 0.5"
            )
        if "SEVERITY" in text:
            return json.dumps({"severity": drawn[0] / 255, "issues": [f"number {drawn[1]}"], "suggestions": ["b"]})
        every = "\n".join(message["content"] for message in request["messages"])
        name = next(name for name in re.findall(r"def (\w+)", every) if name in self.solutions)
        wrong = f"def {name}(*values):\n    return {drawn[0]}"
        return f"```python\n{self.solutions[name] if drawn[2] < 80 else wrong}\n```"


class Place(Runs):
    """A folder in which the lab runs, with a folder for temporary files of its own."""

    def __init__(self, path, served, overrides=()):
        self.path, self.served, self.overrides = path, served, overrides
        self.runs, self.temporary = path / "runs", path / "tmp"
        self.temporary.mkdir(parents=True)
        self.lost = 0
        """Calls that were under way when the process was killed."""

    def start(self, *more, before=(sys.executable, "-m", "reflexion_lab"), **options):
        base = [f"model.base_url={self.served.url}", f"run_root={self.runs}", f"workers={WORKERS}"]
        base += [
            "model.price_per_million=[0,0]", f"benchmark.load.n={TASKS}", "benchmark.load.seed=0", "temperature=0.8",
            "tracker=none", "quiet=true",
        ]  # fmt: skip
        command = [*before, "run", "model=openai", "model.model=tiny", *base]
        env = os.environ | {"TMPDIR": str(self.temporary), "NO_PROXY": "*", "COVERAGE_PROCESS_START": ""}
        command += [*self.overrides, *more]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.path, env=env, text=True, **pipes, **options)

    def run(self, *more, code=0, **options):
        """Carry it out; what it said."""
        process = self.start(*more, **options)
        _, output = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, output
        return output

    @property
    def resume(self):
        """What makes the same command go on; a sweep does so by itself."""
        return [] if "-m" in self.overrides else [f"resume={folder}" for folder in self.folders]

    def killed(self, process, seconds):
        """Whether the process was killed so many seconds after its start; False when it had ended before."""
        try:
            _, output = process.communicate(timeout=seconds)
            assert process.returncode == 0, output
            return False
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        self.check_processes()
        self.served.settle()
        under_way = len(self.served.paid) - self.lost - self.stored
        assert 0 <= under_way <= WORKERS
        self.lost += under_way
        return True

    def check_processes(self):
        """No process is left that works in this place."""
        deadline = time.monotonic() + PATIENCE
        while left := processes(str(self.path)):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def check(self, kills):
        """Nothing was paid twice, nothing is torn, nothing is left."""
        self.check_processes()
        assert len(self.served.paid) - self.lost == self.stored
        assert list(self.temporary.iterdir()) == []
        hidden = [path.name for path in self.runs.rglob(".*") if not OURS.fullmatch(path.name)]
        assert hidden == []
        torn = 0
        for path in self.runs.rglob("*.jsonl"):
            for line in path.read_bytes().splitlines():
                try:
                    msgspec.json.decode(line)
                except msgspec.DecodeError:
                    torn += 1
        assert torn <= kills
        for path in [*self.runs.rglob("*.sqlite"), *self.runs.rglob("*.db")]:
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for path in self.runs.rglob("*.json"):
            msgspec.json.decode(path.read_bytes())


def processes(words):
    """The command lines of those that name `words`: the lab by its arguments, its servers by their folders."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if words in line and "<defunct>" not in line]


def outcome_of(folder):
    """All that a run found, without ids and times."""
    log = Log.read(RunFolder.existing(folder))
    assert len(log.results) == log.manifest.n_expected
    summary = msgspec.json.decode((folder / "summary.json").read_bytes())
    return (
        canonical_form(log),
        figures(log),
        {key: summary[key] for key in ("pass_at_1", "any_solved", "feedback", "n_logged")},
    )


@pytest.fixture(scope="session")
def served():
    with Served() as server:
        yield server


@pytest.fixture(scope="session")
def place(served, tmp_path_factory):
    """Makes a place; the overrides hold for all that runs there."""

    def make(*overrides):
        served.begin()
        served.gate.set()
        return Place(tmp_path_factory.mktemp("place"), served, overrides)

    return make


@pytest.fixture(scope="session")
def outcome():
    return outcome_of


@pytest.fixture(scope="session")
def undisturbed(place, outcome):
    """By overrides, what becomes of a run that nobody disturbs, how many calls it makes, and its place."""
    known = {}

    def find(*overrides):
        if overrides not in known:
            lab = place(*overrides)
            lab.run()
            lab.check(kills=0)
            known[overrides] = [outcome(folder) for folder in lab.folders], lab.stored, lab
        return known[overrides]

    return find
