"""What a run of hostile programs leaves on the machine: processes and files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.hostile.machine import HOME, PREFIX

PR_SET_CHILD_SUBREAPER = 36


class Left(NamedTuple):
    """What was found after a run, and not before it."""

    orphans: tuple[int, ...]
    """Processes. Without Linux's /proc none can be seen."""
    files: tuple[Path, ...]


class Watch:
    """Looks at the machine when it is made; make it before the sandbox.

    On Linux the process that makes it becomes, for good, the one to which orphans among its descendants fall: whatever
    a sandbox started and lost stays among them, under whatever session, name or environment.
    """

    def __init__(self) -> None:
        if sys.platform.startswith("linux"):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._processes = descendants(os.getpid())
        self._files = set(outside())

    def left(self, folders: Iterable[str]) -> Left:
        """What is there now. `folders` are those of the sandbox's servers, which it has been closed to remove."""
        orphans = descendants(os.getpid()) - self._processes
        files = [path for path in outside() if path not in self._files]
        return Left(
            orphans=tuple(sorted(process for process, _ in orphans)),
            files=tuple(files + [path for path in map(Path, folders) if path.exists()]),
        )


def outside() -> list[Path]:
    """Files of the gallery in the places where it tries to make some."""
    places = {tempfile.gettempdir(), "/tmp", "/dev/shm", HOME, str(Path(os.__file__).parent)}
    return [path for place in sorted(places) for path in Path(place).glob(f"{PREFIX}*")]


def descendants(ancestor: int) -> set[tuple[int, str]]:
    """Living and dead processes below `ancestor`, each with the time at which it started."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, fields = (folder / "stat").read_text().rpartition(")")
        except OSError:  # gone while we looked
            continue
        processes[int(folder.name)] = (int(fields.split()[1]), fields.split()[19])
    return {(process, start) for process, (_, start) in processes.items() if ancestor in line(process, processes)}


def line(process: int, processes: dict[int, tuple[int, str]]) -> list[int]:
    """The ancestors of a process, nearest first."""
    found: list[int] = []
    while (process := processes.get(process, (0, ""))[0]) and process not in found:
        found.append(process)
    return found
