"""The problems that a file of recorded runs was made on, so that new runs meet the very same tests."""

from __future__ import annotations

import re
from functools import partial

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import hidden_checks
from reflexion_lab.tasks.benchmarks.multipl_e import examples
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read, repeated

SHADOWED = "check_shadowed"
"""Tag: the test calls a program's `check`, and hides it by its own: it fails for every program, and is one check."""
UNTESTED = "entry_point_not_tested"
"""Tag: the hidden tests call another function than the entry point, which a program must happen to define."""
OVERLAP = "visible_overlaps_hidden"
"""Tag: a visible test is also a hidden one; a loop that passes it has seen a part of the judgement."""


class Row(msgspec.Struct, frozen=True):
    """What one row says of its problem; the attempts beside it are not read."""

    problem: str
    entry_point: str
    bench: str = ""
    prompt: str = ""
    test: str = ""
    visible_tests: list[str] | None = None
    """None: the runs had none of their own; then the prompt's examples are taken."""


def recorded(path: str, disjoint: bool = True) -> Benchmark:
    """The distinct problems of the transcripts in `path` (see `rows.read`), in the order they first occur.

    Hidden tests are the row's own `test`, split up: their verdict is the published one on `code` alone, so there is
    no `setup`. Visible tests are those that the runs used, which a model may have written, wrongly; with `disjoint`,
    those that are hidden ones too are dropped, else such tasks carry the tag `visible_overlaps_hidden`. The other
    tags are `bench`, `entry_point_not_tested` and `check_shadowed`. There is no canonical solution.

    Raises
    ------
    DataError
        There is no such file, no such row, or one problem in two forms; names the file, lines and fields.
    """
    return read(path, partial(_task, disjoint=disjoint), repeats=True)


def _task(line: bytes, disjoint: bool) -> Task:
    row = decoded(line, Row)
    for field in ("prompt", "test"):
        if not getattr(row, field):
            raise DataError(
                f"field $.{field}", "nothing", "that of the problem", "for HumanEval's use benchmark=humaneval"
            )
    visible = examples(row.problem, row.prompt, row.entry_point) if row.visible_tests is None else row.visible_tests
    hidden = hidden_checks(row.test)
    shadowed = row.entry_point == "check" or any(re.search(r"\bcheck\(", test) for test in hidden)
    called = re.compile(rf"\b(?:candidate|{re.escape(row.entry_point)})\b")
    tags = {row.bench: True, SHADOWED: shadowed, UNTESTED: not any(map(called.search, hidden))}
    task = Task(
        task_id=row.problem,
        prompt=row.prompt,
        entry_point=row.entry_point,
        visible_tests=tuple(visible),
        hidden_tests=(row.test,) if shadowed else hidden,
        tags=tuple(tag for tag, holds in tags.items() if tag and holds),
    )
    return _parted(checked(task), disjoint)


def _parted(task: Task, disjoint: bool) -> Task:
    both = repeated(task.visible_tests, task.hidden_tests, task.entry_point)
    if both and disjoint:
        return replace(task, visible_tests=tuple(test for test in task.visible_tests if test not in both))
    return replace(task, tags=(*task.tags, OVERLAP)) if both else task
