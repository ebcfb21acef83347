"""Live progress of a sweep, read from its folder, whoever runs the cells."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reflexion_lab.io.terminal import LOG_EVERY, bar, in_notebook
from reflexion_lab.studies.sweeps.finished import CellState
from reflexion_lab.studies.sweeps.sweep import Sweep, call_counts

EVERY = 0.5
"""Seconds between two updates."""


@contextmanager
def live_progress(sweep: Sweep, quiet: bool = False) -> Iterator[None]:
    """Show the progress of `sweep`, from a thread, until the end of the block."""
    if quiet:
        yield
        return
    for line in sweep.outlook():
        print(line, file=sys.stderr)
    view, ended = SweepProgress(sweep), threading.Event()

    def look() -> None:
        while not ended.wait(EVERY):
            view.look()

    thread = threading.Thread(target=look, name="sweep progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        view.close()


class SweepProgress:
    """A bar in a terminal or a notebook, a line now and then in a log."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self._began = self._logged = time.monotonic()
        self._former = {(state.number, state.at) for state in sweep.lines}
        self._before = sweep.spent.calls
        self._expected: dict[str, int] = {}
        self._is_log = not (sys.stderr.isatty() or in_notebook())
        layout = "{l_bar}{bar}| {n:.1f}/{total} cells [{elapsed}{postfix}]"
        self._bar = bar(total=len(sweep), disable=self._is_log, bar_format=layout)

    def look(self) -> None:
        states = list(self.sweep.states.values())
        self._bar.n = min(len(self.sweep), self.progress(states))
        self._bar.set_postfix_str(self.line(states))
        if self._is_log and time.monotonic() - self._logged > LOG_EVERY:
            self._log(states)

    def progress(self, states: list[CellState]) -> float:
        """Number of cells that have ended, plus the finished fraction of each running cell."""
        return sum(self._share(state) for state in states)

    def line(self, states: list[CellState]) -> str:
        """The text after the progress bar."""
        calls, stored, spent = call_counts(state for state in states if (state.number, state.at) not in self._former)
        calls = max(calls, self.sweep.spent.calls - self._before)  # also of cells that have not ended
        counts = Counter(state.status for state in states)
        parts = [
            f"{counts[status]} {status}"
            for status in ("kept", "failed", "lost", "stopped", "silent", "elsewhere")
            if counts[status]
        ]
        parts.append(f"{calls} calls made, {stored} saved" + (f" ({stored / (calls + stored):.0%})" if stored else ""))
        if spent.cost and not spent.uncounted:
            parts.append(f"cost {spent.cost:.4f}")
        return ", ".join((*parts, f"{self._left(states)} left"))

    def close(self) -> None:
        self.look()
        self._bar.close()
        if self._is_log:
            self._log(list(self.sweep.states.values()))

    def _log(self, states: list[CellState]) -> None:
        self._logged = time.monotonic()
        print(f"{self.progress(states):.1f}/{len(self.sweep)} cells, {self.line(states)}", file=sys.stderr, flush=True)

    def _share(self, state: CellState) -> float:
        if state.status != "running":
            return float(state.status != "waiting")
        run = Path(state.folder)
        try:
            if state.folder not in self._expected:
                manifest = msgspec.json.decode((run / "manifest.json").read_bytes())
                self._expected[state.folder] = max(1, manifest["n_expected"])
            return min(1.0, (run / "results.jsonl").read_bytes().count(b"\n") / self._expected[state.folder])
        except OSError:
            return 0.0  # not started yet

    def _left(self, states: list[CellState]) -> str:
        skipped = sum(state.status in ("kept", "elsewhere") for state in states)
        new = self.progress(states) - skipped
        if new <= 0:
            return "unknown time"
        seconds = (time.monotonic() - self._began) / new * (len(self.sweep) - skipped - new)
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
