"""`reflexion-lab wisdom`: recurring failure causes, and whether reading them helped."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import PAIRED, Rate
from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import episode_table, say, say_json, sheet, short, when
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Store
from reflexion_lab.records import Episode, Wisdom
from reflexion_lab.runner.folder.folder import folders

if TYPE_CHECKING:
    from reflexion_lab.analysis.learning.transfer import Against, Change, Success, Transfer
    from reflexion_lab.memory.lessons.wisdom import WisdomBook

QUOTED = 10
"""Maximum number of episodes in `show`, the newest."""


def add(commands: place.Commands) -> None:
    text = "list recurring failure causes, and measure whether reading them helped"
    group = place.add_group(commands, "wisdom", text)
    sub = _add(group, "list", show_all, "list all wisdom, the most frequent first")
    domain = "only this domain: code, testing, architecture, concurrency or performance"
    sub.add_argument("--domain", metavar="NAME", help=domain)
    sub.add_argument("--tag", metavar="WORD", help="only wisdom with this tag")
    place.add_flag(sub, "--retired", "only retired wisdom, which failed too often to be recalled")
    place.add_limit(sub, 20, "maximum number, 0 for all")
    sub = _add(group, "show", show, "print one entry with all fields, and its source episodes")
    sub.add_argument("id", metavar="ID", help="id of the entry, as `wisdom list` prints it")
    text = (
        "print the number of entries and their success rate; with run folders, the transfer report: how often the "
        "runs read wisdom, and what it changed against a baseline on the same tasks"
    )
    sub = _add(group, "stats", stats, text)
    sub.add_argument("runs", metavar="RUN", nargs="*", help="run folders whose actors could read wisdom")
    sub.add_argument("--baseline", metavar="RUN", nargs="+", default=[], help="runs without wisdom, paired by seed")
    _add(group, "extract", extract, "extract wisdom from the store's episodes; repeating it changes nothing")


def _add(group: place.Commands, name: str, run: Any, description: str) -> argparse.ArgumentParser:
    sub = place.add_command(group, name, run, description)
    place.add_store(sub)
    place.add_json(sub)
    return sub


def show_all(options: argparse.Namespace) -> None:
    with place.kept_at(options.store) as store:
        book = _book(store)
    entries = [entry for entry in book if options.domain in (None, entry.domain)]
    entries = [entry for entry in entries if options.tag is None or options.tag.casefold() in entry.tags]
    entries = [entry for entry in entries if book.is_retired(entry) or not options.retired]
    entries.sort(key=lambda entry: (-entry.frequency, -entry.impact))
    columns = ("id", "pattern", "domain", "seen", "impact", "used", "passed\n%")
    rows = [
        (
            entry.wisdom_id,
            # a column of its own would break the ids at 80 characters
            f"(retired) {entry.pattern}" if book.is_retired(entry) else entry.pattern,
            entry.domain,
            f"{entry.frequency:,}",
            f"{entry.impact:.2f}",
            f"{entry.use_count:,}",
            f"{100 * entry.success_rate:.0f}" if entry.use_count else "-",
        )
        for entry in entries[: options.limit or None]
    ]
    note = f"the first {len(rows)}; --limit 0 shows all" if len(rows) < len(entries) else ""
    table = sheet(f"Wisdom: {len(entries)} of {len(book)}", columns, rows, names=3, note=note)
    say(table if entries else "no wisdom found")
    if options.json:
        wisdom = [asdict(entry) | {"retired": book.is_retired(entry)} for entry in entries]
        say_json({"store": place.without_password(options.store), "n": len(entries), "wisdom": wisdom})


def show(options: argparse.Namespace) -> None:
    with place.kept_at(options.store) as store:
        book = _book(store)
        entry = book[options.id]
        newest = set(entry.sources[-QUOTED:])
        sources = [episode for episode in store.read(Episode) if episode.episode_id in newest]
    passed = f", {100 * entry.success_rate:.0f} % passed, last {when(entry.last_used_at)}" if entry.use_count else ""
    retired = ", retired" if book.is_retired(entry) else ""
    say(
        f"{entry.wisdom_id} ({entry.domain}{retired}), known since {when(entry.created_at)}",
        f"pattern: {short(entry.pattern, 2000)}",
        f"what to change: {short(entry.advice, 2000) or '-'}",
        f"tags: {', '.join(entry.tags) or '-'}",
        f"seen {entry.frequency:,} times in {len(entry.tasks) or 'unknown'} tasks, impact {entry.impact:.2f}; "
        f"read by {entry.use_count:,} attempts{passed}",
    )
    note = f"{len(sources)} of {entry.frequency:,}: the newest that are still in the store"
    say(episode_table("Source episodes", sources, note) if sources else "its episodes are no longer in the store")
    if options.json:
        episodes = [{"episode_id": e.episode_id, "task_id": e.task_id, "passed": e.passed} for e in sources]
        say_json(asdict(entry) | {"retired": book.is_retired(entry), "episodes": episodes})


def stats(options: argparse.Namespace) -> None:
    if options.baseline and not options.runs:
        raise ConfigError("--baseline", "no RUN", "runs with wisdom, of the same seeds")
    figures: dict[str, Any] = {}
    known = None
    if place.is_store(options.store) or not options.runs:
        with place.kept_at(options.store) as store:
            book = _book(store)
        known = [entry.wisdom_id for entry in book]
        figures = _figures(book, options.store)
    if options.runs:
        figures["transfer"] = _transfer(options, known)
    if options.json:
        say_json(figures)


def _figures(book: WisdomBook, store: str) -> dict[str, Any]:
    used = [entry for entry in book if entry.use_count]
    uses = sum(entry.use_count for entry in used)
    passed = Rate.of(sum(round(entry.use_count * entry.success_rate) for entry in used), uses)
    retired = sum(map(book.is_retired, book))
    domains = Counter(entry.domain for entry in book)
    say(
        f"{place.without_password(store)}: {len(book):,} wisdom, {len(used):,} used, {retired:,} retired",
        f"by domain: {cells.counts(domains)}",
        f"attempts that read it and passed: {cells.rate(passed, 'uses')}" if uses else "never read by an actor",
    )
    figures = {"wisdom": len(book), "used": len(used), "retired": retired, "uses": uses, "domains": dict(domains)}
    return {"store": place.without_password(store), **figures, "success": passed}


def _transfer(options: argparse.Namespace, known: Iterable[str] | None) -> Any:
    from reflexion_lab.analysis.learning.transfer import transfer

    runs, baseline = (folders(*paths) for paths in (options.runs, options.baseline))
    report = transfer(runs, baseline, None if known is None else list(known))
    say(*transfer_lines(report))
    return report


def extract(options: argparse.Namespace) -> None:
    from reflexion_lab.memory.lessons.wisdom import recount

    with place.kept_at(options.store) as store:
        counts = recount(store)
    same = "" if counts.new or counts.changed else "; nothing changed"
    changes = f"{counts.new:,} new, {counts.changed:,} changed{same}"
    say(f"{counts.episodes:,} episodes read: {counts.wisdom:,} wisdom, {changes}")
    if options.json:
        say_json({"store": place.without_password(options.store), **counts._asdict()})


def _book(store: Store) -> WisdomBook:
    from reflexion_lab.memory.lessons.wisdom import WisdomBook
    from reflexion_lab.memory.retrieval.jaccard import Jaccard

    book = WisdomBook(Jaccard())
    book.begin([*store.read(Wisdom)], ())
    return book


def transfer_lines(transfer: Transfer) -> Iterator[str]:
    yield f"Transfer: {transfer.runs} runs, {transfer.tasks} tasks, {transfer.attempts} attempts"
    for name, share in transfer.read.items():
        of = {"episodes": " of other loops", "items": " of a curator, as of curator=wisdom"}.get(name, "")
        if name != "items" or share.k:
            yield f"  attempts whose actor read {name}{of}: {cells.rate(share, 'attempts')}"
    if transfer.used:
        yield f"  wisdom entries read at least once: {cells.rate(transfer.used, 'entries')}"
    yield from _success("with wisdom", transfer.with_wisdom)
    yield from _success("without wisdom", transfer.without_wisdom)
    yield "  (attempts with wisdom also differ in other respects)"
    if transfer.against:
        yield from _against(transfer.against)


def _success(which: str, success: Success) -> Iterator[str]:
    for tests, rate in (("feedback", success.feedback), ("hidden", success.hidden)):
        if rate.n:
            yield f"  {which}, {tests} tests passed: {cells.rate(rate, 'attempts')}"


def _against(comparison: Against) -> Iterator[str]:
    solved = comparison.solved
    yield f"Against the baseline, {solved.n} pairs of loops, {comparison.left_out} unpaired loops left out"
    points = f"{100 * solved.difference:+.1f} points {cells.interval(solved.low, solved.high, signed=True)}"
    moved = f"{solved.repaired} gained, {solved.damaged} lost"
    pairs = f"{moved}; p = {cells.p_value(solved.p)}, exact test over {comparison.units}"
    yield f"  solved: {points} (95 %, {PAIRED.replace('tasks', comparison.units)}; {pairs})"
    yield f"  attempts until solved, if both solve: {_change(comparison.attempts_to_success, comparison.units)}"
    yield f"  attempts: {_change(comparison.attempts, comparison.units)}"
    yield f"  negative transfer, solved only without wisdom: {_named(comparison.lost)}"
    yield f"  gained, solved only with wisdom: {_named(comparison.gained)}"
    yield f"  the runs differ in: {', '.join(comparison.differs_in) or 'nothing'}"


def _change(change: Change, units: str) -> str:
    if change.low is None or change.high is None:
        return f"{change.mean:+.2f} (n = {change.n}, too few for an interval)" if change.n else "no such task"
    ends = cells.interval(change.low, change.high, digits=2, scale=1, signed=True)
    return f"{change.mean:+.2f} {ends} (n = {change.n} tasks, 95 %, bootstrap over {units})"


def _named(tasks: Sequence[str]) -> str:
    return f"{len(tasks)}: {cells.listed(tasks)}" if tasks else "none"
