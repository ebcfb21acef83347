from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reflexion_lab
from reflexion_lab.records import TaskResult, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking.mlflow import MlflowTracker
from tests.builders import attempt, grade, manifest, reflection

CONFIG: dict[str, object] = {
    "arm": "reflexion",
    "seed": 0,
    "feedback_source": "visible",
    "benchmark": {
        "name": "basics",
        "load": {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "n": 4},
        "ids": None,
    },
    "loop": {"max_attempts": 3, "confidence_threshold": 1.0},
    "recall": {"_target_": "reflexion_lab.memory.recall.Window", "omega": 1, "max_tokens": 600},
    "model": {
        "_target_": "reflexion_lab.agent.models.openai.OpenAIModel",
        "path": "/home/someone/weights/tiny.gguf",
        "base_url": "http://someone:hunter2@host:8000/v1",
        "api_key_env": "SOME_API_KEY",
        "auth_token": "abc-auth-token",
    },
    "actor": {
        "_target_": "reflexion_lab.agent.actors.continuation.Continuation",
        "sampling": {"stop": ["\ndef ", "#"]},
    },
    "tracker": {"uri": "sqlite:///mlflow.db"},
    "run_root": "runs",
    "sweep_id": "sweep-7",
}


SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_ENABLE_ASYNC_LOGGING": "false"}
TRACK = """
import sys
from pathlib import Path
from reflexion_lab.studies.tracking.mlflow import MlflowTracker
from tests.builders import attempt, manifest, reflection
sys.stdin.readline()
print(MlflowTracker(sys.argv[1]).track(Path(sys.argv[2])))
"""


def with_values(**values: object) -> dict[str, object]:
    """CONFIG with dotted keys (`loop__max_attempts`) set to other values."""
    config = {key: dict(value) if isinstance(value, dict) else value for key, value in CONFIG.items()}
    for name, value in values.items():
        group, _, key = name.partition("__")
        if key:
            config[group][key] = value  # type: ignore[index]
        else:
            config[group] = value
    return config


def write_run(
    path: Path, solved_at: tuple[int, ...] = (1, 2, 3, 0), n_expected: int = 4, is_drawn: bool = True, **values: object
) -> Path:
    """A run in which task i passes its feedback and hidden tests at attempt `solved_at[i]`; 0 is never.

    is_drawn: its figures are there, so they are not drawn.
    """
    config = with_values(**values)
    folder = RunFolder(path)
    folder.write_manifest(
        manifest(
            f"{path.name}-id",
            created_at="2025-03-01T10:00:00Z",
            seed=int(str(config["seed"])),
            config=config,
            config_digest="c0ffee",
            git_commit="0123456789abcdef",
            dirty=True,
            benchmark="basics",
            benchmark_digest="d" * 64,
            n_expected=n_expected,
            model_fingerprint="tiny:1234",
            feedback_source=str(config["feedback_source"]),
            isolation=("process", "rlimits"),
        )
    )
    for task, solved in enumerate(solved_at):
        write_task(folder, f"t/{task}", solved, config["loop"]["max_attempts"])  # type: ignore[index]
    folder.close()
    for name in ("convergence.png", "reflections.png") if is_drawn else ():
        (path / name).write_bytes(b"drawn")
    return path


def write_task(folder: RunFolder, task_id: str, solved: int, allowed: int) -> None:
    last = solved or allowed
    for number in range(1, last + 1):
        passed = number == solved
        source = "llm" if number == 1 else "fallback:unknown"
        usage = Usage(calls=1, prompt_tokens=7, completion_tokens=3)
        folder.append(
            "attempts.jsonl",
            attempt(
                task_id=task_id,
                number=number,
                acted={"solution": "x", "usage": Usage(calls=1, prompt_tokens=80, completion_tokens=20)},
                judged={"passed": passed, "outcome": "pass" if passed else "fail", "reward": 1.0 if passed else 0.5},
                reflection=None if passed else reflection(number, source=source, usage=usage),
                stop_reason="passed" if passed else "max_attempts" if number == last else "",
            ),
        )
        folder.append("grades.jsonl", grade(task_id, number, passed, sealed=number != last))
    result = TaskResult(
        task_id=task_id,
        attempts=last,
        submitted=solved or 1,
        best=solved or 1,
        last=last,
        stop_reason="passed" if solved else "max_attempts",
        feedback_source="visible",
        duration=1.0,
    )
    folder.append("results.jsonl", result)


@pytest.fixture(scope="session")
def write() -> Callable[..., Path]:
    """Writes a run folder at a path."""
    return write_run


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run folder below `tmp_path` and returns its path."""

    def write(name: str = "run", **values: object) -> Path:
        return write_run(tmp_path / name, **values)  # type: ignore[arg-type]

    return write


@pytest.fixture(scope="session", autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        values = SETTINGS | {"HOME": str(tmp_path_factory.mktemp("home"))}
        for name, value in values.items():
            patch.setenv(name, value)
        yield values


@pytest.fixture(scope="session")
def born_together(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]
) -> tuple[Path, list[str], list[str]]:
    """A database that four processes made at once, each to track a run; what each printed and how each failed."""
    place = tmp_path_factory.mktemp("born")
    database = place / "new" / "mlflow.db"
    folders = [write_run(place / f"run-{seed}", seed=seed) for seed in range(4)]
    env = {**os.environ, **settings, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRACK, f"sqlite:///{database}", str(folder)], text=True, env=env, **pipes
        )
        for folder in folders
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate() for process in processes]
    failures = [error for process, (_, error) in zip(processes, ends, strict=True) if process.returncode]
    return database, [printed.strip() for printed, _ in ends], failures


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Path:
    """A new database, to be copied, since migrating takes seconds."""
    database = tmp_path_factory.mktemp("migrated") / "mlflow.db"
    MlflowTracker(f"sqlite:///{database}").prepare()
    return database


@pytest.fixture
def tracker(tmp_path: Path, migrated: Path) -> MlflowTracker:
    shutil.copy(migrated, tmp_path / "mlflow.db")
    return MlflowTracker(f"sqlite:///{tmp_path / 'mlflow.db'}", experiment="trial")


@pytest.fixture
def logged(tracker: MlflowTracker) -> Callable[..., list[Any]]:
    """Reads back the runs of a kind that are not in the trash."""
    from mlflow import MlflowClient

    def read(kind: str = "job", experiment: str = "trial") -> list[Any]:
        client = MlflowClient(tracker.uri)
        place = client.get_experiment_by_name(experiment).experiment_id
        return list(client.search_runs([place], filter_string=f"tags.kind = '{kind}'"))

    return read
