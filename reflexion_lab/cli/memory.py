"""`reflexion-lab memory`: inspect and validate a store; import and export records."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter, deque
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.cli import memory_history, place
from reflexion_lab.cli.sheets import episode_table, say, say_json, sheet, when
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal import columns
from reflexion_lab.memory.lessons.insights import extract_patterns
from reflexion_lab.memory.lessons.mistakes import mistakes_of
from reflexion_lab.memory.reflection_layout import ReflectionFile
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KINDS, is_old, is_removed
from reflexion_lab.storage.place import dump

DAY = 24 * 60 * 60


def add(commands: place.Commands) -> None:
    text = "inspect memory: the records of stores, and the history of items in runs"
    group = place.add_group(commands, "memory", text)
    sub = place.add_command(group, "validate", validate, "list all invalid records; exit code 1 if there are any")
    sub.add_argument("paths", metavar="PATH", nargs="+", help="stores, exports, run folders or reflection files")
    place.add_command(group, "schema", schema, "print the JSON Schema of reflection files, for other validators")
    sub = _add(group, "show", show, "print the contents of a store, and its newest episodes")
    sub.add_argument("--episode", metavar="ID", help="print one episode with all fields")
    place.add_limit(sub, 10, "number of episodes, 0 for none")
    place.add_json(sub)
    _add_search(group)
    text = "list insights and lessons that several reflections share, the most common first"
    sub = _add(group, "patterns", patterns, text)
    minimum = "minimum number of reflections (default: %(default)s)"
    sub.add_argument("--min-frequency", metavar="N", type=place.count, default=2, help=minimum)
    place.add_limit(sub, 20, "maximum number, 0 for all")
    place.add_json(sub)
    text = "measure what loops of runs, or else of the store, learnt: rewards, errors, lessons, tasks that came back"
    sub = _add(group, "analyze", analyze, text)
    place.add_runs(sub)
    place.add_json(sub)
    sub = _add(group, "prune", prune, "remove old episodes, from which mistakes and sessions come; cannot be undone")
    sub.add_argument("--days", metavar="N", type=float, required=True, help="minimum age in days")
    place.add_flag(sub, "--dry-run", "only print the number")
    sub = _add(group, "clear", clear, "remove all records of every kind; cannot be undone")
    place.add_flag(sub, "--yes", "confirm; without it, only the numbers are printed")
    sub = _add(group, "export", export, "write all records to one file")
    sub.add_argument("file", metavar="FILE", help="*.jsonl, or *.json for one object")
    layout = "write reflections alone, as OpenAgents' reflections.jsonl has them"
    sub.add_argument("--as", dest="layout", choices=["openagents"], default="", help=layout)
    text = (
        "import exports (also OpenAgents' reflections.jsonl), other stores, reflection files or run folders; attempts "
        "of a run become episodes, and the items that it ended with are added. Nothing is imported if any record is "
        "invalid. A run's task prompts are loaded with its benchmark, or stay empty if it is not available"
    )
    sub = _add(group, "import", import_files, text)
    sub.add_argument("files", metavar="FILE", nargs="+", help="an export, a store, a run folder or reflection files")
    place.add_json(sub)
    memory_history.add(group)
    text = (
        "measure what memory across tasks gains, keeps and loses; name runs of a stream, one per order, and runs that "
        "began with their memory: memory.shared.items.of=RUN, .after=N and .frozen=true"
    )
    sub = place.add_command(group, "measures", measures, text)
    place.add_runs(sub)
    place.add_json(sub)


def _add_search(group: place.Commands) -> None:
    sub = _add(group, "search", search, "find episodes, newest first")
    words = "word to find in tasks, failure analyses or reflections, ignoring case; one is enough to match"
    sub.add_argument("keywords", metavar="KEYWORD", nargs="*", help=words)
    place.add_flag(sub, "--all-keywords", "require all keywords")
    sub.add_argument("--category", metavar="CLASS", action="append", default=[], help="failure class; repeatable")
    confidence = "minimum confidence of the reflection"
    sub.add_argument("--min-confidence", metavar="C", type=float, default=0.0, help=confidence)
    for name, value, text in (
        ("--task", "ID", "only episodes of this task"),
        ("--agent", "NAME", "only episodes of this agent, in a run its arm"),
        ("--session", "ID", "only episodes of this loop"),
    ):
        sub.add_argument(name, metavar=value, default="", help=text)
    passed = sub.add_mutually_exclusive_group()
    passed.add_argument("--passed", action="store_true", default=None, help="only episodes of attempts that passed")
    passed.add_argument("--failed", action="store_false", dest="passed", help="only episodes of attempts that failed")
    place.add_limit(sub, 20, "maximum number, 0 for all")
    place.add_json(sub)


def _add(group: place.Commands, name: str, run: Any, description: str) -> argparse.ArgumentParser:
    sub = place.add_command(group, name, run, description)
    place.add_store(sub)
    return sub


def validate(options: argparse.Namespace) -> int:
    from reflexion_lab.cli.memory_import import problems

    total = 0
    for path in options.paths:
        count = 0
        for problem in problems(path):
            say(problem)
            count += 1
        say(f"{place.without_password(path)}: {count or 'no'} problem{'s' * (count != 1)} found")
        total += count
    return int(total > 0)


def schema(options: argparse.Namespace) -> None:
    passed = {"properties": {"evaluator_output": {"properties": {"passed": {"const": True}}}}}
    worded = {"properties": {"self_reflection": {"properties": {"reflection_text": {"pattern": r"\S"}}}}}
    print(json.dumps(msgspec.json.schema(ReflectionFile) | {"anyOf": [passed, worded]}, indent=2))


def show(options: argparse.Namespace) -> None:
    with place.kept_at(options.store) as store:
        if options.episode:
            episode = next((record for record in store.read(Episode) if record.episode_id == options.episode), None)
            if episode is None:
                expected = "the id of an episode in the store"
                hint = "`memory search --json` prints ids unbroken"
                raise ConfigError("--episode", repr(options.episode), expected, hint)
            say(*_fields(episode))
            output: Any = episode
        else:
            output = _overview(store, options)
    if options.json:
        say_json(output)


def _overview(store: Any, options: argparse.Namespace) -> dict[str, Any]:
    newest: deque[Episode] = deque(maxlen=options.limit)
    categories: Counter[str] = Counter()
    tasks: set[str] = set()
    sessions, passed, mistakes = set(), 0, 0
    for session, episodes in groupby(store.read(Episode), key=lambda episode: episode.session_id):
        sessions.add(session)
        loop = list(episodes)
        newest.extend(loop)
        categories.update(episode.category or "none" for episode in loop)
        tasks.update(episode.task_id for episode in loop)
        passed += sum(episode.passed for episode in loop)
        mistakes += len(mistakes_of(loop))
    others = {name: kind for name, kind in KINDS.items() if kind is not Episode}
    kinds = {name: sum(not is_removed(record) for record in store.read(kind)) for name, kind in others.items()}
    records = {"episodes": categories.total(), "mistakes": mistakes, **kinds}
    say(
        f"{place.without_password(options.store)}: {_listed(records)}",
        f"episodes: tasks {len(tasks):,}, loops {len(sessions):,}, passed {passed:,}",
        f"by category: {cells.counts(categories)}",
    )
    if newest:
        say(episode_table("Newest episodes", reversed(newest)))
    totals = {"tasks": len(tasks), "loops": len(sessions), "passed": passed, "categories": dict(categories)}
    ids = [episode.episode_id for episode in reversed(newest)]
    return {"store": place.without_password(options.store), **records, **totals, "newest": ids}


def _fields(episode: Episode) -> list[str]:
    """Non-empty fields as lines; a text of several lines is below its name."""
    fields = asdict(episode) | {"timestamp": when(episode.timestamp), "reflection": ""}
    if episode.reflection:
        fields |= {f"reflection.{name}": value for name, value in asdict(episode.reflection).items() if name != "usage"}
    texts = {name: str(value) for name, value in fields.items() if value not in ("", (), {})}
    return [f"{name}:\n{text}" if "\n" in text else f"{name}: {text}" for name, text in texts.items()]


def search(options: argparse.Namespace) -> None:
    if not 0 <= options.min_confidence <= 1:
        raise ConfigError("--min-confidence", options.min_confidence, "a share in [0, 1]")
    query = Search(
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
        episodes = store.search(query)
    note = f"the newest {len(episodes)}; --limit 0 shows all" if len(episodes) == options.limit else ""
    say(episode_table(f"Episodes found: {len(episodes)}", episodes, note) if episodes else "no episode found")
    if options.json:
        say_json({"store": place.without_password(options.store), "n": len(episodes), "episodes": episodes})


def patterns(options: argparse.Namespace) -> None:
    with place.kept_at(options.store) as store:
        reflections = [episode.reflection for episode in store.read(Episode) if episode.reflection]
    insights = extract_patterns(reflections, options.min_frequency)
    first = insights[: options.limit or None]
    rows = [(pattern.text, f"{pattern.count:,}") for pattern in first]
    note = f"the first {len(first)}; --limit 0 shows all" if len(first) < len(insights) else ""
    title = f"Patterns: {len(insights)} in {len(reflections):,} reflections"
    say(sheet(title, ("insight or lesson", "reflections"), rows, note=note) if insights else "no pattern found")
    if options.json:
        say_json({"store": place.without_password(options.store), "n": len(insights), "patterns": insights})


def analyze(options: argparse.Namespace) -> None:
    from reflexion_lab.analysis.learning.transitions import learning_of
    from reflexion_lab.cli.memory_import import records_of

    if options.runs or options.last:
        records = [record for folder in place.chosen(options) for record in records_of(folder, {})]
    else:
        with place.kept_at(options.store) as store:
            records = [*store.read(Episode)]
    learning = learning_of(record for record in records if isinstance(record, Episode))
    for name, value in learning.items():
        text = cells.counts(value) if isinstance(value, dict) else ""
        say(f"{name}: {text or (cells.rate(value, 'loops') if isinstance(value, Rate) else f'{value:.3g}')}")
    if options.json:
        say_json(learning)


def measures(options: argparse.Namespace) -> None:
    from reflexion_lab.analysis.learning.checkpoints import stream_memory
    from reflexion_lab.analysis.report.memory import memory_screen

    measured = stream_memory(place.chosen(options))
    say(*memory_screen(measured, columns()))
    if options.json:
        say_json(measured)


def prune(options: argparse.Namespace) -> None:
    if not (math.isfinite(options.days) and options.days >= 0):
        raise ConfigError("--days", options.days, "a number of 0 or more")
    before = time.time() - options.days * DAY
    with place.kept_at(options.store, changed=True) as store:
        if options.dry_run:
            count = sum(is_old(record, before) for record in store.read(Episode))
        else:
            count = store.prune(before)
    verb = "would be removed" if options.dry_run else "removed"
    say(f"{count:,} episodes of {options.days:g} days or older {verb}")


def clear(options: argparse.Namespace) -> None:
    with place.kept_at(options.store, changed=True) as store:
        records = _listed(place.counted(store))
        if options.yes:
            store.clear()
    say(f"{records} removed" if options.yes else f"{records} would be removed; give --yes to remove them")


def export(options: argparse.Namespace) -> None:
    file = Path(options.file).resolve()
    if place.is_store(str(file)) or place.is_store(str(file.parent)):
        raise ConfigError(f"FILE: {options.file} is a store, or part of one, and would be lost; name another file")
    with place.kept_at(options.store) as store:
        counts = dump(store, file, options.layout)
    say(f"{options.file}: {_listed(counts)} written")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind.removesuffix('s') if count == 1 else kind}" for kind, count in counts.items())


def import_files(options: argparse.Namespace) -> None:
    from reflexion_lab.cli import memory_import

    with place.kept_at(options.store, new=True) as store:
        imported = memory_import.import_records(store, options.files)
    for note in imported.notes:
        say(f"note: {note}")
    for kind in imported.new:
        say(f"{kind}: {imported.new[kind]:,} new, {imported.replaced[kind]:,} replaced")
    if options.json:
        say_json(imported)
