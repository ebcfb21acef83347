"""Records as HTML for notebooks, and the parts of a run to step through by hand.

Records stay plain; a view is made of them.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab import views
from reflexion_lab.records import Attempt, Grade, Record, Reflection, Task

if TYPE_CHECKING:
    from reflexion_lab.benchmarks.benchmark import Benchmark
    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.loop.reflexion import Reflexion


class View(Record, frozen=True):
    """A piece of HTML that a notebook shows by itself; views add up, one below the other."""

    html: str
    text: str
    """The same in a line, where no HTML can be shown."""

    def __add__(self, below: View) -> View:
        return View(self.html + below.html, f"{self.text}\n{below.text}")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class Parts(NamedTuple):
    """What a run is made of, without a run folder and without a tracker."""

    tasks: Benchmark
    """Whole tasks; a loop gets `task.public`."""
    loop: Callable[[], Reflexion]
    """Makes one task's loop, with an empty memory: `.memory`, `.actor`, `.evaluator`, `.reflector`, `.attempts`."""
    judge: HiddenTests
    """Grades one submission a task; any attempt once it is sealed."""


def by_hand(*overrides: str) -> Parts:
    """The parts of `reflexion-lab run *overrides`.

    Raises:
        ConfigError: a value is impossible.
    """
    from reflexion_lab.config import compose, loop_factory
    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.parts import load_benchmark, load_models, load_sandbox

    cfg = compose(*overrides)
    sandbox = load_sandbox(cfg, servers=1)
    atexit.register(sandbox.close)
    return Parts(load_benchmark(cfg, sandbox), loop_factory(cfg, load_models(cfg), sandbox), HiddenTests(sandbox))


def view_task(task: Task) -> View:
    """What the loop may know of a task: its prompt and its visible tests; never the hidden ones."""
    html = views.macro("task")(task.public, views.numbered(views.lines(task.prompt)))
    return View(html, f"{task.task_id}: {task.entry_point}, {len(task.visible_tests)} visible tests")


def view_attempt(attempt: Attempt, before: Attempt | None = None) -> View:
    """One attempt of the loop: verdict, turns, program, failing checks, reflection, and word for word what the model
    read and wrote. Of an actor's turns the last two are unfolded.

    With `before`, the program is shown as its difference to that attempt's.
    """
    trajectory, turns = attempt.trajectory, list(views.turns(attempt.trajectory.steps))
    old = (before.trajectory.solution, f"attempt {before.number}") if before else ()
    shown, remark = views.program(trajectory.solution, *old)
    drafts = [turn.number for turn in turns if turn.step.program and turn.step.program == trajectory.solution]
    heading = "; ".join(filter(None, [f"the draft of turn {drafts[-1]}" if drafts else "", remark]))
    html = views.macro("attempt")(attempt, before, shown, heading, turns)
    return View(html, f"attempt {attempt.number} at {attempt.task_id}: {views.verdict(attempt)}")


def view_reflections(named: Mapping[str, Reflection | None]) -> View:
    """Reflections side by side, each under its name; None: its reflector has nothing to say."""
    html = views.macro("reflections")(tuple(named.items()))
    return View(html, "\n".join(f"{name}: {words.source if words else 'nothing'}" for name, words in named.items()))


def view_strip(attempts: Sequence[Attempt], grades: Iterable[Grade] = (), label: str = "") -> View:
    """A task's loop (one attempt or more) in a line: verdicts on shown tests and, where graded, on hidden ones."""
    from reflexion_lab.analysis.estimators import submitted_at, tokens

    submitted = submitted_at(attempts).number
    graded = {(grade.task_id, grade.number): grade for grade in grades}
    label = label or attempts[0].task_id
    html = views.macro("strip")(attempts, graded, submitted, label, sum(map(tokens, attempts)))
    return View(html, f"{label}: {' → '.join(map(views.verdict, attempts))}; submitted {submitted}")


def view_loop(attempts: Sequence[Attempt], grades: Iterable[Grade] = ()) -> View:
    """A whole task: the strip, then every attempt with its difference to the one before."""
    view = view_strip(attempts, grades)
    for before, attempt in zip((None, *attempts), attempts, strict=False):
        view += view_attempt(attempt, before)
    return view
