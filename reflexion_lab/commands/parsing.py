"""`reflexion-lab parsing`: do recorded replies get through parser and extractor, with their recorded verdicts?"""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.commands import place
from reflexion_lab.commands.place import out_folder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "parse recorded reflections, extract and execute recorded completions, and compare with their logs"
    sub = commands.add_parser("parsing", help=text, description=text)
    sub.add_argument("files", metavar="FILE", nargs="+", help="transcripts (.jsonl, .jsonl.gz)")
    sub.add_argument("--limit", type=place.positive, metavar="N", help="only the first N rows of each file")
    sub.add_argument("--out", metavar="DIR", help="write table.csv and figure.svg there")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=parsing)


def parsing(options: argparse.Namespace) -> int:
    """0, or 1 where parser or extractor raised, or the harness failed."""
    import json

    from rich.console import Console

    from reflexion_lab.audits.parsing import parse_recorded
    from reflexion_lab.audits.parsing_plot import save
    from reflexion_lab.audits.parsing_report import alarms, as_rows, show

    if options.out:
        out_folder(options.out)
    done = parse_recorded(options.files, limit=options.limit)
    show(done, Console())
    if options.out:
        print("\n".join(f"written: {path}" for path in save(done, Path(options.out))))
    if options.json:
        told = {"reflections": len(done.words), "completions": len(done.replies), "executed": done.executed}
        print(json.dumps({**told, "rows": list(as_rows(done)), "seconds": round(done.seconds, 3)}))
    return int(any(alarms(done)))
