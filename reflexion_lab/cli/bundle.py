"""`reflexion-lab bundle` and `replay`: exact replays of runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import with_login

if TYPE_CHECKING:
    from reflexion_lab.studies.replay.packing import Packed


def add(commands: place.Commands) -> None:
    text = "pack a run and its inputs into one file, for an exact replay offline"
    sub = place.add_command(commands, "bundle", bundle, text)
    sub.add_argument("run", metavar="RUN", help="a run folder, as `run` prints at its end")
    out = "bundle to write (default: bundles/RUN.bundle.zip beside the run folder)"
    sub.add_argument("-o", "--out", metavar="FILE", help=out)
    sub.add_argument("--calls", metavar="PLACE", help="the call cache of the run (default: the one its config names)")
    store = "the memory store that the run started with (default: the store its config names)"
    sub.add_argument("--store", metavar="PLACE", help=store)
    _add_trust(sub)
    text = "replay a bundle's run without network, weights or key, and compare; exit code 1 if it differs"
    sub = place.add_command(commands, "replay", replay, text)
    sub.add_argument("bundle", metavar="BUNDLE", help="a file that `bundle` wrote")
    sub.add_argument("--out", metavar="DIR", help="keep the new run folder in DIR")
    _add_trust(sub)
    place.add_json(sub)


def _add_trust(parser: argparse.ArgumentParser) -> None:
    text = "run parts of one's own in MODULE, or in a package of that name, such as experiments.oracle_words"
    parser.add_argument("--trust", metavar="MODULE", nargs="+", default=(), help=text)


def bundle(options: argparse.Namespace) -> int:
    from reflexion_lab.studies.replay.findings import show

    run = place.one_run(options.run)
    path = run.path.resolve()
    out = Path(options.out) if options.out else path.parent / "bundles" / f"{path.name}.bundle.zip"
    with place.folder_of(out) if not options.out else nullcontext():
        packed = pack_run(run, out, options.calls, options.store, options.trust)
    show(packed.verification, "Packed and replayed")
    size, zipped = sum(packed.members.values()) / 1e6, out.stat().st_size / 1e6
    say(
        f"{packed.calls} calls, {size:.1f} MB in {len(packed.members)} files, packed into {zipped:.1f} MB",
        f"bundle: {out}",
        f"replay it anywhere: reflexion-lab replay {out.name}",
    )
    return 0


def pack_run(
    run: RunFolder, out: Path, calls: str | None = None, store: str | None = None, trusted: Sequence[str] = ()
) -> Packed:
    """Write the bundle of a run to `out`, with its call cache and its store at these places, or where its config says.
    Raises ConfigError: as `_check_out`; BundleError: see `packing.pack`.
    """
    from reflexion_lab.studies.replay.packing import pack

    _check_out(out)
    config: dict[str, Any] = run.manifest.config
    named = store or with_login(str(config["store"].get("place") or ""))
    with place.kept_at(named) if named and place.is_store(named) else nullcontext() as opened:
        return pack(run, out, calls, opened, trusted)


def _check_out(out: Path) -> None:
    """Raises ConfigError: `out` is another file, or its folder does not exist."""
    from reflexion_lab.studies.replay.bundle import BundleError, read

    if not out.parent.is_dir():
        raise ConfigError("--out", f"{out}, in a missing folder", "a file in a folder that exists")
    if out.exists():
        try:
            read(out)
        except BundleError:
            raise ConfigError("--out", f"{out}, which exists", "a new file, or a bundle to replace") from None


def replay(options: argparse.Namespace) -> int:
    """Returns 1 if anything differs, else 0."""
    from reflexion_lab.studies.replay.findings import as_json, show
    from reflexion_lab.studies.replay.replay import replay as replayed

    result = replayed(Path(options.bundle), place.out_folder(options.out) if options.out else None, options.trust)
    if options.json:
        say_json({**as_json(result.verification), "folder": result.folder and str(result.folder)})
    else:
        show(result.verification, "Replay")
    if result.folder and not options.json:
        say(f"run folder: {result.folder}")
    return int(not result.verification.holds)
