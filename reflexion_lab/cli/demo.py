"""`reflexion-lab demo`: Reflexion against a plain single attempt, on easy tasks and on HumanEval."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.cli import place
from reflexion_lab.runner.folder.folder import RunFolder

if TYPE_CHECKING:
    from reflexion_lab.analysis.summary import Summary

BASICS_TASKS, HUMANEVAL_TASKS = 16, 12
ARMS = {"simple": ("experiment=simple",), "reflexion": ("loop.reflect_on_last=false",)}
"""Overrides by arm. A reflection on the last attempt would only help later tasks, which a demo does not have."""


def add(commands: place.Commands) -> None:
    text = "compare Reflexion with a single attempt, using the embedded model; takes minutes"
    sub = place.add_command(commands, "demo", demo, text)
    tasks = f"HumanEval tasks for both arms (default: {HUMANEVAL_TASKS}, a single attempt each)"
    sub.add_argument("--tasks", type=place.positive, help=tasks)
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides for every run")


def demo(options: argparse.Namespace) -> int:
    """Run both arms on both benchmarks, compare them, and show one repaired task; HumanEval is sampled by seed 0.
    Returns 1 after a harness error, else 0.

    HumanEval, which so small a model can hardly solve, has one attempt per task unless --tasks is given. The arms
    share their first replies through the call cache, so the second one pays only for its retries.
    """
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.studies.run import carry_out

    start = time.monotonic()
    benchmarks = {
        "basics": ("benchmark=basics", f"benchmark.limit={BASICS_TASKS}"),
        "HumanEval": ("benchmark=humaneval", f"benchmark.sample={options.tasks or HUMANEVAL_TASKS}"),
    }
    pairs = [(benchmark, arm) for benchmark in benchmarks for arm in ARMS]
    rows: list[tuple[str, str, Summary]] = []
    runs: list[RunFolder] = []
    for benchmark, arm in pairs if options.tasks else pairs[:-1]:
        print(f"=== {benchmark}: {arm}", flush=True)
        cfg = compose(*benchmarks[benchmark], *ARMS[arm], *options.overrides)
        rows.append((benchmark, arm, carry_out(cfg, is_printed=False)))
        runs.append(RunFolder.existing(Path(cfg.run_root) / rows[-1][2].run_id))
    compare(rows)
    example(runs[1::2])
    print(f"the whole demo took {time.monotonic() - start:.0f} s")
    return int(any(figures.harness_errors for _, _, figures in rows))


def example(runs: Sequence[RunFolder]) -> None:
    """One repaired task of `runs`, the last attempt in short, and where to see the others."""
    from reflexion_lab.analysis.report.page import save_page
    from reflexion_lab.analysis.report.screen import short_name, task_screen
    from reflexion_lab.analysis.run_log import Log

    for run in runs:
        log = Log.read(run)
        repaired = [
            task_id
            for task_id, (attempt, grade) in log.submitted.items()
            if grade.passed and attempt.number > 1 and not log.grades[task_id, 1].passed
        ]
        if repaired:
            print("\nOne repaired task, as an example:")
            print("\n".join(task_screen(run, log, min(repaired, key=lambda it: len(log.attempts[it])), most=8)))
            break
    page = save_page(runs[0])
    print(f"\nevery task as a page: {page.resolve().as_uri()}")
    print(f"look: reflexion-lab show {short_name(runs[0])}")


def compare(rows: list[tuple[str, str, Summary]]) -> None:
    """One row per run: pass@1 with its interval, paired change since attempt 1."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Column, Table

    summaries = [figures for _, _, figures in rows]
    is_bound = any(figures.is_upper_bound for figures in summaries)
    share = "upper bound, not pass@1 [95 %]" if is_bound else "pass@1 [95 %]"
    table = Table("benchmark", "arm", Column(share, no_wrap=True), "change [95 %]", "tokens", box=SIMPLE)
    for benchmark, arm, summary in rows:
        rate, change = summary.pass_at_1, summary.against_single
        table.add_row(
            benchmark,
            arm,
            f"{rate.k}/{rate.n} = {rate.share:.0%} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]",
            f"{100 * change.difference:+.1f} [{100 * change.low:+.0f}, {100 * change.high:+.0f}]"
            if change and arm != "simple"
            else "",
            f"{sum(usage.tokens for usage in summary.usage.values()):,}",
        )
    console = Console()
    console.print("\n[bold]Reflexion against a single attempt[/bold]")
    console.print(table)
    sources = ", ".join(dict.fromkeys(figures.feedback_source for figures in summaries))
    seeds = ", ".join(dict.fromkeys(str(figures.seed) for figures in summaries))
    console.print(f"feedback source: {sources}; seed {seeds}; 95 % over tasks; change since attempt 1 in points")
