"""`reflexion-lab wisdom`: causes of failure that came back, and whether knowing of them helped."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reflexion_lab.cli import place
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode, Wisdom

if TYPE_CHECKING:
    from reflexion_lab.memory.wisdom import WisdomBook
    from reflexion_lab.protocols import Store

QUOTED = 10
"""Episodes that `show` quotes, the newest."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "causes of failure that came back, and whether knowing of them helped"
    kinds = commands.add_parser("wisdom", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    sub = _sub(kinds, "list", show_all, "all wisdom, the most frequent first")
    sub.add_argument("--domain", metavar="NAME", help="code, testing, architecture, concurrency or performance")
    sub.add_argument("--tag", metavar="WORD", help="wisdom with this tag")
    sub.add_argument("--retired", action="store_true", help="only what failed too often to be told any more")
    sub.add_argument("--limit", metavar="N", type=place.count, default=20, help="so many, 0 for all (%(default)s)")
    sub = _sub(kinds, "show", show, "one wisdom, whole, and the episodes that it comes from")
    sub.add_argument("id", metavar="ID")
    said = (
        "how much wisdom there is and what became of its use; with run folders the transfer report: how often they "
        "read it, and, against a baseline on the same tasks, what it changed"
    )
    sub = _sub(kinds, "stats", stats, said)
    sub.add_argument("runs", metavar="RUN", nargs="*", help="run folders whose actors could read wisdom")
    sub.add_argument("--baseline", metavar="RUN", nargs="+", default=[], help="runs without it, paired by seed")
    _sub(kinds, "extract", extract, "make wisdom of the store's episodes; twice changes nothing")


def _sub(kinds: Any, name: str, command: Any, text: str) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = kinds.add_parser(name, help=text.partition(";")[0], description=text)
    place.add_store(sub)
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=command)
    return sub


def show_all(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say, say_json, sheet

    with place.kept_at(options.store) as store:
        book = _book(store)
    found = [one for one in book if options.domain in (None, one.domain)]
    found = [one for one in found if options.tag is None or options.tag.casefold() in one.tags]
    found = [one for one in found if book.is_retired(one) or not options.retired]
    found.sort(key=lambda one: (-one.frequency, -one.impact))
    columns = ("id", "pattern", "domain", "seen", "impact", "used", "passed\n%")
    rows = [
        (one.wisdom_id, _pattern(book, one), one.domain, f"{one.frequency:,}", f"{one.impact:.2f}", *_usage(one))
        for one in found[: options.limit or None]
    ]
    note = f"the first {len(rows)}; --limit 0 shows all" if len(rows) < len(found) else ""
    table = sheet(f"Wisdom: {len(found)} of {len(book)}", columns, rows, names=3, note=note)
    say(table if found else "no wisdom found")
    if options.json:
        wisdom = [{**_plain(one), "retired": book.is_retired(one)} for one in found]
        say_json({"store": place.shown(options.store), "n": len(found), "wisdom": wisdom})


def _pattern(book: WisdomBook, one: Wisdom) -> str:
    """Retirement stands here: one wide column more, and the ids would break at 80 characters."""
    return f"(retired) {one.pattern}" if book.is_retired(one) else one.pattern


def _domain(book: WisdomBook, one: Wisdom) -> str:
    return f"{one.domain}, retired" if book.is_retired(one) else one.domain


def _usage(one: Wisdom) -> tuple[str, str]:
    return f"{one.use_count:,}", f"{100 * one.success_rate:.0f}" if one.use_count else "-"


def _plain(one: Wisdom) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(one)
    return plain


def show(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import episode_table, say, say_json, short, when

    with place.kept_at(options.store) as store:
        book = _book(store)
        one = book[options.id]
        wanted = set(one.sources[-QUOTED:])
        sources = [episode for episode in store.read(Episode) if episode.episode_id in wanted]
    passed = f", {100 * one.success_rate:.0f} % passed, last {when(one.last_used_at)}" if one.use_count else ""
    say(
        f"{one.wisdom_id} ({_domain(book, one)}), known since {when(one.created_at)}",
        f"pattern: {short(one.pattern, 2000)}",
        f"what to change: {short(one.advice, 2000) or '-'}",
        f"tags: {', '.join(one.tags) or '-'}",
        f"seen {one.frequency:,} times in {len(one.tasks) or 'unknown'} tasks, impact {one.impact:.2f}; "
        f"read by {one.use_count:,} attempts{passed}",
    )
    kept = f"{len(sources)} of {one.frequency:,} shown; the newest, as far as the store still has them"
    say(episode_table("Comes from", sources, kept) if sources else "its episodes are not in the store any more")
    if options.json:
        episodes = [{"episode_id": e.episode_id, "task_id": e.task_id, "passed": e.passed} for e in sources]
        say_json({**_plain(one), "retired": book.is_retired(one), "episodes": episodes})


def stats(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say_json

    if options.baseline and not options.runs:
        raise ConfigError("--baseline", "no RUN beside it", "runs with wisdom, of the same seeds")
    told: dict[str, Any] = {}
    known = None
    if place.is_store(options.store) or not options.runs:
        with place.kept_at(options.store) as store:
            book = _book(store)
        known = [one.wisdom_id for one in book]
        told = _figures(book, options.store)
    if options.runs:
        told["transfer"] = _transfer(options, known)
    if options.json:
        say_json(told)


def _figures(book: WisdomBook, store: str) -> dict[str, Any]:
    from reflexion_lab.analysis.report.cells import counts, rate
    from reflexion_lab.analysis.stats.intervals import Rate
    from reflexion_lab.cli.sheets import say

    used = [one for one in book if one.use_count]
    uses = sum(one.use_count for one in used)
    passed = Rate.of(sum(round(one.use_count * one.success_rate) for one in used), uses)
    retired = sum(map(book.is_retired, book))
    domains = Counter(one.domain for one in book)
    say(
        f"{place.shown(store)}: {len(book):,} wisdom, {len(used):,} used, {retired:,} retired",
        f"by domain: {counts(domains)}",
        f"passed once read: {rate(passed, 'uses')}" if uses else "never read by an actor",
    )
    figures = {"wisdom": len(book), "used": len(used), "retired": retired, "uses": uses, "domains": dict(domains)}
    return {"store": place.shown(store), **figures, "success": passed}


def _transfer(options: argparse.Namespace, known: Iterable[str] | None) -> Any:
    from reflexion_lab.analysis.learning.transfer import transfer
    from reflexion_lab.cli.sheets import say
    from reflexion_lab.cli.transfer_report import lines
    from reflexion_lab.runner.folder.folder import RunFolder

    runs, baseline = ([RunFolder.existing(path) for path in paths] for paths in (options.runs, options.baseline))
    report = transfer(runs, baseline, None if known is None else list(known))
    say(*lines(report))
    return report


def extract(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say, say_json
    from reflexion_lab.memory.recount import recount

    with place.kept_at(options.store) as store:
        found = recount(store)
    same = "" if found.new or found.changed else "; nothing changed"
    news = f"{found.new:,} new, {found.changed:,} changed{same}"
    say(f"{found.episodes:,} episodes read: {found.wisdom:,} wisdom, {news}")
    if options.json:
        say_json({"store": place.shown(options.store), **found._asdict()})


def _book(store: Store) -> WisdomBook:
    from reflexion_lab.memory.retrieval.jaccard import Jaccard
    from reflexion_lab.memory.wisdom import WisdomBook

    book = WisdomBook(Jaccard())
    for one in store.read(Wisdom):
        book.upsert(one)
    return book
