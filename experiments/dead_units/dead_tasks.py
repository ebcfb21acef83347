"""`python -m experiments.dead_units.dead_tasks RUN --out FILE`: the tasks on which every draw of a run failed.

The run is one of `experiment=retry loop.max_attempts=8`. A task is dead if all eight programs failed the *visible*
tests, at which a loop would have gone on: no hidden verdict is read. FILE has these tasks, each with its last failed
program as `initial_code`: a run of FILE submits that program as attempt 1, without a call, and every arm retries the
same one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from experiments._tools import output
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.solutions import benchmark_of


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), write, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("dead_tasks", "the tasks on which every draw of a run failed", "dead_units")
    top.add_argument("run", metavar="RUN", type=Path, help="folder of a run with experiment=retry")
    top.add_argument("--out", metavar="FILE", type=Path, required=True, help="write the tasks there, a line each")
    return top


def write(options: argparse.Namespace) -> int:
    log = Log.read(RunFolder.existing(options.run))
    draws = int(log.manifest.config["loop"]["max_attempts"])  # type: ignore[index]
    tasks = {task.loop_id: task for task in benchmark_of(options.run, log.manifest)}
    dead = dead_tasks(tasks, log.attempts, draws)
    if not dead:
        raise ConfigError(options.run, f"no task with {draws} failed draws", "one or more")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(msgspec.json.Encoder().encode_lines(dead))
    clusters, n = len({task.cluster_id for task in dead}), len(log.attempts)
    print(f"{options.out}: {len(dead)} of {n} tasks, in {clusters} clusters: {draws} of {draws} draws failed")
    return 0


def dead_tasks(tasks: Mapping[str, Task], loops: Mapping[str, Sequence[Attempt]], draws: int) -> list[Task]:
    """Tasks whose `draws` attempts all failed, with the last program; without a program in any of them, none."""
    dead = []
    for loop_id, attempts in loops.items():
        programs = [attempt.trajectory.solution for attempt in attempts if attempt.trajectory.solution.strip()]
        verdicts = {attempt.evaluation.passed or not attempt.evaluation.has_verdict for attempt in attempts}
        if len(attempts) == draws and verdicts == {False} and programs:
            dead.append(replace(tasks[loop_id], initial_code=programs[-1]))
    return dead


if __name__ == "__main__":
    raise SystemExit(main())
