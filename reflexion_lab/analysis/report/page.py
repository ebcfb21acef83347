"""A run as one self-contained HTML file: overview and every task's history, without a server or network.

Histories are the HTML that notebooks show, packed with gzip and unpacked by the browser when opened. Texts of models
are escaped; the Content-Security-Policy allows only the page's own script, by its digest.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path

from reflexion_lab.analysis.report import cells, pieces
from reflexion_lab.analysis.report.history import Sources, history
from reflexion_lab.analysis.report.pieces import WORDS, task_link
from reflexion_lab.analysis.report.run_tables import facts, usage, warnings
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.summary import Summary, summary
from reflexion_lab.io import files
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Record
from reflexion_lab.runner.folder.folder import RunFolder

RESULTS = {
    "damaged": "right at attempt 1, wrong as submitted",
    "not solved": "wrong at attempt 1, and as submitted",
    "wrong": "wrong as submitted; attempt 1 has no hidden verdict",
    "repaired": "wrong at attempt 1, right as submitted",
    "right": "right as submitted; attempt 1 has no hidden verdict",
    "solved at once": "right at attempt 1, and as submitted",
    "not graded": "the submission has no hidden verdict, or a harness error",
}
"""Results of a task by the hidden tests, the worst first."""
_RESULT = {(True, False): "damaged", (False, False): "not solved", (None, False): "wrong", (False, True): "repaired",
           (None, True): "right", (True, True): "solved at once"}  # fmt: skip
_MARKS = {None: "?", True: "✓", False: "✗"}


class TaskLine(Record, frozen=True, kw_only=True, dict=True):
    """A task with an ended loop, as lists of tasks show it."""

    task_id: str
    result: str
    """One of `RESULTS`."""
    marks: tuple[tuple[str, bool | None], ...]
    """Hidden verdicts of its attempts, equal neighbours together: ✓, ✗, or ? without a verdict."""
    attempts: Sequence[Attempt]
    submitted: int
    """Number of the submitted attempt."""
    solved_at: int
    """`submitted` if it passes the hidden tests, else 0."""
    failures: tuple[str, ...]
    """Outcomes of failed attempts in words, by feedback and hidden tests."""

    @property
    def strip(self) -> str:
        """Hidden verdicts, attempt by attempt: ✗✗✓."""
        return "".join(marks for marks, _ in self.marks)

    @cached_property
    def outcomes(self) -> frozenset[str]:
        """Feedback outcomes of its attempts."""
        return frozenset(attempt.evaluation.outcome for attempt in self.attempts)

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Failure classes that its reflections name."""
        return tuple(dict.fromkeys(attempt.reflection.category for attempt in self.attempts if attempt.reflection))


def task_lines(log: Log) -> list[TaskLine]:
    """The tasks of a run, sorted by result (the worst first), number of attempts (most first) and name."""
    order = list(RESULTS)
    lines = [_line(task_id, attempts, log) for task_id, attempts in log.attempts.items()]
    return sorted(lines, key=lambda task: (order.index(task.result), -len(task.attempts), natural(task.task_id)))


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key of a name, with numbers by value: HumanEval/9 before HumanEval/10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _line(task_id: str, attempts: list[Attempt], log: Log) -> TaskLine:
    grades = [log.grades.get((task_id, attempt.number)) for attempt in attempts]
    submitted = submitted_at(attempts)
    verdicts = [verdict(grade) for grade in grades]
    final = verdicts[attempts.index(submitted)]
    outcomes = [*(attempt.evaluation.outcome for attempt in attempts), *(grade.outcome for grade in grades if grade)]
    return TaskLine(
        task_id=task_id,
        result="not graded" if final is None else _RESULT[verdicts[0], final],
        marks=tuple((_MARKS[right] * len(list(same)), right) for right, same in groupby(verdicts)),
        attempts=attempts,
        submitted=submitted.number,
        solved_at=submitted.number if final else 0,
        failures=tuple(dict.fromkeys(WORDS.get(outcome, outcome) for outcome in outcomes if outcome != "pass")),
    )


NAME = "run.html"
"""Name of the page in a run folder; `report.html` is that of a comparison."""
Filter = tuple[str, str, list[tuple[str, str]]]
"""Id in the page, label, and options as (value, label)."""


def save_page(folder: RunFolder, path: Path | None = None, log: Log | None = None) -> Path:
    """Write the page of a run to `path` (default: `run.html` in its folder); returns the path. `log`: if already read.

    The page of an unfinished run has the tasks with ended loops, and the number of missing ones. Raises FolderError: a
    file of the run cannot be read; OSError: `path` cannot be written to.
    """
    path = path or folder.path / NAME
    files.replace(path, [page(log or Log.read(folder)).encode()])
    return path


def page(log: Log) -> str:
    """The page of a run; always valid UTF-8."""
    tasks, sources = task_lines(log), Sources.of(log)
    title = pieces.visible(f"{log.arm} on {log.manifest.benchmark}, seed {log.manifest.seed}")
    script = _read("page.js")
    return pieces.rendered(
        "page",
        title=title,
        policy=_policy(script),
        style=pieces.markup(_read("page.css")),
        overview=pieces.markup(overview(log, is_linked=True)),
        filters=[entry for entry in _filters(tasks) if len(entry[2]) > 1],
        index=pieces.markup(_json({"title": title, "tasks": [_entry(task) for task in tasks]})),
        texts=pieces.markup(_packed(_json([_text(log.attempts[task.task_id]) for task in tasks]))),
        tasks=(pieces.markup(_packed(history(log.attempts[t.task_id], log.grades, sources))) for t in tasks),
        script=pieces.markup(script),
    )


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:"
    return f"{nothing}; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(errors="backslashreplace"), mtime=0)).decode()


def _json(value: object) -> str:
    """JSON in ASCII that cannot end a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _entry(task: TaskLine) -> dict[str, object]:
    return {
        "id": task.task_id.encode(errors="backslashreplace").decode(),
        "shown": pieces.visible(task.task_id),
        "result": task.result,
        "marks": task.marks,
        "attempts": len(task.attempts),
        "solved_at": task.solved_at,
        "failures": [*map(pieces.visible, task.failures)],
        "categories": [*map(pieces.visible, task.categories)],
    }


def _text(attempts: Iterable[Attempt]) -> str:
    """Searchable text: ids, programs and reflections, each once."""
    texts: list[str] = []
    for attempt in attempts:
        texts += [attempt.task_id, attempt.trajectory.solution]
        if words := attempt.reflection:
            texts += [words.root_cause, words.what_went_wrong, words.what_to_change, words.key_insight, words.text]
            texts += words.lessons
    return "\n".join(dict.fromkeys(text[: pieces.LONGEST] for text in texts))


def _filters(tasks: list[TaskLine]) -> Iterator[Filter]:
    results = Counter(task.result for task in tasks)
    yield "result", "Result", _options(name for name in RESULTS for _ in range(results[name]))
    yield "failures", "Failed by", _options(name for task in tasks for name in task.failures)
    yield "categories", "Failure class", _options(name for task in tasks for name in task.categories)
    yield "attempts", "Attempts", _options(str(n) for n in sorted(len(task.attempts) for task in tasks))
    solved = sorted(task.solved_at for task in tasks if task.solved_at)
    yield "solved_at", "Solved at attempt", _options(map(str, solved))


def _options(values: Iterable[str]) -> list[tuple[str, str]]:
    """Filter options, each with its number of tasks."""
    return [(value, f"{value} ({count})") for value, count in Counter(map(pieces.visible, values)).items()]


def overview(log: Log, is_linked: bool = False) -> str:
    """The run as HTML; with `is_linked`, tasks link to their histories in the page of the run."""
    figures, costs = summary(log), usage(log)
    groups = [(name, RESULTS[name], list(tasks)) for name, tasks in groupby(task_lines(log), lambda task: task.result)]
    loud, lines = list(warnings(log, figures)), list(_facts(log))
    render = pieces.macro("run", "overview")
    costs_table = pieces.markup(costs.html_table())
    return render(log.arm, figures, loud, lines, log.points, groups, costs, costs_table, task_link, is_linked)


def sentence(log: Log) -> str:
    """The headline of a run in a line."""
    figures = summary(log)
    rate = cells.rate(figures.pass_at_1)
    line = f"{log.manifest.run_id}: {metric(figures)} {rate}, feedback {figures.feedback_source}"
    return pieces.visible(unfinished(log) + line)


def unfinished(log: Log) -> str:
    """Prefix for a line on an unfinished run; else ""."""
    ended, expected = len(log.attempts), log.manifest.n_expected
    return f"INCOMPLETE, {ended} of {expected} tasks ended: " if ended != expected else ""


def metric(figures: Summary) -> str:
    name = "UPPER BOUND, not pass@1:" if figures.is_upper_bound else "pass@1"
    return f"{name}, held-out tasks" if figures.train else name


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    yield "run", f"{log.manifest.run_id}, created {log.manifest.created_at}"
    yield "arm", log.arm
    yield "tasks", f"{len(log.results)} of {log.manifest.n_expected}"
    yield from facts(log)
