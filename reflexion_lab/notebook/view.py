"""Views of records and runs as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reflexion_lab.analysis.report import pieces
from reflexion_lab.analysis.report.history import Sources, card, cards, history, lines, numbered
from reflexion_lab.analysis.report.page import overview, sentence
from reflexion_lab.analysis.report.screen import task_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import FolderError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Grade, Record, Reflection, Task
from reflexion_lab.runner.folder.folder import RunFolder, folders

Grades = Iterable[Grade]
Named = Mapping[str, Any]


class View(Record, frozen=True):
    """HTML that a notebook displays; the sum of two views shows one below the other."""

    html: str
    text: str
    """Plain text for displays without HTML."""

    def __add__(self, below: View) -> View:
        return View(self.html + below.html, f"{self.text}\n{below.text}")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def view(
    thing: object, *, grades: Grades | Mapping[Any, Any] = (), before: Attempt | None = None, task: str | None = None
) -> View:
    """View a record or a run.

    - An `Attempt`: verdicts, recalled memory items with their origin, turns, program, failing checks, reflection, and
      the texts that the model read and wrote. With `before`, the program is the difference to that attempt's.
    - A list of attempts, one task's loop: its history, attempts side by side, each against the one before.
    - A `Task`: its public part, without hidden tests.
    - A `Reflection`.
    - A mapping of names to reflections (or None), side by side; or to loops, their verdicts one below the other.
    - A run (its folder, path, or `Run`): headline and all tasks; with `task`, that task's history.

    Raises TypeError: `thing` is of another type, or `task` is no string; FolderError: no run, or no attempt at `task`.
    `grades`: hidden verdicts on attempts, as `Run.grades` or a list; for a mapping of loops also by name. A run has its
    own. `task`: id of a task, or a part of it between slashes that no other task has, such as `count_down`.

    Examples
    --------
    >>> print(rl.view(run, task="count_from"))
    basics/count_from/0 · 3 attempts · submitted 3 · solved
    ...
    """
    if task is not None and not isinstance(task, str):
        raise TypeError(f"task: got {task!r:.80}, expected a task's id, such as 'HumanEval/0'")
    if isinstance(thing, Attempt):
        return _attempt(thing, before, grades)
    if isinstance(thing, Task):
        html = pieces.macro("records", "task")(thing.public, numbered(lines(thing.prompt)))
        return _view(html, f"{thing.task_id}: {thing.entry_point}, {len(thing.visible_tests)} visible tests")
    if isinstance(thing, Reflection):
        return _view(pieces.macro("pieces", "reflection")(thing), f"reflection by {thing.source}")
    if isinstance(thing, Mapping) and thing:
        return _named(thing, grades)
    if isinstance(thing, Sequence) and thing and all(isinstance(item, Attempt) for item in thing):
        return _view(history(thing, _by_number(grades)), _line(thing[0].task_id, thing))
    if isinstance(thing, str | RunFolder) or hasattr(thing, "folder") or hasattr(thing, "__fspath__"):
        run_folders = folders(thing)
        if len(run_folders) != 1:
            names = ", ".join(folder.path.name for folder in run_folders[:3])
            raise FolderError("view", f"{len(run_folders)} runs ({names})", "one", "`compare` takes several")
        return run_view(run_folders[0]) if task is None else task_view(run_folders[0], task)
    expected = "an attempt, a list of attempts, a task, a reflection, a mapping of these by name, or a run"
    raise TypeError(f"view: got a {type(thing).__name__}, expected {expected}")


def run_view(folder: RunFolder) -> View:
    """Headline, curve, tasks and costs of a run. Raises FolderError: a file of it cannot be read."""
    log = Log.read(folder)
    return _view(overview(log), sentence(log))


def task_view(folder: RunFolder, task_id: str) -> View:
    """A task's history in a run, by its id or a unique part of it. Raises FolderError: no ended loop of such a task."""
    log = Log.read(folder)
    task_id = log.task_named(task_id)
    html = history(log.attempts[task_id], log.grades, Sources.of(log))
    return View(html, "\n".join(task_screen(folder, log, task_id)))


def _view(html: str, text: str) -> View:
    return View(html, pieces.visible(text))


def _attempt(attempt: Attempt, before: Attempt | None, grades: Any) -> View:
    grade = _by_number(grades).get((attempt.task_id, attempt.number))
    html = pieces.macro("records", "attempt")(card(attempt, before, grade))
    return _view(html, f"attempt {attempt.number} at {attempt.task_id}: {pieces.outcome_words(attempt)}")


def _named(named: Named, grades: Any) -> View:
    """Reflections side by side, or loops one below the other."""
    if all(words is None or isinstance(words, Reflection) for words in named.values()):
        html = pieces.macro("records", "reflections")(tuple(named.items()))
        return _view(
            html, "\n".join(f"{name}: {words.source if words else 'nothing'}" for name, words in named.items())
        )
    strips = []
    for name, attempts in named.items():
        if not attempts or not all(isinstance(attempt, Attempt) for attempt in attempts):
            raise TypeError(
                f"{name}: got {attempts!r:.80}, expected a reflection, None, or a list of attempts, by name"
            )
        own = grades[name] if isinstance(grades, Mapping) and name in grades else grades
        html = pieces.macro("records", "strip")(list(cards(attempts, _by_number(own))), name)
        strips.append(_view(html, _line(name, attempts)))
    return View("".join(strip.html for strip in strips), "\n".join(strip.text for strip in strips))


def _by_number(grades: Any) -> dict[tuple[str, int], Grade]:
    """Grades by task and number, from a list or as `Run.grades` holds them."""
    every = grades.values() if isinstance(grades, Mapping) else grades
    return {(grade.task_id, grade.number): grade for grade in every if isinstance(grade, Grade)}


def _line(label: str, attempts: Sequence[Attempt]) -> str:
    return f"{label}: {' → '.join(map(pieces.outcome_words, attempts))}; submitted {submitted_at(attempts).number}"
