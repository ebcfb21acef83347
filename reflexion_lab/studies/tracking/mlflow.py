"""MLflow as a view of run folders: one flat run per folder, since charts leave out nested runs, and one per arm."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.io.secrets import without_keys, without_login
from reflexion_lab.runner.folder.folder import RunFolder, readable
from reflexion_lab.studies.tracking import writing
from reflexion_lab.studies.tracking.arm_runs import Compared, seed_differences
from reflexion_lab.studies.tracking.arm_runs import write as write_arms

INSTALL = "pip install 'mlflow>=3.5,<4'"


class TrackerError(LabError):
    """Tracking failed. No data is lost: the run folder has everything and can be tracked later."""


class MlflowTracker:
    """Writes run folders to an MLflow database or server.

    Raises ConfigError: an argument is impossible; TrackerError: MLflow is not installed. `uri`: `sqlite:///FILE` (made
    absolute at once), another database's address, or a server's `http://…`. `experiment`: MLflow experiment of runs
    without a registered study; a study's experiment has its name. `artifacts`: folder for copies of the runs' files,
    for a new experiment; by default `mlartifacts` beside an SQLite file, else the server's choice. `host`, `port`:
    address of the page that `command` opens and links name.
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
            raise ConfigError("tracker.experiment", "empty", "a name")
        if importlib.util.find_spec("mlflow") is None:
            raise TrackerError(f"tracker: mlflow is not installed; {INSTALL}, or run with tracker=none")
        self.database = _database(uri)
        self.uri = f"sqlite:///{self.database}" if self.database else uri
        self.experiment = experiment
        self.artifacts = Path(artifacts).absolute() if artifacts else None
        if self.database and not artifacts:
            self.artifacts = self.database.parent / "mlartifacts"
        self.is_server = uri.startswith(("http://", "https://"))
        self.site = without_login(uri).rstrip("/") if self.is_server else f"http://{host}:{port}"
        self._serve = f"--host {host} --port {port}"

    @property
    def command(self) -> str:
        """The command that opens the database in a browser, without a password; "" for a server."""
        if self.is_server:
            return ""
        settings = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true"
        return (
            f"{settings} mlflow ui --backend-store-uri {shlex.quote(without_login(self.uri))} {self._serve} --workers 1"
        )

    def prepare(self) -> str:
        """Create the database and the experiment if missing; returns the experiment's id. Safe for several processes.

        Raises TrackerError: MLflow failed.
        """
        with self._reported("tracker.uri"):
            return self._open(self.experiment)[1]

    def track(self, folder: Path, log: Log | None = None) -> str:
        """Log the run in `folder`; returns the address of the charts of its sweep, else of the experiment.

        An earlier MLflow run of the same folder is replaced: the new one is written in whole, then the old one goes to
        the trash (`mlflow gc`). An unfinished run has the status `KILLED`. `log`: the run, if already read. Raises
        FolderError: `folder` holds no run; TrackerError: MLflow failed; it still has the earlier version of this run.
        """
        folder = Path(folder).absolute()
        log = log or Log.read(RunFolder.existing(folder), texts=False)
        with self._reported(f"run {log.manifest.run_id}", folder), self._alone("runs"):
            client, experiment_id = self._open(log.manifest.study or self.experiment)
            entry, former = writing.job(folder, log, summary(log)), _runs_of(client, experiment_id, log)
            fill = partial(writing.files, client, folder=folder, log=log)
            writing.write(client, experiment_id, entry, former, fill)
        return links(self.site, experiment_id, str(log.manifest.config.get("sweep_id") or ""))["charts"]

    def track_arms(self, folders: Sequence[Path], baseline: str | None = None) -> dict[str, str]:
        """Log missing runs and one summary per arm; returns addresses of the tables of arms and runs and of the charts.

        A summary is replaced by one of the same study, sweep, arm, benchmark, feedback source and models, and by
        summaries made of all of its runs. The tag `name` of a run is the short name of its arm. A run's
        `final/pass_at_1_as_run` names its baseline in the tag `difference_to`; a run with a difference of an earlier
        comparison and none in this one is logged again. `baseline`: label of the baseline arm; see
        `analysis.comparison.compare`. Raises FolderError: a
        folder holds no run; ConfigError: the runs make no arms or no comparison, or belong to several studies;
        TrackerError: MLflow failed; it still has the earlier summaries.
        """
        folders = [Path(folder).absolute() for folder in folders]
        compared = Compared.of(folders, baseline)
        each = seed_differences(compared)
        differences = {log.manifest.run_id: (name, value) for log, name, value in each if not log.shard_ids}

        def complete(folder: Path) -> None:
            log = Log.read(RunFolder.existing(folder))
            run_id = log.manifest.run_id
            with self._reported(f"run {run_id}", folder):
                client, experiment_id = self._open(log.manifest.study or self.experiment)
                former = _runs_of(client, experiment_id, log)
            names = (name for run in former for name in run.data.metrics)
            is_stale = run_id not in differences and any(name.endswith("_as_run") for name in names)
            if is_stale or [run.info.status for run in former] != ["FINISHED"]:  # stale: MLflow deletes no metric
                self.track(folder)

        readable(folders, complete)
        with self._reported("arms"):
            client, experiment_id = self._open(compared.study or self.experiment)
            with self._alone("arms"):
                write_arms(client, experiment_id, compared)
                is_whole = _is_whole(client, experiment_id, compared)
                for arm, log in ((each, log) for each in compared.arms for log in each.logs):
                    for run in _runs_of(client, experiment_id, log):
                        if is_whole or "name" not in run.data.tags:
                            client.set_tag(run.info.run_id, "name", compared.names[arm.label])
                        if log.manifest.run_id in differences:
                            name, value = differences[log.manifest.run_id]
                            client.log_metric(run.info.run_id, name, writing.short(value), step=0)
                            client.set_tag(run.info.run_id, "difference_to", str(compared.comparison.baseline))
        return links(self.site, experiment_id, compared.sweep_id)

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """One writer of a database file at a time, process or thread; a server handles several itself."""
        if self.database is None:
            yield
            return
        self.database.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{self.database}{f'.{what}' if what else ''}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # ends with its process
            yield

    def _open(self, name: str) -> tuple[Any, str]:
        """The client, and the id of the experiment of that name."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("DO_NOT_TRACK", "true")
        # By default MLflow retries an unreachable server for four minutes, again for every run of a sweep.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # MLflow's: 120 s of silence, at each retry
        from mlflow import MlflowClient

        # MLflow's migrations of a new file fail when several processes start them.
        with self._alone(""):
            if self.database and not self.database.exists():
                _lay_out(self.database)
            client = MlflowClient(self.uri)
            experiment = client.get_experiment_by_name(name)
            return client, str(experiment.experiment_id) if experiment else self._create(client, name)

    def _create(self, client: Any, name: str) -> str:
        below = quote(name, safe="") if name.strip(".") else "_"  # not `..`
        place = f"{self.artifacts.as_uri()}/{below}" if self.artifacts else None
        try:
            return str(client.create_experiment(name, artifact_location=place))
        except Exception:  # a database, a server and MLflow each have one of their own for a name that is taken
            if first := client.get_experiment_by_name(name):  # another machine's, a moment ago
                return str(first.experiment_id)
            raise

    @contextlib.contextmanager
    def _reported(self, what: str, folder: Path | None = None) -> Iterator[None]:
        """Raises TrackerError for any failure, with the place where the run is safe."""
        try:
            yield
        except Exception as problem:
            text = without_keys(f"{what}: MLflow at {self.uri} failed ({type(problem).__name__}: {problem})")
            if folder:
                text += f"; the run is safe in its folder; show it later with `reflexion-lab track {folder}`"
            raise TrackerError(text) from problem


def _runs_of(client: Any, experiment_id: str, log: Log) -> list[Any]:
    return [
        run
        for run_id in log.run_ids
        for run in client.search_runs([experiment_id], filter_string=f'tags.run_id = "{run_id}"')
    ]


def _is_whole(client: Any, experiment_id: str, compared: Compared) -> bool:
    """Whether the comparison has all runs that its sweep has in MLflow, so that its short names hold for all."""
    if not compared.sweep_id:
        return True
    query = f'tags.sweep_id = "{compared.sweep_id}" and tags.kind = "job"'
    tracked = {run.data.tags.get("run_id") for run in client.search_runs([experiment_id], filter_string=query)}
    return tracked <= compared.run_ids


def links(site: str, experiment_id: str, sweep_id: str = "") -> dict[str, str]:
    """Addresses of MLflow's tables of `arms` and `runs`, best first, and of the `charts` of runs."""
    within = f" and tags.sweep_id = '{sweep_id}'" if sweep_id else ""
    pages = {"arms": ("arm", {}), "runs": ("job", {}), "charts": ("job", {"compareRunsMode": "CHART"})}
    best_first = {"orderByKey": "metrics.`final/pass_at_1`", "orderByAsc": "false", "startTime": "ALL"}
    return {
        name: f"{site}/#/experiments/{experiment_id}/runs?"
        + urlencode({**mode, "searchFilter": f"tags.kind = '{kind}'{within}", **best_first}, quote_via=quote)
        for name, (kind, mode) in pages.items()
    }


def _database(uri: str) -> Path | None:
    """The absolute path of the SQLite file of `uri`; None for other databases and servers."""
    scheme, mark, rest = uri.partition("://")
    if not mark or not rest or scheme == "file":
        expected = "sqlite:///FILE, another database's address or http://…"
        raise ConfigError("tracker.uri", repr(uri), expected, "without one it is $MLFLOW_TRACKING_URI")
    if not scheme.startswith("sqlite"):
        return None
    if not rest.startswith("/") or rest == "/" or ":memory:" in rest:
        raise ConfigError("tracker.uri", repr(uri), "the file of a database, such as sqlite:///runs/mlflow.db")
    return Path(rest[1:]).absolute()


def _lay_out(database: Path) -> None:
    """Create MLflow's tables in one step: MLflow never opens a file whose migrations were interrupted."""
    from mlflow import MlflowClient

    draft = database.with_name(f".{database.name}.draft")
    for left in (draft, Path(f"{draft}-journal")):
        left.unlink(missing_ok=True)
    MlflowClient(f"sqlite:///{draft}").search_experiments(max_results=1)
    draft.rename(database)
