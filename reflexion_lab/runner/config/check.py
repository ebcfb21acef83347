"""Validation of a config before anything else runs; errors name the key of the invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import capability, check_targets, has_durable_store, suggestion, takes
from reflexion_lab.runner.config.initial_items import shows_solutions
from reflexion_lab.runner.config.parts import draws_from_runs, is_chain, keeps_items, shared_by, with_defaults
from reflexion_lab.runner.config.record import KEYS, RunConfig, places, scalars
from reflexion_lab.runner.folder.manifest import SALT, is_own_salt

LONGEST = 120
"""Maximum length of an arm's name, which is part of a folder name."""
WORDLESS = ("reflector", "NoReflection")
PROMISED = {
    "retry": (WORDLESS,),
    "feedback_only": (WORDLESS,),
    "warming": (WORDLESS, ("actor", "Warming")),
    "escalation": (WORDLESS, ("actor", "Escalation")),
    "repair_tree": (("policy", "RepairTree"),),
    "best_first": (("policy", "BestFirst"),),
    "tree_search": (("policy", "TreeSearch"),),
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


def check(cfg: RunConfig, is_recorded: bool = False) -> None:
    """Check what the records of a config do not: names, places, keys, values that exclude each other. Imports parts.

    `is_recorded`: whether it is that of a manifest, which holds the salt of its run. Raises ConfigError: a value is
    out of range, or a key is unused. A used top-level key is one of a `RunConfig`, or is read by an interpolation
    elsewhere; a used key of a part is a parameter of its constructor.
    """
    for key, name in (("arm", cfg.arm), ("sweep_id", cfg.sweep_id or "")):
        if name.startswith(".") or "/" in name or len(name) > LONGEST or not name.isprintable():
            raise ConfigError(key, repr(name[:40]), "a word that can name a folder, without a slash")
    url = str(cfg.storage.url if cfg.storage else "???")  # it may hold a password
    if not url.startswith(("postgres", "???")):
        raise ConfigError("storage.url", "no URL of PostgreSQL", "postgresql://host:5432/database")
    files = cfg.memory.reflection_files
    if files and Path(files).exists() and (not Path(files).is_dir() or Path(files, "episodes.jsonl").exists()):
        raise ConfigError(f"memory.reflection_files: {files} is a file or a store", expected="a folder of its own")
    known = {key: node for key, node in cfg.whole.items() if key in KEYS}
    for key in cfg.whole.keys() - KEYS.keys():
        others = (text for name, node in cfg.unresolved.items() if name != key for _, text in scalars(name, node))
        if not any(re.search(rf"\$\{{.*\b{re.escape(key)}\b", text) for text in others if isinstance(text, str)):
            expected = f"a key of the lab, or one that a value reads as ${{{key}}}"
            hint = suggestion(key, places(known) | KEYS.keys())
            raise ConfigError(f"{key}: unknown key", expected=expected, hint=hint)
    for key, node in known.items():
        check_targets(key, node)
    salt = cfg.memory.shared.items.salt
    if not is_recorded and salt is not None and not is_own_salt(salt):  # it would be in no digest
        raise ConfigError(SALT, salt, "another form than 16 hexadecimal digits, which a default salt has")
    _check_leaks(cfg)
    _check_policy(cfg)
    if takes("actor", cfg.actor, "environment") and not cfg.environment:
        got, expected = f"none with actor {_classes(cfg.actor)[0]}", "that of the tasks, as benchmark=textworld sets it"
        raise ConfigError("environment", got, expected)
    if cfg.only is not None and cfg.resume is None:
        raise ConfigError("only", f"{cfg.only} without resume", "resume=RUN, the run that has unscored tasks")
    _check_shard(cfg)


def _check_leaks(cfg: RunConfig) -> None:
    """Raises ConfigError: words about hidden tests would outlive the run."""
    kept = [("store", "a store", "store=none")] * has_durable_store(cfg.store)
    kept += [("memory.reflection_files", "a folder", "null")] * bool(cfg.memory.reflection_files)
    is_oracle = cfg.feedback_source == "oracle"
    if kept and (is_oracle or shows_solutions(cfg)):
        (key, got, expected), why = kept[0], "since words about hidden tests and solutions would reach other runs"
        leak = "feedback_source=oracle" if is_oracle else "a part that reads canonical solutions"
        raise ConfigError(key, f"{got} with {leak}", f"{expected}, {why}")


def _check_policy(cfg: RunConfig) -> None:
    """Raises ConfigError: memory that reads a loop as a chain, with a policy that branches."""
    keys = ["curator"] * keeps_items(cfg) + shared_by(cfg)
    keys += ["memory.show_session"] * cfg.memory.show_session
    keys += ["memory.reflection_files"] * bool(cfg.memory.reflection_files)
    changing = {"Warming", "Escalation"} & {*_classes(cfg.actor)}
    if changing and not is_chain(cfg):
        expected = "policy=chain, or an actor whose draws do not depend on the attempt's number"
        raise ConfigError("policy", f"{_classes(cfg.policy)[0]} with actor {min(changing)}", expected)
    longest = 0 if is_chain(cfg) else with_defaults(cfg).loop.max_attempts
    if 0 < cfg.memory.max_episodes < longest:
        expected = f"loop.max_attempts={longest} or more: a parent must not be forgotten"
        raise ConfigError("memory.max_episodes", cfg.memory.max_episodes, expected)
    if keys and not is_chain(cfg):
        expected = f"policy=chain, or no {keys[0]}: this memory reads attempts as a chain"
        raise ConfigError("policy", f"{_classes(cfg.policy)[0]} with memory by {keys[0]}", expected)


def _check_shard(cfg: RunConfig) -> None:
    """Raises ConfigError: with a shard, a task would lack what tasks of other shards have left for it."""
    if (which := cfg.benchmark.shard) is None:
        return
    keys = ["curator"] * keeps_items(cfg) + shared_by(cfg) + ["reflector"] * draws_from_runs(cfg)
    keys += ["benchmark.split"] * bool(cfg.benchmark.split)
    if keys:
        without = {"curator": "=none", "store": "=none", "recall": "=window", "reflector": " without a pool"}
        expected = f"none: {keys[0]}{without.get(keys[0], ' as by default')}"
        raise ConfigError("benchmark.shard", f"{which} with memory across tasks by {keys[0]}", expected)


def arm_warnings(cfg: RunConfig) -> Iterator[str]:
    """Warnings about a run that is not what the name of its arm says: a mislabelled control invalidates a comparison.

    Such runs arise because overrides for all arms of a sweep take precedence over an experiment's choices.
    """
    arm = cfg.arm
    for group, name in PROMISED.get(arm, ()):
        if name not in (classes := _classes(getattr(cfg, group))):
            inner = ", put it inside by actor@actor.generator=…" * (name == "CritiqueRevise")
            yield (
                f"arm: got {arm} with {group} {classes[0]}, expected {name}, as the {arm} of conf has it; "
                f"leave {group}=… out{inner}, or give the arm another name"
            )
    redraws = "arm=retry" if arm == "retry" else "" if is_chain(cfg) else "a policy of fresh draws"
    if redraws and cfg.loop.max_attempts > 1 and max(_temperatures(cfg.actor), default=1) == 0:
        yield (
            f"temperature: got 0 with {redraws}, where a deterministic model draws the same program at every attempt, "
            "expected one above 0; give temperature=0.8, say, to all arms alike"
        )
    reached = REACHED.get(_classes(cfg.retriever)[0])
    if reached and cfg.recall.get("min_score") == 0.25:
        yield f"recall.min_score: got 0.25, which suits retriever=jaccard; here {reached}; 0 is no threshold"
    if cfg.memory.shared.across_cells and has_durable_store(cfg.store) and cfg.sweep_id:
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
