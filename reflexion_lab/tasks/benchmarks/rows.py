"""Benchmarks from files, one JSON object a row; every complaint names the file, the row and the field."""

from __future__ import annotations

import ast
import codecs
import hashlib
import json
import keyword
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import UNREADABLE, gunzipped
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

T = TypeVar("T")

SHOWN = 10
"""Bad rows that one error names."""
LINES = (".jsonl", ".jsonl.gz")


def read(
    path: str,
    task_of: Callable[[bytes], Task | None],
    *,
    name: str = "",
    suffixes: tuple[str, ...] = LINES,
    expected: str = "one JSON object a line",
    repeats: bool = False,
    instead: str = "",
) -> Benchmark:
    """The tasks of a file or data set.

    Parameters
    ----------
    path : str
        A file that ends in one of `suffixes` (a `.json` file holds one array of rows), or what `dataset_rows` reads:
        a `.parquet` file, a folder of `save_to_disk`, `hf://datasets/OWNER/NAME[/SUBSET[/SPLIT]]`.
    task_of : callable
        Makes the task of a row, or None for a row to skip; its DataError says which field is wrong and why.
    name : str
        Of the benchmark; by default the file's or the data set's.
    expected : str
        What the error says of a source without any task.
    repeats : bool
        Rows that make an equal task count once.
    instead : str
        What to do where the package `datasets` or the hub is missing.

    Returns
    -------
    Benchmark
        Its digest is that of the file's bytes; of a saved folder and of the hub that of the rows.

    Raises
    ------
    DataError
        The source is missing or does not hold tasks; names it, and place and field of up to ten bad rows.
    """
    if is_dataset(path):
        encoded, digest = dataset_rows(path, instead)
        name = name or dataset_name(path)
        rows = iter([(f"row {number}", row) for number, row in enumerate(encoded, start=1)])
    else:
        data = _content(path, suffixes)
        digest = hashlib.sha256(data).hexdigest()
        name = name or Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
        rows = _rows(path, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sources hold "\d" and `1if`, which is for their authors to fix
        tasks = _tasks(path, rows, task_of, repeats)
    if not tasks:
        raise DataError(path, "no task", expected)
    return Benchmark(name, tasks, digest)


def decoded(row: bytes, kind: type[T], loads: Callable[[bytes], object] = msgspec.json.decode) -> T:
    """The row as a `kind`; a DataError names the field, what it holds and what was expected."""
    try:
        return msgspec.convert(loads(row), kind)
    except (ValueError, RecursionError) as problem:
        raise DataError(_reworded(str(problem))) from None


def checked(task: Task) -> Task:
    """The task itself, if it has an id, its entry point may name a function, and its tests are Python.

    Raises
    ------
    DataError
        Names the field.
    """
    if not task.task_id or "\x00" in task.task_id:
        got = repr(task.task_id) if task.task_id else "an empty str"
        raise DataError("field $.task_id", got, "a name")
    if not task.entry_point.isidentifier() or keyword.iskeyword(task.entry_point):
        raise DataError("field $.entry_point", repr(task.entry_point), "a Python identifier")
    for field, source in _sources(task):
        try:
            compile(source, field, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
            got = f"{source[:60]!r} ({problem})"
            raise DataError(f"field $.{field}", got, "Python") from None
    return task


def _content(path: str, suffixes: tuple[str, ...]) -> bytes:
    endings = ", ".join(suffixes[:-1]) + f" or {suffixes[-1]}"
    if not path.endswith(suffixes):
        raise DataError(path, "another ending", f"{endings}, .parquet, a saved data set, or {HUB}OWNER/NAME")
    try:
        is_there = Path(path).is_file()
    except OSError:  # a name too long
        is_there = False
    if not is_there:
        raise DataError("benchmark.load.path", f"{path}, no such file", f"a {endings} file")
    return Path(path).read_bytes()


def _rows(path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Every row with its place in the file."""
    try:
        text = gunzipped(data) if path.endswith(".gz") else data
    except ValueError as problem:
        raise DataError(path, problem, "a whole gzip file") from None
    text = text.removeprefix(codecs.BOM_UTF8)
    if path.endswith(".json"):
        try:
            array = msgspec.json.decode(text, type=list[msgspec.Raw])
        except UNREADABLE as problem:
            raise DataError(path, f"no array ({problem})", "a JSON array of rows") from None
        yield from ((f"row {number}", bytes(row)) for number, row in enumerate(array, start=1))
    else:
        lines = ((f"line {number}", line) for number, line in enumerate(text.split(b"\n"), start=1))
        yield from ((place, line) for place, line in lines if line.strip())


def _tasks(
    path: str, rows: Iterator[tuple[str, bytes]], task_of: Callable[[bytes], Task | None], repeats: bool
) -> tuple[Task, ...]:
    tasks: dict[str, tuple[Task, str]] = {}
    problems = []
    for place, row in rows:
        try:
            if (task := task_of(row)) is None:
                continue
            known, first = tasks.setdefault(task.task_id, (task, place))
            if first != place and not (repeats and known == task):
                otherwise = ", which reads otherwise" if repeats else ""
                raise DataError(f"field $.task_id: {task.task_id!r} is already the id of {first}{otherwise}")
        except ValueError as problem:
            problems.append(f"{path}, {place}, {problem}")
    if problems:
        rest = [f"... and {len(problems) - SHOWN} more bad lines."] if len(problems) > SHOWN else []
        raise DataError("\n".join(problems[:SHOWN] + rest))
    return tuple(task for task, _ in tasks.values())


def _sources(task: Task) -> Iterator[tuple[str, str]]:
    yield "setup", task.setup
    yield from ((f"visible_tests[{i}]", source) for i, source in enumerate(task.visible_tests))
    yield from ((f"hidden_tests[{i}]", source) for i, source in enumerate(task.hidden_tests))


def _reworded(message: str) -> str:
    """The decoder's message with the field in front."""
    text, _, path = message.replace("`", "").partition(" - at ")
    if missing := re.fullmatch(r"Object missing required field (.*)", text):
        return f"field $.{missing[1]}: got nothing, expected a value"
    if wrong := re.fullmatch(r"Expected (.*), got (.*)", text):
        return f"field {path or '$'}: got {wrong[2]}, expected {wrong[1]}"
    return f"field {path or '$'}: got text that is not JSON ({text}), expected a JSON object"


def repeated(tests: Iterable[str], others: Iterable[str], entry_point: str) -> tuple[str, ...]:
    """Those of `tests` with an assert that also stands in one of `others`, in their order.

    Spaces, quotes, messages and whether the function is called `candidate` or by its name make no difference.
    All tests must be Python.
    """
    known = {claim for other in others for claim in _claims(other, entry_point)}
    return tuple(test for test in tests if not known.isdisjoint(_claims(test, entry_point)))


def _claims(source: str, entry_point: str) -> list[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "candidate":
            node.id = entry_point
    return [ast.dump(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)]


HUB = "hf://datasets/"
INSTALL = "pip install datasets"


def is_dataset(path: str) -> bool:
    """Whether `path` is read through `datasets`."""
    try:
        is_saved = any((Path(path) / name).is_file() for name in ("state.json", "dataset_dict.json"))
    except OSError:  # a name too long
        is_saved = False
    return path.startswith(HUB) or path.endswith(".parquet") or is_saved


def dataset_rows(path: str, instead: str = "") -> tuple[list[bytes], str]:
    """The rows of a data set as JSON, and its digest.

    Parameters
    ----------
    path : str
        A `.parquet` file; a folder of `save_to_disk`, or a split in it; or `hf://datasets/OWNER/NAME[/SUBSET[/SPLIT]]`.
    instead : str
        What to do where `datasets` is not installed or the hub cannot be read.

    Returns
    -------
    rows : list of bytes
        One JSON object a row, without the columns that are null or NaN in it; Infinity as Python's `json` writes it.
    digest : str
        SHA-256 in hex: of a file its bytes, else of the rows as JSON with sorted keys.

    Raises
    ------
    DataError
        The package is missing, the data set cannot be read, or it has several splits and `path` names none.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(path, "no package datasets", INSTALL, instead) from None
    try:
        rows = _rows_of_dataset(datasets, path)
    except DataError:
        raise
    except Exception as problem:  # `datasets`, its file systems and its HTTP client raise a dozen unrelated kinds
        reason = " ".join(str(problem).split()) or type(problem).__name__
        hint = f"connect once, or {instead}" if instead else ""
        raise DataError(f"{path} could not be read ({reason})", expected="a data set", hint=hint) from problem
    data = Path(path).read_bytes() if path.endswith(".parquet") else msgspec.json.encode(rows, order="sorted")
    encoded = [json.dumps({key: value for key, value in row.items() if _is_value(value)}, default=str) for row in rows]
    return [row.encode() for row in encoded], hashlib.sha256(data).hexdigest()


def _is_value(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def dataset_name(path: str) -> str:
    """The name without folder, suffix, owner, subset and split."""
    if path.startswith(HUB):
        return path.removeprefix(HUB).split("/")[1]
    folder = Path(path)
    is_split = (folder.parent / "dataset_dict.json").is_file()
    return folder.parent.name if is_split else folder.name.removesuffix(".parquet")


def _rows_of_dataset(datasets: Any, path: str) -> list[dict[str, Any]]:
    if path.endswith(".parquet"):
        from pyarrow.parquet import read_table

        return list(datasets.Dataset(read_table(path)))
    if not path.startswith(HUB):
        return list(_only_split(datasets.load_from_disk(path), path))
    owner, name, subset, split = _parts(path)
    return list(_only_split(datasets.load_dataset(f"{owner}/{name}", subset, split=split), path))


def _parts(path: str) -> Sequence[str | None]:
    parts = path.removeprefix(HUB).split("/")
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise DataError("benchmark.load.path", repr(path), f"{HUB}OWNER/NAME[/SUBSET[/SPLIT]]")
    return [*parts, None, None][:4]


def _only_split(data: Any, path: str) -> Any:
    """`data` where it is no mapping of splits, else its only one."""
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        expected = f"one of them behind the path, such as {path}/{next(iter(data), 'test')}"
        raise DataError(path, f"the splits {', '.join(data)}", expected)
    return next(iter(data.values()))
