"""A run as one HTML file that needs no other, no server and no network: its head, and every task's history.

Histories are the very HTML that notebooks show, packed with gzip and unpacked by the browser as they are asked for.
What models wrote is escaped, and a Content-Security-Policy that knows the page's one script by its digest lets no other
run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from reflexion_lab.analysis.report import cells, pieces
from reflexion_lab.analysis.report.history import Sources, history
from reflexion_lab.analysis.report.pieces import WORDS
from reflexion_lab.analysis.report.run_tables import facts, usage, warnings
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import Summary, summary
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Attempt, Grade
from reflexion_lab.runner.folder.folder import RunFolder

RESULTS = {
    "damaged": "right at attempt 1, wrong as submitted",
    "not solved": "wrong at attempt 1, and as submitted",
    "wrong": "wrong as submitted; attempt 1 has no hidden verdict",
    "repaired": "wrong at attempt 1, right as submitted",
    "right": "right as submitted; attempt 1 has no hidden verdict",
    "solved at once": "right at attempt 1, and as submitted",
    "not graded": "what was submitted has no hidden verdict that says anything",
}
"""By the hidden tests; the worst first."""
_RESULT = {(True, False): "damaged", (False, False): "not solved", (None, False): "wrong", (False, True): "repaired",
           (None, True): "right", (True, True): "solved at once"}  # fmt: skip


class TaskLine(NamedTuple):
    """A task that has ended."""

    task_id: str
    result: str
    """One of `RESULTS`."""
    marks: tuple[tuple[str, bool | None], ...]
    """Its attempts in order, neighbours of one verdict together: ✓ or ✗ by the hidden tests, ? without a verdict."""
    attempts: int
    submitted: int
    solved_at: int
    """The attempt that was submitted, where it passes the hidden tests; else 0."""
    failures: tuple[str, ...]
    """How attempts failed, in words, by shown and hidden tests."""
    categories: tuple[str, ...]
    """Failure classes that its reflections name."""


def task_lines(log: Log) -> list[TaskLine]:
    """The hardest first: by result, then by attempts, then by name, numbers by their value."""
    order = list(RESULTS)
    lines = [_line(task_id, attempts, log) for task_id, attempts in log.attempts.items()]
    return sorted(lines, key=lambda task: (order.index(task.result), -task.attempts, natural(task.task_id)))


def natural(name: str) -> list[tuple[int, str]]:
    """What names are sorted by: HumanEval/9 comes before HumanEval/10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _line(task_id: str, attempts: list[Attempt], log: Log) -> TaskLine:
    grades = [log.grades.get((task_id, attempt.number)) for attempt in attempts]
    submitted = submitted_at(attempts)
    verdicts = [_verdict(grade) for grade in grades]
    final = verdicts[attempts.index(submitted)]
    return TaskLine(
        task_id=task_id,
        result="not graded" if final is None else _RESULT[verdicts[0], final],
        marks=tuple(_marks(verdicts)),
        attempts=len(attempts),
        submitted=submitted.number,
        solved_at=submitted.number if final else 0,
        failures=tuple(dict.fromkeys(_failures(attempts, grades))),
        categories=tuple(dict.fromkeys(a.reflection.category for a in attempts if a.reflection)),
    )


def _verdict(grade: Grade | None) -> bool | None:
    """None: there is no hidden verdict, or one that says nothing of the program."""
    return None if grade is None or grade.outcome in UNKNOWN else grade.passed


def _marks(verdicts: list[bool | None]) -> Iterator[tuple[str, bool | None]]:
    for verdict, same in groupby(verdicts):
        yield ("?" if verdict is None else "✓" if verdict else "✗") * len(list(same)), verdict


def _failures(attempts: list[Attempt], grades: list[Grade | None]) -> Iterator[str]:
    outcomes = [attempt.evaluation.outcome for attempt in attempts]
    for outcome in (*outcomes, *(grade.outcome for grade in grades if grade)):
        if outcome != "pass":
            yield WORDS.get(outcome, outcome)


NAME = "run.html"
"""What the page is called in a run folder; `report.html` is that of a comparison."""
Filter = tuple[str, str, list[tuple[str, str]]]
"""Its id in the page, its label, and its options: a value, and what the reader sees."""


def save_page(folder: RunFolder, path: Path | None = None) -> Path:
    """Write the page of a run to `path`, or into its folder as `run.html`; returns where it is.

    An unfinished run has the tasks whose loops have ended, and says how many are missing.

    Raises
    ------
    FolderError
        A file of the run cannot be read.
    OSError
        `path` cannot be written to.
    """
    path = path or folder.path / NAME
    text = page(Log.read(folder))
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def page(log: Log) -> str:
    """The page of a run: valid UTF-8, whatever models wrote."""
    tasks, sources = task_lines(log), Sources.of(log)
    title = pieces.visible(f"{log.arm} on {log.manifest.benchmark}, seed {log.manifest.seed}")
    script = _beside("page.js")
    return pieces.rendered(
        "page",
        title=title,
        policy=_policy(script),
        style=pieces.markup(_beside("page.css")),
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


def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(errors="backslashreplace"), mtime=0)).decode()


def _json(value: object) -> str:
    """ASCII, and safe within a script element: nothing in it can end the element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _entry(task: TaskLine) -> dict[str, object]:
    return {
        "id": task.task_id.encode(errors="backslashreplace").decode(),
        "shown": pieces.visible(task.task_id),
        "result": task.result,
        "marks": task.marks,
        "attempts": task.attempts,
        "solved_at": task.solved_at,
        "failures": [*map(pieces.visible, task.failures)],
        "categories": [*map(pieces.visible, task.categories)],
    }


def _text(attempts: Iterable[Attempt]) -> str:
    """What a search looks through: ids, programs and reflections, each once."""
    texts: dict[str, None] = {}
    for attempt in attempts:
        words = attempt.reflection
        fields = (
            (words.root_cause, words.what_went_wrong, words.what_to_change, words.key_insight, words.text)
            if words
            else ()
        )
        contents = (attempt.task_id, attempt.trajectory.solution, *fields, *(words.lessons if words else ()))
        texts |= dict.fromkeys(text[: pieces.LONGEST] for text in contents)
    return "\n".join(texts)


def _filters(tasks: list[TaskLine]) -> Iterator[Filter]:
    results = Counter(task.result for task in tasks)
    yield "result", "Result", _options(name for name in RESULTS for _ in range(results[name]))
    yield "failures", "Failed by", _options(name for task in tasks for name in task.failures)
    yield "categories", "Class of failure", _options(name for task in tasks for name in task.categories)
    yield "attempts", "Attempts", _options(str(n) for n in sorted(task.attempts for task in tasks))
    solved = sorted(task.solved_at for task in tasks if task.solved_at)
    yield "solved_at", "Solved at attempt", _options(map(str, solved))


def _options(values: Iterable[str]) -> list[tuple[str, str]]:
    """Each with the number of its tasks."""
    return [(value, f"{value} ({count})") for value, count in Counter(map(pieces.visible, values)).items()]


def overview(log: Log, is_linked: bool = False) -> str:
    """The run as HTML; with `is_linked`, tasks lead to `#task=…`, as the page of a run has them."""
    figures = summary(log)
    groups = [(name, RESULTS[name], list(tasks)) for name, tasks in groupby(task_lines(log), lambda task: task.result)]
    loud, lines = list(warnings(log, figures)), list(_facts(log))
    draw = pieces.macro("run", "overview")
    return draw(log.arm, figures, loud, lines, log.points, groups, usage(log), link, is_linked)


def sentence(log: Log) -> str:
    """Its headline in a line."""
    figures = summary(log)
    rate = cells.rate(figures.pass_at_1)
    line = f"{log.manifest.run_id}: {metric(figures)} {rate}, feedback {figures.feedback_source}"
    return pieces.visible(unfinished(log) + line)


def unfinished(log: Log) -> str:
    """What stands before a line on a run whose tasks have not all ended; "" where they have."""
    ended, expected = len(log.attempts), log.manifest.n_expected
    return f"INCOMPLETE, {ended} of {expected} tasks ended: " if ended != expected else ""


def metric(figures: Summary) -> str:
    return "UPPER BOUND, not pass@1:" if figures.is_upper_bound else "pass@1"


def link(task: TaskLine) -> str:
    """Where the page of a run shows the task."""
    from urllib.parse import quote

    return f"#task={quote(task.task_id, safe='/', errors='backslashreplace')}"


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    yield "run", f"{log.manifest.run_id}, made {log.manifest.created_at}"
    yield "arm", log.arm
    yield "tasks", f"{len(log.results)} of {log.manifest.n_expected}"
    yield from facts(log)
