"""Problems of recorded runs, so that new runs use the same tests."""

from __future__ import annotations

import re
from functools import partial

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import hidden_checks, whole_check
from reflexion_lab.tasks.benchmarks.multipl_e import examples
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read, repeated

SHADOWED = "check_shadowed"
"""Tag: the test's own `check` shadows a program's function `check`; it fails every program and stays one check."""
UNTESTED = "entry_point_not_tested"
"""Tag: the hidden tests call another function than the entry point."""
OVERLAP = "visible_overlaps_hidden"
"""Tag: a visible test is also a hidden one."""


class Row(msgspec.Struct, frozen=True):
    """The problem of one row; its attempts are not read."""

    problem: str
    entry_point: str
    run: str | None = None
    model: str | None = None
    bench: str = ""
    prompt: str = ""
    test: str = ""
    visible_tests: list[str] | None = None
    """None: the examples of the prompt."""


def recorded(path: str, disjoint: bool = True, run: str | None = None, model: str | None = None) -> Benchmark:
    """Distinct problems of the transcripts in `path` (see `rows.read`), in order of first occurrence.

    Runs of one file may word a prompt differently. `run` and `model` then select the rows of one run; without them, two
    prompts of one problem are an error.

    Hidden tests are the row's `test`, split into its asserts, without `setup`, so that verdicts on the code alone equal
    the published ones. Visible tests are those of the runs; a model may have written them, and they may be wrong. Those
    that are also hidden tests are dropped if `disjoint`; otherwise the task has the tag `visible_overlaps_hidden`.
    Other tags are `bench`, `entry_point_not_tested` and `check_shadowed`. There is no canonical solution.
    """
    return read(path, partial(_task, disjoint=disjoint, run=run, model=model), repeats=True)


def _task(line: bytes, disjoint: bool, run: str | None, model: str | None) -> Task | None:
    row = decoded(line, Row)
    if (run is not None and run != (row.run or "")) or (model is not None and model != (row.model or "")):
        return None
    for field in ("prompt", "test"):
        if not getattr(row, field):
            raise DataError(
                f"field $.{field}", "nothing", f"the {field} of the problem", "for HumanEval use benchmark=humaneval"
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
        hidden_tests=(whole_check(row.test, row.entry_point),) if shadowed else hidden,
        tags=tuple(tag for tag, holds in tags.items() if tag and holds),
    )
    return _parted(checked(task), disjoint)


def _parted(task: Task, disjoint: bool) -> Task:
    both = repeated(task.visible_tests, task.hidden_tests, task.entry_point)
    if both and disjoint:
        return replace(task, visible_tests=tuple(test for test in task.visible_tests if test not in both))
    return replace(task, tags=(*task.tags, OVERLAP)) if both else task
