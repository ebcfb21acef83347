"""A model server for all processes of a sweep, which can kill the sender of a request."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from model_server import ModelServer

import reflexion_lab
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import canonical_bytes
from tests.studies.small_runs import REFLECTION

MODEL = """
import json, os, urllib.request
from reflexion_lab.agent.models.scripted import ScriptedModel

opened = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def served(path, seed, **settings):
    # A user-defined part, which the cells' processes find in the folder where the sweep was started.
    def answer(messages):
        request = {"seed": seed, "text": messages[-1].content, "process": os.getpid()}
        with opened.open(path, json.dumps(request).encode(), timeout=300) as reply:
            return reply.read().decode()
    return ScriptedModel(answer, name=f"served {seed}", **settings)
"""
KEY = "sk-planted-5f1c0d7e"
ROOT = Path(reflexion_lab.__file__).parents[1]
SIX = "seed=0,1,2,3,4,5"


class Served:
    """Counts requests. One kills its sender if its number is in `kill_at`, or, by seed, the first `kills` times."""

    def __init__(self):
        self.requests, self.kill_at, self.kills, self.killed = [], set(), {}, []
        self._lock = threading.Lock()
        self.http = ModelServer(lambda request, _: (200, self.answer(request).encode()))
        self.http.__enter__()

    def answer(self, request):
        with self._lock:
            self.requests.append((request["seed"], request["text"]))
            self.kills[request["seed"]] = left = self.kills.get(request["seed"], 0) - 1
            if len(self.requests) in self.kill_at or left >= 0:
                self.killed.append(request["process"])
                os.kill(request["process"], signal.SIGKILL)
        if "My Python program failed" in request["text"]:
            return REFLECTION.format("return one")
        return f"\n    return {request['seed'] if 'return one' in request['text'] else None}\n"

    def close(self):
        self.http.__exit__()


class Ended:
    """An ended command: its output, processes and files."""

    def __init__(self, process, places):
        self.code, self.out, self.err, self._places = process.returncode, process.stdout, process.stderr, places

    def files_with(self, text):
        paths = [path for place in self._places for path in place.rglob("*") if path.is_file()]
        assert paths
        return [path for path in paths if text.encode() in read(path)]


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Lab:
    """Runs `reflexion-lab run -m` in a folder of its own; no two cells have a call in common."""

    def __init__(self, folder, short):
        self.folder, self.short, self.served = folder, short, Served()
        (folder / "served_model.py").write_text(MODEL)
        (folder / "home").mkdir()
        env = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "SLURM_", "SUBMITIT_"))}
        env |= {"PYTHONPATH": str(ROOT), "COLUMNS": "160", "HOME": str(folder / "home"), "OPENAI_API_KEY": KEY}
        self.env = {**env, "RAY_TMPDIR": str(short), "TMPDIR": str(short)}

    def run(self, *overrides, **env):
        words = [
            sys.executable, "-m", "reflexion_lab", "run", "-m", "tracker=none", "benchmark.limit=2", "model=scripted",
            "workers=1", "sandbox.servers=1", "model._target_=served_model.served", "+model.seed=${seed}",
            f"model.path=http://127.0.0.1:{self.served.http.server_port}", *overrides,
        ]  # fmt: skip
        process = subprocess.run(
            words, cwd=self.folder, env={**self.env, **env}, capture_output=True, text=True, check=False
        )
        return Ended(process, (self.folder, self.short))

    def results(self, root):
        """The canonical records of the runs in a root, by their seed."""
        logs = [Log.read(RunFolder.existing(path.parent)) for path in (self.folder / root).glob("*/manifest.json")]
        return {log.manifest.seed: canonical_bytes(log) for log in logs}


@pytest.fixture
def lab(tmp_path):
    short = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))  # leaves room for the names of sockets
    lab = Lab(tmp_path, short)
    yield lab
    lab.served.close()
    shutil.rmtree(short)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Results of six cells, run one after the other in one process, and their requests."""
    lab = Lab(tmp_path_factory.mktemp("alone"), Path("/"))
    ended = lab.run(SIX)
    lab.served.close()
    assert ended.code == 0, ended.err
    return lab.results("runs"), sorted(lab.served.requests)
