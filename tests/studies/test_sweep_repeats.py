"""Seeds that draw different tasks are no repeats: the sweep says so, and which key pairs them."""

import json
import os
import shutil

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.errors import DataError
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.studies.sweeps.sweep import Sweep, drawn_anew
from reflexion_lab.tasks.benchmarks import rows

ANEW = "each seed has its own tasks: {} repeats them"


@pytest.mark.parametrize(("benchmark", "keys"), [
    (["benchmark=humaneval", "benchmark.sample=4"], "benchmark.sample_seed=0"),
    (["benchmark=humaneval", "benchmark.sample=4", "benchmark.sample_seed=0"], None), (["benchmark=humaneval"], None),
    (["benchmark.limit=8"], "benchmark.load.seed=0"), (["benchmark.load.seed=0"], None),
    (["benchmark.sample=4"], "benchmark.load.seed=0 benchmark.sample_seed=0"),
])  # fmt: skip
def test_it_says_whether_seeds_repeat_the_same_tasks(benchmark, keys):
    sweep = Sweep(cells([*benchmark, "seed=1,2"]))
    assert drawn_anew(sweep) == (ANEW.format(keys) if keys else "")
    repeated = Sweep(cells([*benchmark, *(keys or "").split(), "seed=1,2"]))
    first, second = (load_benchmark(cell.cfg).tasks for cell in repeated)
    assert first == second
    assert drawn_anew(repeated) == drawn_anew(Sweep(cells([*benchmark, "seed=1"]))) == ""


def test_a_sample_is_drawn_by_the_seed_of_the_run_unless_it_has_its_own():
    cfg = cells(["benchmark=humaneval", "benchmark.sample=3", "seed=7"])[0].cfg
    same = cells(["benchmark=humaneval", "benchmark.sample=3", "benchmark.sample_seed=7", "seed=1"])[0].cfg
    drawn, drawn_again = ([task.task_id for task in load_benchmark(each)] for each in (cfg, same))
    assert drawn == drawn_again


TASK = {"task_id": "a", "prompt": "def f(x):", "entry_point": "f", "tests": ["assert f(1) == 1", "assert f(2) == 2"],
        "canonical_solution": "def f(x):\n    return x\n"}  # fmt: skip


@pytest.fixture
def parses(monkeypatch):
    """Paths of the files of rows that were parsed."""
    parsed, of_rows = [], rows._tasks
    monkeypatch.setattr(rows, "_tasks", lambda path, *rest: parsed.append(path) or of_rows(path, *rest))
    return parsed


def test_an_unchanged_file_is_parsed_once_a_process_and_a_changed_one_anew(parses, tmp_path):
    path, written = tmp_path / "tasks.jsonl", [("", 0)]

    def tasks(text, nanoseconds, *more):
        if (text, nanoseconds) != written[-1]:
            path.write_text(text)
            os.utime(path, ns=(nanoseconds, nanoseconds))
            written.append((text, nanoseconds))
        return load_benchmark(cells([f"benchmark={path}", *more])[0].cfg).tasks

    row, other = json.dumps(TASK), json.dumps(TASK | {"task_id": "b"})  # of one length
    assert tasks(row, 1) == tasks(row, 1, "benchmark.limit=1", "seed=3")
    assert len(parses) == 1
    assert [tasks(text, t)[0].task_id for text, t in ((other, 2), (row, 3), (f"{other} ", 3))] == ["b", "a", "b"]
    assert len(parses) == 4
    (task,) = tasks(f"{other} ", 3, "benchmark.load.visible=0")
    assert (len(parses), task.visible_tests) == (5, ())
    for _ in range(2):  # an error is no benchmark
        with pytest.raises(DataError, match="line 1, field"):
            tasks("{}", 4)
    assert tasks(row, 1)[0].task_id == "a"


def test_a_file_that_changes_between_two_sweeps_of_a_process_makes_finished_cells_run_again(parses, tmp_path):
    path = tmp_path / "tasks.jsonl"
    words = [f"benchmark={path}", "model=simulated", "tracker=none", f"run_root={tmp_path}/runs", "seed=0,1"]
    path.write_text(json.dumps(TASK))
    assert [state.again for state in sweep(words, quiet=True).states.values()] == ["", ""]
    path.write_text(json.dumps(TASK | {"task_id": "another"}))
    states = sweep(words, quiet=True).states.values()
    assert all(state.again.startswith("benchmark_digest changed") for state in states)
    assert len(parses) == 2


def test_a_file_that_is_replaced_with_its_times_and_size_is_parsed_anew(parses, tmp_path):
    paths = [tmp_path / name for name in ("tasks.jsonl", "other.jsonl")]
    for path, task_id in zip(paths, "ab", strict=True):
        path.write_text(json.dumps(TASK | {"task_id": task_id}))
        os.utime(path, ns=(1, 1))
    load = lambda: load_benchmark(cells([f"benchmark={paths[0]}"])[0].cfg).tasks[0].task_id  # noqa: E731
    assert load() == "a"
    shutil.copy2(paths[1], paths[0])
    assert load() == "b"


def test_seeds_of_one_file_that_was_edited_between_them_are_not_compared(tmp_path, capsys):
    path, texts = tmp_path / "tasks.jsonl", [json.dumps(TASK | {"task_id": name}) for name in "abcdef"]
    words = [f"benchmark={path}", "model=simulated", "tracker=none", f"run_root={tmp_path}/runs", "benchmark.sample=3"]
    for seed, ending in ((0, "\n"), (1, "\n\n")):
        path.write_text(ending.join(texts))
        sweep([*words, f"seed={seed}"], quiet=True)
    assert main(["compare", f"{tmp_path}/runs"]) == 0  # other tasks of one file, in which a blank line is no change
    path.write_text("\n".join(texts[1:]))
    sweep([*words, "seed=2"], quiet=True)
    capsys.readouterr()
    assert main(["compare", f"{tmp_path}/runs"]) == 2
    assert "error:" in capsys.readouterr().err
