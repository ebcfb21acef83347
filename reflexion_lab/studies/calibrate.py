"""What to know of a model before an experiment on words: its first attempts, how far words can move it, its replies.

A sweep of six cells with two attempts each, on the same tasks: failing checks alone, own words, the canonical solution
quoted in each wording of the retry prompt, and some first attempts once more without the cache. Equal calls are paid
once, and the same command continues it. Quoted solutions reach the prompts of three cells: upper bounds, no pass@1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from reflexion_lab.agent.reflectors.quoted import solved
from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.lines import EQUAL_ATTEMPTS, Difference
from reflexion_lab.analysis.report.cells import estimate, interval, number
from reflexion_lab.analysis.report.documents import page
from reflexion_lab.analysis.report.screen import WIDTH, folded
from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.analysis.run_list import model_names
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Estimate, Rate, unpaired_difference
from reflexion_lab.analysis.stats.power import tasks_within
from reflexion_lab.analysis.summary import cost_is_known, summary
from reflexion_lab.errors import ConfigError, LabError
from reflexion_lab.records import Record, Usage
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import Cell
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import flat
from reflexion_lab.studies.sweeps.running import run_all
from reflexion_lab.studies.sweeps.sweep import Sweep, problems

ATTEMPTS = 2
CHECKS, WORDS, AGAIN = "failing checks", "own words", "again"
VARIANTS = ("default", "terse", "paper_style")
"""Wordings of the retry prompt, and names of the arms that quote the solution in them."""
CELLS: Mapping[str, Sequence[str]] = {
    CHECKS: ("experiment=feedback_only",),
    WORDS: ("experiment=reflexion",),
    **{name: ("experiment=quoted", f"prompts={name}", "prompts.examples=0") for name in VARIANTS},
    AGAIN: ("experiment=simple", "reflector=none", "loop.max_attempts=1", "cache.mode=off", "benchmark.limit=8"),
}
"""Overrides by arm."""
OWN = (
    "experiment", "preset", "reflector", "arm", "loop.max_attempts", "cache.mode", "prompts.variant",
    "prompts._target_",
)  # fmt: skip
"""Keys that its cells set."""
USED = 0.5
"""Share of quoted solutions below which, by its upper limit, a model loses more of what it reads than it uses."""


class Figure(Record, frozen=True):
    text: str
    meaning: str
    value: Rate | Estimate | Difference | float | None = None

    @classmethod
    def of(cls, value: Rate | Estimate | Difference, meaning: str) -> Figure:
        """A share with its counts, or a difference in points, with its 95 % interval."""
        if not isinstance(value, Rate):
            return cls(f"{estimate(value, signed=True)} points", meaning, value)
        share = f"{number(value.share)} % {interval(value.low, value.high)}, {value.k} of {value.n}"
        return cls(share if value.n else "no case", meaning, value)


class Calibration(Record, frozen=True, kw_only=True):
    """Whether a model uses what it reads, and figures by name; those with a comma in their name are details."""

    design: str
    answer: str
    figures: dict[str, Figure]
    warnings: tuple[str, ...]

    @property
    def document(self) -> Document:
        """The page: every figure with its interval and meaning."""
        rows = tuple((name, figure.text, figure.meaning) for name, figure in self.figures.items())
        sheet = Sheet(title="Figures", columns=("figure", "value [95 %]", "meaning"), rows=rows, names=3)
        answers = (self.answer, self.design, "next: `reflexion-lab power`, then `reflexion-lab study register`")
        return Document("Calibration", answers, self.warnings, (sheet,), ())

    def __repr__(self) -> str:
        """At most 15 lines of at most 80 columns, but for long names of models."""
        lines = [f"{name:19} {figure.text}" for name, figure in self.figures.items() if "," not in name]
        return "\n".join(part for line in (self.answer, self.design, *lines) for part in folded(line, WIDTH))


def answer(gain: Estimate, quoted: Rate, checks: Rate, most: float) -> str:
    """Whether the model uses what it reads, and what to do if not.

    It does if, with the solution quoted, more tasks are solved than at attempt 1 (`gain`), and more retries pass than
    after failing checks alone. `most`: upper limit of the retries that pass with it in any wording.
    """
    repairs = f"the quoted solution repairs {quoted.k} of {quoted.n}, failing checks alone {checks.k} of {checks.n}"
    first, second = ((rate.share, rate.low, rate.high) for rate in (quoted, checks))
    if gain.low > 0 and unpaired_difference(first, second)[0] > 0:
        return f"this model can use words: {repairs}"
    if quoted.n and most < USED:
        return f"this model cannot use words: choose another, or another prompt; {repairs}"
    return f"undecided whether this model can use words: take harder tasks, or more (--tasks); {repairs}"


def plan(overrides: Sequence[str], tasks: int = 40) -> tuple[Sweep, int]:
    """The sweep of a calibration with `overrides` of `reflexion-lab run`, and about how many calls it makes at most.

    Raises ConfigError: an override is of `OWN`, or a config is refused.
    """
    for word in overrides:
        if word.partition("=")[0].lstrip("+~") in OWN:
            raise ConfigError(word.partition("=")[0], word, "none: calibrate sets it", "leave it out")
    common = (*overrides, f"loop.max_attempts={ATTEMPTS}", "loop.reflect_on_last=false", "tracker=none")
    whole = list(load_benchmark(Cell.of(0, common, compose(*common)).cfg))
    solved("quoted", whole)
    n, cells = min(tasks, len(whole)), []
    for number_, (label, own) in enumerate(CELLS.items()):
        words = (*common, f"benchmark.sample={n}", *own, f"arm='{label}'")
        cells.append(Cell.of(number_, words, compose(*words)))
        check(cells[-1].cfg)
    digest = hashlib.sha256("".join(cell.digest for cell in cells).encode()).hexdigest()[:8]
    return Sweep(cells, f"calibrate-{digest}"), n * (5 + 2 * len(VARIANTS))


def calibrate(sweep: Sweep, quiet: bool = False) -> Calibration:
    """Carry out the sweep of a `plan`; writes `calibration.html` and `.json` there. Raises LabError: a cell failed."""
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
    logs = {arm.label: arm.logs[0] for arm in arms}
    rows, base, words = {row.arm: row for row in compare(arms, CHECKS).rows}, logs[CHECKS], logs[WORDS]
    retries = {arm.label: Rate.over(grade.passed for a, grade in arm.graded if a.number > 1) for arm in arms}
    own, settings = rows[WORDS].differences[EQUAL_ATTEMPTS], dict(flat(base.manifest.config))
    wording = next((name for name in VARIANTS if name == settings.get("prompts.variant")), VARIANTS[0])
    replies = [a for arm in arms for a, _ in arm.graded if a.number > 1 or arm.label == CHECKS]
    reviewed = summary(words).reflection_figures
    drawn = {task_id: attempts[0].trajectory.reply for task_id, attempts in base.attempts.items()}
    same = Rate.over(a[0].trajectory.reply == drawn[task_id] for task_id, a in again.attempts.items())
    differing = Rate.of(own.won + own.lost, own.n)
    low, high = (tasks_within(0.05, max(share, 1 / own.n)) for share in (differing.share, differing.high))
    groups = {
        "retries": retries,
        "replies": {
            "empty": Rate.over(not a.trajectory.reply.strip() for a in replies),
            "cut off": Rate.over(a.trajectory.finish_reason == "length" for a in replies),
            "no program": Rate.over(metrics.extraction_failures(a, None) for a in replies),
        },
        "reflections": {
            "read": metrics.reflections_by_model_share(words),
            "name a check": (reviewed and reviewed.mentions_check) or Rate.of(0, 0),
            "unflagged": Rate.over(not a.reflection.flags for a in words.every if a.reflection),
        },
    }
    nothing = Estimate(value=0.0, low=-1.0, high=1.0)  # a single task has no interval
    gains = {name: metrics.gain_over_attempt_1(log) or nothing for name, log in logs.items()}
    needed = f"{low:,} tasks if {max(1, differing.k)} of {differing.n} differ, {high:,} at its upper limit"
    figures = {
        "first attempt": Figure.of(rows[CHECKS].first, "passes the hidden tests"),
        "room (most harm)": Figure.of(gains[CHECKS], "what failing checks alone add to attempt 1"),
        "ceiling (most help)": Figure.of(gains[wording], "what the quoted solution adds to attempt 1"),
        "uptake by prompt": Figure(
            ", ".join(f"{name} {retries[name].k}/{retries[name].n}" for name in VARIANTS),
            "retries that pass after reading the solution, by wording (prompts=…)",
        ),
        "own words - checks": Figure(
            f"{Figure.of(own, '').text}, {own.won} won, {own.lost} lost",
            "own words less failing checks alone, over all tasks; exploratory",
            own,
        ),
        "replies": Figure(_listed(groups["replies"]), "of the actor, first attempts once"),
        "reflections": Figure(_listed(groups["reflections"]), "by the model, as parser and rules read them"),
        "determinism": Figure(
            f"{same.k} of {same.n} first attempts are the same", "drawn again, without the cache", same
        ),
        "tokens a task": Figure(_spent(base, words), f"prompts and replies of all roles, at {ATTEMPTS} attempts"),
        "n for ±5 points": Figure(
            needed, "tasks at one seed that show a true difference of 0 to lie within them (80 %)", low
        ),
    }
    for group, rates in groups.items():
        figures |= {f"{group}, {name}": Figure.of(rate, "") for name, rate in rates.items()}
    model, calls = ", ".join(dict.fromkeys(model_names(base.manifest))), sum(s.paid for s in sweep.states.values())
    size = f"{model} on {base.manifest.benchmark}: {len(base.results)} tasks"
    return Calibration(
        design=f"{size}, temperature {settings.get('temperature')}, {max(sweep.spent.calls, calls)} calls",
        answer=answer(gains[wording], retries[wording], retries[CHECKS], max(retries[name].high for name in VARIANTS)),
        figures=figures,
        warnings=tuple(f"{n}: {Figure.of(r, '').text}" for n, r in groups["replies"].items() if r.low > 0.1),
    )


def _listed(rates: Mapping[str, Rate]) -> str:
    n = max(rate.n for rate in rates.values())
    return ", ".join(f"{name} {number(rate.share)} %" for name, rate in rates.items()) + f" of {n}" if n else "none"


def _spent(*logs: Log) -> str:
    """Tokens and cost of a task with failing checks alone, and with own words."""
    each = [(sum(summary(log).usage.values(), Usage()), len(log.results)) for log in logs]
    tokens = "; ".join(
        f"{name} {f'{used.tokens / n:,.0f}' if used.tokens else 'unknown'}"
        for name, (used, n) in zip((CHECKS, WORDS), each, strict=True)
    )
    if not all(map(cost_is_known, logs)):
        return f"{tokens}; cost unknown"
    costs = ", ".join(f"{used.cost / n:.5f}" for used, n in each)
    return f"{tokens}; cost {costs}" if any(used.cost for used, _ in each) else tokens
