"""One experiment run, from its config to its report: assemble, run, summarise, draw, track."""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reflexion_lab.errors import FolderError, LabError
from reflexion_lab.io.jsonl_log import FolderLost
from reflexion_lab.protocols import Tracker
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import Lab, assemble
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.progress import in_notebook

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.analysis.summary import Summary


def carry_out(cfg: DictConfig) -> Summary:
    """Run what `cfg` says.

    Whatever breaks, everything finished is in the run folder, and the last line says how to go on.
    """
    return finish(assemble(cfg), cfg)


def finish(lab: Lab, cfg: DictConfig) -> Summary:
    """Run what is put together, close it, and present it."""
    try:
        with contextlib.ExitStack() as hold:  # until its summary stands: nobody goes on with it meanwhile
            try:
                hold.enter_context(lab.folder.held())
                lab.runner.run()
            finally:
                lab.close()
            return present(lab, cfg)
    except (FolderError, FolderLost):  # there is nothing to go on with, or somebody else is at it
        raise
    except BaseException as problem:
        if not cfg.sweep_id:  # a sweep goes on with it by itself
            _tell(problem, f"finish it with the same command and resume={lab.folder.path}")
        raise


def _tell(problem: BaseException, how: str) -> None:
    """Say how to go on; of an interrupt its one line says it, or the traceback."""
    if isinstance(problem, KeyboardInterrupt) and not in_notebook():
        problem.add_note(how)
    else:
        print(f"stopped; {how}", file=sys.stderr)


def present(lab: Lab, cfg: DictConfig) -> Summary:
    """Summary, figures and MLflow, all from the folder; printed unless `quiet`.

    The cells of a sweep are looked at together: theirs are drawn where something shows them.
    """
    from reflexion_lab.analysis.summary import Log, summary

    log = Log.read(lab.folder, texts=False)
    run_summary = summary(log)
    lab.folder.write_json("summary.json", {**msgspec.to_builtins(run_summary), "ended_at": _ended_at(lab.folder.path)})
    figures = [] if cfg.sweep_id else drawn(lab, log, cfg.arm)
    if not cfg.quiet:
        from rich.console import Console

        from reflexion_lab.analysis.report.run_tables import show

        show(lab.folder, Console(), log=log)
        print("\n".join(f"figure: {figure}" for figure in figures))
        print(f"model calls: {lab.models.made} made, {lab.models.stored} from the cache")
    link = track(lab, log)
    if link and not cfg.quiet:
        print(f"MLflow: {link}\nopen it with: {lab.tracker.command}")
    return run_summary


def _ended_at(folder: Path) -> str:
    """Now; of a run that had ended before, what its summary says, "" in one of an older version."""
    try:
        before = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Ended)
    except (OSError, msgspec.MsgspecError):
        before = _Ended(0, 1)
    is_whole = before.n_logged == before.n_expected
    return before.ended_at if is_whole else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _Ended(msgspec.Struct):
    n_logged: int
    n_expected: int
    ended_at: str = ""


def drawn(lab: Lab, log: Log, label: str) -> list[Path]:
    """The figures of the run, in its folder."""
    from reflexion_lab.analysis.figures.curves import save_convergence
    from reflexion_lab.analysis.figures.reflections import save_reflections

    reflections = save_reflections(lab.folder.path, log, label)
    convergence = save_convergence(lab.folder.path, log, label) if log.points else None
    return [path for path in (convergence, reflections) if path]


def track(lab: Lab, log: Log | None = None) -> str:
    """Show the run to the tracker. A tracker that fails is said so and loses nothing: the folder is the truth."""
    try:
        takes_log = "log" in inspect.signature(lab.tracker.track).parameters  # a reader's own may take the folder alone
        return lab.tracker.track(lab.folder.path, log) if takes_log else lab.tracker.track(lab.folder.path)
    except (OSError, ValueError, LabError) as problem:
        print(f"not tracked: {one_line(problem)}", file=sys.stderr)
        return ""


def track_arms(cfg: DictConfig, runs: Sequence[Path]) -> dict[str, str]:
    """Show the arms that `runs` make to the tracker; returns where to look. As with a run, nothing is lost by it."""
    try:
        tracker: Tracker = build(cfg.tracker, "tracker")
        return tracker.track_arms(runs) if runs else {}
    except (OSError, ValueError, LabError) as problem:
        print(f"arms not tracked: {one_line(problem)}", file=sys.stderr)
        return {}
