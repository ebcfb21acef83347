"""`reflexion-lab track`: write finished runs and arms to MLflow."""

from __future__ import annotations

import argparse
import os

from reflexion_lab.cli import place
from reflexion_lab.runner.folder.folder import readable


def add(commands: place.Commands) -> None:
    sub = place.add_command(commands, "track", track, "write run folders to MLflow, and with --arms a summary per arm")
    place.add_runs(sub)
    default = "$MLFLOW_TRACKING_URI, else mlflow.db beside the first run folder"
    sub.add_argument("--uri", help=f"MLflow database or server (default: {default})")
    experiment = "MLflow experiment of runs without a registered study"
    sub.add_argument("--experiment", metavar="NAME", default="reflexion", help=experiment)
    place.add_flag(sub, "--arms", "also write one summary per arm, over its seeds; runs tracked earlier stay")
    sub.add_argument("--baseline", metavar="ARM", help="the arm to compare others with; implies --arms")


def track(options: argparse.Namespace) -> None:
    from reflexion_lab.studies.tracking.mlflow import MlflowTracker

    folders = [run.path for run in place.chosen(options)]
    uri = (
        options.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folders[0].resolve().parent / 'mlflow.db'}"
    )
    tracker = MlflowTracker(uri, options.experiment)
    if options.arms or options.baseline:
        links = tracker.track_arms(folders, options.baseline)
        print("\n".join(f"{name}: {link}" for name, link in links.items()))
    else:
        for link in dict.fromkeys(readable(folders, tracker.track)):
            print(f"tracked: {link}")
    if tracker.command:
        print(f"open it with: {tracker.command}")
