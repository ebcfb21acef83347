"""Canonical programs of runs: those of the run's own tasks, at its own seed."""

import json

import msgspec
import pytest

from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.solutions import tasks_of
from reflexion_lab.tasks.benchmarks.basics import basics
from tests.studies.small_runs import run_lab


def solutions(folders):
    return {run: {name: t.canonical_program for name, t in tasks.items()} for run, tasks in tasks_of(folders).items()}


def runs(tmp_path, *overrides):
    shared = ("model=simulated", "actor=single_shot", "loop.max_attempts=1", "tracker=none", "quiet=true")
    configs = [compose(*shared, *overrides, f"seed={seed}", f"run_root={tmp_path}") for seed in (0, 1)]
    return [run_lab(cfg).folder for cfg in configs]


def test_a_task_at_another_seed_has_its_own_solution(tmp_path):
    folders = runs(tmp_path, "benchmark.load.n=8")
    programs = solutions(folders)
    for seed, folder in enumerate(folders):
        expected = {task.task_id: task.canonical_program for task in basics(seed=seed, n=8)}
        assert programs[folder.manifest.run_id] == expected
    of_seeds = [basics(seed=seed, n=138) for seed in (0, 1)]
    first, second = ({task.task_id: task.canonical_program for task in tasks} for tasks in of_seeds)
    assert any(first[task] != second[task] for task in first), "tasks of one id that differ by seed"


def test_a_sample_drawn_by_seed_has_the_solutions_of_its_tasks(tmp_path):
    folders = runs(tmp_path, "benchmark.load.n=20", "benchmark.load.seed=0", "benchmark.sample=4")
    programs = solutions(folders)
    for folder in folders:
        assert programs[folder.manifest.run_id].keys() == folder.attempts.keys()


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.slow
def test_a_run_whose_file_is_gone_has_the_solutions_of_another_with_the_same_tasks(tmp_path, gone):
    rows = "".join(json.dumps(msgspec.to_builtins(task)) + "\n" for task in basics(seed=0, n=2))
    paths = [tmp_path / name for name in ("first.jsonl", "second.jsonl")]
    folders = []
    for path in paths:
        path.write_text(rows)
        folders += runs(tmp_path, "benchmark=jsonl", f"benchmark.load.path={path}")[:1]
    paths[gone].unlink()
    programs = solutions(folders)
    expected = {task.task_id: task.canonical_program for task in basics(seed=0, n=2)}
    assert [programs[folder.manifest.run_id] for folder in folders] == [expected, expected]
