"""A process lost during a sweep costs no result, with any launcher."""

import os
import signal
import subprocess

import pytest

pytestmark = pytest.mark.slow
AT_ONCE = 2
LAUNCHERS = {
    "joblib": ("hydra/launcher=joblib", f"hydra.launcher.n_jobs={AT_ONCE}"),
    "slurm_local": ("hydra/launcher=slurm_local", f"hydra.launcher.array_parallelism={AT_ONCE}"),
    "ray": ("hydra/launcher=ray", f"hydra.launcher.ray.init.num_cpus={AT_ONCE}"),
}
ONE_OF = ["slurm_local", *(pytest.param(name, marks=pytest.mark.soak) for name in ("joblib", "ray"))]
SIX = "seed=0,1,2,3,4,5"


@pytest.mark.parametrize("launcher", ONE_OF)
@pytest.mark.soak
def test_a_killed_process_costs_no_more_than_its_calls_in_flight(launcher, lab, alone):
    lab.served.kill_at, jobs = {7}, []
    lab.served.at = {number: lambda: jobs.append(len(lab.processes("submitit.core._submit"))) for number in (2, 5, 9)}
    ended = lab.run(SIX, *LAUNCHERS[launcher])
    assert (ended.code, len(lab.served.killed)) == (0, 1), ended.err
    assert "6 cells: 6 done" in ended.out
    assert "lost, now restarted: cells" in ended.err
    assert "Traceback" not in ended.err
    assert max(jobs) <= AT_ONCE, "submitit itself would have started all six"
    results, requests = alone
    assert lab.results("runs") == results
    assert sorted(set(lab.served.requests)) == requests
    assert len(lab.served.requests) - len(requests) <= AT_ONCE
    assert not lab.processes()
    assert not ended.files_with("sk-planted")


@pytest.mark.soak
def test_a_cell_that_is_lost_twice_is_resumed_by_the_same_command(lab):
    lab.served.kills = {1: 2}
    first = lab.run("seed=0,1", *LAUNCHERS["slurm_local"])
    assert first.code == 2, first.err
    assert "2 cells: 1 done, 1 lost" in first.out
    assert "cell 1: its process was lost (job " in " ".join(first.out.split())
    assert "Traceback" not in first.err + first.out
    second = lab.run("seed=0,1", *LAUNCHERS["slurm_local"])
    assert second.code == 0
    assert "2 cells: 1 kept, 1 done" in second.out
    assert len(lab.served.requests) - len(set(lab.served.requests)) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_cell_ends_however_often_processes_are_killed(launcher, lab, alone):
    lab.served.kill_at, tried = {3, 8, 12, 15, 19}, 0
    while (ended := lab.run(SIX, *LAUNCHERS[launcher])).code:
        assert "Traceback" not in ended.err
        tried += 1
        assert tried < 6
    results, requests = alone
    assert lab.results("runs") == results
    assert len(lab.served.requests) - len(requests) <= AT_ONCE * len(lab.served.killed)
    assert not lab.processes()


@pytest.mark.soak
def test_a_job_whose_time_is_over_is_requeued_and_resumed(lab):
    lab.served.at = {2: lambda: os.kill(lab.processes("submitit.core._submit")[0], signal.SIGUSR2)}
    ended = lab.run("seed=0", *LAUNCHERS["slurm_local"])
    assert ended.code == 0, ended.err
    assert "lost" not in ended.err
    logs = "".join(path.read_text() for path in lab.folder.rglob("*_log.*"))
    assert "Requeued job" in logs
    assert len(lab.served.requests) - len(set(lab.served.requests)) <= 1


@pytest.mark.soak
@pytest.mark.parametrize("code", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_interrupt_of_the_parent_alone_ends_every_process(launcher, code, lab):
    parent = subprocess.Popen(
        lab.words(SIX, *LAUNCHERS[launcher]), cwd=lab.folder, env=lab.env, stderr=subprocess.PIPE, text=True
    )
    lab.served.at = {4: lambda: os.kill(parent.pid, code)}
    _, err = parent.communicate()
    assert parent.returncode == 128 + code, err
    assert "the same command goes on with the sweep" in err
    assert "Traceback" not in err
    assert not lab.processes()
    assert lab.run(SIX, *LAUNCHERS[launcher]).code == 0
    assert len(lab.served.requests) - len(set(lab.served.requests)) <= AT_ONCE
