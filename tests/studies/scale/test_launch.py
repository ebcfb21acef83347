"""The launchers' configs: what is missing or misspelt is said before anything is written."""

import subprocess
import sys

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.studies.scale.launch import Launch
from reflexion_lab.studies.sweep import Sweep

CHOICES = ("joblib", "ray", "slurm", "slurm_local")


def made(*overrides):
    with Launch(overrides, "s")._composed() as (_, cfg):
        return cfg.hydra.launcher


@pytest.mark.parametrize("choice", CHOICES)
def test_a_launcher_is_no_part_of_what_a_sweep_is(choice, recwarn):
    assert Sweep.of(["seed=0,1", f"hydra/launcher={choice}"]).sweep_id == Sweep.of(["seed=0,1"]).sweep_id
    assert made(f"hydra/launcher={choice}", "seed=0,1")._target_.startswith("reflexion_lab.studies.scale.")
    assert not [warning for warning in recwarn if "schema" in str(warning.message)]


def test_the_local_twin_of_slurm_takes_its_keys():
    assert {*made("hydra/launcher=slurm")} == {*made("hydra/launcher=slurm_local")}


@pytest.mark.parametrize(
    ("module", "choice", "extra"),
    [("joblib", "joblib", "joblib"), ("ray", "ray", "ray"), ("submitit", "slurm_local", "slurm")],
)
def test_a_plugin_that_is_not_installed_is_named_with_its_extra(module, choice, extra, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["run", "-m", f"run_root={tmp_path / 'runs'}", "seed=0,1", f"hydra/launcher={choice}"]) == 2
    said = f"error: hydra/launcher={choice}: {module} is not installed; expected pip install 'reflexion_lab[{extra}]'"
    assert capsys.readouterr().err.strip() == said
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hydra/launcher=nonsense"], "hydra/launcher: got 'nonsense', expected one of "),
        (["hydra/launcher=joblib", "hydra.launcher.jobs=2"], "hydra.launcher.jobs"),
    ],
)
def test_what_is_misspelt_is_one_line(words, said, tmp_path, capsys):
    assert main(["run", "-m", f"run_root={tmp_path / 'runs'}", "seed=0,1", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("error: ") == 1
    assert not (tmp_path / "runs").exists()


def test_no_module_of_ours_loads_an_engine():
    code = "import sys, reflexion_lab.cli.main, reflexion_lab.studies.scale.launch, reflexion_lab.studies.sweep\n"
    code += "print([name for name in ('ray', 'joblib', 'submitit', 'hydra') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
