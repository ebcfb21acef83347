"""A folder with one valid thing of each kind, and a command line that has to refuse what was damaged of it."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
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
arms: {reflexion: arm=reflexion}
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
    act = complete = None
    def __init__(self, **_):
        raise KeyError("what")

class Divides:
    track = None
    def __init__(self, **_):
        1 / 0

class Nothing:
    """No part at all."""
'''
SHARES = {"test_command_line_is_refused": 4, "test_damaged_file_is_refused": 3}
RUN = (
    "run", "tracker=none", "quiet=true", "model=scripted", "model.path=script.json", "benchmark=jsonl",
    "benchmark.load.path=tasks.jsonl",
)  # fmt: skip
"""A run that would go well."""
TOOLS = {tool.__name__.rpartition(".")[2]: tool.main for tool in (failures, parsing, retrieval)}
"""Scripts of the experiments, by the word that a command line here begins with."""


VARYING = re.compile(r"\d{8}-\d{6}-\d{6}|\(choose from .*\)|(?<=Available options: ).*|[\w/.@'-]+(?:, [\w/.@'-]+){3,}")
"""What differs from run to run, and choices, which grow: one more is no other message."""


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
            path = Path(top, name)
            state = path.lstat()
            if name.endswith("-shm") or (name.endswith("-wal") and not state.st_size):
                continue  # SQLite's index of its log, and an empty log, which it removes when it closes the file
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
    """One in three or four cases is in `make test` or `make test-slow`, half each. `make soak` has the others."""
    numbers = Counter()
    for item in items:
        if share := SHARES.get(getattr(item, "originalname", "")):
            number = numbers[item.originalname]
            numbers[item.originalname] += 1
            if number % share:
                item.add_marker(pytest.mark.soak)
            elif number % (2 * share):
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
    (folder / "agent" / "log.txt").write_text("of something else")
    os.chdir(folder)
    try:
        for more in (("store=sqlite", "store.place=memory.sqlite", "study=study.yaml"), ("arm=other",)):
            assert command_result((*RUN, "run_root=old", "workers=1", "loop.max_attempts=2", *more)).code == 0
        for run in (folder / "old").glob("*-s0"):
            run.rename(run.with_name("good" if "reflexion" in run.name else "other"))
        for arguments in (
            ("bundle", "old/good", "-o", "good.zip"),
            ("memory", "export", "export.jsonl", "--store", "memory.sqlite"),
            ("memory", "export", "export.json", "--store", "memory.sqlite"),
            ("memory", "import", "export.jsonl", "--store", "memory"),
        ):
            assert command_result(arguments).code == 0
        shutil.copy("memory.sqlite", "store.sqlite")
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
    """What a command that refuses its arguments prints, having changed nothing; `...` stands for RUN, WORK for here."""

    def refuse(*arguments: str) -> str:
        before = snapshot(work)
        words = (part.replace("WORK", str(work)) for part in arguments)
        result = command_result(tuple(full for word in words for full in (RUN if word == "..." else (word,))))
        assert snapshot(work) == before
        assert result.code == 2, result
        assert "Traceback" not in result.err
        usage, mark, message = result.err.rstrip("\n").partition("error: ")
        assert mark and (not usage or usage.startswith("usage: ")), result.err
        _, *hint = message.split("\n")
        assert len(message) < 1000
        assert len(hint) <= 1 and all(text.startswith("  ") for text in hint), result.err
        message = VARYING.sub("...", message.replace(str(work), "WORK"))
        return f"error: {message}"

    return refuse


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
