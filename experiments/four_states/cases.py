"""`python -m experiments.four_states.cases RUN... --out DIR`: later tasks in four states of memory.

A case is a task in one state with one draw. The truth is known: `FamilyStudent.chance` of the prompt that was sent.
`--ids WORLD` prints the tasks that are evaluated.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from experiments._tools import output
from experiments._tools.evidence import CASES, read_rows, write_gzip
from experiments.memory_methods.cases import SKILLS
from experiments.memory_methods.families import families
from experiments.memory_methods.student import FamilyStudent
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import Arguments
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.runner.folder.folder import folders

MEMORIES = "memories.csv.gz"
FAMILIES, EVALUATED = 50, 250
"""In a world; all later tasks of its families, five each."""


class Case(NamedTuple):
    """A later task in one state of memory."""

    curator: str
    state: str
    draws: int
    """Equal numbers are equal seeds: equal prompts then have equal replies."""
    world: int
    task: str
    turn: int
    """The round, from 0, in which memory learnt from the first task of the family."""
    passed: int
    chance: float
    """Planted probability, given the prompt."""

    @property
    def place(self) -> tuple[int, str]:
        return self.world, self.task

    @property
    def family(self) -> str:
        return f"{self.world}/{self.task.rpartition('/')[0]}"


class Memory(NamedTuple):
    """What the prompts of one run held."""

    curator: str
    state: str
    draws: int
    world: int
    items: int
    digest: str
    """Of the items at the start: `ItemMemory.digest`."""
    prompts: str
    """SHA-256 of all prompts by task, 16 hex digits."""
    tokens: int
    """Of all prompts."""


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), four_states, argv)


def parser() -> argparse.ArgumentParser:
    top = Arguments(prog="python -m experiments.four_states.cases", description="cases of the runs of run.sh")
    top.add_argument("runs", metavar="RUN", nargs="*", help="run folders; those named learn-* are left out")
    top.add_argument("--out", metavar="DIR", type=Path, help=f"write {CASES} and {MEMORIES} there")
    top.add_argument("--ids", metavar="WORLD", type=int, help="print the later tasks of this world")
    return top


def four_states(options: argparse.Namespace) -> int:
    if options.ids is not None:
        tasks = families(options.ids, FAMILIES + EVALUATED, FAMILIES)
        print(f"[{','.join(task.task_id for task in tasks if 'later' in task.tags)}]")
        return 0
    logs = [log for log in map(Log.read, folders(options.runs)) if not log.arm.startswith("learn-")]
    cases = sorted(case for log in logs for case in cases_of(log))
    print(f"{len(cases)} cases of {len(logs)} runs")
    if options.out:
        written = [write_gzip(options.out / CASES, Case._fields, cases)]
        written.append(write_gzip(options.out / MEMORIES, Memory._fields, sorted(map(memory_of, logs))))
        output.print_written(written)
    return 0


def cases_of(log: Log) -> Iterator[Case]:
    config: Any = log.manifest.config
    load = {name: value for name, value in config["benchmark"]["load"].items() if name != "_target_"}
    tasks = {task.task_id: task for task in families(**load)}
    student = FamilyStudent(list(tasks.values()), **{name: config["model"][name] for name in SKILLS})
    stream = families(load["seed"], load["families"], load["families"])
    turns = {task.cluster: turn for turn, task in enumerate(stream)}
    for task_id, (_, grade) in log.submitted.items():
        turn, chance = turns[tasks[task_id].cluster], student.chance(tasks[task_id], prompts(log)[task_id])
        yield Case(*_run(log), task_id.removeprefix("families/"), turn, int(grade.passed), chance)


def memory_of(log: Log) -> Memory:
    texts = prompts(log)
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(texts.items())).encode()).hexdigest()
    items = log.beginning.items if log.beginning else ()
    tokens = sum(
        usage.prompt_tokens
        for attempt, _ in log.submitted.values()
        for role, usage in attempt.usage.items()
        if role == "actor"
    )
    return Memory(*_run(log), len(items), ItemMemory(items).digest, digest[:16], tokens)


def prompts(log: Log) -> dict[str, str]:
    """The actor's prompt by task."""
    return {
        name: "\n\n".join(message.content for message in attempt.trajectory.messages)
        for name, (attempt, _) in log.submitted.items()
    }


def _run(log: Log) -> tuple[str, str, int, int]:
    """Curator, state, draws and world, from the names of `run.sh`."""
    state, _, curator = log.arm.partition("-")
    draws, world = divmod(log.manifest.seed, 10)
    return curator, state, draws, world


def read(folder: Path) -> tuple[list[Case], list[Memory]]:
    """Cases and memories."""
    cases = [msgspec.convert(tuple(row.values()), Case, strict=False) for row in read_rows(folder / CASES)]
    memories = [msgspec.convert(tuple(row.values()), Memory, strict=False) for row in read_rows(folder / MEMORIES)]
    return cases, memories


if __name__ == "__main__":
    raise SystemExit(main())
