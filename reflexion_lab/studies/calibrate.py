"""What to know of a model before an experiment on words: its first attempts, how far words can move it, its replies.

A sweep of six cells with two attempts each, on the same tasks: failing checks alone, own words, the canonical solution
quoted in each wording of the retry prompt, and some first attempts once more without the cache. Equal calls are paid
once, and the same command continues it. Quoted solutions reach the prompts of three cells: upper bounds, no pass@1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.lines import EQUAL_ATTEMPTS, Difference
from reflexion_lab.analysis.report.cells import estimate, interval, number
from reflexion_lab.analysis.report.screen import WIDTH, folded
from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.analysis.run_list import model_names
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.stats.power import tasks_within
from reflexion_lab.analysis.summary import cost_is_known, summary
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.records import Record
from reflexion_lab.studies.sweeps.sweep import Sweep

TASKS = 40
ATTEMPTS = 2
CHECKS, WORDS, AGAIN = "failing checks", "own words", "again"
VARIANTS = ("default", "terse", "paper_style")
"""Wordings of the retry prompt, and names of the arms that quote the solution in them."""
CELLS: Mapping[str, Sequence[str]] = {
    CHECKS: ("experiment=feedback_only",),
    WORDS: ("experiment=reflexion",),
    **{name: ("experiment=quoted", f"prompts={name}", "prompts.examples=0") for name in VARIANTS},
    AGAIN: ("experiment=simple", "cache.mode=off"),
}
"""Overrides by arm."""
OWN = ("experiment", "preset", "reflector", "arm", "loop.max_attempts")
"""Keys that its cells set."""
REPEATED = 8
"""First attempts that are drawn once more."""
MARGIN = 0.05
LEVEL = 0.05 / len(VARIANTS)
"""Level of the test of the best of the wordings."""
USED = 0.5
"""Share of quoted solutions below which, by its upper limit, a model loses more of what it reads than it uses."""


class Calibration(Record, frozen=True, kw_only=True):
    """Figures of a model on the tasks of a benchmark, with 95 % intervals; differences are over all tasks."""

    model: str
    benchmark: str
    tasks: int
    temperature: float
    first: Rate
    """First attempts that pass the hidden tests."""
    room: Estimate
    """What failing checks alone add to attempt 1: the most that words can harm."""
    ceiling: Estimate
    """What the quoted solution adds to attempt 1, in the wording that passes most: the most that words can help."""
    retries: dict[str, Rate]
    """Retries that pass the hidden tests: with failing checks alone, own words, the solution in each wording."""
    quoted: Difference
    """The quoted solution in the wording that passes most, less failing checks alone."""
    own: Difference
    """Own words less failing checks alone."""
    replies: dict[str, Rate]
    """Replies of the actor that are empty, cut off at `max_tokens`, or without a program."""
    reflections: dict[str, Rate]
    """Reflections that the model wrote and the parser read, that name a failing check, and that no rule flags."""
    repeated: Rate
    """First attempts that are the same when they are drawn once more, without the cache."""
    tokens: dict[str, float]
    """Tokens of a task by arm, at two attempts."""
    cost: dict[str, float | None]
    """Likewise; None where prices are unknown."""
    calls: int
    needed: tuple[int, int]
    """Tasks at one seed that show a true difference of 0 to lie within `MARGIN`, four times in five: at the share of
    tasks that only one of own words and failing checks solves, and at the upper end of its interval."""
    folder: str

    @property
    def best(self) -> str:
        """The wording with the most repairs after a quoted solution."""
        return max(VARIANTS, key=lambda name: self.retries[name].share)

    @property
    def answer(self) -> str:
        """Whether the model uses what it reads, and what to do if not."""
        best, checks = self.retries[self.best], self.retries[CHECKS]
        repairs = f"the quoted solution repairs {best.k} of {best.n}, failing checks alone {checks.k} of {checks.n}"
        if self.quoted.low > 0 and self.quoted.p_tasks < LEVEL:
            return f"this model can use words: {repairs}"
        if best.n and best.high < USED:
            return f"this model cannot use words: choose another, or another prompt; {repairs}"
        return f"undecided whether this model can use words: take harder tasks, or more (--tasks); {repairs}"

    @property
    def document(self) -> Document:
        """The page: every figure with its interval and meaning."""
        rows = tuple((name, value, meaning) for name, value, meaning in _figures(self))
        sheet = Sheet(title="Figures", columns=("figure", "value [95 %]", "meaning"), rows=rows, names=3)
        warnings = [f"{name}: {_share(rate)}" for name, rate in self.replies.items() if rate.low > 0.1]
        title = f"Calibration of {self.model} on {self.benchmark}"
        return Document(title, (self.answer, _design(self), NEXT), tuple(warnings), (sheet,), ())

    @property
    def screen(self) -> list[str]:
        """At most 15 lines of at most 80 columns, but for long names of models."""
        lines = [f"{name:19} {value}" for name, value, _ in _figures(self) if "," not in name]
        return [part for line in (self.answer, _design(self), *lines) for part in folded(line, WIDTH)]

    def __repr__(self) -> str:
        return "\n".join(self.screen)


NEXT = "next: fix a design by `reflexion-lab power`, register it by `reflexion-lab study register`"


def _design(figures: Calibration) -> str:
    return (
        f"{figures.model} on {figures.benchmark}: {figures.tasks} tasks, {ATTEMPTS} attempts, temperature "
        f"{figures.temperature:g}, {figures.calls} calls"
    )


def _figures(figures: Calibration) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of each figure; details have a comma in their name."""
    yield "first attempt", _share(figures.first), "passes the hidden tests"
    yield "room (most harm)", _points(figures.room), "what failing checks alone add to attempt 1"
    yield "ceiling (most help)", _points(figures.ceiling), "what the quoted solution adds to attempt 1"
    quoted = (f"{name} {rate.k}/{rate.n}" for name, rate in figures.retries.items() if name in VARIANTS)
    yield "uptake by prompt", ", ".join(quoted), "retries that pass after reading the solution, by wording (prompts=…)"
    own = f"{_points(figures.own)}, {figures.own.won} won, {figures.own.lost} lost"
    yield "own words - checks", own, "own words less failing checks alone, over all tasks; exploratory"
    yield "replies", _listed(figures.replies), "of the actor, over all cells"
    yield "reflections", _listed(figures.reflections), "by the model, as parser and rules read them"
    same = f"{figures.repeated.k} of {figures.repeated.n} first attempts are the same again"
    yield "determinism", same, "drawn without the cache; servers and batches may differ at temperature 0, too"
    tokens = (f"{name} {amount:,.0f}{_cost(figures.cost[name])}" for name, amount in figures.tokens.items())
    yield "tokens a task", "; ".join(tokens), f"prompts and replies of all roles, at {ATTEMPTS} attempts"
    low, high = figures.needed
    differing = f"if {figures.own.won + figures.own.lost} of {figures.own.n} differ, {high:,} at its upper limit"
    meaning = "tasks at one seed that show a true difference of 0 to lie within them (80 %)"
    yield "n for ±5 points", f"{low:,} tasks {differing}", meaning
    details = {"retries": figures.retries, "replies": figures.replies, "reflections": figures.reflections}
    for group, rates in details.items():
        yield from ((f"{group}, {name}", _share(rate), "quoted" * (name in VARIANTS)) for name, rate in rates.items())


def _share(rate: Rate) -> str:
    return f"{number(rate.share)} % {interval(rate.low, rate.high)}, {rate.k} of {rate.n}" if rate.n else "no case"


def _points(value: Estimate | Difference) -> str:
    return f"{estimate(value, signed=True)} points"


def _listed(rates: Mapping[str, Rate]) -> str:
    n = max(rate.n for rate in rates.values())
    return ", ".join(f"{name} {number(rate.share)} %" for name, rate in rates.items()) + f" of {n}"


def _cost(cost: float | None) -> str:
    return ", cost unknown" if cost is None else f", {cost:.4f}" if cost else ""


def plan(overrides: Sequence[str], tasks: int = TASKS) -> tuple[Sweep, int]:
    """The sweep of a calibration, and the most calls that it makes, if wordings differ in their first attempts, too.

    `overrides`: those of `reflexion-lab run`, without keys of `OWN`. Raises ConfigError: one of these keys.
    """
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.grid import Cell
    from reflexion_lab.runner.config.parts import load_benchmark

    for word in overrides:
        if word.partition("=")[0].lstrip("+~") in OWN:
            raise ConfigError(word.partition("=")[0], word, "none: calibrate sets it", "leave it out")
    common = (*overrides, f"loop.max_attempts={ATTEMPTS}", "loop.reflect_on_last=false", "tracker=none")
    n = min(tasks, len(load_benchmark(Cell.of(0, common, compose(*common)).cfg)))
    cells = []
    for number_, (label, own) in enumerate(CELLS.items()):
        size = (f"benchmark.limit={min(n, REPEATED)}",) if label == AGAIN else ()
        words = (*common, f"benchmark.sample={n}", *own, *size, f"arm='{label}'")
        cells.append(Cell.of(number_, words, compose(*words)))
    digest = hashlib.sha256("".join(cell.digest for cell in cells).encode()).hexdigest()[:8]
    return Sweep(cells, f"calibrate-{digest}"), n * (4 + 2 * len(VARIANTS)) + min(n, REPEATED)


def calibrate(sweep: Sweep, quiet: bool = False) -> Calibration:
    """Carry out the sweep of a `plan`, and write `calibration.html` and `.json` into its folder.

    Raises LabError: a cell failed; the same command continues the sweep.
    """
    from reflexion_lab.analysis.report.documents import page
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.studies.sweeps.running import run_all
    from reflexion_lab.studies.sweeps.sweep import problems

    run_all(sweep, (), quiet)
    if sweep.is_open:
        raise LabError(f"calibrate: {'; '.join(problems(sweep)) or 'a cell has not ended'}: the same command goes on")
    logs = {cell.cfg.arm: Log.read(RunFolder(Path(sweep.states[cell.number].folder))) for cell in sweep}
    result = measured([Arm(name, [log]) for name, log in logs.items() if name != AGAIN], logs[AGAIN], sweep)
    (sweep.folder / "calibration.html").write_text(page(result.document), encoding="utf-8", errors="backslashreplace")
    (sweep.folder / "calibration.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    return result


def measured(arms: Sequence[Arm], again: Log, sweep: Sweep) -> Calibration:
    """The figures of finished runs: `arms` by the names of `CELLS`, and some first attempts drawn `again`."""
    by_name = {arm.label: arm for arm in arms}
    rows = {row.arm: row for row in compare(arms, CHECKS).rows}
    base, words = (by_name[name].logs[0] for name in (CHECKS, WORDS))
    gains = {name: metrics.gain_over_attempt_1(arm.logs[0]) for name, arm in by_name.items()}
    nothing = Estimate(value=0.0, low=-1.0, high=1.0)  # a single task has no interval
    retries = {
        name: Rate.over(grade.passed for a, grade in arm.graded if a.number > 1) for name, arm in by_name.items()
    }
    best = max(VARIANTS, key=lambda name: retries[name].share)
    own = rows[WORDS].differences[EQUAL_ATTEMPTS]
    discordance = Rate.of(own.won + own.lost, own.n)
    replies = [a for arm in arms for a, _ in arm.graded if a.number > 1 or arm.label == CHECKS]
    figures = summary(words).reflection_figures
    drawn = {task_id: attempts[0].trajectory.reply for task_id, attempts in base.attempts.items()}
    return Calibration(
        model=", ".join(dict.fromkeys(model_names(base.manifest))),
        benchmark=base.manifest.benchmark,
        tasks=len(base.results),
        temperature=float(str(base.manifest.config.get("temperature") or 0)),
        first=rows[CHECKS].first,
        room=gains[CHECKS] or nothing,
        ceiling=gains[best] or nothing,
        retries=retries,
        quoted=rows[best].differences[EQUAL_ATTEMPTS],
        own=own,
        replies={
            "empty": Rate.over(not a.trajectory.reply.strip() for a in replies),
            "cut off": Rate.over(a.trajectory.finish_reason == "length" for a in replies),
            "no program": Rate.over(metrics.extraction_failures(a, None) for a in replies),
        },
        reflections={
            "read": metrics.reflections_by_model_share(words),
            "name a check": (figures and figures.mentions_check) or Rate.of(0, 0),
            "unflagged": Rate.over(not a.reflection.flags for a in words.every if a.reflection),
        },
        repeated=Rate.over(
            attempts[0].trajectory.reply == drawn[task_id] for task_id, attempts in again.attempts.items()
        ),
        tokens={name: by_name[name].usage.tokens / len(base.results) for name in (CHECKS, WORDS)},
        cost={
            name: by_name[name].usage.cost / len(base.results) if cost_is_known(by_name[name].logs[0]) else None
            for name in (CHECKS, WORDS)
        },
        calls=max(sweep.spent.calls, sum(state.paid for state in sweep.states.values())),
        needed=(tasks_within(MARGIN, max(discordance.share, 1 / own.n)), tasks_within(MARGIN, discordance.high)),
        folder=str(sweep.folder),
    )
