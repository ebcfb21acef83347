"""Loops and programs in workers of a real Ray cluster: equal results, even if workers are lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import scripted_curator

from reflexion_lab.agent.models.prices import CapReached
from reflexion_lab.analysis.summary import Log, bare, canonical_form, figures
from reflexion_lab.errors import HarnessError, ModelError
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.scale.cluster import Cluster
from reflexion_lab.studies.scale.worker import Place, Reply
from reflexion_lab.studies.scale.worker_pool import WorkerPool
from reflexion_lab.tasks.sandbox.sandbox import Limits
from tests.builders import canonical_bytes
from tests.studies.small_runs import run_lab

SECRET = "planted-secret-that-nobody-may-see"
SHARED = (
    "recall=window_then_similar", "recall.min_score=0", "recall.omega=adaptive", "retriever=jaccard",
    "memory.shared.round_size=4", "memory.shared.priors=true", "memory.show_session=true",
    "memory.shared.shown={wisdom:2,mistakes:1,insights:2}",
)  # fmt: skip
COMMON = (
    "model=unsteady", "benchmark.limit=12", "tracker=none", "quiet=true", "seed=3", "sandbox.limits.wall_seconds=30",
)  # fmt: skip
PLACES = {"here": (), "there": ("executor=ray", "executor.workers=2")}
MODEL = "{_target_: unsteady_parts.Unsteady, trouble: none, share: 0, seconds: 0.01}"
PARTS = '''
"""User-defined parts, found in the folder where the run was started: a slow model whose replies depend on the prompt
and which can kill its process; and an actor that logs its inputs.
"""

import hashlib, os, random, time
from pathlib import Path

import msgspec

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.protocols import ModelError, Unanswered


def once(name):
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


class Unsteady(ScriptedModel):
    def __init__(self, trouble, share, seconds):
        super().__init__(self.answer, name="unsteady")
        self.trouble, self.share, self.most = trouble, share, seconds

    def answer(self, messages):
        time.sleep(random.random() * self.most)
        text = messages[-1].content
        digest = hashlib.sha256(text.encode()).hexdigest()
        Path("asked.log").touch()
        if self.share and int(digest, 16) % self.share == 0:
            self.meet(digest)
        with open("asked.log", "a") as file:
            file.write(digest + "\\n")
        if "ROOT_CAUSE" in text:
            cause = f"ROOT_CAUSE: c{len(text) % 7}\\n"
            return cause + "WHAT_WENT_WRONG: w\\nWHAT_TO_CHANGE: look again\\nCONFIDENCE: 0.6\\n"
        return f"\\n    return {len(text) % 5}\\n"

    def meet(self, digest):
        if self.trouble == "deadly":
            os.kill(os.getpid(), 9)
        if self.trouble == "dies_twice" and (once("died-1") or once("died-2")):
            os.kill(os.getpid(), 9)
        if self.trouble == "silent_once" and once("silent"):
            raise Unanswered("the server is away", "server_error")
        if self.trouble == "broken" and not Path("mended").exists() and len(Path("asked.log").read_text()) > 65 * 25:
            raise ModelError("out of power")


class Nosy(SingleShot):
    def act(self, task, recollection):
        with open("seen.log", "a") as file:
            file.write(msgspec.json.encode(task).decode() + repr(sorted(os.environ)) + "\\n")
        return super().act(task, recollection)
'''


@pytest.fixture(scope="module")
def cluster():
    """One for all runs of this module: they find this process connected."""
    os.environ["PLANTED_API_KEY"] = SECRET
    cluster = Cluster(workers=4)
    cluster.connect()
    yield cluster
    folder = cluster._own.path
    leaks = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    cluster.close()
    del os.environ["PLANTED_API_KEY"]
    assert not leaks
    assert not folder.exists()
    assert not any(str(folder) in line for line in processes())


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The config of a run over twelve tasks. `place`: its run root, and whether it uses the cluster."""
    (tmp_path / "unsteady_parts.py").write_text(PARTS)
    shutil.copy(scripted_curator.__file__, tmp_path)
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "unsteady.yaml").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def composed(place, *overrides):
        where = (f"hydra.searchpath=[file://{tmp_path}/conf]", f"run_root={place}", *PLACES[place])
        return compose(*COMMON, *where, *overrides)

    return composed


def log_of(lab):
    return Log.read(lab.folder)


def same(first, second):
    updates = [bare(log.updates, log.manifest.run_id) for log in (first, second)]
    are_alike = canonical_bytes(first) == canonical_bytes(second) and updates[0] == updates[1]
    return are_alike and figures(first) == figures(second)


def processes(*which):
    """Command lines of all processes, or of some."""
    ps = ["ps", *(which or ["-e"]), "-ww", "-o", "args="]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="alone", marks=pytest.mark.soak),
        pytest.param(SHARED, id="shared"),
        pytest.param((*SHARED, "store=sqlite"), id="stored", marks=pytest.mark.slow),
        pytest.param((*SHARED, "curator._target_=scripted_curator.ScriptedCurator"), id="curated"),
    ],
)
@pytest.mark.slow
def test_workers_of_a_cluster_write_the_same_bytes_as_threads(config, cluster, overrides):
    here, there = run_lab(config("here", *overrides)), run_lab(config("there", *overrides, "workers=8"))
    local, remote = log_of(here), log_of(there)
    assert same(local, remote)
    assert len(canonical_form(local)) == 12
    assert len(local.updates) == (12 + 3 if "curator" in str(overrides) else 0)
    assert (there.models.paid, there.models.spent.tokens) == (here.models.paid, here.models.spent.tokens)
    if overrides:  # tasks did learn from each other
        assert [name for attempt in remote.every for name in attempt.recalled if f"/{attempt.task_id}-" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("started, resumed", [("here", "there"), ("there", "here")])
@pytest.mark.soak
def test_a_run_is_resumed_in_another_place(config, cluster, tmp_path, started, resumed):
    with pytest.raises(ModelError, match="out of power") as caught:
        run_lab(config(started, *SHARED, "workers=1", "model.trouble=broken", "model.share=1"))
    assert any(note.startswith("while ") for note in caught.value.__notes__)
    (folder,) = (path.parent for path in Path(started).glob("*/manifest.json"))
    assert RunFolder(folder).results
    (tmp_path / "mended").touch()
    rest = config(resumed, *SHARED, f"resume={folder}", "model.trouble=broken", "model.share=1")
    assert same(log_of(run_lab(config("here", *SHARED, "cache.mode=off"))), log_of(run_lab(rest)))


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_but_calls_in_flight(config, cluster, tmp_path):
    lab = run_lab(config("there", *SHARED, "workers=4", "model.trouble=dies_twice", "model.share=5"))
    killed = len(list(tmp_path.glob("died-*")))
    assert killed == 2
    requests = Counter((tmp_path / "asked.log").read_text().split())
    assert sum(requests.values()) - len(requests) <= 4 * killed
    assert same(log_of(run_lab(config("here", *SHARED))), log_of(lab))


@pytest.mark.slow
@pytest.mark.soak
def test_a_task_that_kills_every_worker_ends_the_run(config, cluster):
    cfg = config("there", "benchmark.limit=1", "executor.workers=1", "model.trouble=deadly", "model.share=1")
    with pytest.raises(HarnessError, match=r"task .*: 3 workers in a row ended while they had it"):
        run_lab(cfg)


@pytest.mark.slow
def test_programs_of_a_lost_worker_are_executed_by_others(cluster):
    executor, program = Cluster(workers=2), "def f(x):\n    return 2 * x\n"
    try:
        pool = executor.pool(Limits(wall_seconds=30.0), None, {})
        before = {place.pid for place in executor.worker_pool.places}
        for pid in before:
            os.kill(pid, signal.SIGKILL)
            for _ in range(2):
                execution = pool.run(program, "f", ("assert f(2) == 4", "assert f(2) == 5"))
                assert [check.outcome for check in execution.checks] == ["pass", "fail"]
        assert before.isdisjoint(place.pid for place in executor.worker_pool.places)
        assert pool.values(program, "f", ("f(4)", "f(None)")) == ["8", None]
        assert pool.servers == len(executor.worker_pool.places) == 2
    finally:
        executor.close()
    with pytest.raises(HarnessError, match="closed"):
        pool.run(program, "f", ())


@pytest.mark.slow
@pytest.mark.soak
def test_a_task_without_an_answer_is_deferred_as_it_is_here(config, cluster):
    lab = run_lab(config("there", "model.trouble=silent_once", "model.share=1"))
    aside = lab.folder.set_aside
    assert {entry.outcome for entry in aside} == {"server_error"}
    assert "while " in aside[0].problem
    assert same(log_of(run_lab(config("here"))), log_of(lab))


@pytest.mark.slow
@pytest.mark.soak
def test_workers_of_other_isolation_or_version_are_refused(cluster):
    import ray

    @ray.remote
    class Stub:
        def __init__(self, *place):
            self.place = Place(*place)

        def ask(self, method, *args):
            return Reply(self.place, None, "", ())

    alike = [("a", 1, ("landlock", "seccomp"), "1.0"), ("b", 2, ("landlock", "seccomp"), "1.0")]
    for other in (("c", 3, (), "1.0"), ("c", 3, ("landlock", "seccomp"), "0.1")):
        places = iter([*alike, other])
        with pytest.raises(HarnessError, match=r"executor: got .* on c and .* on a, expected the same"):
            WorkerPool(lambda places=places: Stub.options(num_cpus=0).remote(*next(places)), 3, 30)


@pytest.mark.slow
def test_caps_hold_over_all_workers(config, cluster, tmp_path):
    with pytest.raises(CapReached, match=r"caps\.calls=7"):
        run_lab(config("there", "caps.calls=7"))
    assert len((tmp_path / "asked.log").read_text().split()) <= 7


@pytest.mark.slow
def test_no_loop_is_given_hidden_tests_or_the_solution(config, cluster, tmp_path):
    task = {
        "task_id": "own/double", "prompt": 'def double(x):\n    """Twice x."""\n', "entry_point": "double",
        "canonical_solution": "    secret_name = x\n    return secret_name + x\n",
        "visible_tests": ["assert double(2) == 4"], "hidden_tests": ["assert double(424242) == 848484"],
    }  # fmt: skip
    (tmp_path / "own.jsonl").write_text(json.dumps(task) + "\n")
    data = ("benchmark=jsonl", f"benchmark.load.path={tmp_path / 'own.jsonl'}", "benchmark.limit=null")
    lab = run_lab(config("there", *data, "actor=single_shot", "actor._target_=unsteady_parts.Nosy"))
    assert lab.folder.grades["own/double", 1].checks_total == 1
    printed = (tmp_path / "seen.log").read_text()
    assert "Twice x" in printed
    assert "PLANTED_API_KEY" in printed  # the environment that keys are read from
    assert "424242" not in printed
    assert "secret_name" not in printed


@pytest.mark.slow
@pytest.mark.soak
def test_a_killed_driver_stops_its_cluster_and_the_run_resumes(config, tmp_path):
    own = (f"hydra.searchpath=[file://{tmp_path}/conf]", "run_root=own", "workers=1", "model.seconds=0.3")
    command = [sys.executable, "-m", "reflexion_lab", "run", *COMMON, *own]
    there = [*command, "executor=ray", "executor.workers=1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen(there, env=environment | {"HOME": str(tmp_path)}) as driver:
        while not (tmp_path / "asked.log").exists():
            assert driver.poll() is None
            time.sleep(0.05)
        session = re.search(r"\S*/reflexion-lab-\w+", " ".join(processes("--ppid", str(driver.pid))))[0]
        driver.kill()
    while any(session in line for line in processes()):
        time.sleep(0.05)
    assert not (tmp_path / ".ray").exists()
    (folder,) = (path.parent for path in Path("own").glob("*/manifest.json"))
    assert len(RunFolder(folder).results) < 12
    subprocess.run([*command, f"resume={folder}"], check=True)
    assert not Path(session).exists()  # the next process has cleared up
    assert same(log_of(run_lab(config("here"))), Log.read(RunFolder.existing(folder)))
