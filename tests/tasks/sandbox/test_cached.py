"""The execution cache: identical code with identical tests is executed once."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

PROGRAM = "def f(x):\n    return x + 1\n"


class Counting:
    """Counts what reaches the sandbox behind it."""

    def __init__(self, sandbox):
        self.sandbox, self.requests = sandbox, []
        self.layers, self.limits = sandbox.layers, sandbox.limits
        self.servers, self.values = sandbox.servers, sandbox.values

    def close(self):
        pass

    def run(self, *request):
        self.requests.append(request)
        return self.sandbox.run(*request)


@pytest.fixture
def counting(sandbox):
    return Counting(sandbox)


@pytest.fixture
def cached(counting, tmp_path):
    cache = CachedSandbox(counting, tmp_path / "deep" / "executions.sqlite")
    yield cache
    cache.close()


def test_identical_code_with_identical_tests_is_executed_once_in_whatever_process(counting, cached, tmp_path):
    first = cached.run(PROGRAM, "f", ["assert f(1) == 2"])
    assert cached.run(PROGRAM, "f", ["assert f(1) == 2"]) == first
    assert (len(counting.requests), cached.hits, cached.misses) == (1, 1, 1)
    later = CachedSandbox(counting, tmp_path / "deep" / "executions.sqlite")
    assert later.run(PROGRAM, "f", ["assert f(1) == 2"]) == first
    assert len(counting.requests) == 1
    counting.limits = Limits(memory_mb=300)
    CachedSandbox(counting, tmp_path / "deep" / "executions.sqlite").run(PROGRAM, "f", ["assert f(1) == 2"])
    assert len(counting.requests) == 2  # other limits, another execution


@pytest.mark.parametrize("other", [
    ("def f(x):\n    return x + 2\n", "f", ["assert f(1) == 2"]), (PROGRAM, "g", ["assert f(1) == 2"]),
    (PROGRAM, "f", ["assert f(1) == 3"]), (PROGRAM, "f", ["assert f(1) == 2", "assert f(1) == 2"]),
    (PROGRAM, "f", ["assert f(1) == 2"], "import math"), (PROGRAM, "f", ["assert f(1) == 2"], "", 60.0),
    (PROGRAM + "\ud800", "f", ["assert f(1) == 2"]),
])  # fmt: skip
def test_anything_that_differs_is_executed_again(counting, cached, other):
    cached.run(PROGRAM, "f", ["assert f(1) == 2"])
    cached.run(*other)
    assert len(counting.requests) == 2


def test_equal_concurrent_executions_run_once(counting, cached):
    slow = "import time\ntime.sleep(0.3)\n" + PROGRAM
    with ThreadPoolExecutor(6) as pool:
        executions = list(pool.map(lambda _: cached.run(slow, "f", ["assert f(1) == 2"]), range(6)))
    assert [execution.checks[0].outcome for execution in executions] == ["pass"] * 6
    assert len(counting.requests) == 1


@pytest.mark.slow
def test_a_time_out_is_cached_only_in_this_process(tmp_path):
    endless = "def f(x):\n    while True: pass\n"
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=100), servers=1) as sandbox:
        counting = Counting(sandbox)
        here = CachedSandbox(counting, tmp_path / "executions.sqlite")
        assert here.run(endless, "f", ["assert f(1)"]).timed_out
        assert here.run(endless, "f", ["assert f(1)"]).timed_out
        assert len(counting.requests) == 1
        CachedSandbox(counting, tmp_path / "executions.sqlite").run(endless, "f", ["assert f(1)"])
        assert len(counting.requests) == 2


@pytest.mark.parametrize("method", ["run", "_store"])
def test_a_broken_harness_or_file_raises_stores_nothing_and_blocks_nothing(counting, cached, monkeypatch, method):
    def broken(*_):
        raise HarnessError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(counting if method == "run" else cached, method, broken)
        with pytest.raises(HarnessError, match="out of order"):
            cached.run(PROGRAM, "f", ["assert f(1) == 2"])
    assert cached.run(PROGRAM, "f", ["assert f(1) == 2"]).checks[0].outcome == "pass"


def test_a_damaged_row_is_executed_again(counting, cached, tmp_path):
    cached.run(PROGRAM, "f", ["assert f(1) == 2"])
    with sqlite3.connect(tmp_path / "deep" / "executions.sqlite") as connection:
        connection.execute("UPDATE executions SET execution = '{'")
    connection.close()
    assert cached.run(PROGRAM, "f", ["assert f(1) == 2"]).checks[0].outcome == "pass"
    assert len(counting.requests) == 2


def test_a_file_of_another_version_is_emptied(counting, cached, tmp_path):
    cached.run(PROGRAM, "f", ["assert f(1) == 2"])
    path = tmp_path / "deep" / "executions.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE executions SET execution = 'another' WHERE key = 'version'")
    connection.close()
    CachedSandbox(counting, path).run("def f(x): return 3", "f", ["assert f(1) == 2"])
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM executions").fetchall() == [(2,)]  # with the version's own row
    connection.close()


@pytest.mark.parametrize("timed_out", [False, True])
@pytest.mark.parametrize(("is_doubtful", "times"), [(False, 1), (True, 2)])
def test_what_the_machine_may_have_caused_is_not_cached(counting, cached, is_doubtful, times, timed_out, monkeypatch):
    execution = counting.sandbox.run(PROGRAM, "f", ["assert f(1) == 3"])
    stated = replace(execution, is_doubtful=is_doubtful, timed_out=timed_out)
    monkeypatch.setattr(counting.sandbox, "run", lambda *_: stated)
    assert [cached.run(PROGRAM, "f", ["assert f(1) == 3"]).checks[0].outcome for _ in range(2)] == ["fail"] * 2
    assert len(counting.requests) == times


def test_a_file_of_another_kind_is_refused_in_one_line(counting, tmp_path):
    (tmp_path / "x.sqlite").write_text("not a database, and longer than nothing" * 100)
    with pytest.raises(HarnessError, match=r"x\.sqlite: cannot be used as cache\.executions"):
        CachedSandbox(counting, tmp_path / "x.sqlite").run(PROGRAM, "f", ["assert f(1) == 2"])
