"""`python -m experiments._tools.parsing`: do recorded replies get through parser and extractor, as logged?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.cli.main import Arguments, guarded
from reflexion_lab.cli.place import out_folder, positive


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return guarded(lambda: parsing(options))


def parser() -> argparse.ArgumentParser:
    text = "parse recorded reflections, extract and execute recorded completions, and compare with their logs"
    top = Arguments(prog="python -m experiments._tools.parsing", description=text)
    top.add_argument("files", metavar="FILE", nargs="+", help="transcripts (.jsonl, .jsonl.gz)")
    top.add_argument("--limit", type=positive, metavar="N", help="only the first N rows of each file")
    top.add_argument("--out", metavar="DIR", help="write table.csv and figure.svg there")
    top.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return top


def parsing(options: argparse.Namespace) -> int:
    """0, or 1 where parser or extractor raised, or the harness failed."""
    import json

    from rich.console import Console

    from experiments._tools.parsing_plot import save
    from experiments._tools.parsing_report import alarms, as_rows, show
    from experiments._tools.replies_parsed import parse_recorded

    if options.out:
        out_folder(options.out)
    done = parse_recorded(options.files, limit=options.limit)
    show(done, Console())
    if options.out:
        print("\n".join(f"written: {path}" for path in save(done, Path(options.out))))
    if options.json:
        counts = {"reflections": len(done.words), "completions": len(done.replies), "executed": done.executed}
        print(json.dumps({**counts, "rows": list(as_rows(done)), "seconds": round(done.seconds, 3)}))
    return int(any(alarms(done)))


if __name__ == "__main__":
    sys.exit(main())
