"""A config as typed records: one per group, decoded once; everything behind the composition takes them.

A part's node stays a mapping with `_target_`: the constructor that it names is its record (`build`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import fields

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.secrets import without_logins
from reflexion_lab.limits import Above0, Again, Count, NotNegative, Parallel, Positive, PositiveShare, Repeats
from reflexion_lab.memory.archive import Shown
from reflexion_lab.memory.curators.items import Items
from reflexion_lab.memory.retrieval.texts import Match
from reflexion_lab.records import FeedbackSource, Manifest, Record
from reflexion_lab.runner.config.build import Config, converted, plain
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import CHAIN
from reflexion_lab.storage.call_store import Caps
from reflexion_lab.tasks.benchmarks.stream import Split
from reflexion_lab.tasks.sandbox.sandbox import Limits

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Place = Annotated[str, msgspec.Meta(min_length=1)]
Node = dict[str, Any]
"""Config node of a part."""
NONE: Node = {}


class Part(Record, frozen=True, kw_only=True):
    """What every node of a part has; its constructor checks its values."""

    target: Name = msgspec.field(name="_target_")


class _Model(Part, frozen=True, kw_only=True):
    context: Count = 0


class LoopConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_attempts: Repeats
    extra_attempts: Again
    """At most this many more, one for each attempt that beats all before it."""
    confidence_threshold: PositiveShare
    """Share of the feedback checks that must pass for the loop to stop."""
    timeout: Above0
    """Seconds of a task's own work, without queueing."""
    stuck_after: Annotated[int, msgspec.Meta(ge=2)] | None
    """The same program or identical failures this many times end the loop."""
    reflect_on_last: bool | None
    """Also on the last attempt; null: if memory across tasks or a curator reads it."""
    reflect_on_success: bool
    reflect_below: PositiveShare
    """Reflect only below this reward, or after an error, timeout or missing program."""
    first_draw: Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)] = 0
    """Number of the first draw of every call of a loop, below those of generated tests."""


class QualityConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    policy: Any
    """Checked by the reflector's review."""
    severe: tuple[str, ...]
    """Flags that cause a retry or rejection."""


class BenchmarkConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    load: Node
    fields: dict[str, str] | None = None
    name: Name = ""
    ids: list[str] | str | None = None
    sample: int | None = None
    limit: int | None = None
    keep_failing: bool = False
    """Keep tasks whose canonical solution fails their own tests, or whose tests check nothing."""
    sample_seed: int | None = None
    order: int | None = None
    passes: Positive = 1
    split: Split | None = None
    shard: Any = None
    """Checked by `shard`."""


class SandboxConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limits: Limits
    servers: Parallel | None = None
    """Concurrent programs; null: one per core."""


class SharedConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_episodes: Positive
    max_mistakes: Positive = 1000
    round_size: Positive
    """Tasks that do not see each other."""
    match: Match
    """Text for retrieval."""
    priors: bool
    same_task: bool
    across_cells: bool
    shown: Shown
    items: Items
    retire_after: int
    retire_below: float


class MemoryConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_episodes: Count
    show_session: bool
    heading: Name = "Earlier attempts"
    reflection_files: Place | None
    """A folder with one subfolder per loop."""
    shared: SharedConfig


class CacheConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Any
    """Checked by the cache."""
    path: Place
    embeddings: Place | None
    executions: Place | None


class StorageConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Places; each is checked by the part that uses it."""

    url: Any = None
    calls: Any = None
    spending: Any = None
    tracking: Any = None
    scratch: Any = None


class PricesConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Place | None = None
    """A price file, which takes precedence over the lab's."""


class RunConfig(Record, frozen=True, kw_only=True):
    whole: dict[str, Any]
    """The same as plain values, with own keys."""
    unresolved: dict[str, Any]
    """The same before its interpolations were resolved."""
    arm: Name
    seed: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]  # JSON readers round larger ones
    benchmark: BenchmarkConfig
    model: Node
    actor: Node
    evaluator: Node
    critic: Node
    reviser: Node
    reflector: Node
    prompts: Node
    recall: Node
    retriever: Node
    embedder: Node
    curator: Node
    store: Node
    suite_writer: Node
    tracker: Node
    environment: Node | None = None
    policy: Node = msgspec.field(default_factory=lambda: CHAIN)
    loop: LoopConfig
    memory: MemoryConfig
    sandbox: SandboxConfig
    quality: QualityConfig
    cache: CacheConfig
    storage: StorageConfig | None = None
    prices: PricesConfig | None = None
    caps: Caps | None = None
    roles: dict[str, Any] = NONE
    stop: dict[str, Any] = NONE
    temperature: NotNegative | None = None
    feedback_source: FeedbackSource = "visible"
    run_root: Place = "runs"
    workers: Parallel | None = None
    resume: Place | None = None
    only: Literal["unscored"] | None = None
    quiet: bool = False
    sweep_id: Place | None = None
    study: Place | None = None
    silent_replies: Repeats | None = None

    @classmethod
    def of(cls, cfg: RunConfig | Config | Mapping[str, Any]) -> RunConfig:
        """The records of a composed config, or of that of a manifest; records as they are.

        Raises ConfigError: a value is missing, has the wrong type or is out of range.
        """
        return cfg if isinstance(cfg, RunConfig) else cls._decoded(plain(cfg), plain(cfg, resolve=False))

    @classmethod
    def _decoded(cls, whole: dict[str, Any], unresolved: dict[str, Any]) -> RunConfig:
        if missing := [key for key in NEEDED if key not in whole]:
            raise ConfigError(missing[0], "no value", f"{missing[0]}=…")
        for place, value in scalars("", whole):
            _check_scalar(place, value)
        values = {key: converted(key, whole[key], kind) for key, kind in KEYS.items() if key in whole}
        cfg = cls(whole=whole, unresolved=unresolved, **values)
        nodes = {key: getattr(cfg, key) for key in PARTS} | {"benchmark.load": cfg.benchmark.load}
        nodes |= {f"stop.{name}": node for name, node in cfg.stop.items()}
        for key, node in (nodes | {f"roles.{role}": node for role, node in cfg.role_models.items()}).items():
            converted(key, node, _Model if key == "model" or key.startswith("roles.") else Part)
        return cfg

    def having(self, values: Mapping[str, Any]) -> RunConfig:
        """The same with other values, by dotted key; interpolations read them."""
        whole, unresolved = self.whole, self.unresolved
        for key, value in values.items():
            whole, unresolved = (_with(plain_values, key.split("."), value) for plain_values in (whole, unresolved))
        copied = {f"${{{key}}}": value for key, value in values.items()}
        texts = [(place, text) for place, text in scalars("", unresolved) if isinstance(text, str) and "${" in text]
        changed = ".".join((*values, *(place for place, text in texts if text in copied))).split(".")
        others = re.findall(r"\$\{.*\}", "\n".join(text for _, text in texts if text not in copied))
        if set(changed).isdisjoint(re.findall(r"\w+", " ".join(others))):
            return self._decoded(_followed(unresolved, whole, copied), unresolved)
        from omegaconf import OmegaConf  # something reads one of the values in another way

        return RunConfig.of(OmegaConf.create(unresolved))

    @property
    def recorded(self) -> dict[str, Any]:
        """The config as a manifest holds it: plain values without log-ins."""
        return dict(without_logins(self.whole))

    @property
    def resumed(self) -> Manifest | None:
        """The manifest of the run to resume; None for a new run. Raises FolderError."""
        return None if self.resume is None else RunFolder.existing(self.resume).manifest

    @property
    def role_models(self) -> dict[str, Node]:
        """Nodes of the models that roles have for themselves, by role."""
        return {role: node for role, node in self.roles.items() if node is not None}


KEYS = {field.name: field.type for field in fields(RunConfig) if field.name not in ("whole", "unresolved")}
"""Types of the values, by top-level key."""
NEEDED = tuple(field.name for field in fields(RunConfig) if field.required and field.name in KEYS)
PARTS = tuple(key for key, kind in KEYS.items() if kind == Node and key not in ("roles", "stop"))


def _with(node: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A copy with another value at `path`."""
    name, *below = path
    return {**node, name: _with(node.get(name, {}), below, value) if below else value}


def _followed(unresolved: Any, whole: Any, copied: Mapping[str, Any]) -> Any:
    """A copy of `whole` with the values of the interpolations that are `copied`."""
    if isinstance(unresolved, dict):
        return {key: _followed(node, whole[key], copied) for key, node in unresolved.items()}
    if isinstance(unresolved, list):
        return [_followed(*nodes, copied) for nodes in zip(unresolved, whole, strict=True)]
    return copied.get(unresolved, whole) if isinstance(unresolved, str) else whole


def scalars(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    """Every scalar with its dotted key."""
    if isinstance(node, dict | list):
        for name, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(node, dict) and not isinstance(name, str):
                raise ConfigError(key or "config", f"a key {name!r}", "words", "put it into quotes")
            yield from scalars(f"{key}.{name}" if key else str(name), value)
    else:
        yield key, node


def places(node: Any) -> set[str]:
    """Every dotted key."""
    parts = [place.split(".") for place, _ in scalars("", node)]
    return {".".join(place[:depth]) for place in parts for depth in range(1, len(place) + 1)}


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
