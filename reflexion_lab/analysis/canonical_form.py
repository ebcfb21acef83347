"""What of a run is the same whenever and wherever it is carried out: all but ids, times and cache marks.

Runs with the same seed, or a run and its replay, have the same essence, whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary

TIMES = {"seconds", "cpu_seconds", "duration", "created_at", "timestamp", "last_used_at"}
MARKS = {"cached", "torn", "set_aside"}


def essence(log: Log) -> dict[str, dict[str, Any]]:
    """By task, sorted: attempts, result, hidden verdicts and written tests as plain values. The run's own id, which the
    names of its episodes hold, reads RUN.
    """
    run_id = log.manifest.run_id
    return {task_id: bare(_records(log, task_id), run_id) for task_id in sorted(log.attempts)}


def figures(log: Log) -> dict[str, Any]:
    """The headline figures, likewise."""
    records: dict[str, Any] = bare(summary(log), log.manifest.run_id)
    return records


def as_bytes(by_task: dict[str, dict[str, Any]]) -> bytes:
    """An essence as JSON lines, one a task: equal essences are equal bytes."""
    lines = ({"task_id": task_id, **records} for task_id, records in by_task.items())
    return b"".join(msgspec.json.encode(line, order="deterministic") + b"\n" for line in lines)


def bare(record: Any, run_id: str) -> Any:
    """A record, or records, as plain values without ids, times and cache marks."""
    text = msgspec.json.encode(record, order="deterministic").decode()
    # An id stands between quotes or within names made of it; JSON leaves its characters as they are.
    return _without(msgspec.json.decode(text.replace(run_id, "RUN")))


def differences(first: Any, second: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ, in the order of `first`: the place and the two values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from differences(first.get(key), second.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(first, list) and isinstance(second, list):
        for number in range(max(len(first), len(second))):
            here, there = (part[number] if number < len(part) else None for part in (first, second))
            yield from differences(here, there, f"{at}[{number}]")
    elif first != second:
        yield at, first, second


def _records(log: Log, task_id: str) -> dict[str, Any]:
    grades = [log.grades[key] for key in sorted(log.grades) if key[0] == task_id]
    return {
        "attempts": log.attempts[task_id],
        "result": log.results[task_id],
        "grades": grades,
        "written_tests": log.written.get(task_id),
        "suite_verdict": log.suite_verdicts.get(task_id),
    }


def _without(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without(value) for key, value in node.items() if key not in TIMES | MARKS | {"run_id"}}
    return [_without(value) for value in node] if isinstance(node, list) else node
