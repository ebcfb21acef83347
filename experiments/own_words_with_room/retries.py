"""`python -m experiments.own_words_with_room.retries RUN... --out FILE`: which retries repeat the program before."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from experiments._tools import output
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.folder.folder import folders


def main(argv: Sequence[str] | None = None) -> int:
    parser = output.script_parser("retries", __doc__ or "", folder="own_words_with_room")
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the CSV file to write")
    return output.run(parser, write, argv)


def write(options: argparse.Namespace) -> int:
    rows = [
        {"arm": log.arm, "seed": log.manifest.seed, "task": task_id, "attempt": later.number,
         "repeats": int(later.trajectory.solution.strip() == former.trajectory.solution.strip())}
        for log in map(Log.read, folders(options.runs))
        for task_id, attempts in log.attempts.items()
        for former, later in pairwise(attempts)
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["arm"], row["seed"], row["task"], row["attempt"]))
    output.print_written([output.write_csv(options.out, rows)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
