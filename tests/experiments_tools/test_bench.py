"""The benchmarks still run: each ends with one JSON object of figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "counted"), [("harness.py", ("attempts", 470)), ("page.py", ("page_attempts", 820))]
)
def test_a_benchmark_ends_with_its_figures(script, counted, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, BENCH / script], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    figures = json.loads(ran.stdout.splitlines()[-1])
    name, expected = counted
    assert figures[name] == expected
