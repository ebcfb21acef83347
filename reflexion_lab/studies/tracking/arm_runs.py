"""Summaries of arms, all seeds together, as MLflow runs; each replaces the one that it renews."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison, compare
from reflexion_lab.analysis.comparison.grouping import arms, short_names
from reflexion_lab.analysis.comparison.lines import AS_RUN, Line
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.report.comparison import answer, mark, warnings_of
from reflexion_lab.analysis.report.documents import escaped, save_report
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import Scratch
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking.run_view import LONGEST_VALUE, Metric, curves, interval
from reflexion_lab.studies.tracking.run_view import params as params_of
from reflexion_lab.studies.tracking.writing import Entry, times
from reflexion_lab.studies.tracking.writing import write as write_run

COPIES = 12
"""Up to this number of arms, each holds the report: 75 copies would fill half a gigabyte."""
SUMMARY_OF = "summary_of"
"""The parameter of the arm's label. Not `arm`, so that grouping by `arm` takes single runs alone."""


class Compared(NamedTuple):
    arms: Sequence[Arm]
    comparison: Comparison
    study: str
    """"" without a study."""
    sweep_id: str
    """"" unless all runs are of one sweep."""
    began: int
    """Start of the first run, milliseconds since the epoch."""
    ended: int
    """End of the last run."""

    @property
    def names(self) -> dict[str, str]:
        """Short names of the arms by label."""
        return short_names([arm.label for arm in self.arms])

    @property
    def run_ids(self) -> set[str]:
        return {run_id for arm in self.arms for log in (*arm.logs, *arm.checkpoints) for run_id in log.run_ids}

    @classmethod
    def of(cls, folders: Sequence[Path], baseline: str | None) -> Compared:
        """Raises FolderError; ConfigError as `arms` and `compare`, and if the runs belong to several studies."""
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
            comparison=compare(read_arms, baseline, study=registered),
            study=studies.pop(),
            sweep_id=sweeps.pop() if len(sweeps) == 1 else "",
            began=min(began for began, _ in spans),
            ended=max(ended for _, ended in spans),
        )


def write(client: Any, experiment_id: str, compared: Compared) -> None:
    """Write one run per arm. Every arm holds the whole report; with many arms, only the first."""
    former = _superseded(client, experiment_id, compared)
    with Scratch() as scratch:
        save_report(scratch.path, compared.comparison, compared.arms)
        for place, (arm, row) in enumerate(zip(compared.arms, compared.comparison.rows, strict=True)):
            arm_tags = tags(arm, row, compared.comparison, compared.sweep_id)
            entry = Entry(
                name=name(arm, compared.names[arm.label]),
                began=compared.began,
                ended=compared.ended,
                status="FINISHED",
                metrics=metrics(row, Curve.over(arm, len(row.curve))),
                params=params(arm),
                tags=arm_tags | {"mlflow.note.content": note(row, compared.comparison)},
                data=arm.logs[0].manifest,
            )
            same_arm = [run for run in former if run.data.tags["summary_id"] == arm_tags["summary_id"]]
            with_report = place == 0 or len(compared.arms) <= COPIES
            fill = partial(client.log_artifacts, local_dir=str(scratch.path)) if with_report else None
            write_run(client, experiment_id, entry, same_arm, fill)
            former = [run for run in former if run not in same_arm]
    for run in former:
        client.delete_run(run.info.run_id)


def _superseded(client: Any, experiment_id: str, compared: Compared) -> list[Any]:
    """Summaries of the same arms, or of other arms of these same runs. Summaries of other runs stay."""
    own = {summary_id(arm, compared.sweep_id) for arm in compared.arms}
    run_ids = compared.run_ids
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
    """Runs with the name and value of a metric: pass@1 minus that of the baseline's run of the same seed.

    No interval and no p, since a single seed proves nothing.
    """
    verdicts = next(arm for arm in compared.arms if arm.label == compared.comparison.baseline).verdicts()
    for arm, row in zip(compared.arms, compared.comparison.rows, strict=True):
        own = arm.verdicts() if AS_RUN in row.differences else {}
        for log in arm.logs:
            if both := [case for case in own.keys() & verdicts.keys() if case.seed == log.manifest.seed]:
                yield log, f"final/{row.metric}_as_run", sum(own[case] - verdicts[case] for case in both) / len(both)


def name(arm: Arm, short: str) -> str:
    """Name of an arm's MLflow run, such as `Ω3 reflexion, 3 seeds`: the short name first, since tables cut the end."""
    words = [word for word in arm.label.split(" ") if "=" not in word and word not in short.split(" ")]
    oracle = ["oracle"] if arm.feedback_source == "oracle" and "oracle" not in arm.label else []
    seeds = f"{len(arm.seeds)} seed{'s' * (len(arm.seeds) != 1)}"
    return plain(f"{' '.join([short, *words, *oracle])}, {seeds}")


def params(arm: Arm) -> dict[str, str]:
    """The arm's label, and parameters that all of its runs share."""
    first, *others = [params_of(log.manifest) for log in arm.logs]
    first.pop("arm", None)
    same = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return {SUMMARY_OF: arm.label[:LONGEST_VALUE], **same}


def summary_id(arm: Arm, sweep_id: str) -> str:
    """Equal for the same arm of the same study, sweep, benchmark, feedback source and models."""
    manifest = arm.logs[0].manifest
    roles = (f"{role}={name}" for role, name in sorted(manifest.role_fingerprints.items()))
    data = (manifest.benchmark_digest, manifest.feedback_source)
    parts = (manifest.study, sweep_id, arm.label, *data, manifest.model_fingerprint, *roles)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def tags(arm: Arm, row: Row, comparison: Comparison, sweep_id: str) -> dict[str, str]:
    manifest = arm.logs[0].manifest
    values = {
        "kind": "arm",
        "label": arm.label,
        "summary_id": summary_id(arm, sweep_id),
        "sweep_id": sweep_id,
        "study": arm.study,
        "feedback_source": arm.feedback_source,
        "benchmark_digest": manifest.benchmark_digest,
        "model_fingerprint": manifest.model_fingerprint,
        "seeds": ", ".join(map(str, arm.seeds)),
        "run_ids": ", ".join(arm.run_ids),
        "baseline": comparison.baseline,
        "interval": interval(row.final),
        "verdict": row.differences[AS_RUN].verdict if AS_RUN in row.differences else "",
    }
    return {key: value for key, value in values.items() if value}


OF_DIFFERENCES = {"_n": "n", "_p": "p", "_p_tasks": "p_tasks", "_p_holm": "p_holm"}
"""Further fields of a line, by the end of its name."""


def metrics(row: Row, curve: Curve) -> list[Metric]:
    """The lines of an arm, and its curve; an upper bound is named so."""
    figures = {name: value for line in row.lines for name, value in numbers(line).items()}
    fields = {
        f"curve/{row.metric}": "pass_at_1",
        f"curve/{row.metric}_low": "low",
        f"curve/{row.metric}_high": "high",
        **{f"curve/{name}": name for name in ("any_solved", "reward", "visible_pass")},
    }
    return [Metric(*item) for item in figures.items()] + curves(curve.points, fields)


def numbers(line: Line) -> dict[str, float]:
    """Metrics of a line: no difference whose budget could not be matched, and no p-value where there is no test."""
    if line.matched is False:
        return {}
    key = "_".join((f"final/{line.metric}", *[line.budget] * bool(line.budget)))
    further = OF_DIFFERENCES if line.budget and getattr(line, "p_holm", 0) is not None else {}
    fields = {"": "value", "_low": "low", "_high": "high", **further}
    values = {f"{key}{end}": line.cells.get(field) for end, field in fields.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def note(row: Row, comparison: Comparison) -> str:
    """Markdown: the result, its differences, whether they were registered, and what counts against them."""
    seeds = ", ".join(map(str, row.of.seeds))
    budgets = dict.fromkeys(each.words for each in row.differences.values() if not each.exploratory)
    scope = f" ({', '.join(budgets)}; other comparisons are exploratory)" * bool(budgets)
    lines = [
        f"**{escaped(row.arm)}** on {escaped(comparison.benchmark)}, {row.of.feedback_source} feedback, seeds {seeds}",
        escaped(answer(row, comparison)),
        *(f"**{escaped(text)}**" for text in warnings_of(row)),
        escaped(mark(row) + scope),
    ]
    return "\n\n".join(lines)
