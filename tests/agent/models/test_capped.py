"""Caps on what is newly spent: never exceeded, a clean stop, and a ledger that survives."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import reflexion_lab
import reflexion_lab as rl
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.caps import UNDER_WAY, CappedModel, CapReached, Meter, Price
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Completion, Sampling, Usage
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.call_store import Caps, Ledger, Spending
from tests.builders import says

SAMPLING = Sampling(max_tokens=100)
DEAR = Price(per_million=(1e6, 2e6), words="")
PYTHONPATH = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}


class Served:
    """Answers with a fixed usage; `hold` keeps calls under way until it is set."""

    fingerprint, slots = "served", 64

    def __init__(self, tokens=10, cost=0.0, refused=0, context=0, written=1):
        self.tokens, self.cost, self.refused, self.context = 0 if refused else tokens, cost, refused, context
        self.written, self.begun, self.ended = written, 0, 0
        self.started = threading.Semaphore(0)
        self.hold = threading.Event()
        self.hold.set()
        self._lock = threading.Lock()

    def complete(self, messages, *, sampling, sample=0):
        with self._lock:
            self.begun += 1
        self.started.release()
        self.hold.wait(60)
        with self._lock:
            self.ended += 1
        if messages[-1].content == "broken":
            raise ModelError("broken")
        counts = {
            "prompt_tokens": self.tokens and self.tokens - self.written,
            "completion_tokens": self.tokens and self.written,
        }
        usage = Usage(calls=1, **counts, cost=self.cost, refused=self.refused)
        return Completion(text="ok", model="served", usage=usage)


def ask_until_capped(model, most=1000):
    """How many calls came through, and what was said then."""
    for number in range(most):
        try:
            model.complete(says(f"{number:04}"), sampling=SAMPLING)
        except CapReached as reached:
            return number, str(reached)
    return most, ""


# What counts: a call may take 64 + 16 + 4 tokens of its prompt and 100 of its reply; it takes 10.


@pytest.mark.parametrize(
    ("served", "caps", "options", "count", "spent"),
    [
        ({}, Caps(), {}, 20, (20, 200, 0.0)), ({}, Caps(calls=7), {}, 7, (7, 70, 0.0)),
        ({}, Caps(calls=0), {}, 0, (0, 0, 0.0)), ({}, Caps(tokens=0), {}, 0, (0, 0, 0.0)),
        ({}, Caps(seconds=0), {}, 0, (0, 0, 0.0)), ({}, Caps(tokens=250), {}, 7, (7, 70, 0.0)),
        ({"tokens": 184}, Caps(tokens=250), {}, 1, (1, 184, 0.0)),
        ({"context": 120}, Caps(tokens=250), {}, 14, (14, 140, 0.0)),
        ({"cost": 30.0}, Caps(cost=1000.0), {"price": DEAR}, 24, (24, 240, 720.0)),
        ({}, Caps(tokens=1000), {"longest_reply": 4000}, 0, (0, 0, 0.0)),
    ],
)  # fmt: skip
def test_calls_are_admitted_while_their_upper_bound_fits(served, caps, options, count, spent):
    model, meter = Served(**served), Meter(caps)
    admitted, message = ask_until_capped(CappedModel(model, meter, **options), 20 if caps == Caps() else 1000)
    assert (admitted, model.begun, meter.spent[:3]) == (count, count, pytest.approx(spent))
    assert ("allows no further call: spent so far" in message) == bool(caps.tokens or caps.cost)
    if caps.calls:
        assert "caps.calls=7 is reached: spent so far 7 calls, 70 tokens" in message
        assert "such as caps.calls=16" in message


@pytest.mark.parametrize(
    ("served", "text", "tokens"),
    [
        ({}, "broken", 64 + 16 + 6 + 100), ({"tokens": 0}, "0000", 184), ({"written": 0}, "0000", 184),
        ({"written": 10}, "0000", 184), ({"refused": 1}, "0000", 0),
    ],
    ids=["failed", "uncounted", "no reply", "no prompt", "refused"],
)  # fmt: skip
def test_uncounted_calls_count_as_their_upper_bound(served, text, tokens):
    meter = Meter(Caps(tokens=10_000))
    with suppress(ModelError):
        CappedModel(Served(**served), meter).complete(says(text), sampling=SAMPLING)
    assert meter.spent[:2] == (1, tokens)


def test_replies_from_the_cache_are_free(tmp_path):
    meter = Meter(Caps(calls=1))
    model = CachedModel(CappedModel(ScriptedModel(lambda messages: "ok"), meter), tmp_path / "calls.sqlite")
    for _ in range(5):
        model.complete(says("same"), sampling=SAMPLING)
    with pytest.raises(CapReached):
        model.complete(says("new"), sampling=SAMPLING)
    assert model.complete(says("same"), sampling=SAMPLING).cached
    model.close()


def test_wall_time_is_capped_by_the_clock_of_the_run():
    now = [0.0]
    meter = Meter(Caps(seconds=10), clock=lambda: now[0])
    model = CappedModel(Served(), meter)
    model.complete(says("0"), sampling=SAMPLING)
    now[0] = 9.9
    model.complete(says("1"), sampling=SAMPLING)
    now[0] = 10.0
    with pytest.raises(CapReached, match=r"caps\.seconds=10 is reached"):
        model.complete(says("2"), sampling=SAMPLING)


# Threads


def test_many_threads_exceed_no_cap_and_use_nearly_all_of_it():
    served, caps = Served(tokens=50), Caps(tokens=2000)
    meter = Meter(caps)
    model = CappedModel(served, meter)
    with ThreadPoolExecutor(16) as pool:
        through = sum(pool.map(lambda _: ask_until_capped(model, 20)[0], range(16)))
    assert meter.spent[:2] == (through, through * 50)
    assert 2000 - 184 < meter.spent.tokens <= 2000


def test_a_call_that_might_not_fit_waits_for_those_under_way():
    served = Served(tokens=10)
    served.hold.clear()
    model = CappedModel(served, Meter(Caps(tokens=200)))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(model.complete, says("0000"), sampling=SAMPLING)
        assert served.started.acquire(timeout=60)
        second = pool.submit(model.complete, says("0001"), sampling=SAMPLING)
        served.hold.set()
        assert first.result(60).text == second.result(60).text == "ok"


def test_a_call_waits_for_reservations_of_other_processes(tmp_path):
    path, most = tmp_path / "spending.sqlite", Spending(1, 6000)
    first, second = (Meter(Caps(tokens=10_000), path, "sweep") for _ in range(2))
    first.reserve(most)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.reserve, most)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        first.settle(most, Spending(1, 300))
        waiting.result(60)
    second.settle(most, Spending(1, 300))
    assert first.spent[:2] == (2, 600)


def test_failed_reservations_do_not_renew_the_patience(tmp_path):
    """They write what they reserve before they are refused, and take it off again."""
    path, attempt = tmp_path / "spending.sqlite", Spending(1, 500)
    Meter(Caps(tokens=1000), path, "sweep").reserve(Spending(1, 900))
    ledger, waiter = Ledger(path), Meter(Caps(tokens=1000), path, "sweep", patience=1.0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.reserve, attempt)
        for _ in range(100):
            for sign in (1, -1):
                ledger.add(UNDER_WAY + "sweep", Spending().plus(attempt, sign), Caps())
                time.sleep(0.06)
            if waiting.done():
                break
        was_done = waiting.done()
        with pytest.raises(CapReached):
            waiting.result(60)
    assert was_done
    ledger.close()


def test_the_cells_after_a_killed_call_do_not_wait_for_it_again(tmp_path, capsys):
    path, most = tmp_path / "spending.sqlite", Spending(1, 6000)
    Meter(Caps(tokens=10_000), path, "sweep").reserve(most)
    with pytest.raises(CapReached):
        Meter(Caps(tokens=10_000), path, "sweep", patience=0.2).reserve(most)
    (line,) = capsys.readouterr().err.splitlines()
    assert "caps.tokens=10000 is nearly reached: waiting for calls of other processes (1)" in line
    assert "until 0.2 s pass" in line
    with ThreadPoolExecutor(1) as pool:
        cell = Meter(Caps(tokens=10_000), path, "sweep", patience=3600.0)
        with pytest.raises(CapReached):
            pool.submit(cell.reserve, most).result(30)
    assert capsys.readouterr().err == ""
    assert cell.spent[:2] == (1, 6000)  # it may have been charged for


def test_after_a_cap_is_reached_no_smaller_call_slips_through():
    served = Served()
    model = CappedModel(served, Meter(Caps(tokens=250)))
    with pytest.raises(CapReached):
        model.complete(says("long" * 100), sampling=SAMPLING)
    with pytest.raises(CapReached):
        model.complete(says("s"), sampling=SAMPLING)
    assert served.begun == 0


# The ledger


def test_without_caps_the_ledger_holds_no_less_than_was_spent_and_just_that_once_closed(tmp_path):
    path = tmp_path / "spending.sqlite"
    meter = Meter(Caps(), path, "run")
    for calls in (1, 2, 3):
        CappedModel(Served(), meter).complete(says("0000"), sampling=SAMPLING)
        assert Ledger(path).spent("run")[:2] == (calls, 10 * (calls - 1) + 184)  # a killed process leaves that
        assert meter.spent[:2] == (calls, 10 * calls)
    meter.close()
    assert Ledger(path).spent("run")[:2] == (3, 30)


@pytest.mark.parametrize("caps", [Caps(), Caps(calls=9)])
def test_the_seconds_of_every_call_are_counted_with_caps_and_without(tmp_path, caps):
    now = [0.0]
    meter = Meter(caps, tmp_path / "spending.sqlite", "run", clock=lambda: now[0])
    for _ in range(3):
        meter.reserve(Spending(1, 100))
        now[0] += 10
        meter.settle(Spending(1, 100), Spending(1, 50))
        now[0] += 1
    meter.close()
    assert Ledger(tmp_path / "spending.sqlite").spent("run") == Spending(3, 150, 0.0, 32.0)


def test_nothing_spent_leaves_no_ledger_and_what_a_scope_spent_before_counts(tmp_path):
    meter = Meter(Caps(calls=3), tmp_path / "spending.sqlite", "run")
    meter.close()
    assert not list(tmp_path.iterdir())
    path = tmp_path / "spending.sqlite"
    for caps, through in ((Caps(calls=3), 3), (Caps(calls=3), 0), (Caps(calls=5), 2)):
        meter = Meter(caps, path, "run")
        assert ask_until_capped(CappedModel(Served(), meter))[0] == through
        meter.close()
    other = Meter(Caps(calls=3), path, "another")
    assert ask_until_capped(CappedModel(Served(), other))[0] == 3
    other.close()


SPENDER = """
import sys
from reflexion_lab.agent.models.caps import CapReached, CappedModel, Meter
from reflexion_lab.storage.call_store import Caps, Spending
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Message, Sampling
from pathlib import Path
path, kills = Path(sys.argv[1]), sys.argv[2] == "kill"
def reply(messages):
    if kills:
        print("under way", flush=True)
        sys.stdin.read()
    return "ok"
model, count = CappedModel(ScriptedModel(reply), Meter(Caps(calls=40), path, "sweep")), 0
try:
    while True:
        model.complete([Message(role="user", content="x")], sampling=Sampling())
        count += 1
except CapReached:
    print(count)
"""


def spender(path, how):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", SPENDER, str(path), how]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=PYTHONPATH)


def test_processes_share_a_cap(tmp_path):
    cells = [spender(tmp_path / "spending.sqlite", "spend") for _ in range(3)]
    counts = [int(cell.communicate(timeout=120)[0]) for cell in cells]
    assert sum(counts) == 40


def test_a_killed_process_loses_nothing_of_the_ledger(tmp_path):
    """Its call under way may have been charged for, and counts in full."""
    path = tmp_path / "spending.sqlite"
    cell = spender(path, "kill")
    assert cell.stdout.readline() == "under way\n"
    cell.send_signal(signal.SIGKILL)
    cell.wait(60)
    cell.stdin.close()
    cell.stdout.close()
    meter = Meter(Caps(calls=40), path, "sweep")
    assert meter.spent[:2] == (1, 64 + 16 + 1 + 512)
    assert ask_until_capped(CappedModel(Served(), meter))[0] == 39
    meter.close()


# Runs


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rules = [{"when": "", "scope": "conversation", "reply": "\n    return None\n"}]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    return ["model=scripted", "model.path=rules.json", "tracker=none", "quiet=true", "reflector=rules", "workers=1"] + [
        "benchmark.limit=6", "loop.max_attempts=2", "loop.stuck_after=null",
    ]  # fmt: skip


def the_run(tmp_path):
    (folder,) = (path.parent for path in (tmp_path / "runs").glob("*/manifest.json"))
    return RunFolder(folder)


@pytest.mark.slow
def test_a_run_stops_at_its_cap_and_goes_on_with_a_higher_one(command, tmp_path, capsys):
    assert cli.main(["run", *command, "caps.calls=7"]) == 3
    output = capsys.readouterr().err
    folder = the_run(tmp_path)
    assert f"resume={folder.path.relative_to(tmp_path)}" in output
    assert "cap reached: caps.calls=7 is reached: spent so far 7 calls" in output
    assert "such as caps.calls=16" in output
    results = folder.results
    assert len(results) == 3
    assert all(len(folder.attempts[task_id]) == result.attempts == 2 for task_id, result in results.items())
    assert {task_id for task_id, _ in folder.grades} == results.keys()
    assert cli.main(["run", *command, "caps.calls=7", f"resume={folder.path}"]) == 3
    assert len(folder.results) == 3
    assert cli.main(["run", *command, "caps.calls=12", f"resume={folder.path}"]) == 0
    assert len(folder.results) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cap", "more"),
    [
        ("calls=7", []), ("calls=7", ["storage.spending=null"]), ("calls=7", ["run_root=other"]), ("tokens=2000", []),
        ("calls=7", ["-m"]),
    ],
)  # fmt: skip
def test_a_resume_without_the_ledger_has_no_second_budget(command, tmp_path, capsys, cap, more):
    is_sweep = "-m" in more
    assert cli.main(["run", *command, f"caps.{cap}", *["-m"] * is_sweep]) == 3
    folder = the_run(tmp_path)
    scope = next(iter((tmp_path / "runs" / "sweeps").glob("*-*")), folder.path).name
    calls = Meter(Caps(), tmp_path / "runs" / "spending.sqlite", scope).spent.calls
    (tmp_path / "runs" / "spending.sqlite").unlink()
    capsys.readouterr()
    assert cli.main(["run", *command, f"caps.{cap}", *more, *[f"resume={folder.path}"] * (not is_sweep)]) == 3
    errors = capsys.readouterr().err
    assert calls == 7
    assert f"warning: the ledger of caps lacks {calls} calls" in errors
    assert re.search(rf"caps.{cap} (is reached|allows no further call): spent so far {calls} calls", errors)
    if not is_sweep:
        override = re.search(r"the same command, (caps[^ ]+) and resume=", errors).group(1)
        capsys.readouterr()
        cli.main(["run", *command, f"caps.{cap}", override, *more, f"resume={folder.path}"])
        assert ("lacks" in capsys.readouterr().err) == ("storage.spending=null" in more)
        assert len(folder.results) > 3


def test_a_sweep_with_caps_has_a_ledger(command, capsys):
    assert cli.main(["run", "-m", *command, "caps.calls=7", "storage.spending=null"]) == 2
    assert "storage.spending: got null with caps, expected a file or a database" in capsys.readouterr().err


def test_a_start_that_ends_by_the_cap_on_seconds_has_its_time_counted(tmp_path):
    now = [0.0]
    for spent in (3.0, 6.0):
        meter = Meter(Caps(seconds=2.0), tmp_path / "spending.sqlite", "run", clock=lambda: now[0])
        now[0] += 3.0
        with pytest.raises(CapReached, match=rf"spent so far 0 calls, 0 tokens, {spent:g} s.*caps.seconds=\d+") as cap:
            meter.reserve(Spending(1, 10))
        assert cap.value.override == f"caps.seconds={2 * spent:g}"
        meter.close()
        now[0] += 1000.0  # no process runs


@pytest.mark.slow
def test_runs_and_sweeps_print_before_the_first_call_what_they_buy_and_detect(command, tmp_path, capsys):
    def lines(*words, start=cli.main):
        start(["run", *command, "quiet=false", *words] if start is cli.main else [*command, "quiet=false", *words])
        return [line for line in capsys.readouterr().err.splitlines() if "detect" in line or "buys" in line]

    detects = "tasks x 1 seed: minimum detectable difference 97 points (80 % power)"
    assert lines() == lines(start=rl.run) == [f"6 {detects}"]
    assert lines("quiet=true", "benchmark.limit=4") == []
    assert lines("benchmark.limit=5") == ["5 tasks x 1 seed: too few to detect a difference between arms"]
    run = RunFolder(max(tmp_path.glob("runs/2*/manifest.json")).parent)
    tokens = [usage.tokens for attempt in run.each_attempt() for usage in attempt.usage.values()]
    bought = 9000 / (sum(tokens) / len(list(run.each_attempt())))
    lines("arm=another", "loop.max_attempts=1")
    for name, text in (
        ("2999a", "{"),
        ("2999b", '{"n_logged": 6, "n_expected": 6, "usage": {"actor": {"prompt_tokens": 9}}}'),
    ):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "summary.json").write_text(text)
    assert lines("caps.tokens=9000")[1] == f"caps.tokens=9000 buys about {bought:,.0f} attempts of reflexion"
    words = ("-m", "seed=0,1", "loop.max_attempts=1,2")
    assert lines(*words)[0].startswith("6 tasks x 2 seeds: minimum detectable difference ")
    assert lines(*words) == []
    more = ("-m", "benchmark.load.n=12", "benchmark.limit=12", "benchmark.passes=2", "seed=0,1", "quiet=false")
    assert lines(*more)[0].startswith("12 tasks x 2 seeds: minimum")


def test_caps_are_not_digested_and_prices_are_recorded(command):
    labs = [assemble(compose(*command, *more)) for more in ((), ("caps.calls=9", "caps.seconds=1000"))]
    for lab in labs:
        lab.close()
    assert len({lab.folder.manifest.config_digest for lab in labs}) == 1
    assert labs[0].folder.manifest.prices == {"actor": "nothing is paid: it runs here"}
