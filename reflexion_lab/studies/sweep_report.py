"""Views of a sweep: a table of its cells, and live progress. Both read its folder, whoever runs the cells."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.screen import comparison_screen, folded
from reflexion_lab.analysis.report.sheets import Sheet, as_table, paragraphs
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import LabError
from reflexion_lab.io.terminal import LOG_EVERY, bar, in_notebook
from reflexion_lab.records import Usage
from reflexion_lab.runner.config.build import Config, plain
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.studies.finished import CellState

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.runner.config.grid import Cell
    from reflexion_lab.studies.sweep import Sweep

ROWS = 40
"""Rows of the table; finished cells are left out first."""
COLUMNS = ("status", "n", "pass@1, % [95 %]", "calls\nmade", "saved", "seconds")
STYLES = {"done": "green", "kept": "cyan", "failed": "bold red", "lost": "bold red", "stopped": "red"}
STYLES |= {"elsewhere": "yellow", "running": "yellow"}
EVERY = 0.5
"""Seconds between two updates."""


def show(sweep: Sweep, console: Console, problems_only: bool = False) -> None:
    """Print the state of every cell, and the problem of each that failed."""
    answer, failures = [] if problems_only else screen(sweep, console.width), problems(sweep)
    if not problems_only:
        if not answer:
            console.print(as_table(sheet(sweep), STYLES))
        for line in repeated(sweep):
            console.print(cells.line(line), soft_wrap=True)
    for problem in failures:
        console.print(cells.line(problem, "red"), soft_wrap=True)
    if not problems_only:
        last = ["fix the problems above; the same command resumes the sweep"] if failures else []
        last += [*answer, *folded(headline(sweep), console.width), f"sweep folder: {sweep.folder}"]
        for line in last:
            console.print(cells.line(line), soft_wrap=True)


def screen(sweep: Sweep, width: int) -> list[str]:
    """The comparison of the sweep's arms, once every cell has ended; [] before, and where its runs do not compare."""
    from reflexion_lab.analysis.comparison import side_by_side
    from reflexion_lab.runner.folder.folder import folders

    if any(state.status not in ("done", "kept") for state in sweep.states.values()):
        return []
    try:
        _, comparison = side_by_side(folders(sweep))
    except LabError:  # several benchmarks, or two runs of one arm and seed
        return []
    return comparison_screen(comparison, width, [f"all tables: reflexion-lab compare --full {sweep.folder}"])


def problems(sweep: Sweep) -> list[str]:
    """Problems, one line per cell."""
    return [f"cell {state.number}: {state.problem}" for state in sweep.states.values() if state.problem]


def repeated(sweep: Sweep) -> list[str]:
    """Reasons why cells ran again, one line per cell."""
    return [f"cell {state.number} ran again: {state.again}" for state in sweep.states.values() if state.again]


def drawn_anew(sweep: Sweep) -> str:
    """Where seeds draw different tasks, and are no repeats: a sentence that says so, with the keys to set."""
    by_benchmark: dict[str, dict[int, Config]] = {}
    for cell in sweep:
        by_benchmark.setdefault(str(plain(cell.cfg.benchmark, resolve=False)), {}).setdefault(cell.cfg.seed, cell.cfg)
    pairs = [list(of_seed.values())[:2] for of_seed in by_benchmark.values() if len(of_seed) > 1]
    keys = []
    for first, other in pairs:
        generated = "${seed}" in str(plain(first.benchmark, resolve=False)["load"])
        sampled = first.benchmark.sample and first.benchmark.get("sample_seed") is None
        wanted = ["benchmark.load.seed=0"] * generated + ["benchmark.sample_seed=0"] * bool(sampled)
        with contextlib.suppress(OSError, ValueError, LabError):  # the file is gone, or needs the sandbox: not known
            keys += wanted if wanted and load_benchmark(first).tasks != load_benchmark(other).tasks else []
    return f"each seed has its own tasks: {' '.join(dict.fromkeys(keys))} repeats them" if keys else ""


def headline(sweep: Sweep) -> str:
    """Cells by status, calls made and saved, cost, over all starts of this sweep."""
    states = list(sweep.states.values())
    calls, stored, cost = _calls(sweep.lines)
    text = f"{len(states)} cells: {cells.counts(Counter(state.status for state in states))}; "
    text += f"model calls: {calls} made, {stored} saved by sharing"
    return "; ".join(filter(None, (text, f"cost {cost:.4f}" if cost else "", drawn_anew(sweep))))


def _calls(states: Iterable[CellState]) -> tuple[int, int, float]:
    """Calls made and saved, and their cost. A kept cell made its calls in an earlier sweep."""
    ended = [state for state in states if state.status in ("done", "failed", "stopped")]
    cost = sum((state.spent for state in ended), Usage()).cost
    return sum(state.made for state in ended), sum(state.stored for state in ended), cost


def as_html(sweep: Sweep) -> str:
    """For a notebook, without the folder: outputs are read on other machines."""
    return (
        paragraphs(problems(sweep), loud=True)
        + sheet(sweep)._repr_html_()
        + paragraphs([*repeated(sweep), headline(sweep)])
    )


def sheet(sweep: Sweep) -> Sheet:
    """One row per cell. With more than `ROWS` cells, finished ones are left out first."""
    states = sweep.states
    keys, sources = swept(sweep), {state.feedback_source for state in states.values() if state.feedback_source}
    chosen = [cell for cell in sweep if states[cell.number].status not in ("done", "kept")][:ROWS]
    chosen += [cell for cell in sweep if cell not in chosen][: ROWS - len(chosen)]
    left_out = len(sweep) - len(chosen)
    return Sheet(
        title=f"Sweep {sweep.sweep_id}, feedback: {', '.join(sorted(sources)) or 'none yet'}",
        columns=("cell", *(key.rpartition(".")[2] for key in keys), *COLUMNS),
        rows=tuple(_row(cell, keys, states[cell.number]) for cell in sorted(chosen, key=lambda cell: cell.number)),
        caption=f"{left_out} more cells in cells.jsonl" if left_out else "",
        names=len(keys) + 2,
    )


def _row(cell: Cell, keys: list[str], state: CellState) -> tuple[str, ...]:
    values, rate = dict(override.partition("=")[::2] for override in cell.overrides), state.pass_at_1
    share = cells.estimate(Estimate(value=rate.share, low=rate.low, high=rate.high)) if rate and rate.n else ""
    share = f"{UPPER_BOUND} {share}" if state.is_upper_bound or state.feedback_source == "oracle" else share
    figures = (state.made, state.stored, round(state.seconds)) if state.seconds else ("", "", "")
    columns = map(str, (rate.n if rate else "", share, *figures))
    return (str(cell.number), *(values.get(key, "") for key in keys), state.status, *columns)


def swept(sweep: Sweep) -> list[str]:
    """Config keys whose values differ between cells."""
    values: dict[str, set[str]] = {}
    for cell in sweep:
        for override in cell.overrides:
            key, _, value = override.partition("=")
            values.setdefault(key, set()).add(value)
    return [key for key, distinct in values.items() if len(distinct) > 1]


@contextmanager
def live_progress(sweep: Sweep, quiet: bool = False) -> Iterator[None]:
    """Show the progress of `sweep`, from a thread, until the end of the block."""
    if quiet:
        yield
        return
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
        calls, stored, cost = _calls(state for state in states if (state.number, state.at) not in self._former)
        counts = Counter(state.status for state in states)
        parts = [
            f"{counts[status]} {status}"
            for status in ("kept", "failed", "lost", "stopped", "elsewhere")
            if counts[status]
        ]
        parts.append(f"{calls} calls made, {stored} saved" + (f" ({stored / (calls + stored):.0%})" if stored else ""))
        if cost:
            parts.append(f"cost {cost:.4f}")
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
