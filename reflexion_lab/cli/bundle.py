"""`reflexion-lab bundle`, `replay` and `study`: runs that others can repeat, and registered studies."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from reflexion_lab.cli import place
from reflexion_lab.errors import ConfigError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "pack a run and its inputs into one file, for an exact replay offline"
    sub = commands.add_parser("bundle", help=text, description=text)
    sub.add_argument("run", metavar="RUN", help="a run folder, as `run` prints at its end")
    sub.add_argument("-o", "--out", metavar="FILE", help="(default: RUN.bundle.zip beside the run folder)")
    sub.add_argument("--calls", metavar="PLACE", help="the call cache of the run (default: the one its config names)")
    held = "where memory that the run began with is kept (default: the store its config names)"
    sub.add_argument("--store", metavar="PLACE", help=held)
    sub.set_defaults(command=bundle)
    text = "replay a bundle's run without network, weights or key, and compare; exit code 1 if it differs"
    sub = commands.add_parser("replay", help=text, description=text)
    sub.add_argument("bundle", metavar="BUNDLE", help="a file that `bundle` wrote")
    sub.add_argument("--out", metavar="DIR", help="keep the new run folder there")
    sub.set_defaults(command=replay)
    text = "registered studies: study=study.yaml makes a run part of one"
    kinds = commands.add_parser("study", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    description = "read a study.yaml, and list runs that belong to it, missing runs, and runs not registered; exit "
    description += "code 1 if a run does not belong to it, or if the design cannot detect the registered effect"
    sub = kinds.add_parser("check", help=description.partition(";")[0], description=description)
    sub.add_argument("study", metavar="FILE", help="a study.yaml")
    sub.add_argument("runs", metavar="RUN", nargs="*", help="run folders")
    sub.set_defaults(command=check)


def bundle(options: argparse.Namespace) -> int:
    from rich.console import Console

    from reflexion_lab.analysis.report import cells
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.storage.postgresql import with_login
    from reflexion_lab.studies.replay.findings import show
    from reflexion_lab.studies.replay.packing import pack

    run = RunFolder.existing(options.run)
    path = run.path.resolve()
    out = Path(options.out) if options.out else path.with_name(f"{path.name}.bundle.zip")
    _check_out(out)
    config: dict[str, Any] = run.manifest.config
    named = options.store or with_login(str(config["store"].get("place") or ""))
    with place.kept_at(named) if named and place.is_store(named) else nullcontext() as store:
        packed = pack(run, out, options.calls, store)
    console = Console()
    show(packed.verification, console, "Packed and replayed")
    size = sum(packed.members.values())
    packed_to = f"{size / 1e6:.1f} MB in {len(packed.members)} files, packed into {out.stat().st_size / 1e6:.1f} MB"
    summary = f"{packed.calls} calls, {packed_to}"
    console.print(cells.line(f"{summary}\nbundle: {out}\nreplay it anywhere: reflexion-lab replay {out.name}"))
    return 0


def _check_out(out: Path) -> None:
    """Raises ConfigError: `out` is another file, or is in no folder."""
    from reflexion_lab.studies.replay.bundle import BundleError, read

    if not out.parent.is_dir():
        raise ConfigError("--out", f"{out}, which lies in no folder", "a file in a folder that exists")
    if out.exists():
        try:
            read(out)
        except BundleError:
            raise ConfigError("--out", f"{out}, which is there", "a new file, or a bundle to replace") from None


def replay(options: argparse.Namespace) -> int:
    """0, or 1 where anything differs."""
    from rich.console import Console

    from reflexion_lab.analysis.report import cells
    from reflexion_lab.cli.place import out_folder
    from reflexion_lab.studies.replay.findings import show
    from reflexion_lab.studies.replay.replay import replay as replayed

    done = replayed(Path(options.bundle), out_folder(options.out) if options.out else None)
    console = Console()
    show(done.verification, console, "Replay")
    if done.folder:
        console.print(cells.line(f"run folder: {done.folder}"), soft_wrap=True)
    return int(not done.verification.holds)


def check(options: argparse.Namespace) -> int:
    from rich.console import Console

    from reflexion_lab.studies.registered import belonging, show

    membership = belonging(Path(options.study), [Path(run) for run in options.runs])
    show(membership, Console())
    return int(membership.is_too_small or any(run.reasons for run in membership.runs))
