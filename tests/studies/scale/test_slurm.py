"""Jobs submitted to SLURM. Scripts stand in for its commands; no real SLURM was used."""

import re
import stat

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.studies.sweeps.sweep import Sweep

COMMANDS = {
    "sbatch": """
job=$((100 + $(ls "$SLURM_TEST" | grep -c script))); cp "$1" "$SLURM_TEST/script-$job"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
run() { "$@" bash "$script" && state=COMPLETED || state=FAILED; echo "$name|$state|node" >> "$SLURM_TEST/states"; }
script=$1
(
  if [ -z "$last" ]; then
    name=$job; run env SLURM_JOB_ID=$job
  else
    for task in $(seq 0 "$last"); do
      name=${job}_$task; run env SLURM_JOB_ID=$job SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task
    done
  fi
) < /dev/null > /dev/null 2>&1 &
echo "Submitted batch job $job"
""",
    "srun": """
while [[ $1 == --* ]]; do case $1 in --output|--error) shift 2;; *) shift;; esac; done
"$@"
""",
    "sacct": """
echo "JobID|State|NodeList"; cat "$SLURM_TEST/states"
""",
}


@pytest.mark.slow
def test_slurm_gets_an_array_and_a_lost_job_again(lab):
    places = {name: lab.folder / name for name in ("bin", "slurm")}
    for place in places.values():
        place.mkdir()
    for name, text in COMMANDS.items():
        path = places["bin"] / name
        path.write_text(f"#!/bin/bash{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    lab.served.kills = {1: 1}
    ended = lab.run(
        "seed=0,1", "hydra/launcher=slurm", "hydra.launcher.partition=cpu", "hydra.launcher.account=lab",
        "hydra.launcher.timeout_min=90", "hydra.launcher.mem_gb=3", "hydra.launcher.array_parallelism=1",
        "+hydra.launcher.additional_parameters.mail-type=FAIL", "hydra.launcher.setup=['module load python']",
        PATH=f"{places['bin']}:{lab.env['PATH']}", SLURM_TEST=str(places["slurm"]),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "2 cells: 2 done" in ended.out
    assert "restarted: cells 1" in ended.err
    array, again = (path.read_text() for path in sorted(places["slurm"].glob("script-*")))
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", array, re.MULTILINE))
    expected = {"array": "0-1%1", "partition": "cpu", "account": "lab", "time": "90", "mem": "3GB", "mail-type": "FAIL"}
    expected |= {"cpus-per-task": "2", "job-name": "reflexion-lab", "nodes": "1", "signal": "USR2@120"}
    assert {key: options[key] for key in expected} == expected
    assert "\nmodule load python\n" in array
    assert "--array" not in again
    assert "export=" not in array, "the jobs have the environment of the command, which holds the keys"
    assert not ended.files_with("sk-planted")


def test_without_slurm_its_launcher_is_one_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [f"run_root={tmp_path}", "model=simulated", "actor=single_shot", "tracker=none", "quiet=true", "seed=0,1"]
    assert main(["run", "-m", *words, "hydra/launcher=slurm"]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: hydra/launcher=slurm: RuntimeError: Could not detect")
    assert errors.count("\n") == 1
    assert [state.status for state in Sweep.of(words).states.values()] == ["waiting", "waiting"]
