"""`programs`: thirty problems of our own, solved by programs that read standard input, as in contests.

The samples of a statement are its visible tests. The hidden tests of a task reject every mutant of its solution that
differs from it on any of some 900 drawn inputs (614 mutants in all). Texts and tests are published with this package.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

FILE = Path(__file__).with_suffix(".json")


@cache
def programs() -> Benchmark:
    """All tasks, easy ones and medium ones; those of a cluster ask for different things about the same input."""
    return Benchmark("programs", tuple(map(_task, msgspec.json.decode(FILE.read_bytes()))))


def _task(row: dict[str, Any]) -> Task:
    samples = [
        f"\n{name} of sample {number}:\n{test[name.lower()].rstrip()}\n"
        for number, test in enumerate(row["samples"], start=1)
        for name in ("Input", "Output")
    ]
    return Task(
        task_id=f"programs/{row['task_id']}",
        prompt=f"{row['statement']}\n\nInput: {row['input']}\n\nOutput: {row['output']}\n{''.join(samples)}",
        entry_point="",
        kind="program",
        data=row["data"],
        visible_tests=tuple(map(json.dumps, row["samples"])),
        hidden_tests=tuple(map(json.dumps, row["hidden"])),
        canonical_solution="\n".join(row["solution"]) + "\n",
        tags=(row["level"],),
        cluster=row["cluster"],
    )
