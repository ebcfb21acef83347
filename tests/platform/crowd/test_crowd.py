"""Processes that sweep into one run root at once lose nothing, double nothing and say nothing of locks."""

import signal
import threading
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


@pytest.mark.soak
def test_eight_processes_share_a_postgresql(crowd, peaceful, monkeypatch):
    import psycopg
    from own_server import own_server

    process = crowd("storage=postgres", "store=postgresql", *SHARED)
    with own_server() as server:
        monkeypatch.setenv("REFLEXION_LAB_DATABASE", server.url)
        peaceful(process.all(*_commands(8)), codes=(0, 2))
        process.check_runs(14)
        with psycopg.connect(server.url) as connection:
            ((stored,),) = connection.execute("SELECT count(*) FROM calls").fetchall()
            paid = "SELECT sum(calls) FROM spending WHERE scope NOT LIKE 'under way:%'"
            ((spent,),) = connection.execute(paid).fetchall()
        assert stored == len(process.server.sent)
        assert spent == len(process.server.requests)
        assert process.check_memory(server.url).total()
        process.check_tracked(14)
        process.check_files()


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


@pytest.mark.slow
@pytest.mark.parametrize("n", FORMS)
@pytest.mark.soak
def test_one_that_is_killed_holds_nobody_up_and_goes_on_later(crowd, peaceful, n):
    process = crowd("tracker=none", "store=jsonl", *SHARED)
    midway, requests = threading.Event(), []

    def watch(request):
        requests.extend([request] * request.authorization.endswith("victim"))
        return midway.set() if len(requests) == 3 else ""

    process.server.plan = watch
    cut = ["arm=cut", "seed=51"]  # calls of its own, or the others might have asked them all before
    victim = process.start(*cut, key="victim")
    others = [process.start(f"arm=arm{number}", "seed=50") for number in range(n - 1)]
    try:
        assert midway.wait(600)
    finally:
        victim.kill()
    peaceful(process.ended(others))
    assert victim.wait() == -signal.SIGKILL
    peaceful(process.all(cut))
    process.check_runs(n)
    process.check_calls(lost=2)
    assert process.check_memory(process.runs / PLACES["jsonl"]) is not None
    process.check_files()
