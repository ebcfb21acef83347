"""One experiment run, from its config to its report: assemble, run, summarise, draw, track."""

from __future__ import annotations

import contextlib
import inspect
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.agent.models.caps import Meter
from reflexion_lab.analysis.report.screen import run_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.power import minimum
from reflexion_lab.analysis.summary import Summary, summary
from reflexion_lab.errors import CapReached, FolderError, LabError, ModelNotFound
from reflexion_lab.io.terminal import columns, in_notebook
from reflexion_lab.protocols import Tracker
from reflexion_lab.records import Task, Usage
from reflexion_lab.runner.config.assemble import Lab, assemble
from reflexion_lab.runner.config.build import Config, build
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import FolderLost, RunFolder
from reflexion_lab.text.shorten import number_of

DISCORDANCE, AGREEMENT = 0.2, 0.5
"""Assumed before any run: share of cases that one of two arms alone solves, and correlation of cases in a cluster."""


def carry_out(cfg: Config, is_printed: bool = True) -> Summary:
    """Run the experiment of a composed config, and print its result unless it is `quiet` or not `is_printed`.

    After any failure, everything finished is in the run folder, and the last line says how to resume.
    """
    return finish(assemble(cfg), is_printed and not cfg.quiet)


def outlook(cfg: RunConfig, meter: Meter, tasks: Iterable[Task], seeds: int = 1, arms: int = 2) -> Iterator[str]:
    """The difference that the design detects, and the attempts that its caps buy at the mean of the arm's last run."""
    clusters = {task.task_id: task.cluster_id for task in tasks}
    n, distinct = len(clusters) * seeds, len(set(clusters.values()))
    effective = round(n / (1 + (n / distinct - 1) * AGREEMENT))
    least = minimum(n, distinct, effective, DISCORDANCE, max(1, arms - 1))
    detects = "too few to detect a difference between arms"
    if least:
        detects = f"minimum detectable difference {100 * least:.0f} points (80 % power)"
    of = f" in {number_of(distinct, 'cluster')}" * (distinct < len(clusters))
    yield f"{number_of(len(clusters), 'task')}{of} x {number_of(seeds, 'seed')}: {detects}"
    caps = {name: cap for name, cap in msgspec.to_builtins(meter.caps).items() if cap is not None and name != "seconds"}
    for path in sorted(Path(cfg.run_root).glob("2*/summary.json"), reverse=True)[:20] if caps else ():
        with contextlib.suppress(OSError, LookupError, TypeError, LabError, msgspec.MsgspecError):  # a broken run
            last = msgspec.json.decode(path.read_bytes(), type=_Ended)
            used, attempts = sum(last.usage.values(), Usage()), last.n_logged * last.attempts_mean
            left = {name: cap - getattr(meter.spent, name) for name, cap in caps.items() if getattr(used, name)}
            if left and _kind(RunFolder(path.parent).manifest.config) == _kind(cfg.whole):
                n, name = min((attempts * left[name] / getattr(used, name), name) for name in left)
                bought = number_of(max(0, round(n)), "attempt")
                yield f"caps.{name}={caps[name]:g} buys about {bought} of {cfg.arm}"
                return


def _kind(config: Mapping[str, Any]) -> tuple[object, ...]:
    return config["arm"], config["model"]["_target_"], config["model"].get("model")


def finish(lab: Lab, is_printed: bool = False) -> Summary:
    """Run the assembled experiment, close it, and present its results."""
    cfg = lab.cfg
    try:
        with contextlib.ExitStack() as hold:  # no other process may resume the run until its summary is written
            try:
                hold.enter_context(lab.folder.held())
                if not (cfg.quiet or cfg.sweep_id):
                    print(*outlook(cfg, lab.models.meter, lab.runner.tasks.values()), sep="\n", file=sys.stderr)
                lab.runner.run()
            finally:
                lab.close()
            return present(lab, is_printed)
    except (FolderError, FolderLost):  # nothing to resume, or another process is using the folder
        raise
    except BaseException as problem:
        if _is_unanswered(lab, problem):
            shutil.rmtree(lab.folder.path, ignore_errors=True)
        elif not cfg.sweep_id:  # a sweep resumes its cells by itself
            more = f", {problem.override}" if isinstance(problem, CapReached) else ""
            resume = f"finish it with the same command{more} and resume={lab.folder.path}"
            if isinstance(problem, KeyboardInterrupt) and not in_notebook():
                problem.add_note(resume)
            else:
                print(f"stopped; {resume}", file=sys.stderr)
        raise


def _is_unanswered(lab: Lab, problem: BaseException) -> bool:
    """Whether a new run ended before its first reply, for a reason that lasts: a key, a model's name."""
    lasts = isinstance(problem, ModelNotFound) or getattr(problem, "is_lasting", False)
    is_new = lab.runner.resumption is None and not (lab.folder.path / "attempts.jsonl").exists()
    return lasts and is_new and not lab.models.spent.replies + lab.models.stored


def present(lab: Lab, is_printed: bool = False) -> Summary:
    """Summary and MLflow, from the folder. Figures are drawn by the tracker, `report` and notebooks."""
    log = Log.read(lab.folder, texts=False)
    run_summary = summary(log)
    before, ended_at = lab.folder.summary(_Ended), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if before and before.n_logged == before.n_expected:  # it had already ended
        ended_at = before.ended_at
    lab.folder.write_json("summary.json", {**msgspec.to_builtins(run_summary), "ended_at": ended_at})
    if is_printed:
        calls = f"model calls: {lab.models.paid} made, {lab.models.stored} from the cache"
        print("\n".join(run_screen(lab.folder, log, columns(), [calls])))
    link = track(lab, log)
    if link and is_printed:
        print(f"MLflow: {link}\nopen it with: {lab.tracker.command}")
    return run_summary


class _Ended(msgspec.Struct):
    n_logged: int
    n_expected: int
    ended_at: str = ""
    attempts_mean: float = 0
    usage: dict[str, Usage] = {}


def track(lab: Lab, log: Log | None = None) -> str:
    """Send the run to the tracker. A failing tracker is reported; no data is lost, since the folder has all."""
    try:
        takes_log = "log" in inspect.signature(lab.tracker.track).parameters  # a user-defined one may not
        arguments = (lab.folder.path, log) if takes_log else (lab.folder.path,)
        return lab.tracker.track(*arguments)
    except (OSError, ValueError, LabError) as problem:
        print(f"not tracked: {one_line(problem)}", file=sys.stderr)
        return ""


def track_arms(cfg: RunConfig, runs: Sequence[Path]) -> dict[str, str]:
    """Send the arms of `runs` to the tracker; returns their links. As with a run, a failure loses no data."""
    try:
        tracker: Tracker = build(cfg.tracker, "tracker")
        return tracker.track_arms(runs) if runs else {}
    except (OSError, ValueError, LabError) as problem:
        print(f"arms not tracked: {one_line(problem)}", file=sys.stderr)
        return {}
