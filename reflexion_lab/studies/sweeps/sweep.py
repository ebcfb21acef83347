"""A sweep: cells that share the call cache and the execution cache, so equal calls are paid once; and its table.

A cell with a finished run is not run again, an interrupted one is resumed, a failing one does not affect the others.
The folder `<run_root>/sweeps/<sweep_id>` says how each cell ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import astuple, replace
from rich.console import Console

from reflexion_lab.analysis.comparison import side_by_side
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.screen import comparison_screen, folded
from reflexion_lab.analysis.report.sheets import Sheet, as_table, paragraphs
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.protocols import Tracker
from reflexion_lab.records import Usage
from reflexion_lab.runner.config import grid
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.grid import Cell
from reflexion_lab.runner.config.parts import load_benchmark, load_meter, take_snapshot
from reflexion_lab.runner.folder.folder import RunFolder, folders
from reflexion_lab.runner.folder.manifest import flat
from reflexion_lab.storage.call_store import Caps, Spending
from reflexion_lab.studies.run import outlook, track_arms
from reflexion_lab.studies.sweeps.finished import CellState, Runs, read_states, record, unfinished
from reflexion_lab.text.shorten import number_of

ROWS = 40
"""Rows of the table; finished cells are left out first."""
COLUMNS = ("status", "n", "pass@1, % [95 %]", "calls\nmade", "saved", "seconds")
STYLES = {"done": "green", "kept": "cyan", "failed": "bold red", "stopped": "red", "silent": "red"}
DRAWN = r"(seed|benchmark[\w.]*)="
"""Overrides by which cells of one arm differ."""


class Sweep:
    """The cells of a sweep and their states.

    Raises ConfigError: there is no cell, `sweep_id` is not a folder name, or cells have different run roots. `cells`:
    at least one. Of cells with equal digests, the first is run, with a warning. `sweep_id`: name of its folder and
    MLflow runs; by default computed from the cells, so the same command resumes it.
    """

    def __init__(self, cells: Sequence[Cell], sweep_id: str = "") -> None:
        _check(cells, sweep_id)
        by_digest: dict[str, Cell] = {}
        for cell in cells:
            first = by_digest.setdefault(cell.digest, cell)
            if first is not cell:
                differing = " ".join(override for override in cell.overrides if override not in first.overrides)
                warnings.warn(
                    f"cell {cell.number} ({differing or 'the same overrides'}) measures the same as cell "
                    f"{first.number}; it is run once. To time settings that change no result, give each a run_root of "
                    "its own",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self.digests = {cell.number: digest for digest, cell in by_digest.items()}
        self.sweep_id = sweep_id or _name(cells[0], by_digest)
        named = {"sweep_id": self.sweep_id}
        self.cells = tuple(cell._replace(cfg=cell.cfg.having(named)) for cell in by_digest.values())
        self.root = Path(cells[0].cfg.run_root)
        self.folder = self.root / "sweeps" / self.sweep_id
        self._tracked = self.folder / ".tracked"

    @classmethod
    def of(cls, overrides: Sequence[str]) -> Sweep:
        """The sweep of the command `reflexion-lab run -m *overrides`."""
        grid_cells = grid.cells(overrides)
        return cls(grid_cells, grid_cells[0].cfg.sweep_id or "" if grid_cells else "")

    @property
    def lines(self) -> list[CellState]:
        """All recorded states of these cells, oldest first."""
        return [line for line in read_states(self.folder) if line.digest in ("", self.digests.get(line.number))]

    @property
    def states(self) -> dict[int, CellState]:
        """The state of every cell, by its number, in order."""
        known = {cell.number: CellState(number=cell.number) for cell in self}
        for line in (line for line in self.lines if line.number in known):
            is_late = line.status == "waiting" and line.problem and known[line.number].status in ("done", "kept")
            if not is_late:  # what another process saw before the cell ended
                known[line.number] = line
        return known

    @property
    def is_open(self) -> bool:
        """Whether a cell has no result yet."""
        return any(state.status not in ("done", "kept") for state in self.states.values())

    def note(self, state: CellState) -> None:
        record(self.folder, replace(state, digest=self.digests[state.number]))

    @property
    def runs(self) -> list[Path]:
        """The run folders of the finished cells, each once, in the order of the cells."""
        finished = (state.folder for state in self.states.values() if state.status in ("done", "kept"))
        return [Path(folder) for folder in dict.fromkeys(finished)]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def spent(self) -> Spending:
        """New spending by the ledger, which counts the most that an open, failed or killed call may have taken."""
        with contextlib.closing(load_meter(self.cells[0].cfg)) as meter:
            return meter.spent

    def outlook(self) -> Iterator[str]:
        """What its caps buy, and which difference it detects, in two lines; nothing once every cell has ended."""
        first, seeds = self.cells[0].cfg, len({cell.cfg.seed for cell in self})
        arms = {tuple(word for word in cell.overrides if not re.match(DRAWN, word)) for cell in self}
        if self.is_open:
            with contextlib.suppress(OSError, ValueError, LabError), contextlib.closing(load_meter(first)) as meter:
                yield from outlook(first, meter, load_benchmark(first, is_whole=True), seeds, len(arms))

    def keep(self) -> list[Cell]:
        """Record the cells with finished runs; returns the cells left to run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        runs, left = Runs(self.root), []
        for cell in self:
            cfg = cell.cfg
            if run := runs.finished(cfg):
                if beginning := RunFolder(run.folder).beginning:
                    take_snapshot(cfg, beginning)  # later cells start from it too
                self.note(run.kept(cell.number))
            elif cfg.only is None or unfinished(runs.of(cfg), or_spoilt=True):
                left.append(cell)
                self.note(CellState(number=cell.number))
        if left:
            self._tracked.unlink(missing_ok=True)
            with contextlib.closing(load_meter(self.cells[0].cfg)) as meter:
                meter.recover(lambda: Spending.of(call_counts(self.lines)[2], 1))
        return left

    @property
    def is_tracked(self) -> bool:
        """Whether its arms were sent to the tracker and no cell was run since."""
        return self._tracked.exists()

    @property
    def tracker(self) -> Tracker:
        """The tracker of its cells."""
        tracker: Tracker = build(self.cells[0].cfg.tracker, "tracker")
        return tracker

    def track(self) -> dict[str, str]:
        """Send its arms to the tracker; returns their links."""
        if links := track_arms(self.cells[0].cfg, self.runs):
            self._tracked.touch()
        return links

    def __repr__(self) -> str:
        counts = Counter(state.status for state in self.states.values())
        return f"Sweep {self.sweep_id}: {', '.join(f'{n} {status}' for status, n in counts.items())}"

    def _repr_html_(self) -> str:
        """Without its folder: outputs are read on other machines."""
        lines = paragraphs([*repeated(self), headline(self)])
        return paragraphs(problems(self), loud=True) + sheet(self)._repr_html_() + lines


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
    if sweep.is_open:
        return []
    try:
        _, comparison = side_by_side(folders(sweep))
    except LabError:  # several benchmarks, or two runs of one arm and seed
        return []
    return comparison_screen(comparison, width, [f"all tables: reflexion-lab compare --full {sweep.folder}"])


def problems(sweep: Sweep) -> list[str]:
    """Problems, a line each, with the cells that have it."""
    numbers: dict[str, list[str]] = {}
    for state in sweep.states.values():
        if state.problem:
            numbers.setdefault(state.problem, []).append(str(state.number))
    return [
        f"cell{'s' * (len(own) > 1)} {', '.join(own[:3])}{f' and {len(own) - 3} more' * (len(own) > 3)}: {problem}"
        for problem, own in numbers.items()
    ]


def repeated(sweep: Sweep) -> list[str]:
    """Reasons why cells ran again, one line per cell."""
    return [f"cell {state.number} ran again: {state.again}" for state in sweep.states.values() if state.again]


def drawn_anew(sweep: Sweep) -> str:
    """Where seeds draw different tasks, and are no repeats: a sentence that says so, with the keys to set."""
    by_benchmark: dict[str, dict[int, Cell]] = {}
    for cell in sweep:
        unseeded = {key: value for key, value in flat(cell.cfg.whole["benchmark"]) if key != "load.seed"}
        by_benchmark.setdefault(str(unseeded), {}).setdefault(cell.cfg.seed, cell)
    keys = []
    for first, other in (list(of_seed.values())[:2] for of_seed in by_benchmark.values() if len(of_seed) > 1):
        node = first.cfg.benchmark
        generated = all(each.cfg.benchmark.load.get("seed") == each.cfg.seed for each in (first, other))
        sampled = node.sample and node.sample_seed is None
        wanted = ["benchmark.load.seed=0"] * generated + ["benchmark.sample_seed=0"] * bool(sampled)
        with contextlib.suppress(OSError, ValueError, LabError):  # the file is gone, or needs the sandbox: not known
            keys += wanted if wanted and load_benchmark(first.cfg).tasks != load_benchmark(other.cfg).tasks else []
    return f"each seed has its own tasks: {' '.join(dict.fromkeys(keys))} repeats them" if keys else ""


def headline(sweep: Sweep) -> str:
    """Cells by status, calls made and saved, cost, over all starts of this sweep."""
    states = list(sweep.states.values())
    calls, stored, spent = call_counts(sweep.lines)
    ledger = sweep.spent
    text = f"{number_of(len(states), 'cell')}: {cells.counts(Counter(state.status for state in states))}; "
    text += f"model calls: {max(ledger.calls, spent.calls)} made, {stored} saved by sharing"
    cost = f"cost {spent.cost:.4f}" if spent.cost else ""
    if ledger.calls > calls and ledger.cost:
        cost = f"cost {ledger.cost:.4f} at most, with calls of killed starts"
    if missing := spent.uncounted_replies:
        cost = f"at least {spent.tokens:,} tokens, cost unknown ({missing} of {spent.replies} replies without usage)"
    return "; ".join(filter(None, (text, cost, drawn_anew(sweep))))


def call_counts(states: Iterable[CellState]) -> tuple[int, int, Usage]:
    """Calls made and saved, and what was spent. A kept cell made its calls in an earlier sweep."""
    ended = [state for state in states if state.status in ("done", "failed", "stopped", "silent")]
    spent = sum((state.spent for state in ended), Usage())
    return sum(state.paid for state in ended), sum(state.stored for state in ended), spent


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
    values, rate = _values(cell), state.pass_at_1
    share = cells.estimate(Estimate(value=rate.share, low=rate.low, high=rate.high)) if rate and rate.n else ""
    share = f"{UPPER_BOUND} {share}" if state.is_upper_bound or state.feedback_source == "oracle" else share
    figures = (state.paid, state.stored, round(state.seconds)) if state.seconds else ("", "", "")
    columns = map(str, (rate.n if rate else "", share, *figures))
    return (str(cell.number), *(values.get(key, "") for key in keys), state.status, *columns)


def _values(cell: Cell) -> dict[str, str]:
    """The overrides by key; of a key given twice, the last."""
    return dict(override.partition("=")[::2] for override in cell.overrides)


def swept(sweep: Sweep) -> list[str]:
    """Config keys whose values differ between cells."""
    values: dict[str, set[str]] = {}
    for cell in sweep:
        for key, value in _values(cell).items():
            values.setdefault(key, set()).add(value)
    return [key for key, distinct in values.items() if len(distinct) > 1]


def _check(cells: Sequence[Cell], sweep_id: str) -> None:
    if not cells:
        raise ConfigError("sweep", "no cell", "at least one")
    if sweep_id and (Path(sweep_id).name != sweep_id or sweep_id.startswith(".")):
        raise ConfigError("sweep_id", repr(sweep_id), "the name of a folder in RUN_ROOT/sweeps")
    first = cells[0].cfg
    for key in ("run_root", "sweep_id", "resume"):
        if any(getattr(cell.cfg, key) != getattr(first, key) for cell in cells):
            raise ConfigError(key, "several values in one sweep", "one for all of its cells")
    if not (first.storage and first.storage.spending) and any(astuple(first.caps or Caps())):
        raise ConfigError("storage.spending", "null with caps", "a file or a database, by which the cells share them")
    if first.resume is not None:
        raise ConfigError("resume: the same command resumes a sweep", hint="leave it out")


def _name(first: Cell, digests: Iterable[str]) -> str:
    """The experiment's name and a digest of the cells, as in `omega_sweep-3fa2c1d0`."""
    named = (override for override in first.overrides if override.startswith("experiment="))
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()[:8]
    return f"{next(named, 'sweep').removeprefix('experiment=')}-{digest}"
