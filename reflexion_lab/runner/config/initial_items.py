"""The items of another run with which memory begins: `memory.shared.items.of`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.curators.items import ItemMemory, after
from reflexion_lab.records import Item, base_id
from reflexion_lab.runner.config.build import capability
from reflexion_lab.runner.config.parts import keeps_items, reads_solutions
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder, is_finished
from reflexion_lab.runner.objects import method_of

KEY = "memory.shared.items"


class InitialItems(NamedTuple):
    items: tuple[Item, ...]
    origin: str
    """Run, and digest of the items."""
    is_upper_bound: bool
    """Whether that run read hidden tests or canonical solutions, or began with items of such a run."""
    method: str
    """Of the curator of that run."""


def initial_items(cfg: RunConfig) -> InitialItems | None:
    """What `memory.shared.items.of` and `after` name; None without a run.

    Raises FolderError: it is no run folder; ConfigError: this run or that one has no curator, that one has fewer
    rounds, or this curator cannot read the items of that one; DataError: its operations do not give its memory.
    """
    node = cfg.memory.shared.items
    if node.of is None:
        if node.after is not None:
            raise ConfigError(f"{KEY}.after", node.after, f"null without a run, {KEY}.of=RUN")
        return None
    if not keeps_items(cfg):
        raise ConfigError(f"{KEY}.of", f"{node.of} without a curator", "the curator of that run, such as curator=expel")
    source = RunFolder.existing(node.of)
    manifest, beginning, updates = source.manifest, source.beginning, source.updates
    curator = manifest.config.get("curator")
    if beginning is None or not isinstance(curator, Mapping) or not capability(curator, "keeps_items", True):
        raise ConfigError(f"{KEY}.of", node.of, "a run with a curator")
    method, own = method_of(curator), method_of(cfg.curator)
    if method != own and not (node.frozen and capability(cfg.curator, "shows_any_items", False)):
        hint = "items of any method are shown by curator=full_history or raw_trajectories with .frozen=true"
        raise ConfigError(f"{KEY}.of", f"{node.of}, a run of {method}", f"a run of {own}", hint)
    _check_rounds(source, node.after)
    items = after(beginning.items, updates, node.after)
    origin = f"{manifest.run_id}: {len(items)} items, {ItemMemory(items).digest}"
    return InitialItems(items, origin, manifest.is_upper_bound, method)


def origin_of_items(cfg: RunConfig) -> str:
    """Run and digest of the items of another run that memory begins with; "" without one."""
    if earlier := cfg.resumed:
        return earlier.provenance.items
    others = initial_items(cfg)
    return others.origin if others else ""


def shows_solutions(cfg: RunConfig) -> bool:
    """Whether a part `reads_solutions`, or memory begins with items of a run that read hidden tests or solutions."""
    if earlier := cfg.resumed:
        return earlier.shows_solutions
    others = initial_items(cfg)
    return reads_solutions(cfg) or bool(others and others.is_upper_bound)


def _check_rounds(source: RunFolder, rounds: int | None) -> None:
    """Raises ConfigError: the run has fewer rounds, or may yet change the items."""
    learnt = [result for result in source.results.values() if result.split in ("", "train")]
    size = int(source.manifest.config["memory"]["shared"]["round_size"])  # type: ignore[index]
    is_over = is_finished(source)
    last = -(-len(learnt) // size) if is_over else max((update.round for update in source.updates), default=0)
    if rounds is None and not is_over:
        raise ConfigError(
            f"{KEY}.of", f"{source.path}, which is not finished", "a finished run, or `after` rounds of it"
        )
    if rounds is not None and rounds > last:
        raise ConfigError(f"{KEY}.after", rounds, f"0 to {last}, the rounds of {source.path}")


def of_held_out(items: Collection[Item], held_out: Collection[str]) -> int:
    """The number of items that come from tasks that a split holds out."""
    ids = {base_id(task_id) for task_id in held_out}
    return sum(any(base_id(source) in ids for source in item.sources) for item in items)
