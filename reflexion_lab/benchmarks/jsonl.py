"""Your own tasks: a file with one JSON object a line, its fields those of `Task`."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import keyword
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from reflexion_lab.benchmarks.benchmark import Benchmark
from reflexion_lab.records import Task

SHOWN = 10
"""Bad lines that one error names."""


def jsonl(path: str) -> Benchmark:
    """Read the tasks of `path`: `.jsonl` or `.jsonl.gz`, UTF-8, blank lines skipped.

    Required are `task_id`, `prompt` and `entry_point`, a Python identifier; tests are lists of Python source.
    The benchmark is named as the file, without suffix; its digest is that of the file's bytes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it does not hold tasks; names the file, and line and field of up to ten bad lines.
    """
    file = Path(path)
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        raise ValueError(f"{path}: expected a file that ends in .jsonl or .jsonl.gz.")
    if not file.is_file():
        raise FileNotFoundError(f"{path}: no such file; benchmark.load.path must name a .jsonl or .jsonl.gz file.")
    data = file.read_bytes()
    name = file.name.removesuffix(".gz").removesuffix(".jsonl")
    return Benchmark(name, _tasks(path, _text(path, data)), hashlib.sha256(data).hexdigest())


def _text(path: str, data: bytes) -> bytes:
    try:
        text = gzip.decompress(data) if path.endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as problem:
        raise ValueError(f"{path}: expected gzip, got a file that cannot be unpacked: {problem}.") from None
    return text.removeprefix(codecs.BOM_UTF8)


def _tasks(path: str, text: bytes) -> tuple[Task, ...]:
    tasks: dict[str, Task] = {}
    numbers: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            task = _task(line)
            if (first := numbers.setdefault(task.task_id, number)) != number:
                raise ValueError(f"field $.task_id: {task.task_id!r} is already the id of line {first}")
            tasks[task.task_id] = task
        except ValueError as problem:
            problems.append(f"{path}, line {number}, {problem}")
    if problems:
        rest = [f"... and {len(problems) - SHOWN} more bad lines."] if len(problems) > SHOWN else []
        raise ValueError("\n".join(problems[:SHOWN] + rest))
    if not tasks:
        raise ValueError(f"{path}: holds no task; expected one JSON object a line.")
    return tuple(tasks.values())


def _task(line: bytes) -> Task:
    """The task of one line; a ValueError names the field, what was expected and what was found."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, object])
        if unknown := sorted(fields.keys() - set(Task.__struct_fields__)):
            expected = ", ".join(Task.__struct_fields__)
            raise ValueError(f"field $.{unknown[0]}: expected one of {expected}, got this name")
        task = msgspec.convert(fields, Task)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ValueError(_reworded(str(problem))) from None
    if not task.task_id:
        raise ValueError("field $.task_id: expected a name, got an empty str")
    if not task.entry_point.isidentifier() or keyword.iskeyword(task.entry_point):
        raise ValueError(f"field $.entry_point: expected a Python identifier, got {task.entry_point!r}")
    for field, source in _sources(task):
        try:
            compile(source, field, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
            found = f"{source[:60]!r} ({problem})"
            raise ValueError(f"field $.{field}: expected Python, got {found}") from None
    return task


def _sources(task: Task) -> Iterator[tuple[str, str]]:
    yield "setup", task.setup
    yield from ((f"visible_tests[{i}]", source) for i, source in enumerate(task.visible_tests))
    yield from ((f"hidden_tests[{i}]", source) for i, source in enumerate(task.hidden_tests))


def _reworded(message: str) -> str:
    """The decoder's message with the field in front."""
    text, _, path = message.replace("`", "").partition(" - at ")
    if missing := re.fullmatch(r"Object missing required field (.*)", text):
        return f"field $.{missing[1]}: expected a value, got nothing"
    if text.startswith("Expected"):
        return f"field {path or '$'}: {text[0].lower()}{text[1:]}"
    return f"field $: expected a JSON object, got text that is not JSON: {text}"
