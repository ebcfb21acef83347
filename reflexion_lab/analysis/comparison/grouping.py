"""Runs grouped into arms, and the short names of arms."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from reflexion_lab.analysis import shards
from reflexion_lab.analysis.arms import Arm, check_finished
from reflexion_lab.analysis.comparison.beginnings import MEMORY, facts
from reflexion_lab.analysis.learning.checkpoints import ITEMS, checkpoints, stream_ids
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Manifest
from reflexion_lab.runner.config.choices import TARGET, by_choice, is_group, typed
from reflexion_lab.runner.folder.folder import RunFolder, readable
from reflexion_lab.runner.folder.manifest import DATA, flat, is_seeded, same_tasks, settings


def arms(
    runs: Iterable[Path | str | RunFolder],
    by: Sequence[str] = (),
    frozen: Literal["checkpoints", "arms"] = "checkpoints",
) -> list[Arm]:
    """Group runs into arms, in order of appearance.

    Runs with the same `arm` that differ in a config key are separate arms, named with it: `reflexion recall.omega=3`.
    Runs over the shards of a benchmark are one run. Unfinished runs, those that cannot be read, and of equal runs
    (`_sameness`) all but the newest, or the first of a study, are left out with a warning. Raises FolderError: no run
    folder, or none is left; DataError: as `Arm`, or none is finished. `by`: dotted config keys to name arms by,
    instead of the keys in which they differ. `frozen`: whether runs with the frozen memory of another of `runs` are
    checkpoints of its arm (see `checkpoints.checkpoints`) or arms; they are arms if `by` names a key of
    `memory.shared.items`.
    """
    folders = [run if isinstance(run, RunFolder) else RunFolder.existing(run) for run in runs]

    def finished(group: Sequence[RunFolder]) -> Log:
        log = shards.read(group, "digests")
        check_finished(log, group[0].path)
        return log

    logs = readable(shards.grouped(folders), finished)
    are_arms = frozen == "arms" or any(key.startswith(ITEMS) for key in by)
    by_stream = {} if are_arms else checkpoints(logs, stream_ids(folders))
    set_aside = {log.manifest.run_id for members in by_stream.values() for log in members}
    by_name: dict[str, list[Log]] = {}
    for log in logs:
        if log.manifest.run_id not in set_aside:
            by_name.setdefault(log.arm, []).append(log)
    keys = (*by, *[f"{ITEMS}.frozen"] * any(key.startswith(ITEMS) for key in by))  # a stream's after is null, too
    every = [arm for name, members in by_name.items() for arm in _split(name, members, keys, by_stream)]
    kept = set_aside | {log.manifest.run_id for arm in every for log in arm.whole}
    if older := [log.manifest.run_id for log in logs if log.manifest.run_id not in kept]:
        names = f"{', '.join(older[:3])}{', …' * (len(older) > 3)}"
        equal = "an equal run (same config, models, prompts, memory at the start, tasks, seed)"
        warnings.warn(f"Left out: {equal} is newer, or the first of its study: {names}", stacklevel=2)
    return every


SYMBOLS = {"recall.omega": "Ω", "loop.max_attempts": "a", "loop.confidence_threshold": "t", "temperature": "T"}
"""Short names of config keys in the names of arms."""
LONG = 24
"""Characters of a name above which keys have initials."""


def names_of(key: str) -> tuple[str, ...]:
    """Names of a config key in those of arms, the longest first: `loop.reflect_below`, `reflect_below`, then the first
    letters of its words, or instead of all its symbol.
    """
    last = key.rpartition(".")[2]
    initials = ("".join(word[:letters] for word in last.split("_")) for letters in (3, 2, 1))
    return key, *((SYMBOLS[key],) * 4 if key in SYMBOLS else (last, *initials))


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Short names of arms by label: `reflexion recall.omega=3 loop.max_attempts=4` becomes `reflexion Ω3 a4`, without
    the words that all labels share (`Ω3 a4` where every arm is a `reflexion`). Other keys are their last part, or
    `symbol` where a name would be longer than `LONG`. Labels stay where short names collide.
    """
    words = {label: _words(label) for label in labels}
    keys, common = _short_keys(labels), _common_words(labels)
    short = {
        label: " ".join(_short_word(word, keys) for word in [word for word in parts if word not in common] or parts)
        for label, parts in words.items()
    }
    return short if len(set(short.values())) == len(short) else {label: label for label in labels}


def shared_words(labels: Sequence[str]) -> str:
    """What `short_names` leaves out, as `All arms: reflexion; Ω: recall.omega, a: loop.max_attempts.`; "" if none."""
    if all(name == label for label, name in short_names(labels).items()):
        return ""
    keys = _short_keys(labels)
    common = " ".join(_short_word(word, keys) for word in _common_words(labels))
    symbols = ", ".join(f"{name}: {key}" for key, name in keys.items() if name not in ("", key))
    groups = ", ".join(key for key, name in keys.items() if not name)
    parts = f"All arms: {common}" * bool(common), f"names: {groups}" * bool(groups), symbols
    return "; ".join(filter(None, parts)) + "."


def _words(label: str) -> list[str]:
    """The name of an arm, then its settings, whose values may hold spaces."""
    return re.split(r" (?=[\w.@/]+=)", label)


def values_of(label: str) -> dict[str, str]:
    """Values of an arm's settings by key, as its name has them."""
    return {key: value for key, _, value in (word.partition("=") for word in _words(label)[1:])}


def _common_words(labels: Sequence[str]) -> list[str]:
    words = [_words(label) for label in labels]
    return [word for word in words[0] if all(word in parts for parts in words)] if len(set(labels)) > 1 else []


def _short_keys(labels: Sequence[str]) -> dict[str, str]:
    """Short names of the config keys in `labels`; a key that would share its name with another keeps all parts. That of
    a group is "" if no other key has one of its values: `bm25`.
    """
    common = _common_words(labels)
    words = [[word for word in _words(label)[1:] if word not in common] for label in labels]
    settings = dict.fromkeys(word for label in labels for word in _words(label)[1:])
    uses = Counter(word.partition("=")[2] for word in [*settings, "=None"])
    shared = {key for key, _, value in (word.partition("=") for word in settings) if uses[value] > 1}
    unnamed = {key: "" for word in settings if is_group(key := word.partition("=")[0]) and key not in shared}
    keys = list(dict.fromkeys(key for word in settings if (key := word.partition("=")[0]) not in unnamed))
    last, *initials = ({key: names_of(key)[place] for key in keys} for place in (1, 2, 3, 4))
    last = {key: name if Counter(last.values())[name] == 1 else key for key, name in last.items()}
    long = (" ".join(_short_word(word, last | unnamed) for word in parts) for parts in words if len(parts) > 1)
    if any(len(name) > LONG for name in long):
        last = next((names for names in reversed(initials) if len(set(names.values())) == len(keys)), last)
    return last | unnamed


def _short_word(word: str, keys: Mapping[str, str]) -> str:
    key, is_setting, value = word.partition("=")
    is_short = keys.get(key) in names_of(key)[2:] and keys.get(key) != names_of(key)[1]
    is_glued = key in SYMBOLS or not keys.get(key, key) or (is_short and re.fullmatch(r"-?[\d.]+(e-?\d+)?", value))
    return f"{keys.get(key, key)}{'' if is_glued else is_setting}{value}"


def labels_of(name: str, runs: Sequence[Manifest], by: Sequence[str] = ()) -> list[str]:
    """Labels of runs of the arm `name`: with the keys `by`, by default those in which they differ."""
    sources = [(run.config, run.provenance.overrides) for run in runs]
    configs = by_choice(sources)
    if not all(same_tasks(run, runs[0]) for run in runs):
        paths = [dict(flat(run.config)).get(DATA) for run in runs]
        configs = [{**config, DATA: path} for config, path in zip(configs, paths, strict=True)]
    same = {key for key in {key for config in configs for key in config} if _is_path_only(key, runs)}
    keys = by or _distinguishing_keys(
        [{key: value for key, value in config.items() if key not in same} for config in configs],
        {key for _, overrides in sources for key in typed(overrides)},
    )
    return [" ".join((name, *(f"{key}={config.get(key)}" for key in keys))) for config in configs]


def _split(name: str, logs: Sequence[Log], by: Sequence[str], frozen: Mapping[str, Sequence[Log]]) -> list[Arm]:
    labels = labels_of(name, [log.manifest for log in logs], by)
    groups: dict[str, dict[object, Log]] = {label: {} for label in labels}
    pairs = sorted(zip(logs, labels, strict=True), key=lambda pair: pair[0].manifest.created_at)
    others, of_study = ([pair for pair in pairs if bool(pair[0].manifest.study_digest) is has] for has in (False, True))
    for log, label in others + of_study[::-1]:  # the last of equal runs stays
        groups[label][log.manifest.seed, repr(_sameness(log)), frozenset(log.results)] = log
    return [Arm(label, [*members.values()], frozen=frozen) for label, members in groups.items()]


def _sameness(log: Log) -> tuple[object, ...]:
    """What is equal in two runs of which one repeats the other."""
    run, began = log.manifest, log.began or facts(log, log)
    parts = run.provenance.own_parts, run.provenance.embedder_fingerprint, [fact for fact in began if fact[0] == MEMORY]
    models = run.model_fingerprint, run.role_fingerprints, run.prompt_digests
    return run.benchmark_digest, settings(run.config), *models, *parts


def _distinguishing_keys(configs: Sequence[Mapping[str, Any]], words: Collection[str] = ()) -> list[str]:
    """The fewest keys besides seeds that distinguish the configs: a single one if there is, first of `words`, the keys
    that were typed, then choices of groups, then those with the shortest values.
    """
    keys = sorted({key for config in configs for key in config if not is_seeded(key)})
    values = {key: [repr(config.get(key)) for config in configs] for key in ["seed", *keys]}
    seeds = values.pop("seed")  # benchmark.order=${seed} repeats it
    values = {key: texts for key, texts in values.items() if len(set(texts)) > 1 and texts != seeds}

    def kinds(some: Iterable[str]) -> int:
        return len(set(zip(*(values[key] for key in some), strict=True)))

    parts = {key.removesuffix(f".{TARGET}") for config in configs for key in config if key.endswith(TARGET)}

    def rank(key: str) -> tuple[bool, float, int]:
        return key not in words, key.count(".") if key in parts else math.inf, len("".join(values[key]))

    order = sorted(values, key=rank)
    if sufficient := next((key for key in order if kinds([key]) == kinds(values)), None):
        return [sufficient]
    chosen: list[str] = []
    for key in order:
        chosen += [key] * (kinds([*chosen, key]) > kinds(chosen))
    return sorted(chosen)


def _is_path_only(key: str, runs: Sequence[Manifest]) -> bool:
    """Whether the key is a path to what fingerprints identify as the same model, embedder or data."""
    if key == "embedder.path":
        embedders = [run.config.get("embedder") for run in runs]
        return all(isinstance(embedder, Mapping) and "fingerprint" in embedder for embedder in embedders)
    is_path = key.startswith(("model.", "roles.")) and key.endswith(".path")
    return is_path and len({repr((run.model_fingerprint, run.role_fingerprints)) for run in runs}) == 1
