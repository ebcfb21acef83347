"""Runs by their manifests and summaries: lists of them, and those with given settings."""

from __future__ import annotations

import fcntl
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec

from reflexion_lab.analysis.comparison.grouping import labels_of, short_names, values_of
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.config.build import suggestion
from reflexion_lab.runner.config.choices import by_choice
from reflexion_lab.runner.folder.folder import LOCK, RunFolder, left_out, runs_in

CAPTION = "pass@1 in %, tasks, 95 % interval; UPPER BOUND: the loop saw hidden tests or solutions."


class Listed(Record, frozen=True, kw_only=True):
    run: str
    """The part of its name with the time of its start, UTC, that no other run has."""
    folder: str
    arm: str = ""
    model: str = ""
    benchmark: str = ""
    settings: str = ""
    """Its seed, and settings that no more than half of the runs of its arm, model and benchmark in the list have."""
    state: str
    """`finished`, `running 3/8` or `stopped 3/8` with its ended tasks, or `broken`."""
    pass_at_1: Rate | None = None
    """None until it is finished; also of an upper bound."""
    is_upper_bound: bool = False
    problem: str = ""
    """Why it is broken."""


class _Ended(msgspec.Struct):
    """Fields of `summary.json`."""

    n_logged: int
    pass_at_1: Rate


def run_list(root: Path, where: Iterable[str] = ()) -> list[Listed]:
    """The runs in `root`, newest first, broken ones included but for a `where`. Raises ConfigError: as `selected`."""
    runs, listed, paths = [], [], runs_in(root)
    for path in paths:
        try:
            runs.append(RunFolder.existing(path))
        except (FolderError, OSError) as problem:
            listed.append(Listed(run=_name(path, paths), folder=str(path), state="broken", problem=left_out(problem)))
    kinds: dict[tuple[str, str, str], dict[Path, Manifest]] = defaultdict(dict)
    for path, run in ((run.path, run.manifest) for run in selected(runs, where)):
        models = ", ".join(dict.fromkeys(model_names(run)))
        kinds[str(run.config.get("arm", "run")), models, run.benchmark][path] = run
    listed = [] if where else listed
    for (arm, model, benchmark), members in kinds.items():
        values = [values_of(label) for label in labels_of("", list(members.values()))]
        uses = Counter(setting for own in values for setting in own.items())
        rare = {(key, value) for (key, value), n in uses.items() if 2 * n <= len(values) and value != "None"}
        labels = ["".join(f" {key}={own[key]}" for key in own if (key, own[key]) in rare) for own in values]
        for (path, run), label in zip(members.items(), labels, strict=True):
            state, rate = _state(path, run)
            settings = f"s{run.seed} {short_names(labels)[label]}".rstrip()
            listed.append(Listed(
                run=_name(path, paths), folder=str(path), arm=arm, model=model, benchmark=benchmark, settings=settings,
                state=state, pass_at_1=rate, is_upper_bound=run.is_upper_bound,
            ))  # fmt: skip
    return sorted(listed, key=lambda run: Path(run.folder).name, reverse=True)


def sheet(runs: Sequence[Listed], title: str, has_intervals: bool = True) -> Sheet:
    """A list of runs as a table; below it, why some could not be read."""
    heads = ("run", "arm", "model", "benchmark", "settings")
    columns = {head: attrgetter(head) for head in heads} | {"pass@1 (n)": partial(_result, has_intervals)}
    caption = [CAPTION] * bool(runs) + [f"{run.problem}." for run in runs if run.problem]
    return Sheet.of(title, runs, columns, " ".join(caption), names=len(heads))


def _result(has_interval: bool, run: Listed) -> str:
    if not (rate := run.pass_at_1):
        return run.state
    interval = f" {cells.interval(rate.low, rate.high)}" * has_interval
    return f"{'UPPER BOUND ' * run.is_upper_bound}{cells.number(rate.share)} ({rate.n}){interval}"


def _name(path: Path, paths: Sequence[Path]) -> str:
    names = (path.name[:end] for end in range(len("20261127-142702"), len(path.name)))
    return next((name for name in names if sum(name in other.name for other in paths) == 1), path.name)


def _state(path: Path, run: Manifest) -> tuple[str, Rate | None]:
    ended = RunFolder(path).summary(_Ended)
    if ended and ended.n_logged == run.n_expected:
        return "finished", ended.pass_at_1 if ended.pass_at_1.n else None
    results, state = path / "results.jsonl", "stopped"
    with suppress(OSError), (path / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # its process writes into it
            state = "running"
    n_logged = results.read_bytes().count(b"\n") if results.is_file() else 0
    return f"{state} {n_logged}/{run.n_expected}", None


def model_names(run: Manifest) -> Iterator[str]:
    """Names of the models: as config and, in brackets, a one-model server name it; else of the weights, which the
    fingerprint has, or its first word.
    """
    roles = run.config.get("roles")
    for role, fingerprint in {"actor": run.model_fingerprint, **run.role_fingerprints}.items():
        node = run.config.get("model") if role == "actor" else roles.get(role) if isinstance(roles, Mapping) else None
        name = node.get("model") if isinstance(node, Mapping) else None
        served = run.served.get(role)
        kind, file = (*fingerprint.replace(".gguf:", ":").split(":"), "")[:2]
        named = name if isinstance(name, str) else file if kind in ("hf", "llama_cpp") else kind
        yield f"{named} ({served.name})" if served and served.name not in ("", named) else named


def selected(runs: Sequence[RunFolder], where: Iterable[str]) -> list[RunFolder]:
    """The runs with all settings of `where`: `recall.omega=1,3` (either), `retriever=bm25`, `model=gpt-4o-mini`,
    `benchmark=humaneval`. Raises ConfigError: no run has such a key, or such a value.
    """
    values = _values(runs) if runs else []
    kept = list(zip(runs, values, strict=True))
    for condition in where if runs else ():
        key, _, wanted = condition.partition("=")
        if not any(key in own for own in values):
            hint = suggestion(key, {name for own in values for name in own})
            raise ConfigError("where", repr(condition), "KEY=VALUE with a key of a run's config", hint)
        known = {_text(value): value for own in values for value in own.get(key, ())}
        texts = {whole} if (whole := _text(wanted)) in known else {_text(text) for text in wanted.split(",")}
        kept = [(run, own) for run, own in kept if texts & {_text(value) for value in own.get(key, ())}]
        if not kept or texts - known.keys():
            listed = cells.listed(sorted(known.values()))
            raise ConfigError("where", repr(condition), f"a value that runs have: {listed}")
    return [run for run, _ in kept]


def _values(runs: Sequence[RunFolder]) -> list[dict[str, set[str]]]:
    """Settings of runs as they are typed; a model and a benchmark have several names."""
    manifests = [run.manifest for run in runs]
    configs = by_choice([(run.config, run.provenance.overrides) for run in manifests])
    texts = [{k: {v if isinstance(v, str) else json.dumps(v)} for k, v in config.items()} for config in configs]
    for run, own in zip(manifests, texts, strict=True):
        own["seed"] = {str(run.seed)}
        own["benchmark"] = own.get("benchmark", set()) | {run.benchmark}
        own["model"] = own.get("model", set()) | {next(model_names(run))}
    return texts


def _text(value: str) -> str:
    """Equal for the spellings of a value: 3 and 3.0, true and True."""
    text = value.strip(" '\"")
    for number, form in ((int, "d"), (float, ".15g")):
        with suppress(ValueError):
            return f"{number(text):{form}}"
    return lower if (lower := text.lower()) in ("true", "false", "null") else text
