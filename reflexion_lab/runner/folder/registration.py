"""Preregistration of a study before its first call: hypotheses, arms, n, metrics, stopping.

Everything that was not registered is exploratory and marked so. The digest covers the content only, not comments,
layout or the order of fields of the file.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.errors import DataError, LabError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.records import Manifest, Record

LATER = {"discordance": 0.0, "agreement": 0.5, "equivalence_margin": 0.0}
"""Fields added later, with their defaults."""
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


class Registration(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a `study.yaml`."""

    name: str
    hypotheses: tuple[str, ...]
    """Falsifiable hypotheses, one sentence each."""
    primary_metric: str
    """The primary metric, such as `pass_at_1`."""
    other_metrics: tuple[str, ...] = ()
    """Secondary metrics."""
    arms: tuple[str, ...]
    """Arms as in tables: `reflexion`, or with distinguishing keys, `reflexion recall.omega=3`."""
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
    equivalence_margin: float = 0.0
    """Difference of the primary metric below which the arms count as equivalent, in (0, 1]; 0: no such claim."""
    exclusions: tuple[str, ...]
    """Rules by which tasks or runs are excluded; [] for none."""
    stopping: str
    """When the study ends, such as `after all runs`."""

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

    @property
    def digest(self) -> str:
        """SHA-256 over the content, shortened to 16 hex digits, without unused fields of `LATER`."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        used = {name: value for name, value in values.items() if name not in LATER or value != LATER[name]}
        return hashlib.sha256(msgspec.json.encode(used)).hexdigest()[:16]

    def arm_of(self, config: Mapping[str, Any]) -> str:
        """The registered arm of a run with this config; "" for none."""
        fits = (arm for arm in map(_Label.of, self.arms) if arm.fits(config))
        # The most specific arm: `reflexion recall.omega=3` goes before `reflexion`.
        return max(fits, key=lambda arm: len(arm.settings), default=_Label("", {}, "")).text


def read(path: Path | str) -> Registration:
    """The study registered in `path`.

    Raises
    ------
    DataError
        The file does not exist, or a field is missing, unknown or invalid.
    """
    try:
        text = content(path, f"a {FILE}")
    except ValueError as problem:
        raise DataError(f"study: {problem}") from None
    try:
        return msgspec.yaml.decode(text, type=Registration)
    except (ValueError, TypeError, *UNREADABLE) as problem:  # TypeError: an unhashable key
        if isinstance(cause := problem.__cause__, LabError):
            raise DataError(f"study: {path}: {cause.problem}", hint=cause.hint) from None
        message = " ".join(str(problem).split())
        raise DataError(f"study: {path}: {message}", expected=f"a {FILE} as docs/guides/sweep.md shows one") from None


def keep(path: Path, folder: Path, run: Manifest) -> None:
    """Copy the file of a study into the folder of a new run, and warn of deviations of the run from it.

    Raises
    ------
    DataError
        The file has changed since the manifest was written.
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

    Raises
    ------
    DataError
        The copy differs from what was registered.
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
    registration: Registration | None, arm: str, metric: str, *, baseline: str = "", runs: Sequence[Manifest] = ()
) -> list[str]:
    """Reasons why a result is exploratory; [] if it was registered.

    Parameters
    ----------
    arm : str
        Label of the arm in tables.
    metric : str
    baseline : str, default ""
        Arm that it is compared with; "" for none.
    runs : Sequence[Manifest], default ()
        Manifests of the arm's runs; () leaves seeds, tasks and digests unchecked.
    """
    if registration is None:
        return ["no study was registered"]
    label, reasons = _Label.of(arm), []
    registered = [known for known in map(_Label.of, registration.arms) if label.is_within(known)]
    if not registered:
        reasons.append(f"arm {arm} was not registered")
    if metric not in (registration.primary_metric, *registration.other_metrics):
        reasons.append(f"metric {metric} was not registered")
    if baseline and baseline != arm and not _Label.of(baseline).is_within(_Label.of(registration.baseline)):
        reasons.append(f"compared with {baseline}, registered was {registration.baseline}")
    for run in runs:
        reasons += (f"run {run.run_id}: {reason}" for reason in deviations(registration, run))
    if runs and (missing := sorted(set(registration.seeds) - {run.seed for run in runs})):
        reasons.append(f"no run of the registered seed {', '.join(map(str, missing))}")
    return reasons


def deviations(registration: Registration, run: Manifest) -> list[str]:
    """Deviations of a run from the study; [] if it belongs to it."""
    reasons = []
    if not run.study_digest:
        reasons.append("it began without a registered study")
    elif run.study_digest != registration.digest:
        reasons.append(f"it began under another study or version of it, digest {run.study_digest}")
    if not registration.arm_of(run.config):
        reasons.append(f"arm {run.config.get('arm')} with these settings was not registered")
    if run.seed not in registration.seeds:
        reasons.append(f"seed {run.seed} was not registered")
    for field, value in (("benchmark", run.benchmark), ("n_tasks", run.n_expected)):
        if value != (registered := getattr(registration, field)):
            reasons.append(f"{field} is {value}, registered was {registered}")
    return reasons


class _Label(NamedTuple):
    """A parsed arm label."""

    name: str
    settings: dict[str, str]
    text: str

    @classmethod
    def of(cls, text: str) -> _Label:
        name, *rest = re.split(r"\s+(?=[\w.@/]+=)", text.strip())
        pairs = (part.partition("=") for part in rest)
        return cls(name, {key: _value(value) for key, _, value in pairs}, text)

    def is_within(self, registered: _Label) -> bool:
        """Whether the registered label includes all settings of this one; tables omit settings that all arms share."""
        return self.name == registered.name and self.settings.items() <= registered.settings.items()

    def fits(self, config: Mapping[str, Any]) -> bool:
        values = {key: _value(str(_at(config, key))) for key in self.settings}
        return self.name == config.get("arm") and values == self.settings


def _value(text: str) -> str:
    """Canonical form of a label's value: `['a', 'b']` becomes `[a, b]`, and 0.0 becomes 0."""
    if text.startswith("["):
        return "[" + ", ".join(_value(part.strip().strip("'\"")) for part in text.strip("[]").split(",")) + "]"
    return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config


def _check(field: str, value: object, is_valid: bool, expected: str) -> None:
    if not is_valid:
        raise DataError(field, value, expected)
