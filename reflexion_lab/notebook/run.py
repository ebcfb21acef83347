"""Experiments from Python: compose, estimate, run with live progress, list runs, load them as tables.

Where a function takes *overrides*, these are the words that follow `reflexion-lab run`, lists or mappings of them:
`run("experiment=reflexion", {"loop.max_attempts": 5, "seed": 1})`.

Where a function takes *parts*, these are classes or objects of the notebook by config group, `actor=Mine`, or names of
choices; `benchmark` also takes tasks: a list of `Task`, or of mappings with its fields or those of HumanEval or MBPP.
Keys of the run itself may be keywords, too: `run(..., seed=1, resume=run)`, with a run or its folder.
A class or function makes the part, as its `_target_` in a config would; an object is the part itself, shared by all
loops, which run in threads. The digest of its source, and of the object's plain state, is in the run's manifest.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.analysis.metrics import register_own
from reflexion_lab.analysis.report.page import overview, sentence
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_list import run_list, sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import Summary, summary
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.notebook.frame_rows import OF_LAB
from reflexion_lab.notebook.overrides import Override, as_lines, one_line_errors, with_objects
from reflexion_lab.records import Attempt, Grade
from reflexion_lab.runner.config.assemble import assemble, loop_factory
from reflexion_lab.runner.config.build import Config
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.compose import compose as composed
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.messages import is_hydra_error
from reflexion_lab.runner.config.parts import load_benchmark, load_models, load_sandbox
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies import calibrate as study
from reflexion_lab.studies.calibrate import Calibration
from reflexion_lab.studies.estimate import Estimate
from reflexion_lab.studies.estimate import estimate as estimated
from reflexion_lab.studies.run import finish
from reflexion_lab.studies.sweeps.running import sweep as swept
from reflexion_lab.studies.sweeps.sweep import Sweep
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.text.shorten import number_of


class Run:
    """A run, read from its folder once; notebooks display it."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def log(self) -> Log:
        """Raises FolderError: a file cannot be read."""
        return Log.read(self.folder)

    @cached_property
    def summary(self) -> Summary:
        """Metrics with intervals."""
        return summary(self.log)

    @property
    def task_ids(self) -> list[str]:
        """Ids of finished tasks, in the order in which they ended."""
        return list(self.log.attempts)

    @property
    def grades(self) -> dict[tuple[str, int], Grade]:
        """Hidden verdicts by task and attempt number."""
        return self.log.grades

    def attempts(self, task_id: str) -> list[Attempt]:
        """Attempts at a task. Raises ConfigError: the run has no such task, or it has not ended."""
        if task_id not in self.log.attempts:
            known = ", ".join(self.task_ids[:5])
            raise ConfigError(self.path, f"task {task_id!r} not", f"one of {known}, … (`.task_ids`)")
        return self.log.attempts[task_id]

    def __repr__(self) -> str:
        return sentence(self.log)

    def _repr_html_(self) -> str:
        return overview(self.log)


def compose(*overrides: Override, **parts: object) -> Config:
    """The config of `reflexion-lab run *overrides`, without running it; `print(OmegaConf.to_yaml(cfg))` reads well.

    Raises ConfigError: an override cannot be read, or names an unknown key or choice.

    Examples
    --------
    >>> cfg = rl.compose("experiment=reflexion", {"loop.max_attempts": 5})
    >>> cfg.arm, cfg.loop.max_attempts, cfg.recall.omega
    ('reflexion', 5, 1)
    """
    with one_line_errors():
        return composed(*with_objects(overrides, parts))


def run(
    *overrides: Override,
    quiet: bool = False,
    metrics: Mapping[str, Callable[..., object]] | None = None,
    **parts: object,
) -> Run:
    """Run an experiment, as `reflexion-lab run *overrides` does.

    Raises ConfigError: a value is invalid; nothing has run; KeyboardInterrupt: finished tasks are kept; the same call
    with the printed `resume="FOLDER"` resumes the run; CapReached: likewise. Caps count what all starts have spent.

    `quiet`: without the progress bar. `metrics`: functions by name, for this process: `{"short": short}`. The first
    parameter says what the function measures: `attempt` (then its `grade` or None), `attempts` of a task (then `grades`
    by number), `log` of a run, or `arm`; its return annotation, `-> bool` or `-> float`, whether that is a share or a
    number. `parts`: classes, objects or choices by config group, and `benchmark`: see the module.

    Examples
    --------
    >>> small = {"model": "simulated", "temperature": 0.8, "tracker": "none"}
    >>> small |= {"benchmark.load.n": 8, "benchmark.load.seed": 0}
    >>> run = rl.run("experiment=reflexion", small, quiet=True)
    >>> run.summary.pass_at_1.k, run.summary.pass_at_1.n
    (8, 8)
    >>> run
    20...-reflexion-basics-s0: pass@1 100.0 % [67.6, 100.0] (8 of 8 tasks, Wilson 95 %), feedback visible
    """
    if metrics:
        register_own(metrics, OF_LAB)
    composed = compose(*overrides, **parts)
    with one_line_errors():
        cfg = RunConfig.of(composed)
        cfg = cfg.having({"quiet": quiet or cfg.quiet})
        lab = assemble(cfg)
    finish(lab)
    return Run(lab.folder)


def sweep(*grid: Override, quiet: bool = False, **parts: object) -> Sweep:
    """Run a sweep, reusing finished cells: `sweep({"recall.omega": [0, 1, 3], "seed": range(3)})` equals
    `reflexion-lab run -m recall.omega=0,1,3 seed=0,1,2`.

    Raises ConfigError: an override of a cell cannot be read, or names an unknown key or choice; KeyboardInterrupt:
    finished cells are kept; the same call resumes the sweep. `grid`: a value per config key, or a list of values to
    sweep over; or overrides as on the command line. `quiet`: failed cells are still printed. `parts`: as of `run`.

    Examples
    --------
    >>> sweep = rl.sweep({"experiment": ["retry", "reflexion"], "seed": [0, 1]}, small, quiet=True)
    >>> len(sweep.runs)
    4
    """
    with one_line_errors(is_hydra_error):
        return swept(with_objects(grid, parts), quiet)


def estimate(*overrides: Override, tasks: int = 3, **parts: object) -> Estimate:
    """Expected calls, tokens, cost and time of a run, or of a sweep if an override names several values.

    Probes `tasks` tasks of each cell, through the call cache: the run does not pay for them again. Raises ConfigError:
    an override names an unknown key or choice, or the replies would not be kept.

    Examples
    --------
    >>> estimate = rl.estimate("experiment=reflexion", small, tasks=2)
    >>> estimate.tasks, estimate.probed
    (8, 2)
    """
    with one_line_errors(is_hydra_error):
        return estimated([cell.cfg for cell in cells(with_objects(overrides, parts))], tasks)


def calibrate(*overrides: Override, tasks: int = 40, quiet: bool = False, **parts: object) -> Calibration:
    """Whether a model uses what it reads, how far words can move it, and the tasks that an experiment needs.

    Raises ConfigError: an override sets a key of its cells; LabError: a cell failed, the same call continues.

    Examples
    --------
    >>> rl.calibrate(small, "run_root=calibrations", tasks=8, quiet=True).answer.partition(":")[0]
    'undecided whether this model can use words'
    """
    with one_line_errors(is_hydra_error):
        return study.calibrate(study.plan(with_objects(overrides, parts), tasks)[0], quiet)


class RunTable(NamedTuple):
    """The runs in a folder, displayed as a table."""

    sheet: Sheet
    runs: list[RunFolder]

    def __repr__(self) -> str:
        return repr(self.sheet)

    def _repr_html_(self) -> str:
        return self.sheet._repr_html_()


def runs(root: Path | str = "runs", where: Override = ()) -> RunTable:
    """The runs in `root`, newest first, as `reflexion-lab runs` lists them; `load(runs())` loads them, oldest first.

    Only manifests and summaries are read; folders that cannot be read are named below the table. `where`: as of `load`.

    Examples
    --------
    >>> len(rl.runs("runs").runs)
    4
    """
    listed = run_list(Path(root), as_lines([where]))
    run_folders = [RunFolder(Path(run.folder)) for run in reversed(listed) if not run.problem]
    title = number_of(len(run_folders), "run") if run_folders else f"no runs in {root}/"
    return RunTable(sheet(listed, title), run_folders)


class Parts(NamedTuple):
    """The parts of a run, without run folder and tracker."""

    tasks: Benchmark
    """Whole tasks; a loop gets `task.public`."""
    loop: Callable[[], Reflexion]
    """Creates a loop for one task, with empty memory: `.memory`, `.actor`, `.evaluator`, `.reflector`, `.attempts`;
    `.solve` sums up the attempts."""
    judge: HiddenTests
    """Grades one submission per task; any attempt once it is sealed."""

    def __repr__(self) -> str:
        return f"{number_of(len(self.tasks), 'task')} of {self.tasks.name}; .tasks .loop() .judge"


def by_hand(*overrides: Override, **parts: object) -> Parts:
    """The parts of `reflexion-lab run *overrides`, but for memory across tasks: a loop reads and leaves nothing there.

    Raises ConfigError: a value is invalid or a key is unused.

    Examples
    --------
    >>> parts = rl.by_hand("model=simulated", "benchmark.load.n=4")
    >>> task, loop = parts.tasks.tasks[0], parts.loop()
    >>> solution = loop.solve(task.public)  # or step by step: loop.attempts(task.public)
    >>> solution.passed, len(solution.attempts), len(solution.episodes)
    (True, 1, 1)
    """
    with one_line_errors():
        check(cfg := RunConfig.of(composed(*with_objects(overrides, parts))))
        sandbox = load_sandbox(cfg, servers=1)
        atexit.register(sandbox.close)
        return Parts(load_benchmark(cfg, sandbox), loop_factory(cfg, load_models(cfg), sandbox), HiddenTests(sandbox))
