"""The benchmark of the harness still runs, and ends with one JSON object of figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "bench" / "harness.py"
COVERAGE = HARNESS.with_name("coverage.py")


@pytest.mark.slow
@pytest.mark.soak
def test_the_benchmark_of_the_harness_ends_with_its_figures(tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, HARNESS], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1])["attempts"] == 470


@pytest.mark.slow
@pytest.mark.parametrize(("option", "lines"), [("--fieller", 10), ("--kappa", 6)])
@pytest.mark.soak
def test_simulated_coverage_is_a_table_of_shares(option, lines):
    ran = subprocess.run(
        [sys.executable, COVERAGE, option, "--runs", "40"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    head, _, *rows = ran.stdout.splitlines()
    assert len(rows) + 2 == lines
    assert "%" in head
    for row in rows:
        low, high = map(float, row.split("|")[3].split(" to "))
        assert 75 < low <= high <= 100
