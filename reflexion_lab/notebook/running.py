"""Experiments from Python: compose one, estimate it, run it with live progress, find what was run, load it as tables.

Where a function takes *overrides*, these are the words that follow `reflexion-lab run`, lists or mappings of them:
`run("experiment=reflexion", {"loop.max_attempts": 5, "seed": 1})`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError
from reflexion_lab.notebook.overrides import Override, as_lines, plainly
from reflexion_lab.runner.config.messages import hydras_own
from reflexion_lab.runner.folder.folder import RunFolder

if TYPE_CHECKING:
    from reflexion_lab.analysis.frames import Frames
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.analysis.summary import Summary
    from reflexion_lab.notebook.found import Found
    from reflexion_lab.records import Attempt, Grade
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.studies.expected import Estimate
    from reflexion_lab.studies.sweep import Sweep


class Run:
    """A run, read from its folder once; it shows itself."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def log(self) -> Log:
        """Raises FolderError: a file cannot be read."""
        from reflexion_lab.analysis.run_log import Log

        return Log.read(self.folder)

    @cached_property
    def summary(self) -> Summary:
        """Its headline figures, with intervals."""
        from reflexion_lab.analysis.summary import summary

        return summary(self.log)

    @property
    def task_ids(self) -> list[str]:
        """Tasks whose loops have ended, in the order in which they did."""
        return list(self.log.attempts)

    @property
    def grades(self) -> dict[tuple[str, int], Grade]:
        """Hidden verdicts by task and attempt number."""
        return self.log.grades

    def attempts(self, task_id: str) -> list[Attempt]:
        """One task's loop. Raises ConfigError: the run has no such task, or it has not ended."""
        if task_id not in self.log.attempts:
            known = ", ".join(self.task_ids[:5])
            raise ConfigError(self.path, f"task {task_id!r} not", f"one of {known}, … (`.task_ids`)")
        return self.log.attempts[task_id]

    def __repr__(self) -> str:
        from reflexion_lab.analysis.report.cells import interval
        from reflexion_lab.analysis.report.sheets import percent

        summary, rate = self.summary, self.summary.pass_at_1
        what = "UPPER BOUND, not pass@1:" if summary.is_upper_bound else "pass@1"
        figures = (
            f"{percent(rate.share)} % {interval(rate.low, rate.high)}, n = {rate.n}" if rate.n else "not known yet"
        )
        ended = f"{summary.n_logged} of {summary.n_expected} tasks ended"
        begin = f"INCOMPLETE, {ended}: " if summary.n_logged < summary.n_expected else ""
        return f"{begin}{self.path.name}: {what} {figures}; feedback source: {summary.feedback_source}"

    def _repr_html_(self) -> str:
        from reflexion_lab.notebook.viewing import run_view

        return run_view(self.folder).html


def compose(*overrides: Override) -> Config:
    """The config of `reflexion-lab run *overrides`, without running it; `print(OmegaConf.to_yaml(cfg))` reads well.

    Raises
    ------
    ConfigError
        An override cannot be read, or names what is not there.
    """
    from reflexion_lab.runner.config.compose import compose as composed

    with plainly():
        return composed(*as_lines(overrides))


def run(*overrides: Override, quiet: bool = False) -> Run:
    """Run what `reflexion-lab run *overrides` runs.

    Parameters
    ----------
    quiet : bool, default False
        Without the progress bar.

    Raises
    ------
    ConfigError
        A value is impossible; nothing was run.
    KeyboardInterrupt
        Everything finished stands; the same call with `"resume=FOLDER"`, which is printed, goes on.
    """
    from reflexion_lab.runner.config.compose import assemble
    from reflexion_lab.studies.run import finish

    cfg = compose(*overrides)
    cfg.quiet = quiet or cfg.quiet
    with plainly():
        lab = assemble(cfg)
    cfg.quiet = True  # what is returned shows itself
    finish(lab, cfg)
    return Run(lab.folder)


def sweep(*grid: Override, quiet: bool = False) -> Sweep:
    """Run a sweep: `sweep({"recall.omega": [0, 1, 3], "seed": range(3)})` is, cell by cell, what
    `reflexion-lab run -m recall.omega=0,1,3 seed=0,1,2` is. Finished cells are not run again.

    Parameters
    ----------
    grid : Override
        By config key a value, or a list of them to sweep over; or overrides as the command takes them.
    quiet : bool, default False
        Without the progress bar; cells that failed are still said.

    Raises
    ------
    ConfigError
        An override cannot be read, or names what is not there; of which cell.
    KeyboardInterrupt
        What had finished stands, and the same call goes on from there.
    """
    from reflexion_lab.studies.sweep import sweep as swept

    with plainly(hydras_own):
        return swept(as_lines(grid), quiet)


def estimate(*overrides: Override, tasks: int = 3) -> Estimate:
    """What a run or, where an override names several values, a sweep will take: calls, tokens, money, time.

    Probes `tasks` tasks of each cell, through the call cache: the run does not pay for them again.

    Raises
    ------
    ConfigError
        An override names what is not there, or the replies would not be kept.
    """
    from reflexion_lab.runner.config.grid import cells
    from reflexion_lab.studies.estimate import estimate as estimated

    with plainly(hydras_own):
        return estimated([cell.cfg for cell in cells(as_lines(overrides))], tasks)


def load(*runs: object, texts: bool = False) -> Frames:
    """Runs as pandas tables: `.runs`, `.tasks`, `.attempts`, `.checks`, `.reflections`, `.memory`.

    Parameters
    ----------
    runs : object
        Run folders, patterns such as `"runs/*"`, what `run` or `sweep` returned, or lists of these.
    texts : bool, default False
        With columns for programs, prompts, replies, feedback and reflections.

    Raises
    ------
    FolderError
        No run is named, a folder is none, a pattern fits none, or a file cannot be read.
    """
    from reflexion_lab.analysis.frames import load as loaded

    return loaded(*runs, texts=texts)


def runs(root: Path | str = "runs") -> Found:
    """The run folders in `root`, oldest first, with what each was and how it ended; `load(runs())` loads them all."""
    from reflexion_lab.notebook.found import found

    return found(Path(root))
