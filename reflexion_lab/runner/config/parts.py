"""Factories of single parts from a config; `assemble` puts them together. One file: they share rules of few lines."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os.path import isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.caps import CappedModel, Meter
from reflexion_lab.agent.models.prices import RECORDED, Price, check_currency, read, resolved_price
from reflexion_lab.agent.models.wrapped import Refusals, WrappedModel
from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.io import files
from reflexion_lab.io.secrets import is_given, without_logins
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.limits import Above0, Positive, check
from reflexion_lab.loop.deadline import Budgeted
from reflexion_lab.protocols import Embedder, Model, Sandbox, Stop, Store, SuiteWriter
from reflexion_lab.records import Beginning, Task, Usage
from reflexion_lab.runner import objects
from reflexion_lab.runner.config.build import Config, build, capability, construct, has_durable_store, plain, takes
from reflexion_lab.runner.folder.manifest import own_targets, store_place, value_at
from reflexion_lab.runner.folder.registration import UNASKED
from reflexion_lab.storage.call_store import Caps
from reflexion_lab.text.shorten import line, number_of

if TYPE_CHECKING:
    from reflexion_lab.agent.models.cache import CachedModel, Draws
    from reflexion_lab.loop.stop import Stuck
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.memory.curators.curated import CuratedMemory
    from reflexion_lab.runner.config.record import RunConfig
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox

T = TypeVar("T")
TIMED = 1000
"""Tasks whose canonical solutions are in the queue of the sandbox at once."""
NAMED, FLAW_CHARS = 5, 80
"""Maximum number of tasks that a message names."""
LARGEST_TREE = 1000
"""Maximum attempts of a loop."""
MOST_OF_ITEMS, SHARE = 4000, 4
"""Default limit of a curator's items in tokens, and the part of a model's context, a quarter, that it does not exceed:
prompts also hold a task or a loop, instructions and the room for a reply."""


class Models(NamedTuple):
    by_role: Mapping[str, CachedModel]
    """`actor` is always there."""
    meter: Meter = Meter()
    """New spending, limited by the caps."""
    refusals: Callable[[str], Refusals] = lambda role: Refusals()
    """By role."""

    def of(self, role: str) -> CachedModel:
        """The model of a role, by default the actor's."""
        return self.by_role.get(role, self.by_role["actor"])

    @property
    def distinct(self) -> list[CachedModel]:
        return list({id(model): model for model in self.by_role.values()}.values())

    @property
    def paid(self) -> int:
        """Cache misses: paid calls."""
        return sum(model.misses for model in self.distinct)

    @property
    def stored(self) -> int:
        """Free calls: cache hits, and calls that joined an equal call in flight."""
        return sum(model.hits + model.coalesced for model in self.distinct)

    @property
    def spent(self) -> Usage:
        return sum((model.spent for model in self.distinct), Usage())

    def open(self) -> None:
        """Create missing call caches. Raises StoreError."""
        for model in self.distinct:
            model.open()

    def close(self) -> None:
        for model in self.distinct:
            model.close()
        self.meter.close()


ROLES = ("actor", "reflector", "critic", "suite_writer", "curator", "strong", "strongest")
"""Roles of models. All but the actor may have their own model, `roles.NAME`; the last two are for escalation."""


def load_archive(cfg: RunConfig, models: Models | None, store: Store | None = None) -> Archive | None:
    """Memory shared by all loops; None if the config shares none.

    `models`: for the curator; None: without one. `store`: replaces the config's store.
    """
    from reflexion_lab.memory.archive import Archive

    if not has_shared_memory(cfg) and not store:
        return None
    shared = cfg.memory.shared
    parts = {"embedder": load_embedder(cfg)}
    return construct(
        "memory.shared",
        Archive,
        store=store or build(cfg.store, "store"),
        retriever=lambda: build(cfg.retriever, "retriever", parts),
        shown=shared.shown,
        match=shared.match,
        same_task=shared.same_task,
        max_episodes=shared.max_episodes,
        max_mistakes=shared.max_mistakes,
        retire_after=shared.retire_after,
        retire_below=shared.retire_below,
        curated=load_curated(cfg, models) if models else None,
        keeps_episodes=has_shared_episodes(cfg),
    )


def load_curated(cfg: RunConfig, models: Models) -> CuratedMemory | None:
    """Items across tasks, with their curator; None without one."""
    from reflexion_lab.memory.curators.curated import CuratedMemory

    if not keeps_items(cfg):
        return None
    limits = replace(cfg.memory.shared.items, max_tokens=items_limit(cfg))
    model = WrappedModel(models.of("curator"), models.refusals("curator"))
    parts: dict[str, Any] = {"model": model, "prompts": build(cfg.prompts, "prompts"), "limits": limits}
    if takes("curator", cfg.curator, "retriever"):
        parts["retriever"] = build(cfg.retriever, "retriever", {"embedder": load_embedder(cfg)})
    if declares(cfg.curator, "reads_solutions"):
        parts["tasks"] = load_benchmark(cfg).tasks
    curator = build(cfg.curator, "curator", parts)
    if own_targets(cfg.curator):
        for method in ("select", "curate"):
            curator = Budgeted(curator, method, cfg.loop.timeout)
    owner = objects.method_of(cfg.curator)
    return CuratedMemory(curator, limits, cfg.memory.shared.same_task, limits.frozen, limits.salt or "", owner)


def keeps_items(cfg: RunConfig) -> bool:
    """Whether a curator keeps items across tasks."""
    return bool(capability(cfg.curator, "keeps_items", True))


def has_shared_memory(cfg: RunConfig) -> bool:
    """Whether actors read from other loops, or a store keeps their memory."""
    return keeps_items(cfg) or has_shared_episodes(cfg)


def is_chain(cfg: RunConfig) -> bool:
    """Whether each attempt of a loop continues the one before it."""
    return bool(capability(cfg.policy, "is_chain", False, is_inherited=False))


def has_shared_episodes(cfg: RunConfig) -> bool:
    """Whether episodes and reflections of other loops are read, or kept in a store."""
    return bool(shared_by(cfg))


def shared_by(cfg: RunConfig) -> list[str]:
    """The keys by which episodes and reflections of other loops are read, or kept in a store."""
    from reflexion_lab.memory.archive import Shown

    shared, limits = cfg.memory.shared, cfg.memory.shared.shown
    shows = limits != Shown(min_score=limits.min_score, max_tokens=limits.max_tokens)
    by_key = {
        "memory.shared.shown": shows,
        "memory.shared.priors": shared.priors,
        "recall": capability(cfg.recall, "reads_other_tasks", True, is_inherited=False),
        "store": has_durable_store(cfg.store),
    }
    return [key for key, is_shared in by_key.items() if is_shared]


def draws_from_runs(cfg: RunConfig) -> bool:
    """Whether the reflector reads reflections of earlier runs."""
    return bool(capability(cfg.reflector, "reads_runs", False) and cfg.reflector.get("pool"))


def reads_solutions(cfg: RunConfig) -> bool:
    """Whether the reflector, a reflector within it, or the curator reads canonical solutions."""
    return declares(cfg.reflector, "reads_solutions") or declares(cfg.curator, "reads_solutions")


def reflects_on_last(cfg: RunConfig) -> bool:
    """`loop.reflect_on_last`; by default whether anybody reads a last reflection: memory shared by loops, a curator."""
    value = cfg.loop.reflect_on_last
    return has_shared_episodes(cfg) or declares(cfg.curator, "reads_reflections") if value is None else value


def items_limit(cfg: RunConfig) -> int:
    """`memory.shared.items.max_tokens`; by default the `SHARE` of the context of actor or curator, if one is known."""
    value = cfg.memory.shared.items.max_tokens
    contexts = [node.get("context") for node in (cfg.model, cfg.role_models.get("curator")) if node]
    known = [context for context in contexts if context] if keeps_items(cfg) else []
    return min([MOST_OF_ITEMS, *(context // SHARE for context in known)]) if value is None else value


def with_defaults(cfg: RunConfig) -> RunConfig:
    """The config with the null values that follow from others; a resumed run keeps those of its manifest."""
    rules: dict[str, Callable[[RunConfig], Any]] = {
        "loop.reflect_on_last": reflects_on_last,
        "memory.shared.items.max_tokens": items_limit,
    }
    values = {key: rule(cfg) for key, rule in rules.items() if value_at(cfg.whole, key) is None}
    if capability(cfg.policy, "is_complete_tree", False):
        size: int = build(cfg.policy, "policy").size
        if size > LARGEST_TREE:
            raise ConfigError("policy", f"a tree of {size:,} attempts", f"{LARGEST_TREE:,} at most")
        cfg = cfg.having({"loop.max_attempts": size, "loop.extra_attempts": 0})
    before = {key: value_at(cfg.resumed.config if cfg.resumed else {}, key) for key in values}
    return cfg.having({key: value if before[key] is None else before[key] for key, value in values.items()})


def snapshot_path(cfg: RunConfig) -> Path | None:
    """The file with the state of the store at which every cell of a sweep starts; None without such a snapshot."""
    if not cfg.sweep_id or not has_durable_store(cfg.store) or cfg.memory.shared.across_cells:
        return None
    store = {**cfg.store, "place": store_place(cfg.recorded)}
    digest = hashlib.sha256(msgspec.json.encode(store, order="sorted")).hexdigest()[:8]
    return Path(cfg.run_root, "sweeps", cfg.sweep_id, f"memory-{digest}.json")


def take_snapshot(cfg: RunConfig, beginning: Beginning) -> None:
    """Write the state of the store at which a cell began for all cells of its sweep, unless one has been written."""
    if (path := snapshot_path(cfg)) and not path.exists():
        files.replace(path, [msgspec.json.encode(beginning.of_store)])


def load_embedder(cfg: RunConfig) -> Embedder:
    """The embedder with its cache; weights are loaded at the first use."""
    from reflexion_lab.memory.embedders.cached import CachedEmbedder

    path = None if cfg.cache.mode == "off" else cfg.cache.embeddings
    return CachedEmbedder(build(cfg.embedder, "embedder"), path, cfg.quiet)


def embedder_fingerprint(cfg: RunConfig) -> str:
    """Fingerprint of the embedder that retrieval of shared memory uses; "" if it uses none."""
    if not has_shared_memory(cfg) or not takes("retriever", cfg.retriever, "embedder"):
        return ""
    try:
        return load_embedder(cfg).fingerprint
    except ModelError:  # raised again when a vector is needed, which a replayed run may never do
        return ""


def _attributes(max_steps: Positive, seconds: Above0, help: str) -> None:
    """Those of an environment."""


def load_sandbox(cfg: RunConfig, servers: int | None = None) -> CachedSandbox:
    """The sandbox with its execution cache and the environment of the tasks, if they have one. Raises ConfigError: the
    environment lacks an attribute.
    """
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox
    from reflexion_lab.tasks.sandbox.sandbox import Sandbox

    sandbox = Sandbox(cfg.sandbox.limits, servers or cfg.sandbox.servers)
    environment = build(cfg.environment, "environment") if cfg.environment else None
    if environment:
        attributes = {name: getattr(environment, name, None) for name in ("max_steps", "seconds", "help")}
        check(_attributes, attributes, "environment")
    return CachedSandbox(sandbox, None if cfg.cache.mode == "off" else cfg.cache.executions, environment)


def timed_tasks(benchmark: Benchmark, sandbox: CachedSandbox, keep_failing: bool = False) -> tuple[Task, ...]:
    """The tasks with the CPU time of their canonical solutions; tasks with a failing solution need `keep_failing`.

    Raises ConfigError: canonical solutions fail tests of their own tasks, and `keep_failing` is off.
    """
    from reflexion_lab.tasks.sandbox.cached import measured

    tasks: list[Task] = []
    failing: list[str] = []
    for first in range(0, len(benchmark), TIMED):
        timed, failed = measured(benchmark.tasks[first : first + TIMED], sandbox, sandbox.servers)
        tasks += timed
        failing += failed
    _refuse("canonical solution", "failing tests of the same task here", failing, keep_failing)
    return tuple(tasks)


def vacuous_tests(tasks: Sequence[Task], sandbox: CachedSandbox, keep: bool = False) -> dict[str, str]:
    """Tasks with tests that check nothing, by id. Raises ConfigError: hidden ones, without `keep`.

    Warns of visible ones, and of single tests that look like a check and are none.
    """
    from reflexion_lab.tasks.benchmarks.vacuous import flaws, vacuous

    sides = {"visible": [task.visible_tests for task in tasks], "hidden": [task.hidden_tests for task in tasks]}
    empty: dict[str, str] = {}
    with ThreadPoolExecutor(sandbox.servers) as pool:
        for side, tests in sides.items():
            whys = pool.map(lambda task, of_side: vacuous(task, of_side, sandbox), tasks, tests)
            named = {
                task.loop_id: f"{task.loop_id} ({line(why, FLAW_CHARS)})"
                for task, why in zip(tasks, whys, strict=True)
                if why
            }
            empty |= dict.fromkeys(named, side)
            _refuse("task", f"with {side} tests that check nothing", [*named.values()], keep or side == "visible")
    single = {
        task.loop_id: flaw
        for task in tasks
        for test in (*task.visible_tests, *task.hidden_tests)
        for flaw in flaws(test)
        if task.loop_id not in empty
    }
    names = [f"{task_id} ({line(flaw, FLAW_CHARS)})" for task_id, flaw in single.items()]
    _refuse("task", "with a test that checks nothing", names, keep=True)
    return empty


def _refuse(noun: str, problem: str, names: Sequence[str], keep: bool) -> None:
    """Print a warning that names tasks. Raises ConfigError without `keep`."""
    if not names:
        return
    named = visible(", ".join(names[:NAMED])) + " and others" * (len(names) > NAMED)
    problem = f"{number_of(len(names), noun)} {problem}: {named}"
    if not keep:
        raise ConfigError(
            f"benchmark: {problem}; correct these tasks, select others with benchmark.ids, or keep them with "
            "benchmark.keep_failing=true"
        )
    print(f"warning: {problem}", file=sys.stderr)


def load_benchmark(cfg: RunConfig, sandbox: CachedSandbox | None = None, is_whole: bool = False) -> Benchmark:
    """The tasks of the run as a stream, with the digest of the whole data set; `is_whole`: those of every shard.

    `sandbox` computes expected values that the data set omits.
    """
    from reflexion_lab.tasks.benchmarks.shards import shard
    from reflexion_lab.tasks.benchmarks.stream import stream

    node = cfg.benchmark
    chosen = selected(cfg, sandbox)
    if untested := [task.task_id for task in chosen if not task.hidden_tests]:
        names = visible(", ".join(untested[:NAMED])) + (" and others" if len(untested) > NAMED else "")
        problem = f"{number_of(len(untested), 'task')} without hidden tests: no verdict, in no rate: {names}"
        print(f"warning: {problem}", file=sys.stderr)
    tasks: Benchmark = construct(
        "benchmark", stream, benchmark=chosen, order=node.order, passes=node.passes, split=node.split
    )
    return tasks if node.shard is None or is_whole else shard(tasks, node.shard)


def selected(cfg: RunConfig, sandbox: CachedSandbox | None = None) -> Benchmark:
    """The selected tasks in the benchmark's order, each once."""
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

    if sandbox is None and takes("benchmark", cfg.benchmark.load, "compute"):
        with contextlib.closing(load_sandbox(cfg)) as own:  # starts a process only for values that the file omits
            return selected(cfg, own)
    parts: dict[str, Any] = {"compute": sandbox and sandbox.values}
    if fields := cfg.benchmark.fields:
        if not takes("benchmark", cfg.benchmark.load, "fields"):
            raise ConfigError("benchmark.fields", fields, "none; benchmark=FILE reads them")
        parts["fields"] = fields
    loaded = _loaded(cfg, parts)
    whole = loaded if isinstance(loaded, Benchmark) else Benchmark(name=cfg.benchmark.name, tasks=tuple(loaded))
    node = cfg.benchmark
    seed = cfg.seed if node.sample_seed is None else node.sample_seed
    chosen = construct("benchmark", whole.select, limit=node.limit, sample=node.sample, seed=seed, ids=node.ids)
    if not len(chosen):
        raise ConfigError("benchmark: no task is left after ids, sample and limit", expected="at least one")
    return chosen


def _loaded(cfg: RunConfig, parts: Mapping[str, Any]) -> Any:
    """What the loader of the benchmark returns: read once a process from an unchanged file by a loader of the lab."""
    load = cfg.benchmark.load
    files = _files(load)
    path = str(Path(str(load.get("path"))).absolute())
    is_versioned = "path" not in load or path in (name for name, *_ in files)  # neither a folder nor the hub
    if own_targets(load) or "_args_" in load or not is_versioned:
        return build(load, "benchmark.load", parts)
    computes = parts["compute"] and cfg.whole["sandbox"]
    kept = _kept(msgspec.json.encode([load, parts.get("fields"), computes], order="sorted"), files)
    if not kept:
        kept.append(build(load, "benchmark.load", parts))
    return kept[0]


_kept = functools.lru_cache(maxsize=4)(lambda load, files: list[Any]())
"""The benchmark of a loader's config and the version of its files, once it is read."""


def load_models(cfg: RunConfig, is_asked: bool = True) -> Models:
    """Models by role, each with the caps and the call cache. Roles of equal config share one instance.

    `is_asked`: servers are asked for the model; without, its fingerprint ends in `registration.UNASKED`.
    """
    if strange := sorted(cfg.roles.keys() - set(ROLES[1:])):
        raise ConfigError("roles", ", ".join(strange), f"some of {', '.join(ROLES[1:])}")
    meter, lists = load_meter(cfg), read(cfg.prices.path if cfg.prices else None)
    costs = {"caps": meter.caps.cost, **{f"stop.{name}": rule.get("cost") for name, rule in cfg.stop.items()}}
    limits = {f"{key}.cost": cost for key, cost in costs.items() if cost is not None}
    prices, of_role, nodes = {}, {}, {}
    for role, node in {"actor": cfg.model, **cfg.role_models}.items():
        _check_secrets("model" if role == "actor" else f"roles.{role}", node)
        _check_style(cfg, role, node)
        of_role[role] = key = msgspec.json.encode(node, order="sorted")
        if key not in prices:
            prices[key] = price = resolved_price(role, node, lists, limits)
            known = {"price_per_million": price.per_million and list(price.per_million)}
            nodes[key] = node | known if "price_per_million" in node else node
            _longest_reply(node, meter.caps)
    check_currency(prices.values())  # all values are checked before a server is asked for its models
    models: dict[bytes, CachedModel] = {}
    for role, key in of_role.items():
        models[key] = models.get(key) or _cached(cfg, role, nodes[key], meter, prices[key], is_asked)
    refusals = {role: Refusals() for role in ROLES}.__getitem__
    return Models({role: models[key] for role, key in of_role.items()}, meter, refusals)


def load_meter(cfg: RunConfig) -> Meter:
    """The caps, with the ledger of a sweep's spending; of a run, once it has a scope."""
    return Meter(cfg.caps or Caps(), cfg.storage.spending if cfg.storage else None, cfg.sweep_id or "")


def _cached(cfg: RunConfig, role: str, node: dict[str, Any], meter: Meter, price: Price, is_asked: bool) -> CachedModel:
    from reflexion_lab.agent.models.cache import CachedModel

    if takes("model", node, "tasks"):
        model = build(node, "model", {"tasks": selected(cfg).tasks})
    else:
        model = _own_model(node) or _model(msgspec.json.encode(node, order="sorted"), _files(node))
        if cfg.cache.mode != "replay-only" and (identified := getattr(model, "identified", None)):
            if is_asked:
                model = identified(earlier.served.get(role) if (earlier := cfg.resumed) else None)
            else:
                model = copy.copy(model)
                model.fingerprint += UNASKED
    if price is not RECORDED:
        model = CappedModel(model, meter, price, _longest_reply(node, meter.caps))
    return construct("cache", CachedModel, model=model, price=price, path=cfg.cache.path, mode=cfg.cache.mode)


def _longest_reply(node: Mapping[str, Any], caps: Caps) -> int:
    """Reply limit in tokens from the `extra_body` of a model config; 0 if it sets none.

    Raises ConfigError: `extra_body` removes the limit, and there is a cap on tokens or cost.
    """
    extra = node.get("extra_body") or {}
    limits = [int(extra[name]) for name in ("max_tokens", "max_completion_tokens") if extra.get(name)]
    if "max_tokens" in extra and not limits and (caps.tokens, caps.cost) != (None, None):
        raise ConfigError(
            "model.extra_body",
            "no max_tokens",
            "max_completion_tokens in its place, since a cap on tokens or cost needs a limit",
        )
    return max(limits, default=0)


def _check_secrets(place: str, node: Mapping[str, Any]) -> None:
    """Raises ConfigError: the config holds a secret; configs are stored with every run."""
    for field, value in node.items():
        below = f"{place}.{field}"
        if isinstance(value, dict):
            _check_secrets(below, value)
        elif is_given(field, value) or without_logins(value) != value:
            raise ConfigError(
                below,
                "a key, or an address with one",
                "none in a config, which is kept with every run",
                "put it into an environment variable, named by model.api_key_env=NAME; an address into OPENAI_BASE_URL",
            )


def _check_style(cfg: RunConfig, role: str, node: Mapping[str, Any]) -> None:
    """Raises ConfigError: a chat-only model would continue a file, or a schedule of temperatures would be lost."""
    is_scheduled = declares(cfg.actor, "sets_temperature")
    if role == "actor" and is_scheduled and "temperature" in (node.get("extra_body") or {}):
        raise ConfigError("model.extra_body", "a temperature", "none, since each attempt of the actor has its own")
    is_writer = cfg.feedback_source == "self_tests" and _continues(cfg.suite_writer.get("writer", {}))
    if is_writer and (reason := capability(cfg.role_models.get("suite_writer", cfg.model), "only_chats", "")):
        raise ConfigError("suite_writer", f"continuation with {reason}", "suite_writer=chat")
    reason = capability(node, "only_chats", "")
    if not reason or role in ("reflector", "critic", "suite_writer"):
        return
    revises = declares(cfg.actor, "revises")
    actor = "actor@actor.make_actor" if "make_actor" in cfg.actor else "actor"
    for name, chat in {"actor": f"{actor}=single_shot", **({"reviser": "reviser=llm"} if revises else {})}.items():
        if any_node(getattr(cfg, name), _continues):
            raise ConfigError(name, f"continuation with {reason}", chat)


def chat_choices(cfg: Config) -> list[str]:
    """Choices that replace parts by which a model continues a file, if it only chats: `actor=single_shot`."""
    choices: list[str] = []
    actor, reviser = (plain(cfg.get(group) or {}, resolve=False) for group in ("actor", "reviser"))
    if capability(cfg.model, "only_chats", ""):
        choices += _chatting("actor", actor)
        if declares(actor, "revises"):
            places = {"reviser": reviser, "reviser@reviser.fallback": reviser.get("fallback") or {}}
            choices += [f"{place}=llm" for place, node in places.items() if node.get("style") == "continuation"]
    writer = plain(cfg.suite_writer, resolve=False).get("writer")
    is_written = cfg.feedback_source == "self_tests" and isinstance(writer, Mapping)
    chats = is_written and capability(cfg.roles.get("suite_writer", cfg.model), "only_chats", "")
    return [*choices, "suite_writer=chat"] if chats and writer.get("style") == "continuation" else choices


def _chatting(key: str, node: Mapping[str, Any]) -> Iterator[str]:
    """Choices in place of actors that let their model continue a file: `actor=react`, `actor@actor.generator=…`."""
    place, target = key if key == "actor" else f"actor@{key}", str(node.get("_target_", ""))
    if target and capability(node, "continues_a_file", False):
        yield f"{place}=single_shot"
    elif node.get("style") == "continuation" and target.startswith("reflexion_lab.agent.actors."):
        yield f"{place}={target.split('.')[-2]}"
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _chatting(f"{key}.{name}", value)


def _continues(node: Mapping[str, Any]) -> bool:
    """Whether a part makes its model continue a file."""
    return node.get("style") == "continuation" or bool(capability(node, "continues_a_file", False))


def declares(node: Any, name: str) -> bool:
    """Whether the part of a config node, or one within it, has the capability `name`."""
    return any_node(node, lambda each: bool(capability(each, name, False)))


def any_node(node: Any, is_such: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Whether `is_such` holds for a config node or a node within it."""
    if isinstance(node, dict):
        return is_such(node) or any(any_node(value, is_such) for value in node.values())
    return isinstance(node, list) and any(any_node(value, is_such) for value in node)


def _files(node: Mapping[str, Any]) -> tuple[tuple[str, int, int, int], ...]:
    """Files named by a node, with their versions: a changed or replaced one is another model, or another benchmark."""
    texts = [(key, value) for key, value in node.items() if isinstance(value, str)]
    # A folder in other keys is there by chance, such as one with the name of a branch; `Path` raises for a long text.
    names = [name for key, name in texts if isfile(name) or (key in ("path", "adapter") and isdir(name))]  # noqa: PTH112, PTH113
    places = map(Path.absolute, map(Path, names))
    paths = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()]
    return tuple(
        (str(path), path.stat().st_ino, path.stat().st_ctime_ns, path.stat().st_size) for path in sorted(paths)
    )


def _own_model(node: Mapping[str, Any]) -> Model | None:
    """The model of a notebook that the config node names, if it does."""
    if not (name := objects.named(node["_target_"])):
        return None
    model = build(node, "model")
    if hasattr(model, "_price"):
        kind = type(model).__name__
        raise ConfigError("model", f"a {kind} object", "its config, such as model='openai/NAME', which knows its price")
    own = WrappedModel(model)
    own.fingerprint = f"{model.fingerprint}+{name[1]}"  # replies are kept under its present source
    return own


@functools.cache
def _model(node: bytes, files: tuple[tuple[str, int, int, int], ...]) -> Model:
    """One instance per process, config and version of its `files`, so that weights are loaded once."""
    model: Model = build(msgspec.json.decode(node), "model")
    return model


def draws_by_role(models: Models, first: int = 0) -> dict[str, Draws]:
    """Models of one loop by role; roles that share a model, or its fingerprint, share their count of draws."""
    from reflexion_lab.agent.models.cache import Draws

    counts = Counter[str]()
    return {role: Draws(models.of(role), counts, first, models.refusals(role)) for role in ROLES}


def stop_rules(cfg: RunConfig, stuck: Stuck) -> Stop:
    """Default stop rules, then those of the group `stop`: a tree that is made as a whole ends by itself, and equal
    draws of other trees are no repetition.
    """
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed, SandboxFailed, TimeOut

    early: list[Stop] = [
        Passed(cfg.loop.confidence_threshold),
        MaxAttempts(cfg.loop.max_attempts, cfg.loop.extra_attempts),
    ]
    return FirstOf(
        SandboxFailed() if declares(cfg.reflector, "needs_no_verdict") else NoFeedback(),
        *([] if capability(cfg.policy, "is_complete_tree", False) else early),
        TimeOut(cfg.loop.timeout),
        *([stuck] if is_chain(cfg) else []),
        *(build(rule, f"stop.{name}") for name, rule in cfg.stop.items()),
    )


def suite_writer_factory(cfg: RunConfig, models: Models, sandbox: Sandbox) -> Callable[[], SuiteWriter]:
    """A factory of test writers, one per task. Their draws are numbered from `SUITE_DRAWS`, so that the loop's draws
    equal those of other arms, and no draft that supports a test is a candidate of the loop.
    """
    from reflexion_lab.agent.models.cache import SUITE_DRAWS, Draws

    node, parts = cfg.suite_writer, {"sandbox": sandbox, "prompts": build(cfg.prompts, "prompts")}
    model, refusals = models.of("suite_writer"), models.refusals("suite_writer")

    def writer() -> SuiteWriter:
        draws = Draws(model, first=SUITE_DRAWS + cfg.loop.first_draw, refusals=refusals)
        suite_writer: SuiteWriter = build(node, "suite_writer", {**parts, "model": draws})
        return suite_writer

    writer()  # report invalid values before anything is written
    return writer
