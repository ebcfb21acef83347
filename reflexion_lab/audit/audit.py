"""Other people's verdicts beside ours: every sample is executed again, each in a namespace of its own."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.causes import Causes
from reflexion_lab.audit.leaks import Leaks, leaks
from reflexion_lab.audit.samples import Sample, read_samples
from reflexion_lab.errors import ConfigError, DataError, HarnessError
from reflexion_lab.records import UNKNOWN, Check, Record, Task
from reflexion_lab.runner.progress import in_notebook
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

LIMITS = Limits(wall_seconds=5.0, cpu_seconds=5)
"""What published verdicts were given, or more."""
PATIENT = Limits(wall_seconds=30.0, cpu_seconds=10)
"""For programs that the log saw pass and that time out here, maybe on a slower or busier machine: once more, alone."""


class Verdict(Record, frozen=True, kw_only=True):
    """What came of one sample."""

    sample: Sample
    passed: bool
    outcome: str
    """One of `OUTCOMES`."""
    detail: str = ""
    """What the first failing check said; "" for a pass."""
    cause: str = ""
    """Why the log says otherwise, as far as executing variants can tell; "" where it agrees or says nothing."""
    in_place: bool = False
    """Whether a check was judged in the program's own process, where it can forge a pass."""
    leaked_from: str = ""
    """Id of the earlier sample whose names the logged verdict needs, if that was shown."""

    @property
    def broken(self) -> bool:
        """No verdict at all: the harness failed."""
        return self.outcome == "harness_error"

    @property
    def is_judged(self) -> bool:
        """False where the harness failed, or the log holds no test."""
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
        return sum(verdict.sample.logged is not None and not verdict.broken for verdict in self.verdicts)

    @property
    def logged_pass(self) -> int:
        return sum(verdict.sample.logged is True for verdict in self.verdicts)

    @property
    def logged_rate(self) -> Rate:
        return Rate.of(self.logged_pass, sum(verdict.sample.logged is not None for verdict in self.verdicts))

    @property
    def rate(self) -> Rate:
        """Passes over all samples but those without a verdict."""
        judged = [verdict.passed for verdict in self.verdicts if verdict.is_judged]
        return Rate.of(sum(judged), len(judged))

    @property
    def disagreements(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.differs]

    @property
    def agree(self) -> int:
        return self.compared - len(self.disagreements)

    @property
    def harness_errors(self) -> int:
        return sum(verdict.broken for verdict in self.verdicts)


def audit_files(
    paths: Sequence[str], *, attempts: bool = False, limit: int | None = None, workers: int | None = None
) -> list[Audit]:
    """Each file or run folder in turn, named as a file, or by its whole path where two have one name.

    Raises:
        OSError, ValueError: a file cannot be read as samples; that one is absent shows before any is executed.
    """
    for path in paths:
        if not Path(path).exists():
            expected = "expected a .jsonl file, gzipped or not, or a run folder"
            raise DataError(f"{path}: no such file; {expected}")
    names = Counter(Path(path).name for path in paths)
    found = (audit(path, attempts=attempts, limit=limit, workers=workers) for path in paths)
    return [replace(one, name=path) if names[one.name] > 1 else one for path, one in zip(paths, found, strict=True)]


def audit(
    path: Path | str,
    *,
    attempts: bool = False,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Audit:
    """Execute the samples of a file or run folder again.

    Equal programs with equal tests are executed once. `attempts`: every attempt of a transcript, not only the solution.
    `limit`: only the first so many samples; what rows are missing is still told of the whole file.

    Raises:
        OSError, ValueError: the file cannot be read as samples.
    """
    for name, value in (("limit", limit), ("workers", workers)):
        if value is not None and value < 1:
            raise ConfigError(name, value, "at least 1")
    start, workers = time.monotonic(), workers or cpu_count() or 1
    samples = read_samples(path, attempts)
    chosen = samples[:limit]
    with Sandbox(LIMITS, servers=workers) as sandbox, ThreadPoolExecutor(workers) as pool:

        def run(sample: Sample) -> Verdict:
            return execute(sandbox, sample)

        verdicts = list(_all(chosen, lambda distinct: pool.map(run, distinct), Path(path).name, quiet))
        verdicts = _patiently(verdicts)
        causes = Causes(chosen, run)
        told = list(pool.map(lambda verdict: causes.tell(verdict) if verdict.differs else verdict, verdicts))
    seconds = time.monotonic() - start
    return Audit(name=Path(path).name, verdicts=tuple(told), leaks=leaks(samples, attempts), seconds=seconds)


def execute(sandbox: Sandbox, sample: Sample) -> Verdict:
    """The verdict of a sample's own tests on its program, and nothing else."""
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


def _patiently(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Believes no time-out that the log contradicts before another, longer try."""
    with Sandbox(PATIENT, servers=1) as alone:
        return [
            execute(alone, verdict.sample) if verdict.differs and verdict.outcome == "timeout" else verdict
            for verdict in verdicts
        ]


def describe(check: Check) -> str:
    """One failing check in one line."""
    if check.outcome == "extraction_failed":
        return "the log holds no program"
    if check.outcome == "fail":
        sides = f"expected {check.expected}, got {check.actual}" if check.expected or check.actual else check.message
        told = sides and sides not in check.name  # an assert's own message stands in it
        return f"{check.name[:150]}: {sides if told else 'the assertion is false'}"
    return f"{check.error_type or check.outcome}: {check.message}".removesuffix(": ")


def _all(
    samples: Sequence[Sample], run: Callable[[Iterable[Sample]], Iterable[Verdict]], name: str, quiet: bool
) -> Iterator[Verdict]:
    """One verdict per sample; equal ones are executed once, and counted on a bar."""
    from tqdm.auto import tqdm

    count = Counter(map(_key, samples))
    distinct = {_key(sample): sample for sample in samples}
    found: dict[tuple[object, ...], Verdict] = {}
    hidden = quiet or not (sys.stderr.isatty() or in_notebook())
    with tqdm(total=len(samples), desc=name, unit="sample", disable=hidden, dynamic_ncols=True, leave=False) as bar:
        for key, verdict in zip(distinct, run(distinct.values()), strict=True):
            found[key] = verdict
            bar.update(count[key])
    return (replace(found[_key(sample)], sample=sample) for sample in samples)


def _key(sample: Sample) -> tuple[object, ...]:
    return sample.program, sample.entry_point, sample.tests, sample.setup
