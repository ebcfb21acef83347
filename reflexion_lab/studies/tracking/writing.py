"""Writing of one MLflow run, in whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.curves import drawing
from reflexion_lab.analysis.figures.drawing import save
from reflexion_lab.analysis.summary import Log, Summary
from reflexion_lab.io.files import Scratch
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import run_view as view
from reflexion_lab.studies.tracking.run_view import params


class Entry(NamedTuple):
    """An MLflow run before it is written. Times are milliseconds since the epoch."""

    name: str
    began: int
    ended: int
    status: str
    metrics: Sequence[view.Metric]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    data: Manifest
    """The manifest of a run on the same data."""


def job(folder: Path, log: Log, summary: Summary) -> Entry:
    """The MLflow run of the run folder."""
    began, ended = times(folder, log.manifest)
    tags = view.tags(log, summary) | {"mlflow.note.content": view.note(log, summary, folder)}
    return Entry(
        name=view.run_name(log.manifest),
        began=began,
        ended=ended,
        status="FINISHED" if view.is_complete(log) else "KILLED",
        metrics=view.metrics(log, summary),
        params=params(log.manifest),
        tags=tags | {"mlflow.source.git.commit": log.manifest.git_commit},
        data=log.manifest,
    )


def write(
    client: Any, experiment_id: str, entry: Entry, former: Sequence[Any], fill: Callable[[str], object] | None
) -> None:
    """Write `entry` and what `fill` adds to its run id; then move `former` runs to the trash."""
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException

    # An arm's short name, which one run by itself does not know, is kept.
    tags = {key: value for run in former for key, value in run.data.tags.items() if key == "name"}
    tags |= {**entry.tags, "mlflow.source.name": "reflexion-lab"}
    # Identified from the start, in case this process is killed.
    known = {key: entry.tags[key] for key in ("run_id", "summary_id") if key in entry.tags}
    run = client.create_run(experiment_id, start_time=entry.began, run_name=entry.name, tags=known)
    run_id = run.info.run_id
    try:
        client.log_batch(
            run_id,
            metrics=[Metric(metric.name, short(metric.value), entry.ended, metric.step) for metric in entry.metrics],
            params=[Param(*item) for item in entry.params.items()],
            tags=[RunTag(*item) for item in tags.items()],
            synchronous=True,
        )
        try:
            client.log_inputs(run_id, [_data_set(entry.data)])
        except MlflowException:  # another writer has registered the same data set between MLflow's look and its insert
            client.log_inputs(run_id, [_data_set(entry.data)])
        if fill:
            fill(run_id)
        client.set_terminated(run_id, entry.status, entry.ended)
    except BaseException:
        with contextlib.suppress(Exception):
            client.delete_run(run_id)
        raise
    for run in former:
        client.delete_run(run.info.run_id)


def files(client: Any, run_id: str, folder: Path, log: Log) -> None:
    """Log the folder's files, except hidden ones, which are drafts; of a finished run also its curve."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            client.log_artifact(run_id, str(path), None if len(place.parts) == 1 else place.parent.as_posix())
    if log.points and len(log.results) == log.manifest.n_expected and not (folder / "curves.png").exists():
        with Scratch() as scratch:
            save(scratch.path, drawing([Arm(view.run_name(log.manifest), [log])]))
            client.log_artifacts(run_id, str(scratch.path))


def times(folder: Path, manifest: Manifest) -> tuple[int, int]:
    """Start and end of the run in milliseconds since the epoch, by its records: file times change with every copy.

    A run without `ended_at` in its summary, since it is unfinished, ends where it began.
    """
    began, summary = _milliseconds(manifest.created_at), RunFolder(folder).summary(_Ended)
    return began, max(began, _milliseconds(summary.ended_at)) if summary and summary.ended_at else began


class _Ended(msgspec.Struct):
    ended_at: str = ""


def _milliseconds(moment: str) -> int:
    when = datetime.fromisoformat(moment)
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def short(value: float) -> float:
    """`value` to six digits; whole numbers unchanged."""
    return value if float(value).is_integer() else float(f"{value:.6g}")


def _data_set(manifest: Manifest) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    digest = manifest.benchmark_digest[:8]  # as long as MLflow's own; a tag has the whole
    data_set = Dataset(manifest.benchmark, digest, source_type="benchmark", source=manifest.benchmark)
    return DatasetInput(data_set, [InputTag("mlflow.data.context", "evaluation")])
