"""MLflow as a view of run folders: one flat run each, since its charts leave out nested ones."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Manifest
from reflexion_lab.reports.convergence import Curve, save_convergence
from reflexion_lab.reports.figure import COLOURS
from reflexion_lab.reports.reflection_plots import save_reflections
from reflexion_lab.run_folder import RunFolder
from reflexion_lab.trackers import view

INSTALL = "pip install 'mlflow>=3.5,<4'"
RUN_COLOURS = (*COLOURS, "#332288", "#882255", "#999933", "#661100", "#888888")
"""Of runs in charts: those of our figures, then some of Paul Tol's and grey."""


class TrackerError(OSError):
    """A run could not be shown. Nothing is lost: its folder has everything, and can be tracked later."""


class MlflowTracker:
    """Writes run folders to an MLflow database or server.

    Args:
        uri: `sqlite:///FILE`, made absolute here and now; another database's address; or a server's `http://…`.
        experiment: name of the MLflow experiment; made when it is missing.
        artifacts: folder for copies of the runs' files; by default `mlartifacts` beside an SQLite file, else
            where the server wants them. Counts when the experiment is made.
        host, port: where `command` serves the database, and links point.

    Raises:
        ValueError: an argument is impossible.
        TrackerError: MLflow is not installed.
    """

    def __init__(
        self,
        uri: str = "sqlite:///mlflow.db",
        experiment: str = "reflexion",
        artifacts: str | None = None,
        host: str = "127.0.0.1",
        port: int = 5000,
    ) -> None:
        if not experiment.strip():
            raise ValueError("tracker.experiment is empty; expected a name")
        if importlib.util.find_spec("mlflow") is None:
            raise TrackerError(f"tracker: mlflow is not installed; {INSTALL}, or run with tracker=none")
        self.database = _database(uri)
        self.uri = f"sqlite:///{self.database}" if self.database else uri
        self.experiment = experiment
        self.artifacts = Path(artifacts).absolute() if artifacts else None
        if self.database and not artifacts:
            self.artifacts = self.database.parent / "mlartifacts"
        self.is_server = uri.startswith(("http://", "https://"))
        self.site = uri.rstrip("/") if self.is_server else f"http://{host}:{port}"
        self._serve = f"--host {host} --port {port}"

    @property
    def command(self) -> str:
        """Opens the database in a browser with one light process; "" for a server, which is open already."""
        if self.is_server:
            return ""
        settings = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true"
        return f"{settings} mlflow ui --backend-store-uri {shlex.quote(self.uri)} {self._serve} --workers 1"

    def prepare(self) -> str:
        """Make the database and the experiment where they are missing; returns the experiment's id.

        Any number of processes may do so at once.

        Raises:
            TrackerError: MLflow failed.
        """
        with self._reported("tracker.uri"):
            return self._open()[1]

    def track(self, folder: Path) -> str:
        """Log the run in `folder`; returns the address of the experiment's charts.

        A run that is there already is replaced: the new one is written in whole, then the old one goes to the
        trash, which `mlflow gc` empties. A run that has not come to its end is marked `KILLED`.

        Raises:
            RunFolderError: `folder` holds no run.
            TrackerError: MLflow failed; what it had of this run before, it still has.
        """
        folder = Path(folder).absolute()
        log = Log.read(RunFolder.existing(folder))
        with self._reported(f"run {log.manifest.run_id}", folder):
            client, experiment_id = self._open()
            former = client.search_runs([experiment_id], filter_string=f'tags.run_id = "{log.manifest.run_id}"')
            _write(client, experiment_id, folder, log, _colour(client, experiment_id, former))
            for run in former:
                client.delete_run(run.info.run_id)
        return f"{self.site}/#/experiments/{experiment_id}/runs?compareRunsMode=CHART&workflowType=machine_learning"

    def _open(self) -> tuple[Any, str]:
        """The client, and the id of the experiment."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("DO_NOT_TRACK", "true")
        from mlflow import MlflowClient

        # MLflow's migrations of a new file die when several processes begin them.
        with _locked(self.database) if self.database else contextlib.nullcontext():
            client = MlflowClient(self.uri)
            found = client.get_experiment_by_name(self.experiment)
            return client, str(found.experiment_id) if found else self._create(client)

    def _create(self, client: Any) -> str:
        place = f"{self.artifacts.as_uri()}/{quote(self.experiment, safe='')}" if self.artifacts else None
        return str(client.create_experiment(self.experiment, artifact_location=place))

    @contextlib.contextmanager
    def _reported(self, what: str, folder: Path | None = None) -> Iterator[None]:
        """Any failure as one sentence that says where the run still is."""
        try:
            yield
        except Exception as problem:
            address = re.sub(r"(?<=://)[^/@]*@", "", self.uri)
            text = f"{what}: MLflow at {address} failed ({type(problem).__name__}: {problem})"
            if folder:
                text += f"; the run is safe in its folder; show it later with `reflexion-lab track {folder}`"
            raise TrackerError(text) from problem


def _database(uri: str) -> Path | None:
    """The SQLite file of `uri`, absolute; None for other databases and for servers."""
    scheme, mark, rest = uri.partition("://")
    if not mark or not rest or scheme == "file":
        raise ValueError(f"tracker.uri is {uri!r}; expected sqlite:///FILE, another database's address or http://…")
    if not scheme.startswith("sqlite"):
        return None
    if not rest.startswith("/") or rest == "/" or ":memory:" in rest:
        raise ValueError(f"tracker.uri is {uri!r}; expected the file of a database, such as sqlite:///runs/mlflow.db")
    return Path(rest[1:]).absolute()


@contextlib.contextmanager
def _locked(database: Path) -> Iterator[None]:
    """One process or thread at a time; the lock falls with the process that holds it."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{database}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _colour(client: Any, experiment_id: str, former: list[Any]) -> str:
    """A replaced run passes its colour on; a new one has none of the newest runs'. MLflow's own draw repeats soon."""
    newest = client.search_runs([experiment_id], max_results=len(RUN_COLOURS) - 1)
    kept, taken = ([run.data.tags.get("mlflow.runColor") for run in runs] for runs in (former, newest))
    return next((colour for colour in kept if colour), next(one for one in RUN_COLOURS if one not in taken))


def _write(client: Any, experiment_id: str, folder: Path, log: Log, colour: str) -> None:
    """One run, in whole or not at all."""
    from mlflow.entities import Metric, Param, RunTag

    found, (began, ended) = summary(log), _times(folder, log)
    tags = view.tags(log.manifest, found) | {"mlflow.note.content": view.note(log, found, folder)}
    tags |= {"mlflow.source.name": "reflexion-lab", "mlflow.source.git.commit": log.manifest.git_commit}
    tags["mlflow.runColor"] = colour
    run_id = client.create_run(experiment_id, start_time=began, run_name=view.run_name(log.manifest)).info.run_id
    try:
        client.log_batch(
            run_id,
            metrics=[Metric(shown.name, shown.value, ended, shown.step) for shown in view.metrics(log, found)],
            params=[Param(*item) for item in view.params(log.manifest).items()],
            tags=[RunTag(*item) for item in tags.items()],
            synchronous=True,
        )
        client.log_inputs(run_id, [_data_set(log.manifest)])
        _write_files(client, run_id, folder, log)
        client.set_terminated(run_id, "FINISHED" if view.is_complete(log) else "KILLED", ended)
    except BaseException:
        with contextlib.suppress(Exception):
            client.delete_run(run_id)
        raise


def _times(folder: Path, log: Log) -> tuple[int, int]:
    """When the run began and when its last record was written, in milliseconds since the epoch."""
    began = datetime.fromisoformat(log.manifest.created_at)
    began = began if began.tzinfo else began.replace(tzinfo=UTC)
    written = [path.stat().st_mtime for path in (folder / "manifest.json", *folder.glob("*.jsonl"))]
    return round(began.timestamp() * 1000), round(max(began.timestamp(), *written) * 1000)


def _data_set(manifest: Manifest) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    digest = manifest.benchmark_digest[:8]  # as long as MLflow's own; a tag has the whole
    data_set = Dataset(manifest.benchmark, digest, source_type="benchmark", source=manifest.benchmark)
    return DatasetInput(data_set, [InputTag("mlflow.data.context", "evaluation")])


def _write_files(client: Any, run_id: str, folder: Path, log: Log) -> None:
    """The folder's files but for hidden ones, which are drafts; and the figures, should they be missing."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            client.log_artifact(run_id, str(path), None if len(place.parts) == 1 else place.parent.as_posix())
    with tempfile.TemporaryDirectory() as scratch:
        if log.points and not (folder / "convergence.png").exists():
            save_convergence(Path(scratch), [Curve.of(log, view.run_name(log.manifest))])
        if not (folder / "reflections.png").exists():
            save_reflections(Path(scratch), log, view.run_name(log.manifest))
        client.log_artifacts(run_id, scratch)
