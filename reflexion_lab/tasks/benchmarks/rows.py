"""Benchmarks from files and data sets. Every error names the file, the row and the field."""

from __future__ import annotations

import ast
import codecs
import contextlib
import csv
import difflib
import hashlib
import io
import json
import keyword
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan
from os.path import isfile
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import unpacked
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.evaluators.answers import decoded_check
from reflexion_lab.tasks.sandbox.programs import Terms, case
from reflexion_lab.text.replies.syntax import UNPARSABLE, literal_eval, tree_of

T = TypeVar("T")

SHOWN = 10
"""Maximum number of bad rows in one error, and of columns in one warning."""
TABLES = (".csv", ".tsv")
FILES = (".jsonl", ".json", *TABLES)
"""Endings of files of rows, with or without `.gz`."""
Fields = dict[str, Any]
"""A row: values by column, without null and NaN."""
Names = Mapping[str, str]
"""Columns by field, where a file has other names; `a.b` is the value of `b` in the object of `a`."""
SAME: Names = MappingProxyType({})
IDS = ("task_id", "id", "_id", "ID", "unique_id")
"""Columns of a row's name, the first counts."""
NEAR = 0.8
"""Ratio of `difflib` from which on an unknown name is a misspelt one."""


def read(
    path: str,
    task_of: Callable[[Fields], Task | None],
    *,
    name: str = "",
    expected: str = "one JSON object a line",
    instead: str = "",
    fields: Names = SAME,
) -> Benchmark:
    """Tasks of a file or data set.

    Raises DataError: the source is missing, unreadable or without tasks; lists place and field of up to ten bad rows.
    Its digest is that of the file's bytes; for a saved folder or the hub, that of the rows. `path`: a file of JSON (an
    array, or an object a line; blank lines are skipped) or a table with a header, in UTF-8 or UTF-16, packed by gzip or
    not; a `.parquet` file, a folder of `save_to_disk`, or `hf://datasets/OWNER/NAME[/SUBSET[/SPLIT]]`. Lists may be
    texts in JSON or Python. `task_of`: converts a row to a task, or to None to skip it, and takes the columns that it
    reads out of the row, as `decoded` does; raises DataError for a wrong field. `name`: name of the benchmark; by
    default that of the file, without suffixes, or of the data set. `expected`: error text for a source without tasks.
    `instead`: hint for a missing package `datasets` or an unreachable hub. `fields`: columns of other names, by field.
    """
    marks = f"{path}/state.json", f"{path}/dataset_dict.json"
    is_saved = isfile(marks[0]) or isfile(marks[1])  # noqa: PTH113 - `Path` raises for a name that is too long
    if is_saved or path.startswith(HUB) or path.endswith(".parquet"):
        rows, digest, stem = _dataset(path, instead)
    else:
        if not path.lower().removesuffix(".gz").endswith(FILES):
            expected = f"{', '.join(FILES)} (also with .gz), .parquet, a saved data set, or {HUB}OWNER/NAME"
            raise DataError(path, "another ending", expected)
        if not isfile(path):  # noqa: PTH113 - as above
            raise DataError("benchmark.load.path", f"{path}, no such file", f"a file: {', '.join(FILES)}")
        data = Path(path).read_bytes()
        rows, digest = _rows(path, data, fields.get("answer", "")), hashlib.sha256(data).hexdigest()
        stem = Path(path.removesuffix(".gz")).stem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the rows' own code, such as "\d" and `1if`
        tasks, unread = _tasks(path, rows, task_of, fields)
    if not tasks:
        raise DataError(path, "no task", expected)
    others = f" and {len(unread) - SHOWN} others" if len(unread) > SHOWN else ""
    note = f"{Path(path).name}: fields not read: {', '.join(unread[:SHOWN])}{others}" if unread else ""
    return Benchmark(name or stem, tasks, digest, note=note)


def fields_of(row: object) -> Fields:
    """The columns of a row or its JSON; NaN and infinities as Python writes them. Raises DataError: it is no object."""
    try:
        fields = json.loads(row) if isinstance(row, str) else row
    except (ValueError, RecursionError) as problem:
        raise DataError("field $", f"text that is not JSON ({problem})", "a JSON object") from None
    columns = _converted(fields, Fields)
    missing = {name for name, value in columns.items() if value is None or (isinstance(value, float) and isnan(value))}
    return {name: value for name, value in columns.items() if name not in missing}


def id_of(row: Fields, text: str, *columns: str) -> str:
    """The name of a row, by `columns` or `IDS`, which it takes out; without one that of the text's digest."""
    name = next((str(row.pop(name)) for name in (*columns, *IDS) if name in row), "")
    return name or "question-" + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def decoded(fields: Fields, kind: type[T]) -> T:
    """The struct `kind` of a row, out of which it takes its fields.

    Raises DataError: a field is missing, of another type, or misspelt.
    """
    known = {field.name: field for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    others = [name for name in fields if name not in known]
    for name in others:
        if near := difflib.get_close_matches(name.lower(), [name for name in known if name not in fields], 1, NEAR):
            raise DataError(f"field $.{name}: unknown; did you mean {near[0]}? (benchmark.fields.{near[0]}={name})")
    for name, field in known.items():
        if isinstance(text := fields.get(name), str) and field.type is not str:
            fields[name] = listed(text)
        if field.required and name not in fields:
            hint = f"benchmark.fields.{name}=COLUMN reads another column: {', '.join(others[:SHOWN])}" if others else ""
            raise DataError(f"field $.{name}", "nothing", "a value", hint)
    struct = _converted(fields, kind)
    for name in known:
        fields.pop(name, None)
    return struct


def _converted(fields: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(fields, kind, strict=False)  # cells of a table are texts
    except (ValueError, RecursionError) as problem:
        text, _, path = str(problem).replace("`", "").partition(" - at ")
        text = re.sub("^Expected (.*), got (.*)", r"got \2, expected \1", text)
        raise DataError(f"field {path or '$'}: {text}") from None


def checked(task: Task) -> Task:
    """`task`; raises DataError unless it has an id, its entry point is an identifier and its tests are Python, or those
    of a program are inputs and outputs, those of an answer name the right ones.
    """
    for field in ("task_id", "prompt", "canonical_solution"):
        if re.search("[\ud800-\udfff]", getattr(task, field)):
            raise DataError(f"field $.{field}", "half a character (a lone surrogate)", "Unicode")
    if not task.task_id or "\x00" in task.task_id:
        got = repr(task.task_id) if task.task_id else "an empty str"
        raise DataError("field $.task_id", got, "a name")
    if task.released and not re.fullmatch(r"\d{4}-\d\d-\d\d", task.released):
        raise DataError("field $.released", repr(task.released), "an ISO date, such as 2025-01-31")
    if wrong := [name for name in task.requires if not re.fullmatch(r"\w[\w.-]*", name)]:
        raise DataError("field $.requires", repr(wrong[0]), "the name of a package or module, without a version")
    if task.kind == "program":
        Terms.of(task)
        for test in (*task.visible_tests, *task.hidden_tests):
            case(test)
    for test in (*task.visible_tests, *task.hidden_tests) if task.kind == "answer" else ():
        decoded_check(test)
    if task.kind != "function":
        return task
    if not task.entry_point.isidentifier() or keyword.iskeyword(task.entry_point):
        raise DataError("field $.entry_point", repr(task.entry_point), "a Python identifier")
    tests = {"visible_tests": task.visible_tests, "hidden_tests": task.hidden_tests}
    numbered = {f"{name}[{i}]": source for name, of in tests.items() for i, source in enumerate(of)}
    for field, source in {"setup": task.setup, **numbered}.items():
        try:
            compile(source, field, "exec", dont_inherit=True)
        except UNPARSABLE as problem:
            got = f"{source[:60]!r} ({problem})"
            raise DataError(f"field $.{field}", got, "Python") from None
    return task


def _rows(path: str, data: bytes, column: str) -> Iterable[object]:
    """Rows, as text that is JSON or as columns, with None for a blank line."""
    text = unpacked(path, data)
    encoding = "utf-16" if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        decoded = text.decode(encoding)
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        raise DataError(f"{path}, line {line}", f"bytes that are no text ({problem})", "UTF-8") from None
    if path.lower().removesuffix(".gz").endswith(TABLES):
        return _records(path, decoded, column)
    if re.match(r"\s*\{\s*\n", decoded):
        raise DataError(path, "a JSON object over several lines", "an object a line, or an array of objects")
    if not decoded.lstrip().startswith("["):
        return (line if line.strip() else None for line in decoded.split("\n"))
    try:
        return list(json.loads(decoded))
    except (ValueError, RecursionError) as problem:
        raise DataError(path, f"no array ({problem})", "a JSON array of rows") from None


def _records(path: str, text: str, column: str) -> list[object]:
    """Rows of a table whose first line names the columns."""
    csv.field_size_limit(2**31 - 1)
    separator = max(",;\t", key=text.partition("\n")[0].count)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        if twice := [name for name, n in Counter(reader.fieldnames or ()).items() if name and n > 1]:
            raise DataError(path, f"several columns {twice[0]}", "columns of different names")
        rows = list(reader)
    except csv.Error as problem:
        raise DataError(path, f"no table ({problem})", "quotes around cells of several lines") from None
    if None in set().union(*rows):
        raise DataError(path, "a row with more cells than the header", "quotes around cells with a separator")
    records: list[Any] = [{column: text for column, text in row.items() if text and column} for row in rows]
    for record in records:  # which has no other form for several answers
        for name in [each for each in record if each.lower() == "answer" or each == column]:
            if isinstance(texts := listed(record[name]), list) and {*map(type, texts)} == {str}:
                record[name] = texts
    return records


def listed(value: Any) -> Any:
    """The list or object that a text is in JSON or Python, else the value."""
    for read in (json.loads, literal_eval) if isinstance(value, str) and value.startswith(("[", "{")) else ():
        with contextlib.suppress(*UNPARSABLE):
            return read(value)
    return value


def _tasks(
    path: str, rows: Iterable[object], task_of: Callable[[Fields], Task | None], names: Names
) -> tuple[tuple[Task, ...], list[str]]:
    """The tasks, and the columns that no row's task reads."""
    tasks: dict[str, tuple[Task, str]] = {}
    unread: Fields = {}
    missing, columns = dict(names), Fields()
    problems: dict[str, list[str]] = {}
    unit = "line" if isinstance(rows, Iterator) else "row"
    for place, row in ((f"{unit} {number}", row) for number, row in enumerate(rows, start=1) if row is not None):
        try:
            columns |= (fields := fields_of(row))
            if names:
                fields = _renamed(fields, names)
                missing = {name: column for name, column in missing.items() if name not in fields}
            if (task := task_of(fields)) is None:
                continue
            unread |= fields
            _, first = tasks.setdefault(task.task_id, (task, place))
            if first != place:
                raise DataError(f"field $.task_id: {task.task_id!r} is already the id of {first}")
        except UNPARSABLE as problem:
            text = f"field $: got {type(problem).__name__} ({problem}), expected a whole row"
            text = str(problem) if isinstance(problem, DataError) else text
            problems.setdefault(text, []).append(place)
    for name, column in missing.items():
        raise DataError(f"benchmark.fields.{name}", repr(column), f"a column of {path}: {', '.join(columns)}")
    if problems:
        lines = [f"{path}, {n[0]}, {text}" + f" (in {len(n)} rows)" * (len(n) > 1) for text, n in problems.items()]
        rest = [f"... and {len(lines) - SHOWN} more problems."] if len(lines) > SHOWN else []
        raise DataError("\n".join(lines[:SHOWN] + rest))
    return tuple(task for task, _ in tasks.values()), list(unread)


def _renamed(row: Fields, names: Names) -> Fields:
    """The row with the fields' own names."""
    values = {name: _value(row, column) for name, column in names.items()}
    read = {column if column in row else column.partition(".")[0] for column in names.values()}
    rest = {name: value for name, value in row.items() if name not in read}
    return rest | {name: value for name, value in values.items() if value is not None}


def _value(row: Fields, column: str) -> Any:
    """The value of a column, or of `b` in the object of the column `a` for `a.b`; None without one."""
    if column in row or "." not in column:
        return row.get(column)
    outer, _, inner = column.partition(".")
    value = listed(row.get(outer))
    return _value(value, inner) if isinstance(value, dict) else None


def repeated(tests: Iterable[str], others: Iterable[str], entry_point: str) -> tuple[str, ...]:
    """Tests with an assert that is also in one of `others`, in order.

    Ignores spaces, quotes, messages, and whether the function is called `candidate` or by its name. A test that is no
    Python, or too deep, has no assert.
    """
    known = {condition for other in others for condition in _conditions(other, entry_point)}
    return tuple(test for test in tests if not known.isdisjoint(_conditions(test, entry_point)))


def _conditions(source: str, entry_point: str) -> list[str]:
    try:
        tree = tree_of(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "candidate":
                node.id = entry_point
        return [ast.dump(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    except UNPARSABLE:
        return []


HUB = "hf://datasets/"


def _dataset(path: str, instead: str) -> tuple[Iterable[object], str, str]:
    """Rows of a data set as JSON objects, its digest and its name, without folder, owner, subset and split.

    NaN and Infinity are as `json` writes them. The digest is the SHA-256 (hex) of a file's bytes, otherwise of the rows
    as JSON with sorted keys. Raises DataError: the package is missing, the data set cannot be read, or it has several
    splits and `path` names none.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(path, "no package datasets", "pip install datasets", instead) from None
    try:
        rows = _rows_of_dataset(datasets, path)
    except DataError:
        raise
    except Exception as problem:  # `datasets`, its file systems and HTTP client raise many unrelated types
        reason = " ".join(str(problem).split()) or type(problem).__name__
        hint = f"connect once, or {instead}" if instead else ""
        raise DataError(f"{path} cannot be read ({reason})", expected="a data set", hint=hint) from problem
    data = Path(path).read_bytes() if path.endswith(".parquet") else msgspec.json.encode(rows, order="sorted")
    folder = Path(path)
    stem = folder.parent.name if (folder.parent / "dataset_dict.json").is_file() else folder.name
    stem = path.removeprefix(HUB).split("/")[1] if path.startswith(HUB) else stem.removesuffix(".parquet")
    return [json.dumps(row, default=str) for row in rows], hashlib.sha256(data).hexdigest(), stem


def _rows_of_dataset(datasets: Any, path: str) -> list[dict[str, Any]]:
    if path.endswith(".parquet"):
        from pyarrow.parquet import read_table

        return list(datasets.Dataset(read_table(path)))
    if not path.startswith(HUB):
        return list(_only_split(datasets.load_from_disk(path), path))
    parts = path.removeprefix(HUB).split("/")
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise DataError("benchmark.load.path", repr(path), f"{HUB}OWNER/NAME[/SUBSET[/SPLIT]]")
    owner, name, subset, split = [*parts, None, None][:4]
    return list(_only_split(datasets.load_dataset(f"{owner}/{name}", subset, split=split), path))


def _only_split(data: Any, path: str) -> Any:
    """The only split of `data`, or `data` itself if it has no splits."""
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        expected = f"one of them in the path, such as {path}/{next(iter(data), 'test')}"
        raise DataError(path, f"the splits {', '.join(data)}", expected)
    return next(iter(data.values()))
