"""Many programs at once, each time-out once more and alone, equal ones once."""

import re
import threading
import time
from types import SimpleNamespace

import pytest

from reflexion_lab.audit import stored_programs
from reflexion_lab.audit.stored_programs import LIMITS, PATIENT, StoredPrograms, never
from reflexion_lab.tasks.sandbox.sandbox import Limits


def verdict(outcome):
    return SimpleNamespace(outcome=outcome)


def test_verdicts_come_in_order_and_equal_items_are_judged_once():
    judged, progress = [], []
    with StoredPrograms(2) as programs:
        verdicts = programs.map(
            lambda _, item: judged.append(item) or verdict(item), ["b", "a", "b"], key=str, each=progress.append
        )
    assert [each.outcome for each in verdicts] == ["b", "a", "b"] == [each.outcome for each in progress]
    assert sorted(judged) == ["a", "b"]


def test_a_time_out_is_judged_again_alone_with_more_time():
    running, calls, progress = set(), [], []

    def judge(sandbox, item):
        running.add(item)
        calls.append((item, sandbox.limits, threading.current_thread() is threading.main_thread(), len(running)))
        running.discard(item)
        return verdict("timeout" if sandbox.limits == LIMITS and item != "quick" else "pass")

    with StoredPrograms(2) as programs:
        verdicts = programs.map(judge, ["slow", "quick", "slow", "slower"], key=str, each=progress.append)
    assert [each.outcome for each in verdicts] == ["pass"] * 4 == [each.outcome for each in progress]
    again = [call for call in calls if call[1] != LIMITS]
    assert again == [("slow", PATIENT, True, 1), ("slower", PATIENT, True, 1)] == calls[-2:]


def test_the_second_time_limit_is_never_shorter():
    limits = Limits(wall_seconds=90.0, cpu_seconds=3.0, memory_mb=99)
    limits_used = []
    with StoredPrograms(1, limits) as programs:
        programs.map(lambda sandbox, _: limits_used.append(sandbox.limits) or verdict("timeout"), ["endless"])
        programs.map(
            lambda sandbox, _: limits_used.append(sandbox.limits) or verdict("timeout"), ["endless"], again=never
        )
    assert limits_used == [limits, Limits(wall_seconds=90.0, cpu_seconds=10, memory_mb=99), limits]


def test_an_error_of_one_stops_the_rest():
    judged = []

    def judge(_, item):
        judged.append(item)
        raise RuntimeError("the sandbox is broken")

    with StoredPrograms(1) as programs, pytest.raises(RuntimeError, match="broken"):
        programs.map(judge, list(range(100)))
    assert len(judged) < 100


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(stored_programs, "LOG_EVERY", 0.01)
    with stored_programs.counter("basics", "task", 3) as bar:
        for _ in range(3):
            time.sleep(0.02)
            bar.update()
    assert re.search(r"basics: 3/3, .*task/s, 00:00 left\n", capsys.readouterr().err)
