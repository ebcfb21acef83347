import shutil
import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine

from reflexion_lab.records import Usage
from reflexion_lab.studies.tracking.mlflow import MlflowTracker
from tests.builders import attempt, reflection

CONFIG = {
    "arm": "reflexion", "seed": 0, "feedback_source": "visible",
    "benchmark": {"name": "basics", "load": {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "n": 4},
                  "ids": None},
    "loop": {"max_attempts": 3, "confidence_threshold": 1.0},
    "recall": {"_target_": "reflexion_lab.memory.recall.Window", "omega": 1, "max_tokens": 600},
    "model": {"_target_": "reflexion_lab.agent.models.openai.OpenAIModel", "path": "/home/someone/weights/tiny.gguf",
              "base_url": "http://someone:hunter2@host:8000/v1", "api_key_env": "SOME_API_KEY",
              "auth_token": "abc-auth-token"},
    "actor": {"_target_": "reflexion_lab.agent.actors.continuation.Continuation",
              "sampling": {"stop": ["\ndef ", "#"]}},
    "tracker": {"uri": "sqlite:///mlflow.db"}, "run_root": "runs", "sweep_id": "sweep-7",
}  # fmt: skip


CALL = Usage(calls=1, prompt_tokens=7, completion_tokens=3)
WORDS = {"source": "llm", "usage": CALL}, {"source": "fallback:unknown", "usage": CALL}
"""Of the first reflection of a task, and of later ones."""
SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_ENABLE_ASYNC_LOGGING": "false"}


def with_values(**values):
    """CONFIG with dotted keys (`loop__max_attempts`) set to other values."""
    config = {key: dict(value) if isinstance(value, dict) else value for key, value in CONFIG.items()}
    for name, value in values.items():
        group, _, key = name.partition("__")
        if key:
            config[group][key] = value
        else:
            config[group] = value
    return config


def history(task_id, solved, allowed):
    """Attempts that pass at number `solved`; 0 is never."""
    last = solved or allowed
    return [
        attempt(
            task_id=task_id,
            number=number,
            acted={"solution": "x", "usage": Usage(calls=1, prompt_tokens=80, completion_tokens=20)},
            judged={"passed": True, "outcome": "pass"} if number == solved else {"reward": 0.5},
            reflection=None if number == solved else reflection(number, **WORDS[number > 1]),
            stop_reason="passed" if number == solved else "max_attempts" if number == last else "",
        )
        for number in range(1, last + 1)
    ]


@pytest.fixture(scope="package", autouse=True)
def one_schema(tmp_path_factory):
    """MLflow migrates one empty database to its newest schema; every other one is a copy."""
    from mlflow.store.db import utils

    migrate, template = utils._initialize_tables, tmp_path_factory.mktemp("schema") / "mlflow.db"

    def initialise(engine):
        if engine.dialect.name != "sqlite":
            return migrate(engine)
        if not template.exists():
            migrate(create_engine(f"sqlite:///{template}"))
        with closing(sqlite3.connect(template)) as whole, closing(sqlite3.connect(engine.url.database)) as new:
            return whole.backup(new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "_initialize_tables", initialise)
        yield


@pytest.fixture
def run(tmp_path, write_run):
    """Writes a run folder below `tmp_path`: task i passes its feedback and hidden tests at attempt `solved_at[i]`; 0 is
    never. `is_drawn`: its figures are there, so they are not drawn. Returns its path.
    """

    def write(name="run", solved_at=(1, 2, 3, 0), n_expected=4, is_drawn=True, **values):
        config = with_values(**values)
        allowed = config["loop"]["max_attempts"]
        attempts = {f"t/{task}": history(f"t/{task}", solved, allowed) for task, solved in enumerate(solved_at)}
        folder = write_run(attempts=attempts, n_expected=n_expected, name=name)
        folder.write_manifest(
            replace(
                folder.manifest,
                run_id=f"{name}-id",
                created_at="2025-03-01T10:00:00Z",
                seed=config["seed"],
                config=config,
                config_digest="c0ffee",
                git_commit="0123456789abcdef",
                dirty=True,
                benchmark="basics",
                benchmark_digest="d" * 64,
                model_fingerprint="tiny:1234",
                feedback_source=config["feedback_source"],
                isolation=("process", "rlimits"),
            )
        )
        if is_drawn:
            (folder.path / "curves.png").write_bytes(b"drawn")
        return folder.path

    return write


@pytest.fixture(scope="session", autouse=True)
def settings(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SETTINGS, "HOME": str(tmp_path_factory.mktemp("home"))}.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def migrated(tmp_path_factory, settings):
    """A new database, to be copied, since migrating takes seconds."""
    database = tmp_path_factory.mktemp("migrated") / "mlflow.db"
    MlflowTracker(f"sqlite:///{database}").prepare()
    return database


@pytest.fixture
def tracker(tmp_path, migrated):
    shutil.copy(migrated, tmp_path / "mlflow.db")
    return MlflowTracker(f"sqlite:///{tmp_path / 'mlflow.db'}", experiment="trial")


@pytest.fixture
def logged(tracker):
    """Reads back the runs of a kind that are not in the trash."""
    from mlflow import MlflowClient

    def read(kind="job", experiment="trial"):
        client = MlflowClient(tracker.uri)
        place = client.get_experiment_by_name(experiment).experiment_id
        return list(client.search_runs([place], filter_string=f"tags.kind = '{kind}'"))

    return read
