"""Processes that sweep into one run root at once lose nothing, double nothing and say nothing of locks."""

import time

import pytest

SHARED = "memory.shared.shown.wisdom=2", "memory.shared.round_size=2"
PLACES = {"sqlite": "memory.sqlite", "jsonl": "memory"}
FORMS = [2, pytest.param(8, marks=pytest.mark.soak)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "store"), [
    (2, "jsonl"), pytest.param(3, "sqlite", marks=pytest.mark.soak), pytest.param(8, "sqlite", marks=pytest.mark.soak),
    pytest.param(8, "jsonl", marks=pytest.mark.soak),
])  # fmt: skip
@pytest.mark.soak
def test_sweeps_at_once_share_calls_memory_and_tracking(crowd, peaceful, n, store):
    process = crowd(f"store={store}", "memory.shared.across_cells=true", *SHARED)
    commands = _commands(n)
    peaceful(process.all(*commands), codes=(0, 2))
    cells = 2 * len({tuple(command) for command in commands})
    process.check_runs(cells)
    process.check_calls()
    process.check_ledger()
    assert process.check_memory(process.runs / PLACES[store]).total()
    process.check_tracked(cells)
    process.check_files()


def _commands(n):
    """Two processes carry the same sweep out; an arm has the calls of its first attempts from another."""
    return [[f"arm=arm{k % 2}", f"seed={2 * (k // 2)},{2 * (k // 2) + 1}"] for k in (0, *range(n - 1))]


@pytest.mark.parametrize("n", FORMS)
@pytest.mark.slow
def test_equal_runs_at_once_make_each_call_once(crowd, peaceful, n):
    process = crowd("tracker=none", "benchmark.load.n=12")
    process.server.plan = lambda request: time.sleep(0.05) or ""
    peaceful(process.all(*[[f"arm=arm{number}", "seed=7"] for number in range(n)]))
    process.check_runs(n)
    process.check_calls()
    assert process.check_ledger() == len(process.server.sent)
    process.check_files()


@pytest.mark.parametrize("n", FORMS)
@pytest.mark.slow
def test_processes_share_the_cells_and_caps_of_one_sweep(crowd, peaceful, n):
    process, cap = crowd("tracker=none"), 3 * n
    command = [f"seed=range({n})", "benchmark.load.n=3"]
    peaceful(process.all(*[[*command, f"caps.calls={cap}"]] * n), codes=(2, 3))
    assert process.check_ledger() == cap
    peaceful(process.all(command))
    process.check_runs(n)
    process.check_calls()
    process.check_ledger()
    process.check_files()
