"""Audit of logged verdicts: every sample is executed again in its own namespace, and differences are explained."""

from __future__ import annotations

import functools
import re
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.analysis.stats.bootstrap import interval, rate
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.estimators import Confusion, confusion
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.audit.causes import Causes, Explained, from_other_logs, self_grading
from reflexion_lab.audit.leaks import Leaks, leaks
from reflexion_lab.audit.outcomes import Outcomes, read_outcomes
from reflexion_lab.audit.samples import Sample, is_original, judged, read_samples
from reflexion_lab.audit.self_graded import SelfGraded
from reflexion_lab.audit.stored_programs import StoredPrograms, counter, never
from reflexion_lab.audit.verdicts import Verdict, execute
from reflexion_lab.errors import ConfigError, DataError, HarnessError, LabError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Record, Task
from reflexion_lab.tasks.benchmarks.vacuous import vacuous
from reflexion_lab.tasks.sandbox.sandbox import Limits
from reflexion_lab.text.replies.syntax import Parser

LONG = Limits(wall_seconds=300.0, cpu_seconds=120)
"""Limits of the third execution of a time-out that its log counts as a pass."""
UNORDERED = re.compile(r"set\b|hash\b|\{")
"""Programs whose results may depend on the order of a set."""
LONG_RUNS = 5
"""Maximum number of such executions per log."""


class Audit(Record, frozen=True, kw_only=True):
    """One file, executed again."""

    name: str
    verdicts: tuple[Verdict, ...]
    """In the order of the file."""
    leaks: Leaks
    seconds: float
    vacuous: dict[str, str] = {}  # noqa: RUF012 (msgspec copies it)
    """Samples whose tests check nothing, by id, with the reason."""
    self_graded: tuple[SelfGraded, ...] = ()
    """Rules other than the hidden tests from which logged verdicts follow."""

    @property
    def n(self) -> int:
        return len(self.verdicts)

    @property
    def compared(self) -> int:
        """Samples with both a logged verdict and ours; without a test only a logged pass counts, which differs."""
        return len(self._pairs)

    @property
    def _pairs(self) -> list[tuple[bool, bool]]:
        return [(v.sample.logged, v.passed) for v in self.verdicts if v.is_compared and v.sample.logged is not None]

    @property
    def logged_rate(self) -> Rate:
        """Logged passes over all samples with a logged verdict."""
        return rate((verdict.sample.task_id, verdict.sample.logged) for verdict in self.verdicts)

    @property
    def rate(self) -> Rate:
        """Our passes over all samples with a verdict."""
        return rate((verdict.sample.task_id, verdict.passed) for verdict in self.verdicts if verdict.is_judged)

    @property
    def disagreements(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.differs]

    @property
    def causes(self) -> Counter[str]:
        """Disagreements by cause; "" for those without one."""
        return Counter(verdict.cause for verdict in self.disagreements)

    @property
    def visible(self) -> Confusion:
        """Verdicts of feedback tests, such as self-written suites, beside those of the hidden tests."""
        judged = ((v.sample, v.passed if v.is_judged else None) for v in self.verdicts)
        return confusion((sample.task_id, sample.visible_passed, passed) for sample, passed in judged)

    @property
    def agree(self) -> int:
        return self.compared - len(self.disagreements)

    @property
    def kappa(self) -> float | None:
        """Agreement beyond chance, in [-1, 1] (Cohen 1960, Educational and Psychological Measurement 20:37-46).

        None if all logged verdicts and ours are equal, when agreement by chance is certain.
        """
        from sklearn.metrics import cohen_kappa_score  # imports for two seconds

        pairs = self._pairs
        if len({label for pair in pairs for label in pair}) < 2:
            return None
        return float(cohen_kappa_score(*zip(*pairs, strict=True)))

    @property
    def harness_errors(self) -> int:
        return sum(verdict.broken for verdict in self.verdicts)


class Unread(NamedTuple):
    """A file that could not be read as samples."""

    name: str
    problem: str


def agreement(audits: Sequence[Audit]) -> Estimate:
    """Share of logged verdicts that hold, its interval clustered by task. Raises ConfigError: no logged verdict."""
    verdicts = (verdict for audit in audits for verdict in audit.verdicts if verdict.is_compared)
    return interval(by_cluster(((verdict.sample.task_id, not verdict.differs) for verdict in verdicts), ALONE))


class Audited(NamedTuple):
    """Logs by what could be read of them."""

    audits: list[Audit]
    outcomes: list[Outcomes]
    """Logs without programs."""
    unread: list[Unread]


def audit_files(
    paths: Sequence[str],
    *,
    attempts: bool = False,
    limit: int | None = None,
    workers: int | None = None,
    tasks: Sequence[Task] = (),
) -> Audited:
    """Audits of files or run folders, by file name, or path if two are equal. `tasks`: as in `read_samples`.

    All files are read before any program is executed, so that a bad one costs no time and no other file. Raises
    DataError: a file is missing, or none can be read.
    """
    _check_limits(limit=limit, workers=workers)
    for path in paths:
        if not Path(path).exists():
            raise DataError(f"{path}: no such file; expected a .jsonl file, gzipped or not, or a run folder")
    names = Counter(Path(path).name for path in paths)
    readable: list[tuple[str, list[Sample]]] = []
    outcomes: list[Outcomes] = []
    unread: list[Unread] = []
    for path in paths:
        name = path if names[Path(path).name] > 1 else Path(path).name
        try:
            readable.append((name, read_samples(path, attempts, tasks)))
            if path.endswith(".json") and all(map(is_original, tasks)):  # of evalplus, whose base tests are executed
                outcomes += [log for log in read_outcomes(path) if log.metric == "plus"]
        except LabError as not_samples:
            problem, known = not_samples, []
            try:
                known = read_outcomes(path)
            except LabError as not_outcomes:
                problem = not_outcomes
            if known and path.endswith(".json") and known[0].format == "evalplus":
                warnings.warn(f"{name}: not executed: {not_samples}", stacklevel=2)
            if not known and len(paths) == 1:
                raise problem from None
            outcomes += known
            unread += [] if known else [Unread(name, str(problem))]
    if not readable and not outcomes:
        raise DataError(unread[0].problem, hint=f"none of the {len(paths)} files could be read")
    audits = [_audit(name, samples, attempts, limit, workers, quiet=False) for name, samples in readable]
    explained = from_other_logs([audit.verdicts for audit in audits])
    pairs = zip(audits, explained, strict=True)
    return Audited([replace(audit, verdicts=tuple(verdicts)) for audit, verdicts in pairs], outcomes, unread)


def audit(
    path: Path | str,
    *,
    attempts: bool = False,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Audit:
    """Execute the samples of a file or run folder again; equal programs with equal tests once.

    Raises OSError, ValueError: the file cannot be read as samples. `attempts`: every attempt of a transcript, not only
    the solution. `limit`: maximum number of samples; missing rows are still reported for the whole file.
    """
    _check_limits(limit=limit, workers=workers)
    return _audit(Path(path).name, read_samples(path, attempts), attempts, limit, workers, quiet)


def _check_limits(**limits: int | None) -> None:
    for name, value in limits.items():
        if value is not None and value < 1:
            raise ConfigError(name, value, "at least 1")


def _audit(
    name: str, samples: list[Sample], attempts: bool, limit: int | None, workers: int | None, quiet: bool
) -> Audit:
    start = time.monotonic()
    first = samples[:limit]
    with StoredPrograms(workers) as programs, counter(name, "sample", len(first), quiet) as bar:
        shared = programs.map(execute, first, key=_key, each=lambda _: bar.update())
        suites = programs.map(
            _visible_passed, first, key=lambda sample: (_key(sample), sample.feedback, sample.visible_passed)
        )
        verdicts = [
            replace(verdict, sample=replace(sample, visible_passed=suite.passed))
            for sample, verdict, suite in zip(first, shared, suites, strict=True)
        ]
        empty = _vacuous(programs, verdicts)
        causes = Causes(first)

        def explained(sandbox: Sandbox, verdict: Verdict) -> Explained:
            return causes.explain(functools.partial(execute, sandbox), verdict)

        differing = [verdict for verdict in verdicts if verdict.differs]
        by_id = {e.verdict.sample.id: e.verdict for e in programs.map(explained, differing)}
        verdicts = [by_id.get(verdict.sample.id, verdict) for verdict in verdicts]
    verdicts = [
        replace(verdict, cause="no_check", evidence=empty[verdict.sample.id])
        if verdict.passed and verdict.differs and not verdict.cause and verdict.sample.id in empty
        else verdict
        for verdict in _with_other_hashes(_with_more_time(verdicts))
    ]
    verdicts, rules = self_grading(verdicts)
    return Audit(
        name=name,
        verdicts=tuple(verdicts),
        leaks=leaks(samples, attempts),
        seconds=time.monotonic() - start,
        vacuous=empty,
        self_graded=tuple(rules),
    )


def _vacuous(programs: StoredPrograms, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Samples whose tests check nothing; a program that passes them stands for the canonical solution."""
    right = {_key(verdict.sample)[1:]: verdict.sample.program for verdict in verdicts if verdict.passed}

    def why(sandbox: Sandbox, sample: Sample) -> str:
        solution = right.get(_key(sample)[1:], "")
        setup = sample.setup or sample.helpers
        try:
            return vacuous(judged(sample, setup, solution), sample.tests, sandbox)
        except HarnessError:
            return ""

    samples = [verdict.sample for verdict in verdicts]
    reasons = programs.map(why, samples, key=lambda sample: _key(sample)[1:], again=never)
    return {sample.id: reason for sample, reason in zip(samples, reasons, strict=True) if reason}


def _with_other_hashes(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts; those without a cause run in processes that order sets in other ways."""
    for seed in range(1, 9):
        late = [
            v
            for v in verdicts
            if v.differs and not v.cause and v.outcome != "timeout" and UNORDERED.search(v.sample.program)
        ]
        if not late:
            break
        with StoredPrograms(workers=1, hash_seed=seed) as programs:
            runs = programs.map(lambda sandbox, verdict: execute(sandbox, verdict.sample), late, again=never)
        judged = [(v, run) for v, run in zip(late, runs, strict=True) if not run.broken and run.outcome != "timeout"]
        other = {v.sample.id for v, run in judged if run.passed != v.passed}
        text = f"has the other verdict if PYTHONHASHSEED is {seed}, which orders its sets"
        verdicts = [replace(v, cause="unstable", evidence=text) if v.sample.id in other else v for v in verdicts]
    return list(verdicts)


def _with_more_time(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts; the first `LONG_RUNS` time-outs that are logged as passed and have no cause run with `LONG`."""
    late = [verdict for verdict in verdicts if verdict.differs and verdict.outcome == "timeout" and not verdict.cause]
    if not late:
        return list(verdicts)
    with StoredPrograms(workers=1, limits=LONG) as programs:
        runs = programs.map(lambda sandbox, verdict: execute(sandbox, verdict.sample), late[:LONG_RUNS], again=never)
    evidence = {run.sample.id: f"passes after {run.seconds:.0f} s" for run in runs if run.passed}
    unknown = {verdict.sample.id for verdict in late} - {run.sample.id for run in runs if not run.broken}
    return [
        replace(verdict, cause="slow", evidence=text)
        if (text := evidence.get(verdict.sample.id))
        else replace(verdict, is_searched=verdict.is_searched and verdict.sample.id not in unknown)
        for verdict in verdicts
    ]


class _Suite(NamedTuple):
    passed: bool | None
    """None: there are none, or one is not Python, such as a test that the log cut off."""
    outcome: str


def _visible_passed(sandbox: Sandbox, sample: Sample) -> _Suite:
    """The recorded verdict, else that of the feedback tests, executed."""
    if sample.visible_passed is not None or not sample.feedback or not sample.program.strip():
        return _Suite(sample.visible_passed, "")
    if any(Parser().parse(test) is None for test in sample.feedback):
        return _Suite(None, "")
    verdict = execute(sandbox, replace(sample, tests=sample.feedback))
    return _Suite(None if verdict.broken else verdict.passed, verdict.outcome)


def _key(sample: Sample) -> tuple[object, ...]:
    terms = repr((sample.kind, sample.data, sample.requires))
    return sample.program, sample.entry_point, sample.tests, sample.setup, sample.helpers, terms
