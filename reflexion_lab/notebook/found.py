"""Run folders as one table: what each was, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import NONE, Sheet, percent
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.runner.folder.folder import RunFolder

CAPTION = "pass@1 with its 95 % Wilson interval; UPPER BOUND: the hidden tests drove the loop. -: not finished."


class Ended(msgspec.Struct):
    """What a table of runs needs of a `summary.json`."""

    n_logged: int
    n_expected: int
    is_upper_bound: bool
    pass_at_1: Rate


class Found(NamedTuple):
    """The runs in a folder; shows itself as a table."""

    sheet: Sheet
    runs: list[RunFolder]

    def __repr__(self) -> str:
        return repr(self.sheet)

    def _repr_html_(self) -> str:
        return self.sheet._repr_html_()


def found(root: Path) -> Found:
    """A row a run of `root`; cheap, since only manifests and summaries are read. What cannot be read is said below."""
    runs, broken = [], []
    for path in sorted(root.glob("[!.]*/manifest.json")):
        try:
            runs.append(RunFolder.existing(path.parent))
        except (ValueError, OSError) as problem:
            broken.append(f"Not read: {problem}.")
    sheet = Sheet(
        title=f"{len(runs)} runs" if runs else f"no runs in {root}/",
        columns=("run", "arm", "benchmark", "feedback source", "seed", "tasks", "pass@1, %"),
        rows=tuple(map(_row, runs)),
        names=4,
        caption=" ".join([CAPTION] * bool(runs) + broken),
    )
    return Found(sheet, runs)


def _row(run: RunFolder) -> tuple[str, ...]:
    manifest, ended = run.manifest, _ended(run)
    arm = str(manifest.config.get("arm", NONE))
    tasks = f"{ended.n_logged if ended else _so_far(run)} of {manifest.n_expected}{'' if ended else ', unfinished'}"
    rate = _rate(ended) if ended and ended.pass_at_1.n else NONE
    return str(run.path), arm, manifest.benchmark, manifest.feedback_source, str(manifest.seed), tasks, rate


def _rate(ended: Ended) -> str:
    rate = ended.pass_at_1
    return f"{'UPPER BOUND ' * ended.is_upper_bound}{percent(rate.share)} {cells.interval(rate.low, rate.high)}"


def _so_far(run: RunFolder) -> int:
    """Tasks whose loops have ended."""
    try:
        return (run.path / "results.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def _ended(run: RunFolder) -> Ended | None:
    try:
        return msgspec.json.decode((run.path / "summary.json").read_bytes(), type=Ended)
    except (OSError, msgspec.MsgspecError):
        return None
