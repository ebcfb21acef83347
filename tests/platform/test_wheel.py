"""The wheel: built here, installed into a fresh environment, and run from another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = ["run", "model=simulated", "actor=single_shot", "benchmark.limit=2", "tracker=none", "run_root=here"]


def output(*command, cwd):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    output(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_configs_and_the_mark_of_its_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    configs = {f"reflexion_lab/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "reflexion_lab").rglob("*.jinja")}
    assert len(configs) > 50 and len(templates) > 10
    assert ({"reflexion_lab/py.typed"} | configs | templates) - names == set()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"reflexion_lab"}


@pytest.mark.slow
def test_the_wheel_runs_in_a_fresh_environment_from_another_folder(wheel, tmp_path):
    output(sys.executable, "-m", "venv", "--without-pip", "fresh", cwd=tmp_path)
    python, command = (tmp_path / "fresh" / "bin" / name for name in ("python", "reflexion-lab"))
    output(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    packages = output(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    # The packages of this environment without its editable checkout, whose .pth file is not read from another's.
    here = [path for path in sys.path if path.endswith("site-packages")]
    Path(packages, "others.pth").write_text("\n".join(here))
    place = output(python, "-c", "import reflexion_lab; print(reflexion_lab.__file__)", cwd=tmp_path)
    assert place.strip() == f"{packages}/reflexion_lab/__init__.py"
    assert "of 2 tasks" in output(command, *RUN, cwd=tmp_path)
    assert len(list((tmp_path / "here").glob("2*/summary.json"))) == 1
