"""Success by trial of agents that try each environment again: the Reflexion paper's ALFWorld, WebShop and HotPotQA.

A log folder of ALFWorld or WebShop holds one file per trial, `env_results_trial_N.json`: a list of `{name, is_success,
...}`, one object per environment. A log of HotPotQA is one text, packed or not: `BEGIN TRIAL N`, a summary, and the
transcripts under `BEGIN CORRECT AGENTS`, `BEGIN INCORRECT AGENTS` and `BEGIN HALTED AGENTS`. Solved environments are
not tried again; later trials repeat their success.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from reflexion_lab.analysis.stats.estimators import Paired, paired
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.leaks import Retries
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.io.files import UNREADABLE, content, unpacked
from reflexion_lab.records import Record

TRIAL = re.compile(r"env_results_trial_(\d+)\.json")
TEXT_TRIAL = re.compile(r"^(?:#+\n)?BEGIN TRIAL (\d{1,4})[ \t]*$", re.MULTILINE)
SECTION = re.compile(r"^-+ BEGIN (CORRECT|INCORRECT|HALTED) AGENTS -+[ \t]*$", re.MULTILINE)
AGENT = re.compile(r"\n\n(?=(?:Question|Context): )")
QUESTION = re.compile(r"^Question: (.*)$", re.MULTILINE)
BEHIND = re.compile(r"You have attempted to answer |\(END OF ")
"""Text that logs put after a question."""
CONTEXT_CHARS = 300
"""Characters of the context that identify a question which the log does not repeat."""


class Environment(msgspec.Struct, frozen=True):
    """Outcome of one environment in one file."""

    name: str
    is_success: bool


class Trials(Record, frozen=True, kw_only=True):
    """One run of an agent."""

    world: str
    """Parent of the log folder: the kind of environment."""
    name: str
    """Name of the log folder."""
    solved: dict[str, tuple[bool, ...]]
    """By environment, whether it was solved by trial 1, 2, ..."""
    retries: tuple[Retries, ...] = ()
    """Retries of each trial but the first; () if transcripts are not recorded."""
    start: int = 1
    """Number of the first recorded trial."""

    @property
    def label(self) -> str:
        return f"{self.world}/{self.name}"

    @property
    def length(self) -> int:
        """Number of trials."""
        return len(next(iter(self.solved.values())))

    @property
    def curve(self) -> list[Rate]:
        """Share of environments solved by each trial, with Wilson interval."""
        return [Rate.of(sum(self.at(t).values()), len(self.solved)) for t in range(1, self.length + 1)]

    @property
    def repeats(self) -> Retries:
        """The retries of all trials."""
        return Retries(n=sum(of.n for of in self.retries), identical=sum(of.identical for of in self.retries))

    def at(self, trial: int) -> dict[str, bool]:
        """By environment, whether it was solved by the 1-based `trial`, or by the last one if that is earlier."""
        return {name: solved[min(trial, len(solved)) - 1] for name, solved in self.solved.items()}


class Pairing(Record, frozen=True, kw_only=True):
    """Two runs on the same environments, at each trial of both."""

    first: str
    second: str
    same_start: bool
    """Whether all outcomes in trial 1 are equal."""
    by_trial: tuple[Paired, ...]
    """The second against the first: `repaired` counts environments solved only by the second."""


def read_trials(folders: Sequence[Path | str]) -> list[Trials]:
    """Every log in or below `folders`, sorted by name; a path may also be a text log itself. Raises ConfigError,
    DataError: there is none; a file is invalid; a trial is missing; the environments of two trials differ; or a solved
    environment is unsolved later.
    """
    trials_read = [trials for folder in folders for trials in _below(Path(folder))]
    if not trials_read:
        raise ConfigError(", ".join(map(str, folders)), "no env_results_trial_N.json", "one per trial")
    return trials_read


def read_text(path: Path) -> Trials:
    """The trials of a text log, as of HotPotQA. Raises DataError: the file has no trials, or the transcripts that it
    counts cannot be told apart.
    """
    data = unpacked(path, content(path, "a text log of trials (.txt, .txt.gz)"))
    text = data.decode(errors="replace").replace("\r\n", "\n")
    parts = TEXT_TRIAL.split(text)[1:]
    if not parts:
        raise DataError(path, "no `BEGIN TRIAL N`", "a text log of trials")
    trials = [_sections(path, int(number), part) for number, part in zip(parts[::2], parts[1::2], strict=True)]
    has_solved: dict[str, list[bool]] = {name: [] for trial in trials for name in trial}
    for trial in trials:
        for name, before in has_solved.items():  # a solved question is not tried again
            before.append(any(before[-1:]) or trial.get(name, ("", False))[1])
    return Trials(
        world=path.resolve().parent.name,
        name=re.sub(r"(\.txt)?(\.gz)?$", "", path.name),
        solved={name: tuple(has) for name, has in has_solved.items()},
        retries=tuple(_retries(before, after) for before, after in itertools.pairwise(trials)),
        start=int(parts[0]),
    )


def _sections(path: Path, number: int, text: str) -> dict[str, tuple[str, bool]]:
    """By question, its transcript in one trial and whether it was solved."""
    parts = SECTION.split(text)
    agents: dict[str, tuple[str, bool]] = {}
    correct = 0
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        blocks = [block.strip() for block in AGENT.split(f"\n\n{body.strip()}") if block.strip()]
        correct += len(blocks) * (section == "CORRECT")
        for block in blocks:
            question, solved = _question(block), section == "CORRECT"
            if agents.setdefault(question, (block, solved))[1] != solved:  # halted and incorrect are one outcome
                got = f"a correct and a failed transcript of {question[:60]!r}"
                raise DataError(f"{path}, trial {number}", got, "one outcome per question")
    counted = re.search(r"Correct: (\d{1,6})\b", parts[0])
    if not agents or (counted and int(counted[1]) != correct):
        got = f"{correct} transcripts of correct agents"
        raise DataError(f"{path}, trial {number}", got, f"{counted[1]}, as its summary says" if counted else "some")
    return agents


def _question(block: str) -> str:
    question = QUESTION.search(block)
    return " ".join((BEHIND.split(question[1])[0] if question else block[:CONTEXT_CHARS]).split())


def _retries(before: dict[str, tuple[str, bool]], after: dict[str, tuple[str, bool]]) -> Retries:
    failed = [name for name, (_, solved) in after.items() if not solved and name in before and not before[name][1]]
    return Retries(n=len(failed), identical=sum(before[name][0] == after[name][0] for name in failed))


def _strategy(run: Trials) -> str:
    """What precedes the arm in a name such as `CoT__no_context__base__100_questions`; "" in other names."""
    return re.split(r"__(?=base|reflexion|last_trial)", run.name)[0] if "__" in run.name else ""


def pairings(trials: Sequence[Trials], baseline: str = "base") -> Iterator[Pairing]:
    """Each run against each run whose name has the part `baseline`, if both have the same world, strategy and
    environments, the same number of the first trial, and more than one trial.
    """
    is_base = re.compile(rf"(?:^|_){re.escape(baseline)}_").search
    for first in (run for run in trials if is_base(f"{run.name}_")):
        for second in (run for run in trials if run.world == first.world and not is_base(f"{run.name}_")):
            same = first.solved.keys() == second.solved.keys() and first.start == second.start
            if same and _strategy(first) == _strategy(second) and min(first.length, second.length) > 1:
                common = range(1, min(first.length, second.length) + 1)
                yield Pairing(
                    first=first.label,
                    second=second.label,
                    same_start=first.at(1) == second.at(1),
                    by_trial=tuple(paired(first.at(t), second.at(t)) for t in common),
                )


def _below(folder: Path) -> Iterator[Trials]:
    if not folder.is_dir():
        yield read_text(folder)
        return
    files: dict[Path, dict[int, Path]] = {}
    for path in folder.rglob("env_results_trial_*.json"):
        if match := TRIAL.fullmatch(path.name):
            files.setdefault(path.parent, {})[int(match[1])] = path
    for place in sorted(files):
        yield _read(place, files[place])


def _read(folder: Path, files: dict[int, Path]) -> Trials:
    if missing := sorted(set(range(max(files) + 1)) - files.keys()):
        raise ConfigError(folder, f"no env_results_trial_{missing[0]}.json", "one for every trial")
    solved: dict[str, list[bool]] = {}
    for trial in range(len(files)):
        path = files[trial]
        outcomes = _outcomes(path)
        if trial and (odd := sorted(outcomes.keys() ^ solved.keys())):
            raise ConfigError(path, f"environment {odd[0]} in one trial alone", "the same in all trials")
        for name, is_success in outcomes.items():
            before = solved.setdefault(name, [])
            if before and before[-1] and not is_success:
                raise ConfigError(path, f"{name} unsolved, which was solved before", "it to stay solved")
            before.append(is_success)
    where = folder.resolve()
    return Trials(world=where.parent.name, name=where.name, solved={name: tuple(has) for name, has in solved.items()})


def _outcomes(path: Path) -> dict[str, bool]:
    try:
        environments = msgspec.json.decode(content(path, "a trial's results"), type=list[Environment])
    except UNREADABLE as problem:
        raise ConfigError(path, problem, "a list of objects with `name` and `is_success`") from None
    outcomes = {environment.name: environment.is_success for environment in environments}
    if len(outcomes) < len(environments) or not outcomes:
        raise ConfigError(path, f"{len(environments)} entries of {len(outcomes)} names", "each once, and one")
    return outcomes
