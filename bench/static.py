"""What type check, lint and heuristics cost beside the tests. Last line: one JSON object.

    python bench/static.py [--tasks 100] [--rounds 3]

Programs: canonical solutions of HumanEval, all distinct, each looked at once with every cache cold; the evaluators run
one program after the other. The combined evaluator runs the tools beside the visible tests, and is compared with these
tests alone on the same programs, by the median time of a program. The round of the median type check and lint counts;
a trajectory is one of 8 turns.
"""

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

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
        tests_ms, before = milliseconds(alone.evaluate, tasks)
        combined_ms, after = milliseconds(combined.evaluate, tasks)
    seconds = [statistics.median(verdict.seconds for verdict in each) for each in (before, after)]
    return {
        "type_and_lint_ms": round(both_ms, 1),
        "type_ms": round(milliseconds(StaticCheck("ty").evaluate, tasks)[0], 1),
        "lint_ms": round(milliseconds(StaticCheck("ruff").evaluate, tasks)[0], 1),
        "tests_ms": round(tests_ms, 1),
        "combined_ms": round(combined_ms, 1),
        "ratio_combined_to_tests": round(combined_ms / tests_ms, 2),
        "ratio_of_test_seconds_beside_the_tools": round(seconds[1] / seconds[0], 2),
        "type_false_alarms": sum(not types.passed for types, _ in verdicts),
        "lint_false_alarms": sum(not lint.passed for _, lint in verdicts),
        "did_not_run": sum(part.outcome == "harness_error" for pair in verdicts for part in pair),
    }


def trajectory_ms(tasks, repeats=20):
    steps = tuple(Step(thought="t" * 200, action=f"tool_{n % 3}", observation="o" * 1000) for n in range(8))
    evaluate, trajectory = TrajectoryHeuristics().evaluate, Trajectory(solution="x", strategy="react", steps=steps)
    start = time.perf_counter()
    for task in tasks * repeats:
        evaluate(task, trajectory)
    return 1000 * (time.perf_counter() - start) / (len(tasks) * repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    tasks = [task for task in humaneval() if task.visible_tests][: options.tasks]
    rounds = [measured(tasks) for _ in range(options.rounds)]
    middle = sorted(rounds, key=lambda row: row["type_and_lint_ms"])[len(rounds) // 2]
    report = {"programs": len(tasks), **middle, "trajectory_ms": round(trajectory_ms(tasks), 4)}
    report["type_and_lint_ms_of_all_rounds"] = sorted(row["type_and_lint_ms"] for row in rounds)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
