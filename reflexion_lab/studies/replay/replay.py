"""Replays: a run executed again from its recorded calls, offline and without keys, and compared with the record."""

from __future__ import annotations

import copy
import functools
import platform
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, bare, canonical_form, differences, figures, summary
from reflexion_lab.errors import ConfigError, FolderError, ModelError
from reflexion_lab.io.files import Scratch
from reflexion_lab.records import Attempt, Manifest
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import has_durable_store
from reflexion_lab.runner.config.choices import CONF
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import fingerprints, same_tasks
from reflexion_lab.runner.folder.registration import REPLAY_EMBEDDER, REPLAY_MODEL, REPLAY_STORE
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import CALLS, VECTORS, About, BundleError, as_file
from reflexion_lab.studies.replay.findings import Disagreement, Finding, Verification, equal, equal_items, unlike

NO_TRACKER = "reflexion_lab.studies.tracking.null.NullTracker"
RECORDS = {
    "attempts": "attempts",
    "submissions": "result",
    "hidden verdicts": "grades",
    "tests by the model": "written_tests",
    "their verdicts": "suite_verdict",
}
MEMORY = "memory at the start"
OPERATIONS = "operations"


class Supplies(NamedTuple):
    calls: Path
    """A call-cache file."""
    contexts: Mapping[str, int]
    """Context size in tokens, by role."""
    embeddings: Path
    """An embedding-cache file; opened only by runs that embed."""
    embedder: str
    """Fingerprint of the embedder; "" for the only one in the file."""
    memory: Path
    """A JSONL store; runs with a durable store read it and append to it."""
    data: str | None
    """The benchmark's file, if it has one."""
    pool: tuple[str, ...]
    """Run folders that reflections are drawn from."""
    study: str | None
    recorded: Path
    """The run itself, which has the items of memory at its start."""


class Rerun(NamedTuple):
    folder: RunFolder
    problem: ModelError | None
    """A call that is not recorded: the replay took another course and ended there."""


def rerun(
    manifest: Manifest, supplies: Supplies, folder: Path, run_root: Path | None = None, trusted: Sequence[str] = ()
) -> Rerun:
    """Run the config of `manifest` again, with new caches in `folder`: afterwards `calls.sqlite` there has exactly the
    calls of the replay. Its run folder is below `run_root`, by default below `folder`.

    Raises ConfigError: unknown parts in the config, or another benchmark here; HarnessError: the sandbox is broken.
    """
    check_parts(manifest.config, trusted)
    with warnings.catch_warnings():  # the study names the original models, not their recorded calls
        warnings.filterwarnings("ignore", ".*the run is exploratory", RuntimeWarning)
        lab = assemble(config_of(manifest, supplies, folder, run_root or folder))
    try:
        lab.runner.run()
    except ModelError as problem:
        return Rerun(lab.folder, problem)
    finally:
        lab.close()
    return Rerun(lab.folder, None)


def config_of(manifest: Manifest, supplies: Supplies, folder: Path, run_root: Path) -> dict[str, Any]:
    """The config of a run with models, paths and data replaced by recorded ones."""
    config: dict[str, Any] = copy.deepcopy(manifest.config)
    nodes = {
        role: {
            "_target_": REPLAY_MODEL,
            "path": str(supplies.calls),
            "fingerprint": name,
            "slots": manifest.slots,
            "context": supplies.contexts.get(role, 0),
        }
        for role, name in fingerprints(manifest).items()
    }
    config |= {
        "model": nodes.pop("actor"),
        "roles": nodes,
        "tracker": {"_target_": NO_TRACKER},
        "run_root": str(run_root),
        "quiet": True,
        **dict.fromkeys(("resume", "only", "sweep_id", "caps", "storage", "prices", "silent_replies")),
        "study": supplies.study,
        "embedder": {
            "_target_": REPLAY_EMBEDDER,
            "_partial_": True,
            "path": str(supplies.embeddings),
            "fingerprint": supplies.embedder,
            **{key: text for key, text in config.get("embedder", {}).items() if key.endswith("_prefix")},
        },
    }
    files = {"path": "calls", "embeddings": "embeddings", "executions": "executions"}
    config["cache"] = {"mode": "read-write", **{key: str(folder / f"{name}.sqlite") for key, name in files.items()}}
    if has_durable_store(config["store"]):
        config["store"] = {"_target_": REPLAY_STORE, "path": str(supplies.memory)}
    if config["memory"].get("reflection_files"):
        config["memory"]["reflection_files"] = str(folder / "reflections")
    if supplies.data is not None:
        config["benchmark"]["load"]["path"] = supplies.data
    beginning = RunFolder(supplies.recorded).beginning  # the run that it began with may be gone
    of = {"of": str(supplies.recorded), "after": 0} if beginning and beginning.items else {"of": None}
    config["memory"]["shared"]["items"] |= of
    for node in pools(config):
        node["pool"] = list(supplies.pool)
    return config


def pools(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Config nodes of the parts that read earlier runs."""
    return [node for node in _nodes(config) if isinstance(node, dict) and "pool" in node and "_target_" in node]


def check_parts(config: Mapping[str, Any], trusted: Sequence[str] = ()) -> None:
    """Refuse a config that names anything but parts of this version and `trusted` modules: others could run programs.

    Raises ConfigError: it names something else, or has an interpolation.
    """
    for node in _nodes(config):
        if isinstance(node, str) and "${" in node:
            raise ConfigError("config", "an interpolation, ${…}", "plain values, as manifests hold them")
        target = node.get("_target_") if isinstance(node, dict) else None
        names = [target, node.get("path")] if target == "hydra.utils.get_object" else [target] if target else []
        for name in names:
            if name not in parts() and not name.startswith(tuple(f"{module}." for module in trusted)):
                hint = "use its version, or --trust a module of your own"
                raise ConfigError("config", f"the part {name}", "one that conf/ names here", hint)


@functools.cache
def parts() -> frozenset[str]:
    """Every name of a class or function in the config folder."""
    pattern = re.compile(r"^[\s-]*(?:_target_|path): ((?:reflexion_lab|hydra\.utils)\.[\w.]+)", re.MULTILINE)
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return frozenset(name for text in texts for name in pattern.findall(text)) | {REPLAY_STORE}


def _nodes(config: Any) -> Iterator[Any]:
    """Every value and key in a config."""
    yield config
    if isinstance(config, dict | list):
        for item in [*config, *config.values()] if isinstance(config, dict) else config:
            yield from _nodes(item)


class Replayed(NamedTuple):
    about: About
    verification: Verification
    folder: Path | None
    """The run folder of the replay, if it is kept."""


def replay(path: Path, out: Path | None = None, trusted: Sequence[str] = ()) -> Replayed:
    """Replay the bundle at `path` and compare; with `out`, keep the new run below it. `trusted` modules may run.

    Raises BundleError: the file is no bundle, is damaged, or has no run; ConfigError: the run needs parts that this
    version does not have; HarnessError: the sandbox is broken.
    """
    about, members = bundle.read(path)
    with Scratch() as scratch:
        unpacked = scratch.path / "bundle"
        bundle.unpack(members, unpacked)
        try:
            recorded = Log.read(RunFolder.existing(unpacked))
        except FolderError as problem:
            raise BundleError(f"{path}: {problem}") from None
        again = rerun(recorded.manifest, supplies(about, unpacked), scratch.path / "again", out, trusted)
        again.folder.write_json("summary.json", msgspec.to_builtins(summary(Log.read(again.folder))))
        verification = compare(path, recorded, about.figures, again)
    if about.python != platform.python_version():
        note = f"python: {about.python} then, {platform.python_version()} here"
        verification = replace(verification, notes=(note, *verification.notes))
    return Replayed(about, verification, again.folder.path if out is not None else None)


def supplies(about: About, unpacked: Path) -> Supplies:
    calls, vectors, study = (unpacked / name for name in ("calls.jsonl", "embeddings.jsonl", registration.FILE))
    if not calls.is_file():
        raise BundleError("calls.jsonl", "no such member", "the calls of the run")
    files = sorted((unpacked / "data").glob("*"))
    embeddings = unpacked / "embeddings.sqlite"
    if vectors.is_file():
        as_file(vectors.read_bytes(), VECTORS, embeddings)
    return Supplies(
        calls=as_file(calls.read_bytes(), CALLS, unpacked / "calls.sqlite"),
        contexts=about.contexts,
        embeddings=embeddings,
        embedder=about.embedder,
        memory=unpacked / "memory",
        data=str(files[0]) if files else None,
        pool=tuple(str(folder) for folder in sorted((unpacked / "pool").glob("*"), key=lambda path: int(path.name))),
        study=str(study) if study.is_file() else None,
        recorded=unpacked,
    )


def compare(place: Path, recorded: Log, packed: Mapping[str, Any], again: Rerun) -> Verification:
    """Compare a run with its replay.

    `place`: the run or its bundle, to be named in the result. `packed`: its headline figures, as packed.
    """
    replayed = Log.read(again.folder)
    findings = list(_conditions(recorded, replayed))
    if again.problem:
        findings.append(_unrecorded_call(recorded, again.folder.attempts, again.problem))
    others = again.folder.attempts
    pairs = {task: zip(own, others.get(task, ()), strict=False) for task, own in recorded.attempts.items()}
    timed_out = [task for task, both in pairs.items() if any(_timed_out(a) != _timed_out(b) for a, b in both)]
    findings += _records(recorded, replayed, timed_out)
    if not again.problem:
        findings += _figures(packed, figures(replayed))
    notes = list(_notes(recorded.manifest, replayed.manifest))
    if timed_out and any(finding.disagreements for finding in findings):
        notes.append(f"a time-out in one of the two runs only, first on {timed_out[0]}")
    return Verification(run=str(place), run_id=recorded.manifest.run_id, findings=tuple(findings), notes=tuple(notes))


def _conditions(recorded: Log, replayed: Log) -> Iterator[Finding]:
    was, now, memory = recorded.manifest, replayed.manifest, recorded.beginning
    fields = ("benchmark", "benchmark_digest", "n_expected")
    now_as_was = replace(now, benchmark_digest=was.benchmark_digest) if same_tasks(now, was) else now
    here, then = ({field: getattr(manifest, field) for field in fields} for manifest in (now_as_was, was))
    yield equal_items("tasks", here, then, f"{was.n_expected} of {was.benchmark}", "tasks, ")
    templates = f"{len(was.prompt_digests)} templates"
    yield equal_items("prompts", now.prompt_digests, was.prompt_digests, templates, "prompt ")
    yield equal("study", now.study_digest, was.study_digest, "study, digest", value=was.study or "none")
    starts = ((log.beginning, log.manifest.run_id) for log in (recorded, replayed))
    before, after = (bare(start and replace(start, stored=UNSET), run_id) for start, run_id in starts)
    value = f"{memory.episodes} episodes, {len(memory.wisdom)} wisdom" if memory else "none"
    value += f", {len(memory.items)} items" if memory and memory.items else ""
    yield Finding(name=MEMORY, value=value, disagreements=tuple(_unlike(before, after, MEMORY)))
    if recorded.updates or replayed.updates:
        before, after = (bare(log.updates, log.manifest.run_id) for log in (recorded, replayed))
        first = tuple(islice(_unlike(before, after, OPERATIONS), 1))  # later calls differ with it
        yield Finding(name=OPERATIONS, value=f"{len(recorded.updates)} calls", disagreements=first)


def _records(recorded: Log, replayed: Log, timed_out: Sequence[str]) -> Iterator[Finding]:
    """The first difference of every task, starting with those that a time-out may explain."""
    before, after = canonical_form(recorded), canonical_form(replayed)
    tasks = [*timed_out, *(task for task in before if task not in timed_out)]
    for name, field in RECORDS.items():
        pairs = {task: (before[task][field], after.get(task, {}).get(field)) for task in tasks}
        count = sum(len(value) if isinstance(value, list) else value is not None for value, _ in pairs.values())
        if not count and not any(value for _, value in pairs.values()):
            continue
        wrong = []
        for task, (then, here) in pairs.items():
            if then != here:
                where = f"{task}, {name}"
                wrong.append(next(_unlike(then, here, where), unlike(where, here, then)))
        yield Finding(name=name, value=str(count), disagreements=tuple(wrong))


def _figures(packed: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("pass_at_1", "pass_at_1_first"):
        if packed.get(name) and packed[name] == here.get(name):
            yield Finding(name=name, value=f"{packed[name]['k']} of {packed[name]['n']}")
    wrong = _unlike(packed, {name: here.get(name) for name in packed}, "headline figures")
    yield Finding(name="headline figures", value=f"{len(packed)} to the last digit", disagreements=tuple(wrong))


def _unrecorded_call(recorded: Log, replayed: Mapping[str, Sequence[Attempt]], problem: ModelError) -> Finding:
    """The first earlier difference, which explains the unrecorded call; else the problem itself."""
    run_id = recorded.manifest.run_id
    for task, attempts in replayed.items():
        before = bare(recorded.attempts.get(task, [])[: len(attempts)], run_id)
        if first := next(_unlike(before, bare(attempts, run_id), f"{task}, attempts"), None):
            return Finding(name="calls", disagreements=(first,))
    reason = "; ".join([str(problem), *getattr(problem, "__notes__", ())])
    first = Disagreement(where="calls", got=" ".join(reason.split()), expected="a recorded call")
    return Finding(name="calls", disagreements=(first,))


def _unlike(recorded: Any, replayed: Any, where: str) -> Iterator[Disagreement]:
    for at, then, here in differences(recorded, replayed):
        yield unlike(f"{where}{at}" if at.startswith("[") else f"{where}.{at}" if at else where, here, then)


def _timed_out(attempt: Attempt) -> tuple[object, ...]:
    checks = tuple(number for number, check in enumerate(attempt.evaluation.checks) if check.outcome == "timeout")
    return checks, attempt.stop_reason == "timeout"


def _notes(recorded: Manifest, replayed: Manifest) -> Iterator[str]:
    for name in sorted(recorded.package_versions.keys() | replayed.package_versions.keys()):
        before, after = (manifest.package_versions.get(name, "none") for manifest in (recorded, replayed))
        if before != after:
            yield f"{name}: {before} then, {after} here"
    if recorded.isolation != replayed.isolation:
        yield f"isolation: {', '.join(recorded.isolation)} then, {', '.join(replayed.isolation)} here"
