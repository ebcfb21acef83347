"""Configs of launchers: errors show before anything is written."""

import subprocess
import sys

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.studies.scale.launch import Launch
from reflexion_lab.studies.sweeps.sweep import Sweep


def launcher(*overrides):
    with Launch(overrides, "s")._composed() as (_, cfg):
        return cfg.hydra.launcher


@pytest.mark.parametrize("choice", ["joblib", "ray", "slurm", "slurm_local"])
@pytest.mark.slow
def test_a_launcher_is_no_part_of_the_sweep_id(choice, recwarn):
    assert Sweep.of(["seed=0,1", f"hydra/launcher={choice}"]).sweep_id == Sweep.of(["seed=0,1"]).sweep_id
    assert launcher(f"hydra/launcher={choice}", "seed=0,1")._target_.startswith("reflexion_lab.studies.scale.")
    assert not [warning for warning in recwarn if "schema" in str(warning.message)]


def test_the_local_twin_of_slurm_takes_its_keys():
    assert {*launcher("hydra/launcher=slurm")} == {*launcher("hydra/launcher=slurm_local")}


@pytest.mark.parametrize(
    ("missing", "words", "message"),
    [
        ("joblib", ["hydra/launcher=joblib"], "expected pip install 'reflexion_lab[joblib]'"),
        ("ray", ["hydra/launcher=ray"], "expected pip install 'reflexion_lab[ray]'"),
        ("submitit", ["hydra/launcher=slurm_local"], "expected pip install 'reflexion_lab[slurm]'"),
        ("", ["hydra/launcher=nonsense"], "hydra/launcher: got 'nonsense', expected one of "),
        ("", ["hydra/launcher=joblib", "hydra.launcher.jobs=2"], "hydra.launcher.jobs"),
    ],
)
@pytest.mark.slow
def test_a_missing_plugin_or_wrong_key_is_one_error(missing, words, message, tmp_path, monkeypatch, capsys):
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    assert main(["run", "-m", f"run_root={tmp_path / 'runs'}", "seed=0,1", *words]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert not missing or f"{missing} is not installed" in errors
    assert errors.count("error: ") == 1
    assert not (tmp_path / "runs").exists()


def test_no_module_of_ours_loads_an_engine():
    code = (
        "import sys, reflexion_lab.cli.main, reflexion_lab.studies.scale.launch, reflexion_lab.studies.sweeps.running\n"
    )
    code += "print([name for name in ('ray', 'joblib', 'submitit', 'hydra') if name in sys.modules])"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert imported.stdout.strip() == "[]"
