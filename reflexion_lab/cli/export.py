"""`reflexion-lab export`: runs in the formats of other tools."""

from __future__ import annotations

import argparse

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say
from reflexion_lab.errors import ConfigError


def add(commands: place.Commands) -> None:
    text = "write runs for other tools: logs of inspect_ai, ATIF trajectories; hidden tests are in none of them"
    sub = place.add_command(commands, "export", export, text)
    place.add_runs(sub)
    place.add_flag(sub, "--inspect", "a log of inspect_ai per run, RUN.eval, as `inspect view` shows it")
    place.add_flag(sub, "--atif", "a folder of ATIF trajectories per run, RUN.atif, with one JSON file per task")
    out = "folder to write to, created if missing (default: exports beside the first run folder)"
    sub.add_argument("--out", metavar="FOLDER", help=out)


def export(options: argparse.Namespace) -> None:
    """Raises ConfigError: no format is named, or inspect_ai is missing."""
    from reflexion_lab.analysis.comparison.inspect_logs import checked_import
    from reflexion_lab.analysis.shards import grouped, read

    if not (options.inspect or options.atif):
        raise ConfigError("export", "no format", "--inspect, --atif or both")
    if options.inspect:
        checked_import()
    runs = grouped(place.chosen(options))
    groups = {group[0].path.resolve().name: group for group in runs}
    if len(groups) < len(runs):
        raise ConfigError("RUN", "two run folders of one name", "different names")
    out = place.out_folder(options.out or str(runs[0][0].path.resolve().parent / "exports"))
    for name, log in ((name, read(group)) for name, group in groups.items()):
        if options.inspect:
            from reflexion_lab.studies.export.inspect_log import save

            say(f"{save(out / f'{name}.eval', log)}, for `inspect view --log-dir {out}`")
        if options.atif:
            from reflexion_lab.studies.export.atif import save as save_trajectories

            folder = place.out_folder(str(out / f"{name}.atif"))
            say(f"{folder}: {len(save_trajectories(folder, log))} trajectories")
