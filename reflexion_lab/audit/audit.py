"""Audit of logged verdicts: every sample is executed again in its own namespace.

If the verdicts differ, variants of the program are executed to find the cause. Names are found by patterns, since a
hostile program could crash the parser; a missed name only loses an explanation.
"""

from __future__ import annotations

import builtins
import functools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.leaks import Leaks, leaks
from reflexion_lab.audit.samples import IMPORTS, Sample, read_samples
from reflexion_lab.audit.stored_programs import StoredPrograms, counter, never
from reflexion_lab.errors import ConfigError, DataError, HarnessError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import UNKNOWN, Check, Record, Task
from reflexion_lab.tasks.evaluators.unit_tests import run_tests


class Verdict(Record, frozen=True, kw_only=True):
    """The result of one sample."""

    sample: Sample
    passed: bool
    outcome: str
    """One of `OUTCOMES`."""
    detail: str = ""
    """Message of the first failing check; "" for a pass."""
    cause: str = ""
    """Cause of a different verdict in the log, if a variant of the program shows it."""
    in_place: bool = False
    """Whether a check ran in the program's own process, where the program can forge a pass."""
    leaked_from: str = ""
    """Id of the earlier sample that the logged verdict depends on, if known."""

    @property
    def broken(self) -> bool:
        """Whether the harness failed, so there is no verdict."""
        return self.outcome == "harness_error"

    @property
    def is_judged(self) -> bool:
        """False if the harness failed or the log has no test."""
        return self.outcome not in UNKNOWN

    @property
    def differs(self) -> bool:
        return not self.broken and self.sample.logged not in (None, self.passed)


class Audit(Record, frozen=True, kw_only=True):
    """One file, executed again."""

    name: str
    verdicts: tuple[Verdict, ...]
    """In the order of the file."""
    leaks: Leaks
    seconds: float

    @property
    def n(self) -> int:
        return len(self.verdicts)

    @property
    def compared(self) -> int:
        """Samples with both a logged verdict and ours."""
        return len(self._pairs)

    @property
    def _pairs(self) -> list[tuple[bool, bool]]:
        """Logged verdicts and ours."""
        known = [verdict for verdict in self.verdicts if not verdict.broken]
        return [(verdict.sample.logged, verdict.passed) for verdict in known if verdict.sample.logged is not None]

    @property
    def logged_rate(self) -> Rate:
        """Logged passes over all samples with a logged verdict."""
        logged = [verdict.sample.logged for verdict in self.verdicts if verdict.sample.logged is not None]
        return Rate.of(sum(logged), len(logged))

    @property
    def rate(self) -> Rate:
        """Our passes over all samples with a verdict."""
        judged = [verdict.passed for verdict in self.verdicts if verdict.is_judged]
        return Rate.of(sum(judged), len(judged))

    @property
    def disagreements(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.differs]

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


def audit_files(
    paths: Sequence[str], *, attempts: bool = False, limit: int | None = None, workers: int | None = None
) -> list[Audit]:
    """Audits of files or run folders, named by file name, or by path if two names are equal.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as samples; a missing file is reported before any execution.
    """
    for path in paths:
        if not Path(path).exists():
            raise DataError(f"{path}: no such file; expected a .jsonl file, gzipped or not, or a run folder")
    names = Counter(Path(path).name for path in paths)
    audits = (audit(path, attempts=attempts, limit=limit, workers=workers) for path in paths)
    return [replace(a, name=path) if names[a.name] > 1 else a for path, a in zip(paths, audits, strict=True)]


def audit(
    path: Path | str,
    *,
    attempts: bool = False,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Audit:
    """Execute the samples of a file or run folder again; equal programs with equal tests once.

    Parameters
    ----------
    attempts : bool, default False
        Every attempt of a transcript, not only the solution.
    limit : int, optional
        Maximum number of samples; missing rows are still reported for the whole file.

    Raises
    ------
    OSError, ValueError
        The file cannot be read as samples.
    """
    for name, value in (("limit", limit), ("workers", workers)):
        if value is not None and value < 1:
            raise ConfigError(name, value, "at least 1")
    start = time.monotonic()
    samples = read_samples(path, attempts)
    first, name = samples[:limit], Path(path).name
    with StoredPrograms(workers) as programs, counter(name, "sample", len(first), quiet) as bar:
        shared = programs.map(execute, first, key=_key, each=lambda _: bar.update())
        verdicts = [replace(verdict, sample=sample) for sample, verdict in zip(first, shared, strict=True)]
        causes = Causes(first, lambda sample: execute(programs.sandbox, sample))

        def explained(_: object, verdict: Verdict) -> Verdict:
            return causes.explain(verdict) if verdict.differs else verdict

        verdicts = programs.map(explained, verdicts, again=never)
    seconds = time.monotonic() - start
    return Audit(name=name, verdicts=tuple(verdicts), leaks=leaks(samples, attempts), seconds=seconds)


def execute(sandbox: Sandbox, sample: Sample) -> Verdict:
    """The verdict of a sample's own tests on its program."""
    task = Task(task_id=sample.task_id, prompt="", entry_point=sample.entry_point, setup=sample.setup)
    try:
        evaluation = run_tests(sandbox, task, sample.program, sample.tests)
    except HarnessError as problem:
        return Verdict(sample=sample, passed=False, outcome="harness_error", detail=str(problem))
    failures = evaluation.failures
    detail = describe(failures[0]) if failures else "" if evaluation.passed else "the log holds no test"
    in_place = any(check.mode == "in_place" for check in evaluation.checks)
    return Verdict(
        sample=sample, passed=evaluation.passed, outcome=evaluation.outcome, detail=detail, in_place=in_place
    )


def describe(check: Check) -> str:
    """One line on a failing check."""
    if check.outcome == "extraction_failed":
        return "the log holds no program"
    if check.outcome == "fail":
        sides = f"expected {check.expected}, got {check.actual}" if check.expected or check.actual else check.message
        is_new = sides and sides not in check.name  # an assert contains its own message
        return f"{check.name[:150]}: {sides if is_new else 'the assertion is false'}"
    return f"{check.error_type or check.outcome}: {check.message}".removesuffix(": ")


def _key(sample: Sample) -> tuple[object, ...]:
    return sample.program, sample.entry_point, sample.tests, sample.setup


BINDING = re.compile(r"^(?:(?:async )?def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
IMPORTING = re.compile(r"^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(.+)", re.MULTILINE)
MISSING_NAME = re.compile(r"name '(\w+)' is not defined")

REPLAY = """for _source in {sources!r}:
    try:
        exec(_source, globals())
    except BaseException:
        pass
"""
"""Executes earlier programs in the namespace of the next one, like a harness with a shared namespace."""


class Causes:
    """Causes of verdicts that differ from the log; `run` executes a sample."""

    def __init__(self, samples: Sequence[Sample], run: Callable[[Sample], Verdict]) -> None:
        self.samples = samples
        self.run = run
        self._place = {sample.id: place for place, sample in enumerate(samples)}

    def explain(self, verdict: Verdict) -> Verdict:
        """The same verdict with its cause."""
        return self._passes_alone(verdict) if verdict.passed else self._fails_alone(verdict)

    def _passes_alone(self, verdict: Verdict) -> Verdict:
        """Logged as failed: execute it after earlier programs that replace builtins it uses."""
        sample = verdict.sample
        if not sample.program.strip():
            return verdict
        culprits = self._binders(sample, _words(sample.program) & set(dir(builtins)))
        if culprits and not (shared := self.run(_after(culprits.values(), sample))).passed:
            cause = f"passes alone; fails once {_names(culprits)} shares the namespace ({shared.detail})"
            return replace(verdict, cause=cause, leaked_from=next(iter(culprits.values())).id)
        return replace(verdict, cause="passes alone; nothing in this log explains the logged failure")

    def _fails_alone(self, verdict: Verdict) -> Verdict:
        """Logged as passed: execute it with the usual imports, behind its prompt, and after earlier programs."""
        sample = verdict.sample
        if not sample.program.strip():
            return replace(verdict, cause="logged as solved without a stored program")
        if verdict.outcome == "no_tests":
            return replace(verdict, cause="the log holds no test for it")
        if not (missing := MISSING_NAME.search(verdict.detail)):
            return verdict
        variants = []
        if self.run(replace(sample, program=IMPORTS + sample.program)).passed:
            variants.append("passes with the usual imports")
        behind_prompt = replace(sample, program=f"{sample.prompt}\n{sample.program}")
        if sample.prompt not in sample.program and self.run(behind_prompt).passed:
            variants.append("passes behind its prompt")
        culprits = self._binders(sample, _words(sample.program) | {sample.entry_point})
        source = culprits.get(missing[1])
        if source and self.run(_after(culprits.values(), sample)).passed:
            variants.append(f"passes once {_names({missing[1]: source})} shares the namespace")
            verdict = replace(verdict, leaked_from=source.id)
        return replace(verdict, cause="; ".join(variants))

    def _binders(self, sample: Sample, names: Iterable[str]) -> dict[str, Sample]:
        """By name, the last earlier sample of the run that binds it, for names that the sample does not bind itself."""
        free = set(names) - _bound(sample.program)
        binders: dict[str, Sample] = {}
        for other in self.samples[: self._place[sample.id]]:
            if other.run == sample.run:
                binders |= dict.fromkeys(_bound(other.program) & free, other)
        return dict(sorted(binders.items(), key=lambda pair: self._place[pair[1].id]))


def _after(earlier: Iterable[Sample], sample: Sample) -> Sample:
    sources = list(dict.fromkeys(other.program for other in earlier))
    return replace(sample, program=REPLAY.format(sources=[*sources, sample.program]))


def _names(culprits: dict[str, Sample]) -> str:
    return " and ".join(f"`{name}` of {sample.id}" for name, sample in sorted(culprits.items()))


def _words(program: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", program))


@functools.lru_cache(maxsize=4096)
def _bound(program: str) -> frozenset[str]:
    """Names that a program binds at its top level."""
    names = {name for pair in BINDING.findall(program) for name in pair if name}
    for listed in IMPORTING.findall(program):
        for part in re.sub(r"[()\\]|#.*", " ", listed).split(","):
            if words := part.split():
                names.add(words[-1].split(".")[0])
    return frozenset(names)
