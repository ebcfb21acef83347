"""`python -m experiments._tools.parsing`: recorded replies through parser and extractor, compared with their logs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments._tools import output
from reflexion_lab.cli.place import out_folder


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), parsing, argv)


def parser() -> argparse.ArgumentParser:
    text = "parse recorded reflections, extract and execute recorded completions, and compare with their logs"
    return output.transcripts_parser("parsing", text, "only the first N rows of each file")


def parsing(options: argparse.Namespace) -> int:
    """Returns 1 if parser or extractor raised or the harness failed, else 0."""
    from rich.console import Console

    from experiments._tools.parsing_cases import write_cases
    from experiments._tools.parsing_report import alarms, as_rows, save, show
    from experiments._tools.replies import parse_recorded
    from reflexion_lab.cli.sheets import say_json

    if options.out:
        out_folder(options.out)
    recorded = parse_recorded(options.files, limit=options.limit)
    show(recorded, Console())
    if options.out:
        folder = Path(options.out)
        output.print_written([*write_cases(recorded, folder), *save(recorded, folder)])
    if options.json:
        counts = {
            "reflections": len(recorded.words),
            "completions": len(recorded.replies),
            "executed": recorded.executed,
        }
        say_json({**counts, "rows": list(as_rows(recorded)), "seconds": round(recorded.seconds, 3)})
    return int(any(alarms(recorded)))


if __name__ == "__main__":
    sys.exit(main())
