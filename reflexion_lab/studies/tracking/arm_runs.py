"""Summaries of arms as MLflow runs: each takes the place of the one that it renews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.analysis.arms import Arm, arms
from reflexion_lab.analysis.comparison import Comparison, compare
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.temp_dirs import Scratch
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import arm_view
from reflexion_lab.studies.tracking.writing import Entry, discard, times
from reflexion_lab.studies.tracking.writing import write as write_run

COPIES = 12
"""Arms that have the report each: of 75 it would fill half a gigabyte."""


class Compared(NamedTuple):
    """Arms, and what was found out of them."""

    arms: Sequence[Arm]
    found: Comparison
    study: str
    """"" where the runs belong to none."""
    sweep_id: str
    """"" where they are not of one sweep."""
    began: int
    """When the first run did, in milliseconds since the epoch."""
    ended: int
    """When the last record of any run was written."""

    @classmethod
    def of(cls, folders: Sequence[Path], baseline: str | None, one_seed: bool) -> Compared:
        """Raises FolderError; ValueError as `arms` and `compare`, and where the runs belong to several studies."""
        manifests = [RunFolder.existing(folder).manifest for folder in folders]
        if len(studies := {manifest.study for manifest in manifests}) > 1:
            names = ", ".join(sorted(name or "none" for name in studies))
            raise ConfigError("study", names, "runs of one study", "`reflexion-lab compare` takes others")
        sweeps = {str(manifest.config.get("sweep_id") or "") for manifest in manifests}
        registered = registration.of_runs(folders, manifests)
        read_arms = arms(folders)
        spans = [times(folder, manifest) for folder, manifest in zip(folders, manifests, strict=True)]
        return cls(
            arms=read_arms,
            found=compare(read_arms, baseline, one_seed=one_seed, study=registered),
            study=studies.pop(),
            sweep_id=sweeps.pop() if len(sweeps) == 1 else "",
            began=min(began for began, _ in spans),
            ended=max(ended for _, ended in spans),
        )


def write(client: Any, experiment_id: str, compared: Compared) -> None:
    """One run for each arm. All of them hold the whole report, since a reader may open any; of many, the first."""
    from reflexion_lab.analysis.report.documents import save_report

    former = _superseded(client, experiment_id, compared)
    with Scratch() as scratch:
        save_report(scratch.path, compared.found, compared.arms)
        for place, arm in enumerate(compared.arms):
            summary_id = arm_view.summary_id(arm, compared.sweep_id)
            same_arm = [run for run in former if run.data.tags["summary_id"] == summary_id]
            with_report = place == 0 or len(compared.arms) <= COPIES
            fill = partial(client.log_artifacts, local_dir=str(scratch.path)) if with_report else _nothing
            write_run(client, experiment_id, _entry(compared, place), same_arm, fill)
            former = [run for run in former if run not in same_arm]
    for run in former:
        discard(client, experiment_id, run.info.run_id)


def _superseded(client: Any, experiment_id: str, compared: Compared) -> list[Any]:
    """Summaries to replace: of the same arms, or of other arms that were made of some of these very runs. A summary of
    other runs, such as those of another benchmark, stays.
    """
    own = {arm_view.summary_id(arm, compared.sweep_id) for arm in compared.arms}
    run_ids = {run_id for row in compared.found.rows for run_id in row.run_ids}
    runs = client.search_runs([experiment_id], filter_string="tags.kind = 'arm'", max_results=10_000)
    return [
        run
        for run in runs
        if run.data.tags["summary_id"] in own
        or (
            run.data.tags.get("sweep_id", "") == compared.sweep_id
            and set(run.data.tags.get("run_ids", "").split(", ")) <= run_ids
        )
    ]


def seed_differences(compared: Compared) -> Iterator[tuple[Log, str, float]]:
    """Runs, each with the name and value of a metric: the share of its tasks solved less that of the baseline's run of
    its seed, over the tasks that both have. No interval and no p: a single seed proves nothing, and what `compare`
    refuses to say of an arm is not said of its runs.
    """
    base = next((arm for arm in compared.arms if arm.label == compared.found.baseline), None)
    verdicts = base.verdicts() if base else {}
    for arm, row in zip(compared.arms, compared.found.rows, strict=True):
        own = arm.verdicts() if row.as_run else {}
        for log in arm.logs:
            if both := [case for case in own.keys() & verdicts.keys() if case.seed == log.manifest.seed]:
                name = f"final/{'upper_bound_' * row.is_upper_bound}difference"
                yield log, name, sum(own[case] - verdicts[case] for case in both) / len(both)


def _nothing(_run_id: str) -> None:
    """The files of an arm whose report the first one holds."""


def _entry(compared: Compared, place: int) -> Entry:
    arm, row = compared.arms[place], compared.found.rows[place]
    tags = arm_view.tags(arm, row, compared.found, compared.sweep_id)
    return Entry(
        name=arm_view.name(arm),
        began=compared.began,
        ended=compared.ended,
        status="FINISHED",
        metrics=arm_view.metrics(row, compared.found, Curve.over(arm, len(row.curve))),
        params=arm_view.params(arm),
        tags=tags | {"mlflow.note.content": arm_view.note(row, compared.found)},
        data=arm.logs[0].manifest,
    )
