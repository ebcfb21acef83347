"""`python -m experiments._tools.tuning RUN... [--out FILE]`: hidden verdicts of tuning runs, one line per attempt."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments._tools import output
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.folder.folder import some_folders


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), tuning, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("tuning", "hidden verdicts of tuning runs by arm, temperature, task and attempt")
    top.add_argument("runs", metavar="RUN", nargs="+", help="run folders; unfinished ones count with what they have")
    top.add_argument("--out", metavar="FILE", type=Path, default=Path("tuning.csv"), help="default: tuning.csv")
    return top


def tuning(options: argparse.Namespace) -> int:
    lines = [line for run in some_folders(*options.runs) for line in _lines(Log.read(run, texts=False))]
    output.print_written([output.write_csv(options.out, lines)])
    return 0


def _lines(log: Log) -> Iterator[dict[str, object]]:
    for task, grades in log.grades_by_task.items():
        for number in sorted(grades):
            place = {"arm": log.arm, "temperature": log.manifest.config["temperature"], "task": task}
            yield place | {"attempt": number, "hidden": int(grades[number].passed)}


if __name__ == "__main__":
    raise SystemExit(main())
