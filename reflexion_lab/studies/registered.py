"""Registered studies: registration of composed configs, the study's runs, and what deviates or is missing."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from reflexion_lab.analysis import shards
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.stats.power import POWER, Design, detected, equivalent, too_few
from reflexion_lab.analysis.summary import summary
from reflexion_lab.errors import ConfigError, DataError, Unanswered
from reflexion_lab.io.secrets import without_secrets
from reflexion_lab.records import Manifest, Usage
from reflexion_lab.runner.config.assemble import manifest_of
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import Cell, lines
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import folders, readable
from reflexion_lab.runner.folder.manifest import named
from reflexion_lab.runner.folder.registration import Registration
from reflexion_lab.studies.sweeps.sweep import Sweep

STAMP = ".tsr"
"""Suffix of a time stamp (RFC 3161) beside the study's file."""


class Membership(NamedTuple):
    run_id: str
    arm: str
    """Registered name of the arm; without one, that of its config."""
    seed: int
    done: int
    """Finished tasks."""
    n_expected: int
    usage: Usage
    deviations: tuple[str, ...]
    """() if the run belongs to the study."""


class Status(NamedTuple):
    study: Registration
    runs: tuple[Membership, ...]
    missing: tuple[str, ...]
    """Registered arms, seeds and tasks without a run, a sentence each."""
    power: Rate | None
    """How many simulated studies of this design detect the registered effect; None where its discordance is unknown."""
    evidence: tuple[str, ...]
    """Evidence of the date since which the file has not changed: a commit, tags, a time stamp."""

    @property
    def is_too_small(self) -> bool:
        """Whether the design detects the registered effect less often than four times in five."""
        return self.power is not None and self.power.share < POWER

    @property
    def spent(self) -> Usage:
        """Usage of the runs that belong to it; cached calls count again."""
        return sum((run.usage for run in self.runs if not run.deviations), Usage())


def status(path: Path, runs: Sequence[Path]) -> Status:
    """Raises ValueError: the study or a run cannot be read."""
    study = registration.read(path)
    members = []
    for log in readable(shards.grouped(folders(*runs)), shards.read):
        manifest = log.manifest
        member = Membership(
            run_id=manifest.run_id,
            arm=study.arm_of(manifest) or str(manifest.config.get("arm")),
            seed=manifest.seed,
            done=len(log.results),
            n_expected=manifest.n_expected,
            usage=sum(summary(log).usage.values(), Usage()),
            deviations=tuple(registration.deviations(study, manifest)),
        )
        members.append(member)
    return Status(study, tuple(members), tuple(_missing(study, members)), power(study), tuple(_evidence(path)))


def power(study: Registration) -> Rate | None:
    """How many simulated studies of this design detect the registered effect; None where its discordance is unknown."""
    return detected(_design(study, study.minimum_detectable_effect)) if study.discordance else None


def within_margin(study: Registration) -> Rate | None:
    """How many of them show a true difference of 0 to lie within the registered margin; None without one."""
    has_margin = bool(study.discordance and study.equivalence_margin)
    return equivalent(_design(study, 0.0), study.equivalence_margin) if has_margin else None


def _design(study: Registration, difference: float) -> Design:
    return Design(
        tasks=study.n_tasks,
        seeds=len(study.seeds),
        discordance=study.discordance,
        agreement=study.agreement,
        difference=difference,
        comparisons=max(len(study.arms) - 1, 1),
        clusters=study.clusters,
        cluster_agreement=study.cluster_agreement,
    )


def register(path: Path) -> Registration:
    """Compose the config of every arm at every seed, and append it to the study at `path`.

    Raises DataError: the study is registered already, or states no discordance; the
    design is too small for its effect, or an arm has other tasks than the study; ConfigError: an override is invalid.
    """
    study = registration.read(path)
    if study.registered:
        raise registration.registered_already(path, study.registered)
    share = power(study)
    if share is None:
        raise DataError("discordance", 0, "the share of cases that only one arm solves, from a pilot")
    if share.share < POWER:
        effect = f"{100 * study.minimum_detectable_effect:g} points"
        got = f"a design that detects {effect} in {100 * share.share:.0f} % of simulated studies"
        if why := too_few(study.clusters or study.n_tasks, study.n_tasks, max(len(study.arms) - 1, 1)):
            got += f" ({why})"
        raise DataError("n_tasks", got, f"{100 * POWER:g} % or more", "see `reflexion-lab power`")
    manifests = {arm: [_manifest(study, arm, seed, cell) for seed, cell in _cells(study, arm)] for arm in study.arms}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return registration.register(path, registration.section(manifests, at=at, power=share.share))


def sweep_of(path: Path, overrides: Sequence[str] = ()) -> Sweep:
    """The sweep over all arms and seeds of a registered study; `overrides` apply to all runs.

    Raises DataError: the study is not registered.
    """
    study = registration.read(path)
    if not study.registered:
        raise DataError(f"study: {path}", "no registered configs", "a registered study", "reflexion-lab study register")
    name = f"{named(study.name)}-{study.digest[:8]}"
    cells = cells_of(study, [*overrides, *lines({"study": str(path)})])
    return Sweep([cell._replace(number=number) for number, cell in enumerate(cells)], name)


def cells_of(study: Registration, overrides: Sequence[str] = ()) -> list[Cell]:
    """The cells of all arms and seeds of a study, registered or not."""
    return [cell for arm in study.arms for _, cell in _cells(study, arm, *overrides)]


def _cells(study: Registration, arm: str, *more: str) -> Iterator[tuple[int, Cell]]:
    words = [*shlex.split(study.shared), *shlex.split(study.arms[arm]), *more]
    if seeds := [word for word in words if word.startswith("seed=")]:
        raise DataError(f"arms.{arm}", seeds[0], "no seed: the field `seeds` has them")
    for seed in study.seeds:
        overrides = (*words, f"seed={seed}")
        yield seed, Cell.of(0, overrides, compose(*overrides))


def _manifest(study: Registration, arm: str, seed: int, cell: Cell) -> Manifest:
    """The manifest that a run of this cell would have."""
    try:
        manifest = manifest_of(cell.cfg)
    except Unanswered as problem:
        if problem.outcome != "key_refused":
            raise
        text = f"{problem}: the model is registered by its address and name, without asking the server"
        warnings.warn(text, stacklevel=2)
        manifest = manifest_of(cell.cfg, is_asked=False)
    except ConfigError as problem:
        problem.add_note(f"in arm {arm}, seed {seed}")
        raise
    for field, got in (("benchmark", manifest.benchmark), ("n_tasks", manifest.n_expected)):
        if got != (expected := getattr(study, field)):
            raise DataError(f"arms.{arm}: {field}", got, str(expected), "change the study or the override")
    return manifest


def _missing(study: Registration, runs: Sequence[Membership]) -> Iterator[str]:
    mine = [run for run in runs if not run.deviations]
    for arm in study.arms:
        seeds = [run.seed for run in mine if run.arm == arm]
        if missing := sorted(set(study.seeds) - set(seeds)):
            yield f"arm {arm}: no run of seed {', '.join(map(str, missing))}"
        for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            yield f"arm {arm}: {seeds.count(seed)} runs of seed {seed}, expected one"
    for run in mine:
        if run.done < run.n_expected:
            yield f"run {run.run_id}: {run.n_expected - run.done} of {run.n_expected} tasks"


def _evidence(path: Path) -> Iterator[str]:
    """Commit and tags of the file as it is, and a time stamp over its content, if there are any."""
    blob = _git(path, "hash-object", path.name)  # a file keeps its date when it moves
    commits = _git(path, "log", "-m", "--format=%h, %cI", f"--find-object={blob}")
    if commit := (commits or _git(path, "log", "-1", "--format=%h, %cI", "--", path.name)).rpartition("\n")[2]:
        if _git(path, "status", "--porcelain", "--", path.name):
            yield f"its last commit is {commit}; it was changed since"
        else:
            tags = _git(path, "tag", "--contains", commit.partition(",")[0], "--sort=creatordate").splitlines()
            yield f"committed {commit}{f'; tag {tags[0]}' if tags else ''}"
    stamp = path.with_name(path.name + STAMP)
    if stamp.is_file():
        is_of_it = hashlib.sha256(path.read_bytes()).digest() in stamp.read_bytes()
        verify = f"`openssl ts -verify -data {path.name} -in {stamp.name} -CAfile …` checks who signed it"
        yield f"time stamp {stamp.name}: {f'of this file; {verify}' if is_of_it else 'OF ANOTHER FILE'}"


def _git(path: Path, *words: str) -> str:
    """Output of a git command in the folder of `path`; "" outside of a repository."""
    command = ["git", "-C", str(path.resolve().parent), *words]
    try:
        done = subprocess.run(command, env=without_secrets(), capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _power_lines(state: Status) -> Iterator[tuple[str, bool]]:
    """How often the design shows its effect, and equivalence; and whether that is too seldom."""
    if inside := within_margin(state.study):
        text = f"margin: {cells.rate(inside, 'simulated studies')} show a true difference of 0 to lie within it"
        yield text, inside.share < POWER
    if state.power:
        text = f"power: {cells.rate(state.power, 'simulated studies')} detect that effect"
        too_small = f"; REFUSED: {100 * POWER:g} % or more expected, see `reflexion-lab power`"
        yield text + too_small * state.is_too_small, state.is_too_small


def show(state: Status) -> None:
    """Print the study, its runs and what is missing."""
    console = Console()
    study = state.study
    exploratory = [run for run in state.runs if run.deviations]
    registered_runs = [run for run in state.runs if not run.deviations]
    parts = [f"{len(registered_runs)} registered and {len(exploratory)} exploratory runs"] * bool(state.runs)
    parts.append(f"{len(state.missing)} missing" if state.missing else "nothing is missing")
    console.print(cells.line(f"{study.name}, digest {study.digest}: {', '.join(parts)}", "bold"))
    for hypothesis in study.hypotheses:
        console.print(cells.line(f"hypothesis: {hypothesis}"))
    effect = f"minimum detectable effect {100 * study.minimum_detectable_effect:.1f} points"
    if study.equivalence_margin:
        effect += f"; equivalence margin {100 * study.equivalence_margin:.1f} points"
    size = f"{study.n_tasks} tasks of {study.benchmark} x seeds {', '.join(map(str, study.seeds))}"
    console.print(cells.line(f"primary metric {study.primary_metric} against {study.baseline}; {size}; {effect}"))
    if study.registered:
        console.print(cells.line(f"configs of {len(study.arms)} arms registered at {study.registered.at}"))
    else:
        console.print(cells.line("NO CONFIG IS REGISTERED: every run is exploratory (`study register`)", "yellow"))
    for line in state.evidence:
        console.print(cells.line(line))
    for line, is_low in _power_lines(state):
        console.print(cells.line(line, "yellow" * is_low))
    spent, budget = state.spent, study.budget
    for unit, used, bound in (("tokens", spent.tokens, budget.tokens), ("calls", spent.calls, budget.calls)):
        if bound:
            over = ": MORE THAN REGISTERED" if used > bound else ""
            console.print(cells.line(f"{unit}: {used:,} of {bound:,}{over}"))
    for arm in dict.fromkeys(run.arm for run in registered_runs):
        seeds = sorted(run.seed for run in registered_runs if run.arm == arm)
        console.print(cells.line(f"registered: {arm}, seed {', '.join(map(str, seeds))}"))
    for run in exploratory:
        console.print(cells.line(f"EXPLORATORY: {run.run_id}", "yellow"))
        for deviation in run.deviations:
            console.print(cells.line(f"  {deviation}"))
    for text in state.missing:
        console.print(cells.line(f"missing: {text}", "yellow"))
