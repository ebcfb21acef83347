"""Validation of a config before anything else runs; errors name the key of the invalid value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, NotNegative, Parallel, Positive, Repeats
from reflexion_lab.records import Record
from reflexion_lab.runner.config.build import (
    LoopValues,
    capability,
    check_targets,
    converted,
    has_durable_store,
    plain,
    suggestion,
)
from reflexion_lab.runner.folder.manifest import SALT, is_own_salt

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Place = Annotated[str, msgspec.Meta(min_length=1)]
LONGEST = 120
"""Maximum length of an arm's name, which is part of a folder name."""


class Part(Record, frozen=True, kw_only=True):
    """Config node of a component; its constructor checks its values."""

    target: Name = msgspec.field(name="_target_")


class _Model(Part, frozen=True, kw_only=True):
    context: Count = 0


class _Quality(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    policy: Any = ""  # checked by the reflector's review
    severe: tuple[str, ...] = ()


class _Benchmark(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    load: Part
    fields: dict[str, str] | None = None
    name: Name = ""
    ids: list[str] | str | None = None
    sample: int | None = None
    limit: int | None = None
    keep_failing: bool = False
    sample_seed: int | None = None
    order: int | None = None
    passes: Positive = 1
    split: Any = None  # checked by the stream
    shard: Any = None  # checked by `shard`


class _Sandbox(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limits: dict[str, Any]
    servers: Parallel | None = None


class _Shared(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_episodes: Positive = 1
    max_mistakes: Positive = 1000
    round_size: Positive = 1
    match: str = ""
    priors: bool = False
    same_task: bool = False
    across_cells: bool = False
    shown: dict[str, Any]
    items: dict[str, Any] = msgspec.field(default_factory=dict)
    retire_after: int = 1
    retire_below: float = 0.0


class _Memory(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_episodes: Count = 1
    show_session: bool = False
    heading: Name = "Earlier attempts"
    reflection_files: Place | None = None
    shared: _Shared


class _Cache(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Any = ""  # checked by the cache
    path: Place = ""
    embeddings: Place | None = None
    executions: Place | None = None


class _Storage(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Any = None  # checked by the parts that use them
    calls: Any = None
    spending: Any = None
    tracking: Any = None
    scratch: Any = None


class _Prices(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Place | None = None


SETTINGS: dict[str, Any] = {
    "arm": Name,
    "seed": Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)],  # JSON readers round larger ones
    "temperature": NotNegative | None,
    "run_root": Place,
    "workers": Parallel | None,
    "resume": Place | None,
    "only": Literal["unscored"] | None,
    "quiet": bool,
    "sweep_id": Place | None,
    "study": Place | None,
    "silent_replies": Repeats | None,
    "feedback_source": Any,  # checked by the composition root
    "storage": _Storage | None,
    "loop": dict[str, Any],
    "quality": _Quality,
    "benchmark": _Benchmark,
    "sandbox": _Sandbox,
    "memory": _Memory,
    "cache": _Cache,
    "prices": _Prices | None,
    "caps": dict[str, Any] | None,
    "roles": dict[str, Any],
    "stop": dict[str, Any],
    "model": _Model,
}
PARTS = (
    "actor", "evaluator", "critic", "reviser", "reflector", "prompts", "recall", "retriever", "embedder",
    "store", "suite_writer", "tracker", "curator",
)  # fmt: skip
SETTINGS |= dict.fromkeys(PARTS, Part)
"""Types of the values, by top-level key."""
NEEDED = ("arm", "seed", "benchmark", "model", "actor", "evaluator", "reflector", "curator", "loop")
"""Required keys."""
WORDLESS = ("reflector", "NoReflection")
PROMISED = {
    "retry": (WORDLESS,),
    "feedback_only": (WORDLESS,),
    "warming": (WORDLESS, ("actor", "Warming")),
    "escalation": (WORDLESS, ("actor", "Escalation")),
    "quoted": (("reflector", "Quoted"),),
    "reflexion_generic": (("reflector", "Generic"),),
    "reflexion_shuffled": (("reflector", "Shuffled"),),
    "matts_parallel": (WORDLESS, ("curator", "ReasoningBank")),
    "matts_sequential": (("curator", "ReasoningBank"),),
    "helix": (("reflector", "WithFallback"), ("recall", "WindowThenSimilar")),
    "bot": (("reflector", "WithFallback"), ("evaluator", "WithTrajectory")),
    "openagents": (("reflector", "WithFallback"), ("recall", "Window")),
    "jido": (("actor", "CritiqueRevise"), ("critic", "LLMCritic")),
    "ralph": (("reflector", "WithFallback"), ("evaluator", "Combined")),
}
"""Groups and classes selected by the experiment or preset of an arm, by arm."""


REACHED = {"BM25": "27 % of its queries reach it", "Random": "its scores are ranks", "Recency": "its scores are ranks"}
REACHED |= dict.fromkeys(("EmbeddingRetriever", "Hybrid"), "every query reaches it")
"""By class of retriever, what the `min_score` of conf means that suits Jaccard (`experiments/retrieval_compared`)."""


def check(cfg: Any, is_recorded: bool = False) -> dict[str, Any]:
    """Check a config, import its parts, and return it as plain values.

    `is_recorded`: whether it is that of a manifest, which holds the salt of its run. Raises ConfigError: a value has
    the wrong type, is out of range or missing, or a key is unused. A used top-level key is one of `SETTINGS`, or is
    read by an interpolation elsewhere; a used key of a part is a parameter of its constructor.
    """
    whole: dict[str, Any] = plain(cfg)
    _check_values(whole)
    salt = _check_keys(whole, plain(cfg, resolve=False))
    if not is_recorded and salt is not None and not is_own_salt(salt):  # it would be in no digest
        raise ConfigError(SALT, salt, "another form than 16 hexadecimal digits, which a default salt has")
    return whole


def _check_values(whole: Mapping[str, Any]) -> None:
    if missing := [key for key in NEEDED if key not in whole]:
        raise ConfigError(missing[0], "no value", f"{missing[0]}=…")
    for key, node in whole.items():
        for place, value in _values("", {key: node}):
            _check_scalar(place, value)
        if kind := SETTINGS.get(key):
            converted(key, node, kind)
    for name, node in whole.get("roles", {}).items():
        if node is not None:
            converted(f"roles.{name}", node, _Model)
    for name, node in whole.get("stop", {}).items():
        converted(f"stop.{name}", node, Part)
    for key in ("arm", "sweep_id"):
        name = str(whole.get(key) or "")
        if name.startswith(".") or "/" in name or len(name) > LONGEST or not name.isprintable():
            raise ConfigError(key, repr(name[:40]), "a word that can name a folder, without a slash")
    url = str((whole.get("storage") or {}).get("url", "???"))  # it may hold a password
    if not url.startswith(("postgres", "???")):
        raise ConfigError("storage.url", "no URL of PostgreSQL", "postgresql://host:5432/database")
    files = whole.get("memory", {}).get("reflection_files")
    if files and Path(files).exists() and (not Path(files).is_dir() or Path(files, "episodes.jsonl").exists()):
        raise ConfigError(f"memory.reflection_files: {files} is a file or a store", expected="a folder of its own")


def _check_keys(whole: Mapping[str, Any], as_it_stands: Mapping[str, Any]) -> str | None:
    """Returns the salt of ids of items."""
    from reflexion_lab.memory.archive import Shown
    from reflexion_lab.memory.curators.items import Items
    from reflexion_lab.storage.call_store import Caps
    from reflexion_lab.tasks.sandbox.sandbox import Limits

    known = {key: node for key, node in whole.items() if key in SETTINGS}
    for key in whole.keys() - SETTINGS.keys():
        others = (text for name, node in as_it_stands.items() if name != key for _, text in _values(name, node))
        if not any(re.search(rf"\$\{{.*\b{re.escape(key)}\b", text) for text in others if isinstance(text, str)):
            expected = f"a key of the lab, or one that a value reads as ${{{key}}}"
            hint = suggestion(key, places(known) | SETTINGS.keys())
            raise ConfigError(f"{key}: unknown key", expected=expected, hint=hint)
    converted("loop", whole["loop"], LoopValues)
    converted("sandbox.limits", whole["sandbox"]["limits"], Limits)
    converted("memory.shared.shown", whole["memory"]["shared"]["shown"], Shown)
    items = converted("memory.shared.items", whole["memory"]["shared"]["items"], Items)
    converted("caps", whole["caps"] or {}, Caps)
    for key, node in known.items():
        check_targets(key, node)
    return items.salt


def places(node: Any) -> set[str]:
    """Every dotted key."""
    parts = [place.split(".") for place, _ in _values("", node)]
    return {".".join(place[:depth]) for place in parts for depth in range(1, len(place) + 1)}


def _values(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    """Every scalar with its dotted key."""
    if isinstance(node, dict | list):
        for name, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(node, dict) and not isinstance(name, str):
                raise ConfigError(key or "config", f"a key {name!r}", "words", "put it into quotes")
            yield from _values(f"{key}.{name}" if key else str(name), value)
    else:
        yield key, node


def _check_scalar(key: str, value: Any) -> None:
    """Raises ConfigError: the value fits into no manifest or path."""
    if value == "???" and not key.startswith(("storage.", "hydra.")):  # these are checked by the parts that use them
        raise ConfigError(key, "no value", f"{key}=…")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(key, value, "a finite number")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigError(key, f"a number of {value.bit_length()} bits", "at most 64")
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ConfigError(key, repr(value[:40]), "text in UTF-8, without NUL")


def arm_warnings(config: Mapping[str, Any]) -> Iterator[str]:
    """Warnings about a run that is not what the name of its arm says: a mislabelled control invalidates a comparison.

    Such runs arise because overrides for all arms of a sweep take precedence over an experiment's choices.
    """
    arm = config["arm"]
    for group, name in PROMISED.get(arm, ()):
        if name not in (classes := _classes(config[group])):
            inner = ", put it inside by actor@actor.generator=…" * (name == "CritiqueRevise")
            yield (
                f"arm: got {arm} with {group} {classes[0]}, expected {name}, as the {arm} of conf has it; "
                f"leave {group}=… out{inner}, or give the arm another name"
            )
    if arm == "retry" and config["loop"]["max_attempts"] > 1 and max(_temperatures(config["actor"]), default=1) == 0:
        yield (
            "temperature: got 0 with arm=retry, where a deterministic model draws the same program at every attempt, "
            "expected one above 0; give temperature=0.8, say, to all arms alike"
        )
    reached = REACHED.get(_classes(config["retriever"])[0])
    if reached and config["recall"].get("min_score") == 0.25:
        yield f"recall.min_score: got 0.25, which suits retriever=jaccard; here {reached}; 0 is no threshold"
    if config["memory"]["shared"].get("across_cells") and has_durable_store(config) and config.get("sweep_id"):
        yield (
            "memory.shared.across_cells: true, so cells of this sweep read what others have stored; results depend on "
            "the order in which the cells run, and seeds are no independent repetitions"
        )


def _classes(node: dict[str, Any]) -> list[str]:
    """Names of a part's class and base classes."""
    named = str(node.get("_target_", "")).rpartition(".")[2]
    return [named, *(base.__name__ for base in capability(node, "__mro__", ()))]


def _temperatures(node: Any) -> Iterator[float]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "temperature" and isinstance(value, int | float):
            yield value
        else:
            yield from _temperatures(value)
