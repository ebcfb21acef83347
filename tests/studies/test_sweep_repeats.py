"""Seeds that draw different tasks are no repeats: the sweep says so, and which key pairs them."""

import pytest

from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.studies.sweeps.sweep import Sweep, drawn_anew

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
