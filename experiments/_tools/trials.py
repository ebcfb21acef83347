"""`python -m experiments._tools.trials`: success by trial of agents that try each environment again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments._tools import output


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), trials, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("trials", "success by trial of agents whose logs list the outcome of each environment")
    folders = "folders with env_results_trial_N.json, or parents of such folders"
    top.add_argument("folders", metavar="FOLDER", nargs="+", help=folders)
    top.add_argument("--out", metavar="DIR", help="write trials.csv, trials.svg and their evidence there")
    return top


def trials(options: argparse.Namespace) -> int:
    from rich.console import Console

    from experiments._tools.trials_cases import write_cases
    from experiments._tools.trials_report import save, show
    from reflexion_lab.audit.trials import read_trials

    read = read_trials(options.folders)
    show(read, Console())
    if options.out:
        folder = Path(options.out)
        output.print_written([*write_cases(read, folder), *save(read, folder)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
