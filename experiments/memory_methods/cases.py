"""`python -m experiments.memory_methods.cases RUN... --out DIR`: what memory across tasks is worth to a known student.

A case is a task in one order of the stream. The truth is known: `FamilyStudent.chance` of the prompt that was sent.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from experiments._tools import output
from experiments._tools.evidence import CASES, read_rows, write_gzip
from experiments.memory_methods.families import families
from experiments.memory_methods.student import FamilyStudent
from reflexion_lab.analysis.learning.curation import curated
from reflexion_lab.analysis.learning.memory import Effect, Measures, Stream, changes, effect, measures
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.analysis.stats.seeds import SEEDS, by_seed, widened
from reflexion_lab.cli.main import Arguments
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder.folder import folders

if TYPE_CHECKING:
    from reflexion_lab.records import Task

RUNS = "runs.csv.gz"
SKILLS = ("without", "with_rule", "with_wrong", "insight")


class Case(NamedTuple):
    """A task in one order of the stream, in the order of the run."""

    arm: str
    order: int
    task: str
    passed: int
    chance: float
    """Planted probability, given the prompt."""
    tokens: int
    """Of the actor, and of the reflector where there is one."""

    @property
    def family(self) -> str:
        return self.task.rpartition("/")[0]

    @property
    def is_later(self) -> bool:
        """Whether the prompt of the compositional stream lacks the rule."""
        return not self.task.endswith("/0")


class Run(NamedTuple):
    """Memory of one run at its end, and the curator's calls before and after tasks."""

    arm: str
    order: int
    items: int
    item_tokens: int
    unreadable: int
    calls: int
    tokens: int


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), memory_methods, argv)


def parser() -> argparse.ArgumentParser:
    text = "cases of runs of model=family_student, with their planted probability"
    top = Arguments(prog="python -m experiments.memory_methods.cases", description=text)
    top.add_argument("runs", metavar="RUN", nargs="+", help="run folders of benchmark=families, one attempt per task")
    top.add_argument("--out", metavar="DIR", type=Path, help=f"write {CASES} and {RUNS} there")
    return top


def memory_methods(options: argparse.Namespace) -> int:
    from rich.console import Console

    cases: list[Case] = []
    runs: list[Run] = []
    for folder in folders(options.runs):
        log = Log.read(folder)
        cases += cases_of(log)
        runs.append(run_of(log))
    cases.sort(key=lambda case: case[:2])
    output.show_sheet(sheet(cases), Console())
    if options.out:
        written = [write_gzip(options.out / CASES, Case._fields, cases)]
        written.append(write_gzip(options.out / RUNS, Run._fields, sorted(runs)))
        output.print_written(written)
    return 0


def sheet(cases: Iterable[Case]) -> Sheet:
    """Later tasks by arm."""
    by_arm: dict[str, list[Case]] = {}
    for case in cases:
        if case.is_later:
            by_arm.setdefault(case.arm, []).append(case)
    rows = tuple(
        (arm, str(len(own)), output.percent(rate(own)), f"{100 * planted(own):.1f}", f"{deviation(own):+.1f}")
        for arm, own in by_arm.items()
    )
    columns = ("arm", "n", "solved,\n% [95 %]", "planted,\n%", "deviation")
    caption = "Later tasks of families. Planted: mean probability, given the prompts. Deviation: in standard errors."
    return Sheet(title="Memory across tasks", columns=columns, rows=rows, caption=caption)


def cases_of(log: Log) -> Iterator[Case]:
    config: Any = log.manifest.config
    load = {name: value for name, value in config["benchmark"]["load"].items() if name != "_target_"}
    tasks: dict[str, Task] = {task.task_id: task for task in families(**load)}
    student = FamilyStudent(list(tasks.values()), **{name: config["model"][name] for name in SKILLS})
    for task_id, (attempt, grade) in log.submitted.items():
        prompt = "\n\n".join(message.content for message in attempt.trajectory.messages)
        tokens = sum(usage.tokens for role, usage in attempt.usage.items() if role != "curator")
        chance = student.chance(tasks[task_id], prompt)
        name = task_id.removeprefix("families/")
        yield Case(log.arm, log.manifest.seed, name, int(grade.passed), chance, tokens)


def run_of(log: Log) -> Run:
    memory = curated(log)
    items, tokens = (memory.sizes[-1].items, memory.sizes[-1].tokens) if memory.sizes else (0, 0)
    usage: Usage = memory.curation + memory.selection
    return Run(log.arm, log.manifest.seed, items, tokens, memory.unreadable, usage.calls, usage.tokens)


def read(folder: Path) -> tuple[dict[str, list[Case]], dict[str, list[Run]]]:
    """Cases and runs by arm."""
    cases: dict[str, list[Case]] = {}
    for row in read_rows(folder / CASES):
        cases.setdefault(row["arm"], []).append(msgspec.convert(tuple(row.values()), Case, strict=False))
    runs: dict[str, list[Run]] = {}
    for row in read_rows(folder / RUNS):
        runs.setdefault(row["arm"], []).append(msgspec.convert(tuple(row.values()), Run, strict=False))
    return cases, runs


def rate(cases: Sequence[Case]) -> Estimate:
    """Share of solved cases, with an interval for other families and, with `SEEDS` orders, for other orders."""
    clusters = clusters_of(cases)
    every = by_cluster(((case.task, case.passed) for case in cases), clusters)
    orders = by_seed(((case.task, case.order, case.passed) for case in cases), clusters)
    estimate = interval(every)
    if orders.shape[1] < SEEDS:
        return estimate
    return Estimate.of(estimate.value, *widened((estimate.low, estimate.high), every, seeds_of=orders))


def gain(cases: Sequence[Case], none: Sequence[Case]) -> Effect:
    """Difference of shares, cases less `none`, paired by task and order, for other families and other orders."""
    without = {(case.task, case.order): case.passed for case in none}
    changed = [(case.task, case.order, float(case.passed - without[case.task, case.order])) for case in cases]
    estimate = effect(changed, clusters_of(cases))
    assert estimate
    return estimate


def planted(cases: Iterable[Case]) -> float:
    """Expected share of solved cases, given the prompts."""
    chances = [case.chance for case in cases]
    return sum(chances) / len(chances)


def deviation(cases: Iterable[Case]) -> float:
    """Solved cases less expected ones, in standard deviations: standard normal if verdicts follow the student."""
    every = list(cases)
    variance = sum(case.chance * (1 - case.chance) for case in every)
    return sum(case.passed - case.chance for case in every) / math.sqrt(variance)


def clusters_of(cases: Iterable[Case]) -> dict[str, str]:
    return {case.task: case.family for case in cases}


def matrix(online: Sequence[Case], frozen: Mapping[int, Sequence[Case]]) -> tuple[Measures, dict[str, float | None]]:
    """Measures of a stream with a round per task from its frozen runs by checkpoint, and what the chances give."""
    orders = sorted({case.order for case in online})
    verdicts = [_stream(online, frozen, order, "passed") for order in orders]
    expected = [changes(_stream(online, frozen, order, "chance")) for order in orders]
    truth = {name: _mean(value for change in expected for value in change[name]) for name in expected[0]}
    return measures(verdicts, clusters_of(online)), truth


def _stream(online: Sequence[Case], frozen: Mapping[int, Sequence[Case]], order: int, field: str) -> Stream:
    own = {case.task: float(getattr(case, field)) for case in online if case.order == order}
    rows = [{case.task: float(getattr(case, field)) for case in row if case.order == order} for row in frozen.values()]
    return Stream(
        tasks=list(own),
        learnt=list(range(1, len(own) + 1)),
        online=list(own.values()),
        checkpoints=list(frozen),
        verdicts=[[row[task] for task in own] for row in rows],
    )


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


if __name__ == "__main__":
    raise SystemExit(main())
