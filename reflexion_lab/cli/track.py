"""`reflexion-lab track`: run folders into MLflow, one by one and as arms, at any time."""

from __future__ import annotations

import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "write run folders into MLflow, and with --arms a summary of each arm that they make"
    sub = commands.add_parser("track", help=text, description=text)
    sub.add_argument("runs", metavar="RUN", nargs="+", help="run folders, as `run` prints them at its end")
    sub.add_argument("--uri", help="MLflow database (default: sqlite beside the first run folder's parent)")
    sub.add_argument("--experiment", metavar="NAME", default="reflexion", help="of runs without a registered study")
    sub.add_argument(
        "--arms", action="store_true", help="also one summary an arm, over its seeds; runs that are there already stay"
    )
    sub.add_argument("--baseline", metavar="ARM", help="the arm to compare others with; implies --arms")
    sub.add_argument("--one-seed", action="store_true", help="also differences that rest on a single seed")
    sub.add_argument(
        "--traces",
        metavar="SHARE",
        type=float,
        default=0.0,
        help="share of the tasks to trace span by span; above 1: their number",
    )
    sub.set_defaults(command=track)


def track(options: argparse.Namespace) -> None:
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.studies.tracking.mlflow import MlflowTracker

    folders = [RunFolder.existing(run).path for run in options.runs]
    uri = options.uri or f"sqlite:///{folders[0].resolve().parent / 'mlflow.db'}"
    tracker = MlflowTracker(uri, options.experiment, traces=options.traces)
    if options.arms or options.baseline:
        links = tracker.track_arms(folders, options.baseline, one_seed=options.one_seed)
        print("\n".join(f"{name}: {link}" for name, link in links.items()))
    else:
        for link in dict.fromkeys(tracker.track(folder) for folder in folders):
            print(f"tracked: {link}")
    if tracker.command:
        print(f"look at it with: {tracker.command}")
