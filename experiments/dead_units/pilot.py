"""`python -m experiments.dead_units.pilot RUN... --out FILE`: what replies of a pilot take, a line per attempt."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments._tools import output
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.folder.folder import RunFolder


def main(argv: Sequence[str] | None = None) -> int:
    top = output.script_parser("pilot", "what replies of a pilot take", "dead_units")
    top.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders, also unfinished ones")
    top.add_argument("--out", metavar="FILE", type=Path, required=True)
    return output.run(top, write, argv)


def write(options: argparse.Namespace) -> int:
    rows = [row for run in options.runs for row in rows_of(Log.read(RunFolder.existing(run)))]
    output.print_written([output.write_csv(options.out, rows)])
    return 0


def rows_of(log: Log) -> Iterator[dict[str, object]]:
    """Attempts with their verdict by the visible tests, and the tokens of the reflection on them."""
    for task, attempts in log.attempts.items():
        for attempt in attempts:
            used, words = attempt.trajectory.usage, attempt.reflection
            yield {
                "arm": log.arm, "task": task, "attempt": attempt.number, "given": int(not used.calls),
                "passed": int(attempt.evaluation.passed), "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "reflection_prompt_tokens": words.usage.prompt_tokens if words else 0,
                "reflection_completion_tokens": words.usage.completion_tokens if words else 0,
                "cut": used.cut_replies,
            }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
