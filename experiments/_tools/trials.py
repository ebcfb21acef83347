"""`python -m experiments._tools.trials`: success by trial of agents that try each environment again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.cli.main import Arguments, guarded


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return guarded(lambda: trials(options))


def parser() -> argparse.ArgumentParser:
    text = "success by trial of agents whose logs say it environment by environment"
    top = Arguments(prog="python -m experiments._tools.trials", description=text)
    top.add_argument("folders", metavar="FOLDER", nargs="+", help="holds env_results_trial_N.json, or folders that do")
    top.add_argument("--out", metavar="DIR", help="write trials.csv and trials.svg there")
    return top


def trials(options: argparse.Namespace) -> int:
    from rich.console import Console

    from experiments._tools.trial_logs import read_trials
    from experiments._tools.trials_plot import save
    from experiments._tools.trials_report import show

    read = read_trials(options.folders)
    show(read, Console())
    if options.out:
        print("\n".join(f"written: {path}" for path in save(read, Path(options.out))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
