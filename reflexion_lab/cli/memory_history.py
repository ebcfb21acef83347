"""`reflexion-lab memory log | diff | revert`: the items of a run's curator over its rounds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say, say_json, sheet, short
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.curators.items import after
from reflexion_lab.records import Item
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.objects import method_of

if TYPE_CHECKING:
    from reflexion_lab.memory.curators.history import Change, Round

SHOWN = 8
"""Rounds in the table: the first half and the last half of them."""


def add(group: place.Commands) -> None:
    sub = _add(group, "log", log, "print the changes of a run's memory across tasks, by round")
    sub.add_argument("--round", metavar="N", type=place.count, help="all operations of this round, from 0")
    place.add_flag(sub, "--full", "all rounds")
    place.add_json(sub)
    sub = _add(group, "diff", diff, "print how the items of a run differ between two of its rounds")
    sub.add_argument("--since", metavar="N", type=place.count, default=0, help="number of rounds before (default: 0)")
    sub.add_argument("--until", metavar="N", type=place.count, help="number of rounds after (default: all)")
    place.add_json(sub)
    text = "set a method's items in a store to those of a run after N rounds; its other items are removed"
    sub = _add(group, "revert", revert, text)
    sub.add_argument("rounds", metavar="N", type=place.count, help="number of rounds of the run; 0: its start")
    place.add_store(sub)
    place.add_flag(sub, "--yes", "change the store; without it, the changes are only printed")


def _add(group: place.Commands, name: str, run: Any, description: str) -> argparse.ArgumentParser:
    sub = place.add_command(group, name, run, description)
    sub.add_argument("run", metavar="RUN", help="a run folder, or a part of the name of a run in runs/")
    return sub


def log(options: argparse.Namespace) -> None:
    from reflexion_lab.memory.curators.history import rounds

    run = _with_items(options.run)
    updates = run.updates
    if options.round is not None:
        calls = [update for update in updates if update.round == options.round]
        if not calls:
            raise ConfigError("--round", options.round, f"a round with a call, 0 to {updates[-1].round}")
        for call in calls:
            say(f"call {call.call}, {', '.join(call.task_ids)}: {len(call.operations)} operations", *_operations(call))
    else:
        every, last = rounds(updates), updates[-1]
        spent = sum(update.usage.tokens for update in updates)
        unreadable = sum(update.unreadable for update in updates)
        too_long = sum(update.usage.refused for update in updates)
        refused = sum(len(update.refused) for update in updates)
        size = f"{last.items} item{'s' * (last.items != 1)}, {last.tokens:,} tokens"
        ends = [*every[: SHOWN // 2], *every[-SHOWN // 2 :]]
        problems = f"unreadable replies {unreadable}, prompts too long {too_long}, operations refused {refused}"
        say(
            f"{run.path.name}: {size} after {last.round + 1} round{'s' * (last.round > 0)}",
            f"curator: calls {len(updates)}, rounds {len(every)}, tokens {spent:,}; {problems}",
            _table(every if options.full or len(every) <= SHOWN else ends, len(every)),
            f"next: reflexion-lab memory diff {run.path.name}",
        )
    if options.json:
        say_json({"run": run.path.name, "updates": updates})


def _table(shown: Sequence[Round], total: int) -> Any:
    kinds = [kind for kind in ("add", "edit", "vote", "link", "merge", "remove") if any(r.kinds[kind] for r in shown)]
    rows = [(str(r.number), *(f"{r.kinds[kind]:,}" for kind in kinds), f"{r.items:,}", f"{r.tokens:,}") for r in shown]
    note = f"{total - len(shown)} rounds between are left out; --full shows all" if len(shown) < total else ""
    return sheet("Operations by round", ("round", *kinds, "items", "tokens"), rows, note=note)


def _operations(call: Any) -> Iterator[str]:
    for operation in call.operations:
        reason = f" ({operation.reason})" if operation.reason else ""
        votes = " ".join(f"{name} {n:+d}" for name, n in operation.votes.items())
        words = " ".join(filter(None, (votes, short(operation.text))))
        yield f"  {operation.kind} {' '.join(operation.item_ids)}: {words}{reason}"
    for refusal in call.refused:
        yield f"  refused {refusal.operation.kind}: {refusal.reason}: {short(refusal.operation.text)}"
    if call.unreadable:
        yield f"  {call.unreadable} unreadable replies"


def diff(options: argparse.Namespace) -> None:
    from reflexion_lab.memory.curators.history import changes, without_copies

    run = _with_items(options.run)
    total = run.updates[-1].round + 1
    since, until = options.since, total if options.until is None else options.until
    if not since <= until <= total:
        raise ConfigError("--since and --until", f"{since} and {until}", f"0 to {total} rounds, in order")
    differing, copies = without_copies(changes(_items(run, since), _items(run, until)))
    counts = {kind: sum(change.kind == kind for change in differing) for kind in KINDS}
    listed = ", ".join(f"{n} {kind}" for kind, n in counts.items()) + f", {copies} written again" * bool(copies)
    say(f"{run.path.name}, rounds {since} to {until}: {listed}", *(_line(change) for change in differing))
    if options.json:
        whole = {"run": run.path.name, "since": since, "until": until, **counts}
        say_json({**whole, "written_again": copies, "changes": differing})


KINDS = {"added": "+", "removed": "-", "edited": "~", "counted": "="}
"""Kinds of changes, with their marks."""


def _line(change: Change) -> str:
    item = change.item
    counts = " ".join(f"{name} {n}" for name, n in item.counts.items())
    before = f"\n    was: {short(change.before.text)}" if change.kind == "edited" and change.before else ""
    return f"{KINDS[change.kind]} {item.item_id} {f'[{counts}] ' if counts else ''}{short(item.text)}{before}"


def revert(options: argparse.Namespace) -> None:
    from reflexion_lab.memory.curators.history import changes

    run = _with_items(options.run)
    if leak := run.manifest.leak:
        expected = "another run: its items would leak hidden tests into later runs"
        raise ConfigError("RUN", f"items of loops that were shown {leak}", expected)
    with place.kept_at(options.store) as store:
        owner = method_of(run.manifest.config["curator"])
        wanted = [replace(item, owner=owner) for item in _items(run, options.rounds)]
        known = [item for item in store.read(Item) if item.text and item.owner == owner]
        differing = changes(known, wanted)
        removed = [replace(change.before, text="") for change in differing if change.before]
        if options.yes and differing:
            kept = {item.item_id for item in wanted}
            store.append([*(item for item in removed if item.item_id not in kept), *wanted])
    done = "reverted" if options.yes else "would be reverted; give --yes to change the store"
    say(f"{place.without_password(options.store)}: items {len(known)} to {len(wanted)}, {done}", *map(_line, differing))


def _items(run: RunFolder, rounds: int) -> Sequence[Item]:
    beginning = run.beginning
    return after(beginning.items if beginning else (), run.updates, rounds)


def _with_items(name: str) -> RunFolder:
    """Raises ConfigError: the run has no curator."""
    run = place.one_run(name)
    if not run.updates:
        raise ConfigError("RUN", run.path, "a run with a curator, which has operations.jsonl", "curator=wisdom, say")
    return run
