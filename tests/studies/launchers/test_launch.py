"""Sweeps by Hydra's own launchers: errors show before anything is written, a lost process costs no result, no file has
a key. Scripts stand in for SLURM; no real one was used.
"""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reflexion_lab.cli.main import main
from reflexion_lab.studies.sweeps.sweep import Sweep

AT_ONCE = 2
LAUNCHERS = {
    "joblib": ("hydra/launcher=joblib", f"hydra.launcher.n_jobs={AT_ONCE}"),
    "ray": ("hydra/launcher=ray", f"hydra.launcher.ray.init.num_cpus={AT_ONCE}"),
}
SIX = "seed=0,1,2,3,4,5"
SLURM = yaml.safe_load((Path(__file__).parent / "slurm.yaml").read_text())


@pytest.mark.parametrize(("missing", "words", "message"), [
    ("joblib", ["hydra/launcher=joblib"], "pip install 'reflexion_lab[joblib]'"),
    ("ray", ["hydra/launcher=ray"], "pip install 'reflexion_lab[ray]'"),
    ("submitit", ["hydra/launcher=submitit"], "pip install 'reflexion_lab[submitit]'"),
    ("", ["hydra/launcher=nonsense"], "hydra/launcher: got 'nonsense', expected one of "),
    ("", ["hydra/launcher=joblib", "hydra.launcher.jobs=2"], "hydra.launcher.jobs"),
])  # fmt: skip
def test_a_missing_plugin_or_wrong_key_is_one_error(missing, words, message, tmp_path):
    script = (
        f"import sys; sys.modules['hydra_plugins.hydra_{missing}_launcher'] = None\n"
        "from reflexion_lab.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "run", "-m", f"run_root={tmp_path / 'runs'}", "seed=0,1", *words]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("error: ") == 1
    assert "schema" not in process.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", pytest.param("ray", marks=pytest.mark.soak)])
def test_a_killed_process_costs_no_more_than_its_calls_in_flight(launcher, lab, alone):
    lab.served.kill_at = {7}
    ended = lab.run(SIX, *LAUNCHERS[launcher])
    assert (ended.code, len(lab.served.killed)) == (0, 1), ended.err
    assert "Traceback" not in ended.err
    results, requests = alone
    assert lab.results("runs") == results
    assert sorted(set(lab.served.requests)) == requests
    assert len(lab.served.requests) - len(requests) <= AT_ONCE
    assert not ended.files_with("sk-planted")


@pytest.mark.slow
def test_slurm_gets_an_array_and_a_lost_job_again(lab):
    places = {name: lab.folder / name for name in ("bin", "slurm")}
    for place in places.values():
        place.mkdir()
    for name, text in SLURM.items():
        path = places["bin"] / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    lab.served.kills = {1: 1}
    ended = lab.run(
        "seed=0,1", "hydra/launcher=submitit", "hydra.launcher.partition=cpu", "hydra.launcher.account=lab",
        "hydra.launcher.timeout_min=90", "hydra.launcher.mem_gb=3", "hydra.launcher.array_parallelism=1",
        "+hydra.launcher.additional_parameters.mail-type=FAIL", "hydra.launcher.setup=['module load python']",
        PATH=f"{places['bin']}:{lab.env['PATH']}", SLURM_TEST=str(places["slurm"]),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "2 cells: 2 done" in ended.out
    array, _ = (path.read_text() for path in sorted(places["slurm"].glob("script-*")))
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", array, re.MULTILINE))
    expected = {"array": "0-1%1", "partition": "cpu", "account": "lab", "time": "90", "mem": "3GB", "mail-type": "FAIL"}
    expected |= {"cpus-per-task": "2", "job-name": "reflexion-lab", "nodes": "1", "signal": "USR2@120"}
    assert {key: options[key] for key in expected} == expected
    assert "\nmodule load python\n" in array
    assert "export=" not in array, "the jobs have the environment of the command, which holds the keys"
    assert not ended.files_with("sk-planted")


def test_a_launcher_that_fails_is_the_reason_of_every_cell(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [f"run_root={tmp_path}", "model=simulated", "actor=single_shot", "tracker=none", "quiet=true", "seed=0,1"]
    assert main(["run", "-m", *words, "hydra/launcher=submitit"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("cells 0, 1: its process was lost (RuntimeError: Could not detect") == 1
    assert [state.status for state in Sweep.of(words).states.values()] == ["failed", "failed"]
