"""How the cells of a sweep stand: `cells.jsonl` in the sweep's folder, which any number of processes append to."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import msgspec

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import Record, Usage


class CellState(Record, frozen=True, kw_only=True):
    """How one cell stands; the newest line on it counts."""

    number: int
    status: str
    """`waiting`, `running`, `done`, `failed`; `kept`: finished by an earlier run; `stopped`: by a cap; `elsewhere`:
    another process has it under way; `lost`: its process is gone, and said nothing."""
    digest: str = ""
    """Of what the cell measures: another grid may have been given the same `sweep_id`."""
    folder: str = ""
    problem: str = ""
    """In one line; the whole is in `cell-NUMBER.log` beside this file."""
    again: str = ""
    """Why it was run although a finished run of its config was there, such as `benchmark_digest changed`."""
    feedback_source: str = ""
    pass_at_1: Rate | None = None
    """Of an oracle's cell an upper bound, and no pass@1."""
    made: int = 0
    """Model calls that were paid for."""
    stored: int = 0
    """Model calls that were answered by what an equal one had got, in this cell or in another."""
    spent: Usage = Usage()
    """What the calls that were made took."""
    seconds: float = 0.0
    at: float = 0.0
    """When this was written, seconds since the epoch."""


_DECODER = msgspec.json.Decoder(CellState)


def record(folder: Path, state: CellState) -> None:
    """Add a line to `cells.jsonl`; one write, so that processes may share the file.

    The lock is for processes on several machines: without one, a network file system lets them overwrite each other.
    """
    line = msgspec.json.encode(msgspec.structs.replace(state, at=time.time())) + b"\n"
    with (folder / "cells.jsonl").open("a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.seek(0, 2) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            line = b"\n" + line  # behind one that a kill left torn
        file.write(line)


def read_states(folder: Path) -> list[CellState]:
    """The lines of `cells.jsonl`, oldest first; a torn one is skipped."""
    path, states = folder / "cells.jsonl", []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            states.append(_DECODER.decode(line))
        except msgspec.MsgspecError:
            continue
    return states
