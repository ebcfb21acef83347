"""`reflexion-lab memory`: look into a store, check it, and move records in and out."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from reflexion_lab.cli import place
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode, Search

DAY = 24 * 60 * 60


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "look into the memory that runs share: episodes, wisdom, mistakes and sessions"
    kinds = commands.add_parser("memory", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    _add_looks(kinds)
    sub = _sub(kinds, "prune", prune, "remove old episodes and mistakes, for good")
    sub.add_argument("--days", metavar="N", type=float, required=True, help="minimum age in days")
    sub.add_argument("--dry-run", action="store_true", help="only print the number")
    sub = _sub(kinds, "clear", clear, "remove all records of every kind, for good")
    sub.add_argument("--yes", action="store_true", help="do it; without, only the numbers are printed")
    sub = _sub(kinds, "export", export, "write all records to one file")
    sub.add_argument("file", metavar="FILE", help="*.jsonl, or *.json for one object")
    description = (
        "take in exports, other stores, or run folders; attempts of a run become episodes. Nothing is imported when "
        "any of them is bad. A run folder holds no prompts: they come from the benchmark that it names, if that can "
        "be loaded here, and else stay empty"
    )
    sub = _sub(kinds, "import", import_files, description)
    sub.add_argument("files", metavar="FILE", nargs="+")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")


def _add_looks(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = kinds.add_parser("validate", help="list all invalid records; exit code 1 if there are any")
    sub.add_argument("paths", metavar="PATH", nargs="+", help="a store, an export, run folder, or reflection files")
    sub.set_defaults(command=validate)
    sub = _sub(kinds, "show", show, "what a store holds, and its newest episodes")
    sub.add_argument("--episode", metavar="ID", help="one episode, whole")
    sub.add_argument(
        "--limit", metavar="N", type=place.count, default=10, help="number of episodes, 0 for none (%(default)s)"
    )
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub = _sub(kinds, "search", search, "find episodes, newest first")
    words = "searched in tasks, failure analyses and reflections, ignoring case; any of them matches"
    sub.add_argument("keywords", metavar="KEYWORD", nargs="*", help=words)
    sub.add_argument("--all-keywords", action="store_true", help="require all keywords")
    sub.add_argument("--category", metavar="CLASS", action="append", default=[], help="failure class; repeatable")
    sub.add_argument("--min-confidence", metavar="C", type=float, default=0.0, help="of the reflection, inclusive")
    sub.add_argument("--task", metavar="ID", default="", help="episodes of this task")
    sub.add_argument("--agent", metavar="NAME", default="", help="of this agent; the arm, in a run")
    sub.add_argument("--session", metavar="ID", default="", help="of this loop")
    passed = sub.add_mutually_exclusive_group()
    passed.add_argument("--passed", action="store_true", default=None, help="of attempts that passed")
    passed.add_argument("--failed", action="store_false", dest="passed", help="of attempts that failed")
    sub.add_argument(
        "--limit", metavar="N", type=place.count, default=20, help="maximum number, 0 for all (%(default)s)"
    )
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub = _sub(
        kinds, "patterns", patterns, "insights and lessons that several reflections share, the most common first"
    )
    sub.add_argument(
        "--min-frequency", metavar="N", type=place.count, default=2, help="minimum number of reflections (%(default)s)"
    )
    sub.add_argument(
        "--limit", metavar="N", type=place.count, default=20, help="maximum number, 0 for all (%(default)s)"
    )
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")


def _sub(kinds: Any, name: str, command: Any, text: str) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = kinds.add_parser(name, help=text.partition(";")[0], description=text)
    place.add_store(sub)
    sub.set_defaults(command=command)
    return sub


def validate(options: argparse.Namespace) -> int:
    from reflexion_lab.cli.memory_import import problems
    from reflexion_lab.cli.sheets import say

    total = 0
    for path in options.paths:
        count = 0
        for problem in problems(path):
            say(problem)
            count += 1
        say(f"{place.shown(path)}: {count or 'no'} problem{'s' * (count != 1)} found")
        total += count
    return int(total > 0)


def show(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say, say_json

    with place.kept_at(options.store) as store:
        if options.episode:
            episode = next((record for record in store.read(Episode) if record.episode_id == options.episode), None)
            if episode is None:
                raise ConfigError(
                    "--episode",
                    repr(options.episode),
                    "the id of an episode in the store",
                    "`memory search --json` prints ids unbroken",
                )
            say(*_whole(episode))
            answer: Any = episode
        else:
            answer = _overview(store, options)
    if options.json:
        say_json(answer)


def _overview(store: Any, options: argparse.Namespace) -> dict[str, Any]:
    from reflexion_lab.analysis.report.cells import counts
    from reflexion_lab.cli.sheets import episode_table, say
    from reflexion_lab.storage.kinds import KINDS

    newest: deque[Episode] = deque(maxlen=options.limit)
    categories: Counter[str] = Counter()
    tasks, sessions, passed = set(), set(), 0
    for episode in store.read(Episode):
        newest.append(episode)
        categories[episode.category or "none"] += 1
        tasks.add(episode.task_id)
        sessions.add(episode.session_id)
        passed += episode.passed
    kinds = {kind.name: sum(1 for _ in store.read(kind.record)) for kind in KINDS[1:]}
    held = {"episodes": categories.total(), **kinds}
    say(
        f"{place.shown(options.store)}: {', '.join(f'{count:,} {kind}' for kind, count in held.items())}",
        f"episodes: {len(tasks):,} tasks, {len(sessions):,} loops, {passed:,} passed",
        f"by category: {counts(categories)}",
    )
    if newest:
        say(episode_table("Newest episodes", reversed(newest)))
    totals = {"tasks": len(tasks), "loops": len(sessions), "passed": passed, "categories": dict(categories)}
    return {"store": place.shown(options.store), **held, **totals, "newest": [e.episode_id for e in reversed(newest)]}


def _whole(episode: Episode) -> list[str]:
    """Every non-empty field; long texts below their names."""
    from msgspec.structs import asdict

    from reflexion_lab.cli.sheets import when

    fields = asdict(episode) | {"timestamp": when(episode.timestamp), "reflection": ""}
    if episode.reflection:
        fields |= {f"reflection.{name}": value for name, value in asdict(episode.reflection).items() if name != "usage"}
    texts = {name: str(value) for name, value in fields.items() if value not in ("", (), {})}
    return [f"{name}:\n{text}" if "\n" in text else f"{name}: {text}" for name, text in texts.items()]


def search(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import episode_table, say, say_json

    if not 0 <= options.min_confidence <= 1:
        raise ConfigError("--min-confidence", options.min_confidence, "a share in [0, 1]")
    wanted = Search(
        categories=tuple(options.category),
        min_confidence=options.min_confidence,
        keywords=tuple(options.keywords),
        every_keyword=options.all_keywords,
        task_id=options.task,
        agent_id=options.agent,
        session_id=options.session,
        passed=options.passed,
        limit=options.limit,
    )
    with place.kept_at(options.store) as store:
        episodes = store.search(wanted)
    note = f"the newest {len(episodes)}; --limit 0 shows all" if len(episodes) == options.limit else ""
    say(episode_table(f"Episodes found: {len(episodes)}", episodes, note) if episodes else "no episode found")
    if options.json:
        say_json({"store": place.shown(options.store), "n": len(episodes), "episodes": episodes})


def patterns(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say, say_json, sheet
    from reflexion_lab.memory.insights import extract_patterns

    with place.kept_at(options.store) as store:
        reflections = [episode.reflection for episode in store.read(Episode) if episode.reflection]
    insights = extract_patterns(reflections, options.min_frequency)
    first = insights[: options.limit or None]
    rows = [(pattern.text, f"{pattern.count:,}") for pattern in first]
    note = f"the first {len(first)}; --limit 0 shows all" if len(first) < len(insights) else ""
    title = f"Patterns: {len(insights)} in {len(reflections):,} reflections"
    say(sheet(title, ("insight or lesson", "reflections"), rows, note=note) if insights else "no pattern found")
    if options.json:
        say_json({"store": place.shown(options.store), "n": len(insights), "patterns": insights})


def prune(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.memory_import import old
    from reflexion_lab.cli.sheets import say

    if not (math.isfinite(options.days) and options.days >= 0):
        raise ConfigError("--days", options.days, "a number of 0 or more")
    before = time.time() - options.days * DAY
    with place.kept_at(options.store) as store:
        count = sum(1 for _ in old(store, before)) if options.dry_run else store.prune(before)
    verb = "would be removed" if options.dry_run else "removed"
    say(f"{count:,} episodes and mistakes of {options.days:g} days or older {verb}")


def clear(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say
    from reflexion_lab.storage.kinds import KINDS

    with place.kept_at(options.store) as store:
        counts = {kind.name: sum(1 for _ in store.read(kind.record)) for kind in KINDS}
        if options.yes:
            store.clear()
    numbers = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    say(f"{numbers} removed" if options.yes else f"{numbers} would be removed; give --yes to remove them")


def export(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say
    from reflexion_lab.storage.place import dump

    file = Path(options.file).resolve()
    if place.is_store(str(file)) or place.is_store(str(file.parent)):
        raise ConfigError(f"FILE: {options.file} is a store, or part of one, and would be lost; name a file beside it")
    with place.kept_at(options.store) as store:
        counts = dump(store, Path(options.file))
    say(f"{options.file}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())} written")


def import_files(options: argparse.Namespace) -> None:
    from reflexion_lab.cli import memory_import
    from reflexion_lab.cli.sheets import say, say_json

    with place.kept_at(options.store, new=True) as store:
        imported = memory_import.import_records(store, options.files)
    for note in imported.notes:
        say(f"note: {note}")
    for kind in imported.new:
        say(f"{kind}: {imported.new[kind]:,} new, {imported.replaced[kind]:,} replaced")
    if options.json:
        say_json(imported)
