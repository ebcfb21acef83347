"""What type check, lint and heuristics cost beside the tests.

    python bench/static.py [--tasks 100] [--rounds 3] [--smallest]

Programs: canonical solutions of HumanEval, all distinct, each looked at once with every cache cold; the evaluators run
one program after the other. The combined evaluator runs the tools beside the visible tests, and is compared with these
tests alone on the same programs, by the median time of a program. The round of the median type check and lint counts;
a trajectory is one of 8 turns.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from table import Row, options_of, print_rows

from reflexion_lab.records import Step, Trajectory
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.evaluators.combined import Combined
from reflexion_lab.tasks.evaluators.static import StaticCheck, findings
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.tasks.sandbox.sandbox import Sandbox


def canonical(task):
    return Trajectory(solution=task.prompt + task.canonical_solution, strategy="canonical")


def milliseconds(evaluate, tasks):
    """Median time of a program, and its verdicts, with nothing remembered of earlier ones."""
    findings.cache_clear()
    times, verdicts = [], []
    for task in tasks:
        trajectory, start = canonical(task), time.perf_counter()
        verdicts.append(evaluate(task, trajectory))
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), verdicts


def tools(pool):
    """Type check and lint, side by side."""
    parts = StaticCheck("ty"), StaticCheck("ruff")

    def evaluate(task, trajectory):
        return list(pool.map(lambda part: part.evaluate(task, trajectory), parts))

    return evaluate


def measured(tasks):
    """One round: every figure within the same minute, so that ratios compare like with like."""
    with ThreadPoolExecutor(2) as pool, Sandbox() as sandbox:
        alone, combined = UnitTests(sandbox), Combined(sandbox)
        alone.evaluate(tasks[0], canonical(tasks[0]))  # its server starts
        both_ms, verdicts = milliseconds(tools(pool), tasks)
        tests_ms, _ = milliseconds(alone.evaluate, tasks)
        combined_ms, _ = milliseconds(combined.evaluate, tasks)
    return {
        "type check and lint": both_ms,
        "type check": milliseconds(StaticCheck("ty").evaluate, tasks)[0],
        "lint": milliseconds(StaticCheck("ruff").evaluate, tasks)[0],
        "tests": tests_ms,
        "combined": combined_ms,
        "did not run": sum(part.outcome == "harness_error" for pair in verdicts for part in pair),
    }


def trajectory_ms(tasks, repeats=20):
    steps = tuple(Step(thought="t" * 200, action=f"tool_{n % 3}", observation="o" * 1000) for n in range(8))
    evaluate, trajectory = TrajectoryHeuristics().evaluate, Trajectory(solution="x", strategy="react", steps=steps)
    start = time.perf_counter()
    for task in tasks * repeats:
        evaluate(task, trajectory)
    return 1000 * (time.perf_counter() - start) / (len(tasks) * repeats)


def rows(some, rounds):
    tasks = [task for task in humaneval() if task.visible_tests][:some]
    measures = sorted((measured(tasks) for _ in range(rounds)), key=lambda each: each["type check and lint"])
    middle = measures[rounds // 2]
    yield Row("tests and tools, combined", "ms", middle.pop("combined"), "tests alone", middle["tests"])
    yield from (Row(work, "ms", value) for work, value in middle.items() if work != "did not run")
    yield Row("programs that a tool did not look at", "programs", middle["did not run"], limit=0)
    yield Row("heuristics of a trajectory", "ms", trajectory_ms(tasks))


def main():
    options = options_of(__doc__, tasks=100, rounds=3)
    print_rows(rows(2, 1) if options.smallest else rows(options.tasks, options.rounds))


if __name__ == "__main__":
    main()
