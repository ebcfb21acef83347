"""Fixtures of several packages' tests: one sandbox, one small task, a model whose replies depend on what it reads, and
small runs, written to disk as the runner would write them.
"""

import functools
import gc
import gzip
import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from sqlalchemy import event
from sqlalchemy.engine import Engine

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Check, Grade, MemoryState, Reflection, Task, TaskResult, Usage
from reflexion_lab.runner.folder import manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox
from tests import builders

DATA = Path(os.environ.get("REFLEXION_LAB_DATA", Path(__file__).parents[2] / "shared" / "data"))
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
for number in (signal.SIGINT, signal.SIGHUP):
    # A shell's background job, and nohup, ignore them; so would every process that the tests start and stop by them.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
LOADED_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", LOADED_MACHINE, derandomize=True, max_examples=50)
settings.register_profile("random", LOADED_MACHINE, max_examples=200)
settings.load_profile("same")  # `make soak` takes the other one

RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
WRONG = "```python\ndef double(x):\n    return x\n```"
REFLECTION = (
    "ROOT_CAUSE: The line returns x itself\nWHAT_WENT_WRONG: double(2) gave 2\n"
    "WHAT_TO_CHANGE: multiply by two\nCONFIDENCE: 0.9\n"
)


def learner(messages):
    """Wrong at first; right once a reflection that says how has reached its prompt."""
    text = messages[-1].content
    if "ROOT_CAUSE" in text:
        return REFLECTION
    return RIGHT if "multiply by two" in text else WRONG


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL, which tests may crash."""
    from own_server import own_server

    with own_server() as running:
        yield running


@pytest.fixture
def schema(server, tmp_path):
    """Makes the URL of a new, empty schema in it."""
    import psycopg

    numbers = itertools.count()

    def create():
        name = f"s{abs(hash(tmp_path))}_{next(numbers)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{server.url}&options=-csearch_path%3D{name}"

    return create


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(Limits(wall_seconds=30.0, cpu_seconds=1), servers=2) as shared:  # of a loaded machine, a fraction
        yield shared


@pytest.fixture(scope="session", autouse=True)
def checkout():
    """The checkout is asked for its state once: two processes of git are a quarter of a small run. Tests that move
    `PACKAGE` ask git itself.
    """
    ask, here = manifest.git, manifest.PACKAGE
    first = functools.cache(ask)
    with pytest.MonkeyPatch.context() as patch:

        def of_this_checkout(*words: str) -> bytes:
            return first(*words) if here == manifest.PACKAGE else ask(*words)

        patch.setattr(manifest, "git", of_this_checkout)
        yield ask


@pytest.fixture(scope="session", autouse=True)
def unsynced():
    """Nothing waits for the disk: a killed process leaves what it has written, only a loss of power would not.
    Twenty waits a run, and two hundred for a new database of MLflow, were half of their time.
    """

    def connected(connection, _):
        with suppress(sqlite3.DatabaseError):  # a damaged file
            if isinstance(connection, sqlite3.Connection):
                connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", connected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
    event.remove(Engine, "connect", connected)


@pytest.fixture
def task():
    return Task(
        task_id="own/double",
        prompt='def double(x):\n    """Twice x.\n    >>> double(2)\n    4\n    """\n',
        entry_point="double",
        visible_tests=("assert double(2) == 4",),
        hidden_tests=("assert candidate(-3) == -6", "assert candidate(5) == 10"),
        canonical_solution="    return 2 * x\n",
    )


@pytest.fixture
def model():
    return ScriptedModel(learner)


@pytest.fixture(scope="session")
def recorded_runs():
    """The folder of recorded runs of real models; its tests are skipped, and counted, where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"no ../shared/data: not found at {DATA}")
    return DATA


@pytest.hookimpl(trylast=True)  # once hypothesis has read its option
def pytest_configure():
    """Where examples are to be the same in every run, they must not depend on what earlier tests have imported: else
    hypothesis draws from the constants of all modules that are there.
    """
    if settings.default.derandomize:
        providers._get_local_constants = lambda: providers._local_constants


def pytest_collection_finish():
    """What was imported and collected stays: the garbage collector need not go through its half a million objects, nor
    start after every 700 new ones, which took a seventh of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_terminal_summary(terminalreporter):
    """What was skipped, over all workers: how many tests lacked the recorded runs, and how many a browser."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    without = sum("shared/data" in reason for reason in skipped)
    where = "all of them ran" if DATA.is_dir() else f"not found at {DATA}; set REFLEXION_LAB_DATA"
    terminalreporter.write_line(f"recorded runs (../shared/data): {without} tests skipped without them ({where})")
    if blind := sum("no browser: " in reason for reason in skipped):
        terminalreporter.write_line(f"browser: {blind} tests skipped without one (Chromium and playwright are needed)")


Verdict = tuple[float, bool]
"""Feedback reward of an attempt, and whether it passes the hidden tests. A reward below 0: no tests."""


def _reflection(number: int, source: str = "llm", words: str = "") -> Reflection:
    usage = Usage(calls=1, prompt_tokens=5, completion_tokens=2) if source == "llm" else Usage()
    texts = {"root_cause": words or f"cause {number}", "what_went_wrong": "wrong", "what_to_change": "change"}
    return builders.reflection(number, reflection_id=f"r{number}", source=source, usage=usage, **texts)


def _attempt(task_id: str, number: int, reward: float, solution: str = "code", **fields: object) -> Attempt:
    outcome = "no_tests" if reward < 0 else "pass" if reward == 1 else "fail"
    usage = Usage(calls=1, prompt_tokens=10, completion_tokens=10, seconds=1.0)
    check = Check(name="assert True", outcome=outcome)
    return builders.attempt(
        task_id=task_id,
        number=number,
        trajectory=builders.trajectory(solution, usage=usage),
        evaluation=builders.evaluation(check, outcome=outcome, reward=max(reward, 0.0)),
        memory=MemoryState(capacity=3, size=0, in_context=0, total=0),
        **fields,
    )


def _histories(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, list[Attempt]]:
    """A reflection follows every failure that there was feedback on, the last included."""
    attempts: dict[str, list[Attempt]] = {}
    for task_id, history in verdicts.items():
        for number, (reward, _) in enumerate(history, 1):
            reflection = _reflection(number) if 0 <= reward < 1 else None
            attempts.setdefault(task_id, []).append(_attempt(task_id, number, reward, reflection=reflection))
    return attempts


def _grades(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[tuple[str, int], Grade]:
    return {
        (task_id, number): builders.grade(task_id, number, hidden)
        for task_id, history in verdicts.items()
        for number, (_, hidden) in enumerate(history, 1)
    }


@pytest.fixture(scope="session")
def attempt() -> Callable[..., Attempt]:
    return _attempt


@pytest.fixture(scope="session")
def reflection() -> Callable[..., Reflection]:
    return _reflection


@pytest.fixture
def records() -> Callable[..., tuple[dict[str, list[Attempt]], dict[tuple[str, int], Grade]]]:
    return lambda verdicts: (_histories(verdicts), _grades(verdicts))


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., RunFolder]:
    return _writer(tmp_path)


@pytest.fixture(scope="session")
def runs_written_in() -> Callable[[Path], Callable[..., RunFolder]]:
    """`write_run` for a folder of one's own, such as one that all tests of a module share."""
    return _writer


def _writer(place: Path) -> Callable[..., RunFolder]:
    def write(
        verdicts: Mapping[str, Sequence[Verdict]] | None = None,
        *,
        attempts: Mapping[str, Sequence[Attempt]] | None = None,
        n_expected: int | None = None,
        feedback_source: str = "visible",
        sealed: bool = True,
        seed: int = 7,
        name: str = "run",
        clusters: Mapping[str, str] | None = None,
    ) -> RunFolder:
        histories = attempts or _histories(verdicts or {})
        folder = RunFolder(place / name)
        folder.write_manifest(
            builders.manifest(
                "run-1",
                created_at="2026-01-01T00:00:00Z",
                seed=seed,
                benchmark="toy",
                n_expected=len(histories) if n_expected is None else n_expected,
                model_fingerprint="scripted",
                feedback_source=feedback_source,
            )
        )
        grades = _grades(verdicts) if verdicts else {}
        for task_id, history in histories.items():
            submitted = submitted_at(history).number
            for attempt in history:
                folder.append("attempts.jsonl", attempt)
                grade = grades.get(
                    (task_id, attempt.number), builders.grade(task_id, attempt.number, attempt.evaluation.passed)
                )
                if sealed or attempt.number == submitted:
                    folder.append("grades.jsonl", grade)
            cluster = (clusters or {}).get(task_id, "")
            folder.append("results.jsonl", _result(task_id, history, submitted, feedback_source, cluster))
        folder.close()
        return folder

    return write


def _result(task_id: str, history: Sequence[Attempt], submitted: int, feedback_source: str, cluster: str) -> TaskResult:
    return TaskResult(
        task_id=task_id,
        attempts=len(history),
        submitted=submitted,
        best=submitted,
        last=len(history),
        stop_reason="passed" if history[-1].evaluation.passed else "max_attempts",
        feedback_source=feedback_source,
        duration=2.0,
        cluster=cluster,
    )


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows to a file as JSON, one a line; text stays as it is, and what ends in `.gz` is packed."""
    numbers = itertools.count(1)

    def write(*rows: object, name: str = "") -> Path:
        path = tmp_path / (name or f"log{next(numbers)}.jsonl")
        lines = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
        return path

    return write
