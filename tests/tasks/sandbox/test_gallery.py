"""The hostile gallery: every program gets the verdict that it must get, and harms nobody."""

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reflexion_lab.records import OUTCOMES
from reflexion_lab.tasks.sandbox.attacks import PLANTED, PREFIX, QUICK, Attack, Watch, descendants, judge, read
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

LIMITS = Limits(wall_seconds=2.0, cpu_seconds=1, memory_mb=256)
GALLERY = read(Path(__file__).parents[2] / "attacks")
NEIGHBOUR = "def f(x):\n    return sum([x, 1])\n"
DEMANDED = [attack for attack in GALLERY if not attack.probe]
LEAKS = [attack for attack in GALLERY if attack.probe]
BY_NEED = {
    " ".join(needs) or "anywhere": [attack for attack in DEMANDED if attack.needs == needs]
    for needs in sorted({attack.needs for attack in DEMANDED})
}
"""Attacks by the layers of isolation without which they cannot be told."""


def passes(sandbox):
    return sandbox.run(NEIGHBOUR, "f", ["assert f(1) == 2"]).checks[0].outcome == "pass"


class Visit:
    """All attacks that this session asks for, begun at once; beside them a neighbour whose programs are right."""

    def __init__(self, attacks):
        os.environ[PLANTED] = "planted"
        self.watch = Watch()
        self.crowd, self.alone, self.near = Sandbox(LIMITS, servers=2), Sandbox(LIMITS, servers=1), Sandbox(servers=1)
        self.pool, self.single = ThreadPoolExecutor(2), ThreadPoolExecutor(1)
        self.verdicts = {
            a.name: (self.single if a.probe else self.pool).submit(judge, self.alone if a.probe else self.crowd, a)
            for a in attacks
        }
        self.harmed, self.over = 0, threading.Event()
        self.neighbour = threading.Thread(target=self.live_beside_them)
        self.neighbour.start()

    def live_beside_them(self):
        while not self.over.is_set():
            self.harmed += not passes(self.near)
            self.over.wait(0.05)

    def end(self):
        """Wait for everything; what died, what stayed."""
        for verdict in self.verdicts.values():
            verdict.result()
        self.over.set()
        self.neighbour.join()
        servers = [server for sandbox in (self.crowd, self.alone, self.near) for server in sandbox._started]
        deaths = sum(server.process.poll() not in (None, 0) for server in servers)
        for part in (self.crowd, self.alone, self.near):
            part.close()
        self.pool.shutdown()
        self.single.shutdown()
        return deaths, self.watch.left(server.folder for server in servers)


@pytest.fixture(scope="module")
def visit(request):
    asked = [item.callspec.params.get("attacks", ()) for item in request.session.items if hasattr(item, "callspec")]
    visit = Visit([attack for attacks in asked for attack in attacks if isinstance(attack, Attack)])
    yield visit
    os.environ.pop(PLANTED, None)
    if not visit.over.is_set():
        visit.end()


def wrong(visit, attacks, is_right=lambda verdict: verdict.right):
    """What the verdicts that are not right were, and what was to be."""
    verdicts = [(attack, visit.verdicts[attack.name].result()) for attack in attacks]
    return [
        f"{attack.name}, {attack.tries}: {verdict.outcome} ({verdict.detail}); expected {attack.expected}"
        for attack, verdict in verdicts
        if not is_right(verdict)
    ]


@pytest.mark.parametrize("attacks", BY_NEED.values(), ids=BY_NEED)
@pytest.mark.slow
def test_every_attack_gets_an_accepted_verdict(visit, attacks):
    needed = attacks[0].needs
    missing = [layer for layer in needed if not any(name.startswith(layer) for name in visit.crowd.layers)]
    if missing:
        pytest.skip(f"needs {missing[0]}, which is not in force on this machine, and the doctor says so")
    assert wrong(visit, attacks) == []


@pytest.mark.parametrize("attacks", [LEAKS], ids=["leaks"])
def test_nothing_leaks_to_the_next_program(visit, attacks):
    assert wrong(visit, attacks, lambda verdict: verdict.outcome == "pass") == []


def test_attacks_leave_no_process_and_no_file(visit):
    deaths, left = visit.end()
    assert (deaths, left.orphans, left.files, visit.harmed) == (0, (), (), 0)


def test_a_probe_sees_its_polluter_where_both_share_a_process(sandbox):
    for attack in LEAKS:
        run = sandbox.run(attack.program + attack.probe, "f", ["assert f(1) == 2", *attack.checks]).checks[0]
        assert run.outcome != "pass", attack.name


@pytest.mark.parametrize("call", ["prctl(1, 0, 0, 0, 0)", "setresuid(65534, 65534, 65534)", "setfsuid(65534)"])
def test_closing_the_sandbox_ends_a_program_without_a_death_signal(call):
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are counted by /proc, which this machine does not have")
    program = (
        "import ctypes, os, time\nup = os.open('up', os.O_WRONLY | os.O_CREAT)\n"
        f"try:\n    ctypes.CDLL(None).{call}\nfinally:\n    os.write(up, b'.')\n    time.sleep(60)\n"
    )
    own = Sandbox(Limits(wall_seconds=90), servers=1)
    attack = Attack(name="stays", program=program, tries="to outlive its server", expected=("timeout",))
    running = threading.Thread(target=judge, args=(own, attack))
    running.start()
    while not (own._started and (up := Path(own._started[0].folder, "up")).exists() and up.stat().st_size):
        running.join(0.01)
    stayed = [process for process, _ in descendants(own._started[0].process.pid)]
    while running.is_alive():  # the sandbox tries a second server
        own.close()
        running.join(0.05)
    assert stayed
    deadline = time.monotonic() + 50  # the signal that ends it is on its way; it would sleep for 60
    while any(map(alive, stayed)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [process for process in stayed if alive(process)]


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_gallery_has_all_attacks_by_unique_names_and_the_quick_set_every_family():
    assert [name for name, times in Counter(a.name for a in GALLERY).items() if times > 1] == []
    assert all(set(a.expected) <= set(OUTCOMES) - {"harness_error"} and a.expected for a in GALLERY)
    assert all("pass" not in a.expected for a in DEMANDED)
    assert len(GALLERY) >= 336
    assert len(DEMANDED) + len(LEAKS) == len(GALLERY)
    for name in (PLANTED, PREFIX):
        assert any(name in a.program for a in GALLERY)
    quick = read(QUICK)
    assert set(quick) <= set(GALLERY)
    assert {a.family for a in quick} == {a.family for a in GALLERY}
