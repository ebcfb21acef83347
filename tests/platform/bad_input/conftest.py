"""A folder with one valid thing of each kind, and a command line that has to refuse what was damaged of it."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments._tools import failures, parsing, retrieval
from reflexion_lab.cli.main import main

LONGEST = 60
"""Seconds that a mistake may take to be said, on a machine that is busy with ten other things."""
TASKS = [
    {
        "task_id": f"own/{name}",
        "prompt": f'def {name}(x):\n    """{name} x.\n    >>> {name}(2)\n    {twice}\n    """\n',
        "entry_point": name,
        "visible_tests": [f"assert {name}(2) == {twice}"],
        "hidden_tests": [f"assert candidate(5) == {five}"],
        "canonical_solution": f"    return {body}\n",
    }
    for name, twice, five, body in (("double", 4, 10, "2 * x"), ("square", 4, 25, "x * x"), ("negate", -2, -5, "-x"))
]
REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
SCRIPT = [
    {"when": "ROOT_CAUSE", "reply": REFLECTION},
    {"when": "", "scope": "conversation", "reply": "\n    return 2 * x\n"},
]
TRANSCRIPT = [
    {
        "source": "s", "model": "m", "strategy": "reflexion", "run": f"reflexion/run{run}", "problem": task["task_id"],
        "prompt": task["prompt"], "entry_point": task["entry_point"],
        "test": "def check(candidate):\n    " + task["hidden_tests"][0] + "\n",
        "visible_tests": task["visible_tests"], "logged_is_solved": task["entry_point"] == "double",
        "attempts": [
            {"code": f"def {task['entry_point']}(x):\n    return 2 * x\n", "reflection": REFLECTION, "raw": "return",
             "feedback": f"Tests failed:\n{task['visible_tests'][0]} # output: 0\n", "own_pass": False}
        ],
    }
    for run in (1, 2) for task in TASKS
]  # fmt: skip
STUDY = """\
name: mine
hypotheses: [words help]
primary_metric: pass_at_1
arms: [reflexion]
baseline: reflexion
benchmark: tasks
n_tasks: 3
seeds: [0]
budget: {calls: 100}
minimum_detectable_effect: 0.5
exclusions: []
stopping: after one run
"""
PRICES = """\
- {models: [mine], provider: me, host: here, currency: USD, prompt: 1.0, completion: 2.0, as_of: 2026-01-01, source: me}
"""
LABELS = "file,attempt,model,part,label,why\ntranscript.jsonl,own/square,m,first,assertion,\n"
OWN_PARTS = '''\
class Raises:
    def __init__(self, **_):
        raise KeyError("what")

class Divides:
    def __init__(self, **_):
        1 / 0

class Nothing:
    """No part at all."""
'''
SHARES = {
    "test_configs.py": 5, "test_task_files.py": 3, "test_run_folders.py": 3, "test_transcripts.py": 3,
    "test_memory_files.py": 3, "test_command_lines.py": 3,
}  # fmt: skip
RUN = (
    "run", "tracker=none", "quiet=true", "model=scripted", "model.path=script.json", "benchmark=jsonl",
    "benchmark.load.path=tasks.jsonl",
)  # fmt: skip
"""A run that would go well."""
TOOLS = {tool.__name__.rpartition(".")[2]: tool.main for tool in (failures, parsing, retrieval)}
"""Scripts of the experiments, by the word that a command line here begins with."""


def lines(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def carry_out(arguments: tuple[str, ...]) -> int:
    tool = TOOLS.get(arguments[0]) if arguments else None
    return tool(arguments[1:]) if tool else main(list(arguments))


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """What takes longer, such as a FIFO that nobody writes to, is broken off and fails."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """By name: what is there, how large, when written, and for a file a digest of its content."""
    result: dict[str, tuple[object, ...]] = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if name.endswith("-shm"):
                continue  # SQLite's index of a log that is there anyway
            path = Path(top, name)
            state = path.lstat()
            digest: object = None
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            size, written = (0, 0) if path.is_dir() else (state.st_size, state.st_mtime_ns)
            result[str(path.relative_to(folder))] = (state.st_mode, size, written, digest)
    return result


def command_result(arguments: tuple[str, ...]) -> SimpleNamespace:
    """What a command line says: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with within(LONGEST), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = carry_out(arguments)
        except SystemExit as stopped:  # argparse
            code = stopped.code
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def pytest_collection_modifyitems(items):
    """Of the cases one in three is in `make test` or `make test-slow`, of those that compose a config one in five: half
    of these each. `make soak` has the others.
    """
    numbers = Counter()
    for item in items:
        name = item.nodeid.partition("platform/bad_input/")[2].partition("::")[0]
        if (share := SHARES.get(name)) and hasattr(item, "callspec"):
            numbers[name] += 1
            if (numbers[name] - 1) % share:
                item.add_marker(pytest.mark.soak)
            elif (numbers[name] - 1) % (2 * share):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Nothing in here is damaged; tests work on copies."""
    folder, before = tmp_path_factory.mktemp("world"), Path.cwd()
    texts = {
        "script.json": json.dumps(SCRIPT), "tasks.jsonl": lines(TASKS), "transcript.jsonl": lines(TRANSCRIPT),
        "samples.jsonl": lines([{"task_id": "HumanEval/0", "completion": "    return True\n", "passed": False}]),
        "study.yaml": STUDY, "prices.yaml": PRICES, "labels.csv": LABELS, "own_parts.py": OWN_PARTS,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "tasks.jsonl.gz").write_bytes(gzip.compress(texts["tasks.jsonl"].encode()))
    (folder / "agent").mkdir()
    (folder / "agent" / "env_results_trial_0.json").write_text(json.dumps([{"name": "env", "is_success": True}]))
    os.chdir(folder)
    try:
        for more in (("store=sqlite", "store.place=memory.sqlite", "study=study.yaml"), ("arm=other",)):
            assert command_result((*RUN, "run_root=old", "loop.max_attempts=2", *more)).code == 0
        for run in (folder / "old").glob("*-s0"):
            run.rename(run.with_name("good" if "reflexion" in run.name else "other"))
        for arguments in (
            ("bundle", "old/good", "-o", "good.zip"),
            ("memory", "export", "export.jsonl", "--store", "memory.sqlite"),
            ("memory", "export", "export.json", "--store", "memory.sqlite"),
            ("memory", "import", "export.jsonl", "--store", "memory"),
        ):
            assert command_result(arguments).code == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def work(world, tmp_path, monkeypatch):
    """A copy of it, to stand in."""
    copied = tmp_path / "work"
    shutil.copytree(world, copied)
    monkeypatch.chdir(copied)
    return copied


@pytest.fixture
def refused(work):
    """The line with which a command refuses its arguments, having changed nothing; its hint behind a semicolon."""

    def refuse(*arguments: str) -> str:
        before = snapshot(work)
        result = command_result(arguments)
        assert snapshot(work) == before
        assert result.code == 2, result
        assert "Traceback" not in result.err
        usage, _, line = result.err.rstrip().replace("\n  ", "; ").rpartition("\n")
        assert line.startswith("error: ") or (usage.startswith("usage: ") and "error: " in line), result.err
        assert usage == "" or usage.startswith("usage: "), result.err
        assert len(line) < 1000
        return line

    return refuse


@pytest.fixture
def refused_run(refused):
    """The line with which a run that would go well is refused, for these overrides."""
    return lambda *overrides: refused(*RUN, *overrides)


@pytest.fixture
def gone_well(work):
    """A run that would go well, with these overrides: it does."""

    def run(*overrides: str) -> None:
        result = command_result((*RUN, *overrides))
        assert result.code == 0, result

    return run


@pytest.fixture(scope="session")
def bounded():
    """A context in which nothing may take too long."""
    return lambda: within(LONGEST)


@pytest.fixture(scope="session")
def carried_out():
    """Carries out the command or the script of an experiment that a line names."""
    return carry_out


@pytest.fixture(scope="session")
def snapshot_of():
    return snapshot
