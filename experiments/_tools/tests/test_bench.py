"""Every script of bench/ still runs, and ends with one JSON object of figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
SMALLEST = {
    "analysis": ["--tasks", "10"],
    "memory": ["--episodes", "2000", "--appends", "1000", "--rounds", "1"],
    "notebook": ["--runs", "1", "--attempts", "20"],
    "page": [],
    "soak": ["--executions", "100"],
    "startup": ["--runs", "1"],
    "static": ["--tasks", "2", "--rounds", "1"],
}
LONG = {
    "evaluator": ["--rounds", "1"],
    "harness": [],
    "retrieval": ["--documents", "200", "--queries", "5", "--large", "300"],
    "scale": ["--attempts", "80", "--tasks", "2"],
    "soak_runs": ["--minutes", "0", "--workers", "4"],
    "sweep": ["--tasks", "1"],
    "vectors": ["--vectors", "1000", "--texts", "20"],
}
TABLES = {"lexical", "mutate", "slow_model", "windows"}
"""Scripts that print tables, their modules, a model, and the tool of mutants."""


def run(tmp_path, name, *options):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, BENCH / f"{name}.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_ends_with_its_figures(tmp_path, name):
    assert json.loads(run(tmp_path, name, *SMALLEST[name])[-1])


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", LONG)
def test_a_long_benchmark_ends_with_its_figures(tmp_path, name):
    assert json.loads(run(tmp_path, name, *LONG[name])[-1])


def test_every_benchmark_is_run_by_a_test():
    assert {path.stem for path in BENCH.glob("*.py")} == {*SMALLEST, *LONG, *TABLES}


@pytest.mark.slow
def test_the_table_of_windows_counts_every_retry(tmp_path):
    *_, row = run(tmp_path, "windows", "--tasks", "2", "--contexts", "2048")
    context, retries, _, episodes, *states = (cell.strip() for cell in row.strip("|").split("|"))
    assert (context, retries, episodes) == ("2,048", "6", "6")
    assert sum(int(state.partition(" ")[0]) for state in states) == 6
