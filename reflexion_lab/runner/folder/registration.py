"""Preregistration of a study before its first call: hypotheses, arms with their whole configs, n, metrics, stopping.

Everything that was not registered is exploratory and marked so. The digest covers the content only, not comments,
layout or the order of fields of the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.errors import DataError, LabError
from reflexion_lab.io.files import UNREADABLE, content, replace
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.folder.manifest import settings, shard_of

EXTRA = {
    "discordance": 0.0, "agreement": 0.5, "clusters": 0, "cluster_agreement": 0.5, "equivalence_margin": 0.0,
    "shared": "", "registered": None,
}  # fmt: skip
"""Fields that are part of the digest only with another value than this default."""
SEEDED = ("seed", "reflector.pool", "study")
"""Config keys that a registration leaves out: seeds and tasks have fields of their own, pools are runs of a seed."""
ABSENT = "no such key"
"""Value of a key at the seeds whose config lacks it."""
REPLAY_MODEL = "reflexion_lab.agent.models.replay.ReplayModel"
REPLAY_EMBEDDER = "reflexion_lab.memory.embedders.cached.ReplayEmbedder"
REPLAY_STORE = "reflexion_lab.storage.jsonl.Jsonl"
REPLAYED = {"model": REPLAY_MODEL, "roles": REPLAY_MODEL, "embedder": REPLAY_EMBEDDER, "store": REPLAY_STORE}
"""Parts of a replay that stand for those of the run, by the config group whose keys are then not compared."""
SECTION = "registered"
TASKS = "digest of tasks"
OF_STUDY = "runs of the study"
"""Value of the reflections read from runs that belong to the study, which are not there when it is registered."""
INPUTS = ("sources of user-defined parts", "reflections read", "store at the start")
NOT_AT_HAND = "the study is not at hand: cases hold no configs"
UNASKED = "=unasked"
"""End of the fingerprint of a model whose server was not asked for want of a key; that of a run may go on there."""
FILE = "study.yaml"
"""File name of the copy in a run folder."""


class Budget(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the spending of a study, over all arms and seeds; 0: no limit."""

    tokens: int = 0
    calls: int = 0

    def __post_init__(self) -> None:
        _check("budget.tokens", self.tokens, self.tokens >= 0, "0 or more")
        _check("budget.calls", self.calls, self.calls >= 0, "0 or more")
        _check("budget", "no bound", self.tokens + self.calls > 0, "tokens or calls above 0")


class RegisteredArm(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    config: dict[str, Any] = {}
    """Values of the composed config by dotted key."""
    by_seed: dict[str, tuple[Any, ...]] = {}
    """Values that depend on the seed, in the order of the seeds."""


class Registered(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measured properties of the runs of all arms: composed configs without keys that only say how a run is executed
    (`manifest.measured`), digests of tasks and prompt templates, fingerprints of models.
    """

    at: str
    """Time in UTC; not in the digest."""
    power: float
    """Share of simulated studies of this design that detect the registered effect."""
    config: dict[str, Any]
    """Values that all runs share, by dotted key."""
    arms: dict[str, RegisteredArm]

    def at_seed(self, arm: str, index: int) -> dict[str, Any]:
        """The whole config of an arm at the seed of this index."""
        own = self.arms[arm]
        at_seed = {key: values[index] for key, values in own.by_seed.items() if values[index] != ABSENT}
        return {**self.config, **own.config, **at_seed}


class Registration(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a `study.yaml`."""

    name: str
    hypotheses: tuple[str, ...]
    """Falsifiable hypotheses, one sentence each."""
    primary_metric: str
    """The primary metric, such as `pass_at_1`."""
    other_metrics: tuple[str, ...] = ()
    """Secondary metrics."""
    arms: dict[str, str]
    """Overrides of each arm by its name, as for `reflexion-lab run`."""
    shared: str = ""
    """Overrides of all arms."""
    baseline: str
    """One of `arms`."""
    benchmark: str
    n_tasks: int
    """Tasks of one run."""
    seeds: tuple[int, ...]
    budget: Budget
    minimum_detectable_effect: float
    """The difference of the primary metric that the design is planned for, in (0, 1]."""
    discordance: float = 0.0
    """Share of cases that only one arm solves, from a pilot, by which `study check` computes power; 0: unknown."""
    agreement: float = 0.5
    """Intraclass correlation of a task's seeds; 1 at temperature 0."""
    clusters: int = 0
    """Clusters of the tasks of one run (`Task.cluster`); 0: as many as tasks."""
    cluster_agreement: float = 0.5
    """Intraclass correlation of a cluster's tasks."""
    equivalence_margin: float = 0.0
    """Difference of the primary metric below which the arms count as equivalent, in (0, 1]; 0: no such claim."""
    exclusions: tuple[str, ...]
    """Rules by which tasks or runs are excluded; [] for none."""
    stopping: str
    """When the study ends, such as `after all runs`."""
    registered: Registered | None = None
    """Written by `reflexion-lab study register`."""

    def __post_init__(self) -> None:
        for field in ("name", "primary_metric", "benchmark", "stopping"):
            _check(field, getattr(self, field), bool(getattr(self, field).strip()), "some words")
        for field in ("hypotheses", "arms", "seeds"):
            _check(field, "[]", bool(getattr(self, field)), "at least one")
        for field in ("arms", "seeds"):
            values = getattr(self, field)
            _check(field, list(values), len(set(values)) == len(values), "each of them once")
        _check("baseline", self.baseline, self.baseline in self.arms, f"one of {', '.join(self.arms)}")
        _check("n_tasks", self.n_tasks, self.n_tasks >= 1, "1 or more")
        effect = self.minimum_detectable_effect
        _check("minimum_detectable_effect", effect, 0 < effect <= 1, "a difference in (0, 1]")
        known = self.discordance
        _check("discordance", known, known == 0 or effect <= known <= 1, f"0 for unknown, or one in [{effect}, 1]")
        margin = self.equivalence_margin
        _check("equivalence_margin", margin, 0 <= margin <= 1, "0 for none, or a difference in (0, 1]")
        _check("agreement", self.agreement, 0 <= self.agreement <= 1, "a share of tasks")
        _check("clusters", self.clusters, 0 <= self.clusters <= self.n_tasks, "0 for as many as n_tasks, at most that")
        _check("cluster_agreement", self.cluster_agreement, 0 <= self.cluster_agreement <= 1, "a share of clusters")
        if self.registered:
            names = list(self.registered.arms)
            _check("registered.arms", names, sorted(names) == sorted(self.arms), f"{', '.join(self.arms)}")
            sizes = {len(values) for arm in self.registered.arms.values() for values in arm.by_seed.values()}
            _check("registered", f"values of {sizes} seeds", sizes <= {len(self.seeds)}, "one value per seed")

    @property
    def digest(self) -> str:
        """SHA-256 over the content, shortened to 16 hex digits, without unused fields of `EXTRA`."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        if self.registered:
            del values[SECTION]["at"]
        used = {name: value for name, value in values.items() if name not in EXTRA or value != EXTRA[name]}
        return hashlib.sha256(msgspec.json.encode(used)).hexdigest()[:16]

    def arm_of(self, run: Manifest) -> str:
        """The registered arm of a run: of those with its `arm`, the one with fewest other keys at its seed; or ""."""
        if not self.registered:
            return ""
        index = self.seeds.index(run.seed) if run.seed in self.seeds else 0
        wholes = {name: self.registered.at_seed(name, index) for name in self.arms}
        namesakes = [name for name, whole in wholes.items() if whole.get("arm") == run.config.get("arm")]
        measured, ignored = _measured(run), _replaced(run.config)
        return min(namesakes, key=lambda name: len(_differing(measured, wholes[name], ignored)), default="")


def read(path: Path | str) -> Registration:
    """The study registered in `path`.

    Raises DataError: the file does not exist, or a field is missing, unknown or invalid.
    """
    try:
        text = content(path, f"a {FILE}")
    except ValueError as problem:
        raise DataError(f"study: {problem}") from None
    return _decoded(path, text)


def _decoded(path: Path | str, text: bytes) -> Registration:
    try:
        return msgspec.yaml.decode(text, type=Registration)
    except (ValueError, TypeError, *UNREADABLE) as problem:  # TypeError: an unhashable key
        if isinstance(cause := problem.__cause__, LabError):
            raise DataError(f"study: {path}: {cause.problem}", hint=cause.hint) from None
        message = " ".join(str(problem).split())
        raise DataError(f"study: {path}: {message}", expected=f"a {FILE} as docs/guides/sweep.md shows one") from None


def keep(path: Path, folder: Path, run: Manifest) -> None:
    """Copy the file of a study into the folder of a new run, and warn of deviations of the run from it.

    Raises DataError: the file has changed since the manifest was written.
    """
    text = path.read_bytes()
    (folder / FILE).write_bytes(text)
    if (study := read(folder / FILE)).digest != run.study_digest:
        raise DataError(
            f"study: {path} was changed while the run began", expected="it to stay as it is", hint="run again"
        )
    for reason in deviations(study, run):
        warnings.warn(f"study {study.name}: {reason}; the run is exploratory", RuntimeWarning, stacklevel=2)


def of_runs(folders: Sequence[Path], manifests: Sequence[Manifest]) -> Registration | None:
    """The study under which all these runs were started, from the copy in the first; None if there is no single one.

    Raises DataError: the copy differs from what was registered.
    """
    digests = {manifest.study_digest for manifest in manifests}
    if len(digests) != 1 or digests == {""}:
        return None
    study, digest = read(folders[0] / FILE), digests.pop()
    if study.digest != digest:
        raise DataError(
            folders[0] / FILE,
            f"digest {study.digest}",
            f"{digest}, which the run began with",
            "put the registered file back",
        )
    return study


def exploratory(
    registration: Registration | None, metric: str, runs: Sequence[Manifest], baseline: Sequence[Manifest]
) -> list[str]:
    """Reasons why the comparison of an arm with a baseline is exploratory; [] if it was registered.

    `runs`, `baseline`: manifests of the runs of the arm and of the baseline; the same ones for a figure of one arm.
    """
    if registration is None:
        is_named = any(run.study for run in (*runs, *baseline))
        return [NOT_AT_HAND if is_named else "no study was registered"]
    reasons = []
    if metric not in (registration.primary_metric, *registration.other_metrics):
        reasons.append(f"metric {metric} was not registered")
    base = _arm_of_all(registration, baseline)
    if base != registration.baseline and base != _arm_of_all(registration, runs):
        compared = base or str(baseline[0].config.get("arm"))
        reasons.append(f"compared with {compared}, registered was {registration.baseline}")
    for run in {run.run_id: run for run in (*runs, *baseline)}.values():
        reasons += (f"run {run.run_id}: {reason}" for reason in deviations(registration, run))
    for side in (runs, baseline):
        if missing := sorted(set(registration.seeds) - {run.seed for run in side}):
            reasons.append(f"no run of the registered seed {', '.join(map(str, missing))}")
    return list(dict.fromkeys(reasons))


def _arm_of_all(registration: Registration, runs: Sequence[Manifest]) -> str:
    """The registered arm to which all runs belong; "" for none."""
    names = {registration.arm_of(run) for run in runs}
    return names.pop() if len(names) == 1 else ""


def deviations_of(folder: Path, run: Manifest) -> list[str]:
    """Deviations of the run in `folder` from its own copy of the study; [] for a run without a study."""
    if not run.study_digest:
        return []
    try:
        return deviations(read(folder / FILE), run)
    except DataError as problem:
        return [str(problem)]


def deviations(registration: Registration, run: Manifest) -> list[str]:
    """Deviations of a run from the study; [] if it belongs to it."""
    reasons = []
    if not run.study_digest:
        reasons.append("it began without a registered study")
    elif run.study_digest != registration.digest:
        reasons.append(f"it began under another study or version of it, digest {run.study_digest}")
    if run.seed not in registration.seeds:
        reasons.append(f"seed {run.seed} was not registered")
    n_tasks = {} if shard_of(run.config) else {"n_tasks": run.n_expected}  # shards have it together
    for field, value in {"benchmark": run.benchmark, **n_tasks}.items():
        if value != (registered := getattr(registration, field)):
            reasons.append(f"{field} is {value}, registered was {registered}")
    if registration.registered is None:
        reasons.append("the study holds no registered config")
    elif not (arm := registration.arm_of(run)):
        reasons.append(f"arm {run.config.get('arm')} was not registered")
    elif run.seed in registration.seeds:
        whole = registration.registered.at_seed(arm, registration.seeds.index(run.seed))
        every = _measured(run).items()  # no registered arm reads a template that came later
        run_as_is = {key: value for key, value in every if key in whole or not key.startswith(TEMPLATE)}
        for key in _differing(run_as_is, whole, _replaced(run.config)):
            reasons.append(f"{key} is {run_as_is.get(key, 'missing')}, registered was {whole.get(key, ABSENT)}")
    return reasons


TEMPLATE = "prompt template "
"""Before the name of a template, among the measured properties."""


def _measured(run: Manifest) -> dict[str, Any]:
    """Measured properties by key; `INPUTS` as digests of sources, of reflections read and of the store, or `none`."""
    origin = run.provenance
    inputs = (origin.own_parts, origin.pool_origin or origin.pool, origin.store)
    models = {"actor": run.model_fingerprint, **run.role_fingerprints, "embedder": origin.embedder_fingerprint}
    return {
        **_settings(run.config),
        TASKS: run.benchmark_digest,
        **{f"fingerprint of {role}": fingerprint for role, fingerprint in models.items() if fingerprint},
        **{f"{TEMPLATE}{name}": digest for name, digest in run.prompt_digests.items()},
        **{key: value or "none" for key, value in zip(INPUTS, inputs, strict=True)},
    }


def _replaced(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Prefixes of the keys that a replay replaces, () for another run; its fingerprints are compared all the same."""

    def is_replayed(group: str) -> bool:
        node: Any = config.get(group)
        nodes = [*node.values()] if group == "roles" and isinstance(node, Mapping) else [node]
        targets = (each.get("_target_") if isinstance(each, Mapping) else None for each in nodes)
        return all(target == REPLAYED[group] for target in targets)

    return tuple(f"{group}." for group in REPLAYED if is_replayed("model") and is_replayed(group))


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that a registration holds: without paths of weights, which fingerprints identify."""
    return {
        key: value
        for key, value in settings(config).items()
        if key not in SEEDED and not (key.startswith(("model.", "roles.", "embedder.")) and key.endswith(".path"))
    }


def _differing(config: Mapping[str, Any], registered: Mapping[str, Any], ignored: tuple[str, ...] = ()) -> list[str]:
    """Sorted keys with different values, without those that begin with a prefix in `ignored`."""
    missing = object()
    keys = {key for key in config.keys() | registered.keys() if not key.startswith(ignored or ("\0",))}
    return sorted(key for key in keys if not _agree(config.get(key, missing), registered.get(key, missing)))


def _agree(value: object, registered: object) -> bool:
    if isinstance(registered, str) and registered.endswith(UNASKED):
        # a server adds size or digest of weights and a field; another model that answers in its place adds its name
        added = r"(=(\d+ bytes|[0-9a-f]{12,}|):?(\w*grammar|structured_outputs|ebnf|response_format|))?"
        return re.fullmatch(re.escape(registered.removesuffix(UNASKED)) + added, str(value)) is not None
    return value == registered


def section(runs: Mapping[str, Sequence[Manifest]], *, at: str, power: float) -> Registered:
    """The section `registered` of a study.

    `runs`: by arm, the manifest of a run of each seed, in the order of the seeds. `at`: time in UTC. `power`: share of
    simulated studies that detect the effect, in [0, 1]. Raises DataError: the arms have different tasks at a seed.
    """
    tasks = {name: tuple(run.benchmark_digest for run in seeds) for name, seeds in runs.items()}
    if len(set(tasks.values())) > 1:
        raise DataError("arms", f"different tasks in {', '.join(tasks)}", "the same tasks at a seed in every arm")
    configs = {name: [_measured(run) for run in seeds] for name, seeds in runs.items()}
    first, *others = [config for seeds in configs.values() for config in seeds]
    shared = {key: value for key, value in first.items() if all(key in it and it[key] == value for it in others)}
    arms = {name: _own(seeds, shared) for name, seeds in configs.items()}
    return Registered(at=at, power=power, config=shared, arms=arms)


def _own(configs: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]) -> RegisteredArm:
    keys = dict.fromkeys(key for config in configs for key in config if key not in shared)
    own = {key: tuple(config.get(key, ABSENT) for config in configs) for key in keys}
    constant = {key: values[0] for key, values in own.items() if all(value == values[0] for value in values)}
    by_seed = {key: values for key, values in own.items() if key not in constant}
    return RegisteredArm(config=constant, by_seed=by_seed)


def register(path: Path, registered: Registered) -> Registration:
    """Append the section `registered` to the study at `path`.

    Raises DataError: the study is registered already, or nothing can be appended to the file, such as one of JSON.
    """
    study, text = read(path), path.read_text()
    if study.registered:
        raise registered_already(path, study.registered)
    header = "# Written by `reflexion-lab study register`: the composed config of every arm."
    added = msgspec.yaml.encode({SECTION: msgspec.to_builtins(registered)}).decode()
    whole = f"{text.rstrip()}\n\n{header}\n{added}".encode()
    with contextlib.suppress(DataError):
        after = _decoded(path, whole)
        if msgspec.structs.replace(after, registered=None) == study:
            replace(path, [whole])
            return after
    raise DataError(f"study: {path}", "a form to which nothing can be added", "YAML with a field a line")


def registered_already(path: Path, registered: Registered) -> DataError:
    hint = f"delete the section `{SECTION}` to register it again; earlier runs are then exploratory"
    return DataError(f"study: {path}", f"registered at {registered.at}", "a study without that section", hint)


def _check(field: str, value: object, is_valid: bool, expected: str) -> None:
    if not is_valid:
        raise DataError(field, value, expected)
