"""Run folders as one table: what each was, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reflexion_lab.reports import cells
from reflexion_lab.reports.sheets import NONE, Sheet, percent
from reflexion_lab.run_folder import RunFolder
from reflexion_lab.statistics.intervals import Rate


class Ended(msgspec.Struct):
    """What a table of runs needs of a `summary.json`."""

    n_logged: int
    n_expected: int
    is_upper_bound: bool
    pass_at_1: Rate


def found(runs: Sequence[RunFolder]) -> Sheet:
    """A row a run; cheap, since only manifests and summaries are read."""
    return Sheet(
        title=f"{len(runs)} runs",
        columns=("run", "arm", "benchmark", "feedback source", "seed", "tasks", "pass@1, %"),
        rows=tuple(map(_row, runs)),
        names=4,
        caption="pass@1 with its 95 % Wilson interval; UPPER BOUND: the hidden tests drove the loop. -: not finished.",
    )


def _row(run: RunFolder) -> tuple[str, ...]:
    manifest, ended = run.manifest, _ended(run)
    arm = str(manifest.config.get("arm", NONE))
    tasks = f"{ended.n_logged} of {manifest.n_expected}" if ended else f"? of {manifest.n_expected}"
    rate = _rate(ended) if ended and ended.n_logged else NONE
    return str(run.path), arm, manifest.benchmark, manifest.feedback_source, str(manifest.seed), tasks, rate


def _rate(ended: Ended) -> str:
    found = ended.pass_at_1
    return f"{'UPPER BOUND ' * ended.is_upper_bound}{percent(found.share)} {cells.interval(found.low, found.high)}"


def _ended(run: RunFolder) -> Ended | None:
    try:
        return msgspec.json.decode((run.path / "summary.json").read_bytes(), type=Ended)
    except (OSError, msgspec.MsgspecError):
        return None
