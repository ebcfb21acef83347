"""`reflexion-lab verify`: digests, records and figures of a run, computed again from its folder alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.runner.folder.folder import run_paths

ALL = 0
"""`--execute` without a number."""


def add(commands: place.Commands) -> None:
    text = "compute digests, records and figures of a run again, and compare; exit code 1 if anything disagrees"
    sub = place.add_command(commands, "verify", verify, text)
    sub.add_argument("runs", metavar="RUN", nargs="+", help="run folders, patterns such as 'runs/*', or bundles")
    again = "also run the hidden tests of every attempt again, or of N, sampled by the run's seed"
    sub.add_argument("--execute", type=place.positive, nargs="?", const=ALL, metavar="N", help=again)
    place.add_json(sub)


def verify(options: argparse.Namespace) -> int:
    """0, or 1 where anything disagrees."""
    from reflexion_lab.studies.replay.findings import as_json, show
    from reflexion_lab.studies.replay.verify import verify as check

    results = []
    for path in _paths(options.runs):
        results.append(check(path, options.execute is not None, options.execute or None))
        show(results[-1])
    agrees = all(result.holds for result in results)
    if options.json:
        say_json({"agrees": agrees, "runs": [as_json(result) for result in results]})
    return int(not agrees)


def _paths(runs: list[str]) -> list[Path]:
    """Bundles and run folders, without duplicates. Raises FolderError: a path is not a run."""
    by_path: dict[Path, Path] = {}
    for run in runs:
        paths = [Path(run)] if Path(run).is_file() else run_paths(run)
        for path in paths:
            by_path.setdefault(path.resolve(), path)
    return list(by_path.values())
