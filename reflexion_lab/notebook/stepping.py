"""The parts of a run, to step through one task by hand."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.notebook.overrides import Override, as_lines, plainly

if TYPE_CHECKING:
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
    from reflexion_lab.tasks.evaluators.judge import HiddenTests


class Parts(NamedTuple):
    """What a run is made of, without a run folder and without a tracker."""

    tasks: Benchmark
    """Whole tasks; a loop gets `task.public`."""
    loop: Callable[[], Reflexion]
    """Makes one task's loop, with an empty memory: `.memory`, `.actor`, `.evaluator`, `.reflector`, `.attempts`."""
    judge: HiddenTests
    """Grades one submission a task; any attempt once it is sealed."""

    def __repr__(self) -> str:
        return f"{len(self.tasks)} tasks of {self.tasks.name}; .tasks .loop() .judge"


def by_hand(*overrides: Override) -> Parts:
    """The parts of `reflexion-lab run *overrides`.

    Raises
    ------
    ConfigError
        A value is impossible.
    """
    from reflexion_lab.runner.config.compose import compose, loop_factory
    from reflexion_lab.runner.config.parts import load_benchmark, load_models, load_sandbox
    from reflexion_lab.tasks.evaluators.judge import HiddenTests

    with plainly():
        cfg = compose(*as_lines(overrides))
        sandbox = load_sandbox(cfg, servers=1)
        atexit.register(sandbox.close)
        return Parts(load_benchmark(cfg, sandbox), loop_factory(cfg, load_models(cfg), sandbox), HiddenTests(sandbox))
