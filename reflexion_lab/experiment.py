"""One experiment run, from its config to its report: assemble, run, summarise, draw, track."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from reflexion_lab.config import Lab, assemble

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.analysis.summary import Summary


def carry_out(cfg: DictConfig) -> Summary:
    """Run what `cfg` says.

    Whatever breaks, everything finished is in the run folder, and the last line says how to go on.
    """
    lab = assemble(cfg)
    try:
        lab.runner.run()
    except BaseException:
        print(f"stopped; finish it with the same command and resume={lab.folder.path}", file=sys.stderr)
        raise
    finally:
        lab.close()
    return present(lab, cfg.arm, cfg.quiet)


def present(lab: Lab, label: str, quiet: bool) -> Summary:
    """Summary, figure and MLflow, all from the folder; printed unless `quiet`."""
    from rich.console import Console

    from reflexion_lab.analysis.summary import Log, summary
    from reflexion_lab.reports.convergence import Curve, save_convergence
    from reflexion_lab.reports.reflection_plots import save_reflections
    from reflexion_lab.reports.run import show

    log = Log.read(lab.folder)
    found = summary(log)
    lab.folder.write_json("summary.json", msgspec.to_builtins(found))
    figures = save_convergence(lab.folder.path, [Curve.of(log, label)]), save_reflections(lab.folder.path, log, label)
    if not quiet:
        show(lab.folder, Console())
        print("\n".join(f"figure: {figure}" for figure in figures if figure))
        models = lab.models.distinct
        made, stored = sum(m.misses for m in models), sum(m.hits + m.coalesced for m in models)
        print(f"model calls: {made} made, {stored} from the cache")
    link = track(lab)
    if link and not quiet:
        print(f"MLflow: {link}\nopen it with: {lab.tracker.command}")
    return found


def track(lab: Lab) -> str:
    """Show the run to the tracker. A tracker that fails is said so and loses nothing: the folder is the truth."""
    try:
        return lab.tracker.track(lab.folder.path)
    except OSError as problem:
        print(f"not tracked: {problem}", file=sys.stderr)
        return ""
