"""Options that commands share: counts, a store, an output folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Store

DEFAULT = "runs/memory.sqlite"


def add_store(parser: argparse.ArgumentParser) -> None:
    text = "SQLite file, folder of JSON lines, or postgresql://… (default: %(default)s)"
    parser.add_argument("--store", metavar="PLACE", default=DEFAULT, help=text)


def count(text: str) -> int:
    """Argument type: an int of 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected an int of 0 or more")
    return int(text)


def positive(text: str) -> int:
    """Argument type: an int of 1 or more."""
    if not count(text):
        raise argparse.ArgumentTypeError("got 0, expected an int of 1 or more")
    return int(text)


def is_store(place: str) -> bool:
    """Whether a store exists at `place`; a URL always counts as one."""
    from reflexion_lab.storage.kinds import KINDS

    path = Path(place)
    is_folder = any((path / f"{kind.name}.jsonl").is_file() for kind in KINDS)
    is_file = path.suffix in (".sqlite", ".db") and path.is_file() and path.stat().st_size > 0
    return "://" in place or is_folder or is_file


@contextmanager
def kept_at(place: str, new: bool = False) -> Iterator[Store]:
    """Open the store at `place`, and close it at the end; it must exist unless `new`.

    Raises
    ------
    ConfigError
        No store exists.
    StoreError
        The store cannot be opened.
    """
    from reflexion_lab.storage.place import opened

    if not new and not is_store(place):
        hint = "a run with store=sqlite or store=jsonl makes one, in runs/memory.sqlite or runs/memory"
        raise ConfigError(
            "--store", f"no store at {place!r}", "a store", f"{hint}; so does `reflexion-lab memory import`"
        )
    store = opened(place)
    try:
        yield store
    finally:
        store.close()


def shown(place: str) -> str:
    """`place` without the password that a URL may carry."""
    if "://" not in place:
        return place
    from reflexion_lab.storage.postgresql import without_password
    from reflexion_lab.storage.sql import parsed

    return without_password(parsed(place))


def out_folder(out: str) -> Path:
    """Create the folder of `--out`. Raises ConfigError."""
    from reflexion_lab.io.files import writable

    with writable("--out", out, "a folder"):
        Path(out).mkdir(parents=True, exist_ok=True)
    return Path(out)
