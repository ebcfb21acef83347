"""A registered study and its runs: which belong to it, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.stats.power import POWER, Design, detected
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.registration import Registration

if TYPE_CHECKING:
    from rich.console import Console


class Belonging(NamedTuple):
    """A run and its deviations from the study."""

    run_id: str
    arm: str
    """As registered; else as in its config."""
    seed: int
    done: int
    """Finished tasks."""
    n_expected: int
    usage: Usage
    reasons: tuple[str, ...]
    """Deviations from the study; () if it belongs to it."""


class Belongings(NamedTuple):
    study: Registration
    runs: tuple[Belonging, ...]
    missing: tuple[str, ...]
    """Registered arms, seeds and tasks without a run, a sentence each."""

    power: Rate | None
    """How many simulated studies of this design detect the registered effect; None where its discordance is unknown."""

    @property
    def is_too_small(self) -> bool:
        """Whether the design detects the registered effect less often than four times in five."""
        return self.power is not None and self.power.share < POWER

    @property
    def spent(self) -> Usage:
        """Usage of the runs that belong to it; cached calls count again."""
        return sum((run.usage for run in self.runs if not run.reasons), Usage())


def belonging(study: Path, runs: Sequence[Path]) -> Belongings:
    """Raises ValueError: the study or a run cannot be read."""
    registered = registration.read(study)
    belongings = tuple(_belonging(registered, Log.read(RunFolder.existing(run))) for run in runs)
    return Belongings(registered, belongings, tuple(_missing(registered, belongings)), _power(registered))


def _power(study: Registration) -> Rate | None:
    if not study.discordance:
        return None
    design = Design(
        tasks=study.n_tasks,
        seeds=len(study.seeds),
        discordance=study.discordance,
        agreement=study.agreement,
        difference=study.minimum_detectable_effect,
        comparisons=max(len(study.arms) - 1, 1),
    )
    return detected(design)


def _belonging(registered: Registration, log: Log) -> Belonging:
    manifest = log.manifest
    return Belonging(
        run_id=manifest.run_id,
        arm=registered.arm_of(manifest.config) or str(manifest.config.get("arm")),
        seed=manifest.seed,
        done=len(log.results),
        n_expected=manifest.n_expected,
        usage=sum(summary(log).usage.values(), Usage()),
        reasons=tuple(registration.deviations(registered, manifest)),
    )


def _missing(registered: Registration, runs: Sequence[Belonging]) -> Iterator[str]:
    mine = [run for run in runs if not run.reasons]
    for arm in registered.arms:
        seeds = [run.seed for run in mine if run.arm == arm]
        if missing := sorted(set(registered.seeds) - set(seeds)):
            yield f"arm {arm}: no run of seed {', '.join(map(str, missing))}"
        for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            yield f"arm {arm}: {seeds.count(seed)} runs of seed {seed}, expected one"
    for run in mine:
        if run.done < run.n_expected:
            yield f"run {run.run_id}: {run.n_expected - run.done} of {run.n_expected} tasks"


def show(belongings: Belongings, console: Console) -> None:
    """Print the study, its runs and what is missing."""
    from reflexion_lab.analysis.report import cells

    study = belongings.study
    console.print(cells.line(f"{study.name}, digest {study.digest}", "bold"))
    for hypothesis in study.hypotheses:
        console.print(cells.line(f"hypothesis: {hypothesis}"))
    effect = f"minimum detectable effect {100 * study.minimum_detectable_effect:.1f} points"
    if study.equivalence_margin:
        effect += f"; equivalence margin {100 * study.equivalence_margin:.1f} points"
    size = f"{study.n_tasks} tasks of {study.benchmark} x seeds {', '.join(map(str, study.seeds))}"
    console.print(cells.line(f"primary metric {study.primary_metric} against {study.baseline}; {size}; {effect}"))
    if belongings.power:
        power = f"power: {cells.rate(belongings.power, 'simulated studies')} detect that effect"
        too_small = f"; REFUSED: {100 * POWER:g} % or more expected, see `reflexion-lab power`"
        console.print(cells.line(power + too_small * belongings.is_too_small, "yellow" * belongings.is_too_small))
    spent, budget = belongings.spent, study.budget
    for unit, used, bound in (("tokens", spent.tokens, budget.tokens), ("calls", spent.calls, budget.calls)):
        if bound:
            over = ": MORE THAN REGISTERED" if used > bound else ""
            console.print(cells.line(f"{unit}: {used:,} of {bound:,}{over}"))
    table = cells.table("Runs", "run", "arm", "seed", "tasks", "belongs to the study", names=2)
    for run in belongings.runs:
        verdict = "; ".join(run.reasons)
        membership = cells.line(f"no, exploratory: {verdict}", "yellow") if verdict else cells.line("yes", "green")
        table.add_row(
            cells.line(run.run_id), cells.line(run.arm), str(run.seed), f"{run.done}/{run.n_expected}", membership
        )
    if belongings.runs:
        console.print(table)
    for text in belongings.missing:
        console.print(cells.line(f"missing: {text}", "yellow"))
    if not belongings.missing:
        console.print("nothing is missing")
