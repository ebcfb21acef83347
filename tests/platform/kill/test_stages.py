"""SIGKILL at stages of a run or sweep, not at moments of a clock: what is resumed ends as if nothing had happened."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.soak)])
def test_runs_and_sweeps_that_are_killed_at_any_stage_end_as_if_they_had_not_been(kills, tmp_path):
    command = [sys.executable, "-m", "tests.platform.kill.stages", f"--kills={kills}", f"--folder={tmp_path}"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{kills} kills" in ended.stdout
