"""Commands and the options that they share: counts, JSON output, a store, an output folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.io.files import writable
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.protocols import Store
from reflexion_lab.runner.folder.folder import RunFolder, folders, newest, some_folders
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.kinds import KINDS
from reflexion_lab.storage.place import opened

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
DEFAULT = "runs/memory.sqlite"


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], description: str
) -> argparse.ArgumentParser:
    """Add the command `name`, executed by `run`. The list of commands shows its description up to a semicolon."""
    parser = commands.add_parser(name, help=description.partition(";")[0], description=description)
    parser.set_defaults(command=run)
    return parser


def add_group(commands: Commands, name: str, description: str) -> Commands:
    """Add a command that has commands of its own."""
    parser = commands.add_parser(name, help=description, description=description)
    return parser.add_subparsers(required=True, metavar="COMMAND")


def add_flag(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, action="store_true", help=text)


def add_json(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "print one JSON object as the last line")


def add_runs(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the arguments that name runs; `chosen` reads them."""
    text = "run folders, a sweep's folder, a folder of runs, or a part of the name of a run in runs/"
    parser.add_argument("runs", metavar="RUN", nargs="*", help=text + more)
    parser.add_argument("--last", metavar="N", type=positive, help="the N newest runs in runs/")
    add_where(parser)


def add_where(parser: argparse.ArgumentParser) -> None:
    text = "only runs with this value, or one of several: recall.omega=1,3, retriever=bm25, model=NAME; may be repeated"
    parser.add_argument("--where", metavar="KEY=VALUE", action="append", default=[], help=text)


def chosen(options: argparse.Namespace) -> list[RunFolder]:
    """The runs that `add_runs` adds. Raises ConfigError: names and `--last`, or neither; FolderError as `folders`."""
    from reflexion_lab.analysis.run_list import selected

    if bool(options.runs) == bool(options.last):
        got = f"{options.runs[0]}, and --last {options.last}" if options.last else "no run"
        raise ConfigError("RUN", got, "names of runs, or --last N")
    return selected(newest(options.last) if options.last else some_folders(*options.runs), options.where)


def one_run(name: str) -> RunFolder:
    """The run of that name (`folder.folders`). Raises FolderError: none, or several."""
    runs = folders(name)
    if len(runs) != 1:
        raise FolderError(name, f"{len(runs)} runs", "one", f"{runs[-1].path} is the newest")
    return runs[0]


def add_store(parser: argparse.ArgumentParser) -> None:
    text = "SQLite file, folder of JSON lines or of reflection files, or postgresql://… (default: %(default)s)"
    parser.add_argument("--store", metavar="PLACE", default=DEFAULT, help=text)


def add_limit(parser: argparse.ArgumentParser, default: int, text: str) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=default, help=f"{text} (default: %(default)s)")


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
    path = Path(place)
    is_folder = any((path / f"{kind}.jsonl").is_file() for kind in KINDS)
    is_file = path.suffix in (".sqlite", ".db") and path.is_file() and path.stat().st_size > 0
    return "://" in place or is_folder or is_file


@contextmanager
def kept_at(place: str, new: bool = False, changed: bool = False) -> Iterator[Store]:
    """Open store at `place`, closed at the end; it must exist unless `new`. Reflection files are read as one, but
    cannot be `changed`. Raises ConfigError: no store exists; StoreError: it cannot be opened, or a file is invalid.
    """
    if new or is_store(place):
        store: Store = opened(place)
    elif (files := ReflectionFiles.at(Path(place))).loops() and not changed:
        store = InMemory()
        store.append(files.episodes())
    else:
        got = f"reflection files at {place!r}, which are only read" if files.loops() else f"no store at {place!r}"
        hint = "a run with store=sqlite or store=jsonl makes one, in runs/memory.sqlite or runs/memory"
        raise ConfigError("--store", got, "a store", f"{hint}; so does `reflexion-lab memory import`")
    try:
        yield store
    finally:
        store.close()


def counted(store: Store) -> dict[str, int]:
    """Number of records by kind."""
    return {name: sum(1 for _ in store.read(record)) for name, record in KINDS.items()}


def without_password(place: str) -> str:
    """`place` without the password that a URL may carry."""
    if "://" not in place:
        return place
    from reflexion_lab.storage.sql import parsed, without_password

    return without_password(parsed(place, "--store"))


@contextmanager
def folder_of(file: Path) -> Iterator[None]:
    """The folder of a file that the block writes; removed again if it stays empty."""
    folder = out_folder(str(file.parent))
    try:
        yield
    finally:
        with suppress(OSError):  # not empty
            folder.rmdir()


def out_folder(out: str) -> Path:
    """Create the folder of `--out`. Raises ConfigError."""
    with writable("--out", out, "a folder"):
        Path(out).mkdir(parents=True, exist_ok=True)
    return Path(out)
