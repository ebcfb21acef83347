"""Your own tasks: rows with the fields of `Task`, of HumanEval or of MBPP, or questions with answers."""

from __future__ import annotations

import ast
import builtins
import json
import re
from functools import partial
from itertools import pairwise
from textwrap import indent

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks import answers, contests, humaneval, humaneval_plus, mbpp
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval_plus import Compute
from reflexion_lab.tasks.benchmarks.rows import SAME, Fields, Names, checked, decoded, listed, read
from reflexion_lab.text.replies.syntax import parse

FORMATS = {
    "private_tests": 'CodeContests; give rows with "kind": "program" and hidden_tests as {"input": "2", "output": "4"}',
    "code_context": "DS-1000, whose tests need NumPy and others, and execute the text of a solution themselves",
    "stop_tokens": "MultiPL-E, whose languages are others; benchmark=humaneval and mbpp have the same tasks in Python",
    "base_commit": "SWE-bench, whose tasks change repositories; tasks here are one function or class",
}
"""Formats that are not read, by a column that only they have."""
OWN = {"task_id", "prompt", "entry_point"}


class Tests(msgspec.Struct, frozen=True):
    """The tests of a row that tells no visible ones from hidden ones, in a list or as one text."""

    tests: list[str] | str


class About(msgspec.Struct, frozen=True):
    """What a row of any form may say besides."""

    released: str = ""
    cluster: str | int = ""
    tags: tuple[str, ...] | str = ()


@validated
def jsonl(
    path: str, visible: Count = 1, fields: Names = SAME, compute: Compute | None = None, since: str | None = None
) -> Benchmark:
    """Tasks of a file or data set.

    The fields `task_id`, `prompt` and `entry_point` (a Python identifier) are required; tests are lists of Python
    source. A row without `hidden_tests` but with `test` is read as one of HumanEval, whose `canonical_solution` may be
    missing; a row with `test_list` as one of MBPP or MBPP+, whose first test is visible and whose challenge tests are
    left out. Of a list `tests`, as of `test_list`, the first `visible` ones are visible and the others hidden; all are
    hidden in a row with `visible_tests`. One text is split into its asserts. A row with `base_input` is one of
    EvalPlus' release, as `humaneval_plus` reads it with `compute`. Rows of LiveCodeBench, APPS and BigCodeBench are
    read as `contests` says; those with a `question` (or `problem`) and an `answer`, as of GSM8K, AIME and HotPotQA, as
    `answers.task` does. `since`: an ISO date before which no task was released; a task without a date is left out.
    See `rows.read` for `path`, `fields`, name, digest and errors.
    """
    benchmark = read(path, partial(_task, visible=visible, compute=compute), fields=fields)
    return benchmark if since is None else benchmark.since(since)


def _task(row: Fields, visible: int, compute: Compute | None = None) -> Task:
    contests.rename(row, visible)
    if "released" in row:
        row["released"] = re.sub(r"^(\d{4}-\d\d-\d\d)[T ].*", r"\1", str(row["released"]))  # without the time of day
    task = _of_form(row, visible, compute)
    if not (rest := {name: row.pop(name) for name in About.__struct_fields__ if name in row}):
        return task
    about = decoded(rest, About)
    tags = (about.tags,) if isinstance(about.tags, str) else about.tags
    return checked(replace(task, released=about.released, cluster=str(about.cluster), tags=task.tags + tags))


def _of_form(row: Fields, visible: int, compute: Compute | None) -> Task:
    if row.get("kind", "function") != "function":
        return _of_kind(row)
    if answers.is_question(row):
        return answers.task(row)
    for column in () if row.keys() >= OWN else FORMATS.keys() & row.keys():
        raise DataError(f"field $.{column}: a row of {FORMATS[column]}")
    if "base_input" in row:
        is_mbpp = str(row.get("task_id")).startswith("Mbpp")
        return mbpp.release(row, visible, compute) if is_mbpp else humaneval_plus.task(row, compute)
    if "test_list" in row and not row.keys() & {"visible_tests", "hidden_tests"}:
        return mbpp.task(decoded(row, mbpp.Problem), visible)
    if type(row.get("task_id")) is int:
        row["task_id"] = str(row["task_id"])
    column = "test" if "test" in row else "test_list"
    if "hidden_tests" not in row and re.search(r"^    results = \[", str(row.get("test")), re.MULTILINE):  # of the hub
        return humaneval_plus.task(row, compute)
    if isinstance(row.get(column), list) and not row.keys() & {"tests", "hidden_tests"}:
        row["tests"] = row.pop(column)
    call = _of_class(row)
    if "tests" in row and not row.keys() & {"test", "hidden_tests"}:
        tests, visible = decoded(row, Tests).tests, 0 if "visible_tests" in row else visible
        checks = list(humaneval.hidden_checks(tests)) if isinstance(tests, str) else tests
        if len(checks) <= visible:
            raise DataError("field $.tests", len(checks), f"a test beyond the {visible} visible", mbpp.LOWER)
        if isinstance(tests, str):  # whose parts share a namespace
            setup = [ast.unparse(node) for check in checks[:visible] for node in parse(check).body[:-1]]
            checks[visible] = "\n".join([*setup, checks[visible]])
        row |= {"visible_tests": row.get("visible_tests", checks[:visible]), "hidden_tests": checks[visible:]}
    task = humaneval.task(row) if "test" in row and "hidden_tests" not in row else decoded(row, Task)
    if call:
        every = {"visible_tests": task.visible_tests, "hidden_tests": task.hidden_tests}
        own = {name: tuple(re.sub(r"\bcandidate\(", f"{call}(", test) for test in of) for name, of in every.items()}
        alias = f"{task.setup}\ncandidate = lambda *values, **named: {call}(*values, **named)\n"
        name = call.rpartition(".")[2]
        is_known = re.search(rf"(?m)^(?:(?:def|class) |(?:from|import) .*\b){name}\b", task.setup)
        alias += "" if is_known or hasattr(builtins, name) else f"{name} = candidate\n"
        task = replace(task, **own, setup=alias)
    solution = humaneval.whole_solution(checked(task).prompt, task.entry_point, task.canonical_solution)
    return replace(task, canonical_solution=solution)


def _of_kind(row: Fields) -> Task:
    """A row of our own fields whose solution is no function; tests may be objects, or one text of them."""
    for name in {"visible_tests", "hidden_tests"} & row.keys():
        if isinstance(tests := listed(row[name]), list):
            tests = [contests.case_of(each) for each in tests] if row["kind"] == "program" else tests
            row[name] = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in tests]
    row.setdefault("entry_point", "")
    return checked(decoded(row, Task))


def _of_class(row: Fields) -> str:
    """The call of the method that a row of LeetCode's form tests, or "". Its class becomes the row's entry point, and
    a starting code, also of a function, completes the prompt.
    """
    prompt, name, start = (str(row.get(field, "")) for field in ("prompt", "entry_point", "starter_code"))
    text = prompt if start.strip() in prompt else f"{prompt.rstrip()}\n\n\n{start.rstrip()}\n"
    owner, _, method = name.replace("()", "").rpartition(".")
    heads = re.findall(rf"(?m)^(?:class +(\w+)|([ \t]*)(?:async +)?def +{re.escape(method)}\b)", text)
    owners = [owner for (owner, _), (other, blanks) in pairwise(heads) if owner and blanks]
    is_method = "()." in name or f"class {owner}" in text if owner else owners and ("", "") not in heads
    if text != prompt and (is_method or (("", "") in heads and f"def {name}(" not in prompt)):
        problem = str(row.pop("problem_description", "")).strip().replace("\\", r"\\").replace('"""', r"\"\"\"")
        blanks = re.findall(r"(?m)^([ \t]*)(?:async +)?def ", text)[-1]
        row["prompt"] = text + indent(f'"""\n{problem}\n"""\n', blanks + ("\t" if "\t" in blanks else " " * 4))
        del row["starter_code"]
    if not is_method:
        return ""
    row["entry_point"] = owner = owner or sorted(owners, key="Solution".__eq__)[-1]
    row.setdefault("canonical_solution", row.pop("completion", ""))
    if "test" not in row or not row.keys() & {"tests", "visible_tests", "hidden_tests"}:
        row.setdefault("setup", humaneval.helpers(row["prompt"], owner, row["prompt"]))
        row |= {"tests": row.pop("test")} if "test" in row else {}
    return f"{owner}().{method}"
