"""`reflexion-lab wisdom`: recurring causes of failure, and whether reading them helped."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reflexion_lab.cli import place
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode, Wisdom

if TYPE_CHECKING:
    from reflexion_lab.analysis.learning.transfer import Against, Change, Success, Transfer
    from reflexion_lab.memory.wisdom import WisdomBook
    from reflexion_lab.protocols import Store

NAMED = 20
"""Maximum number of tasks listed by name."""
QUOTED = 10
"""Episodes that `show` quotes, the newest."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "causes of failure that came back, and whether knowing of them helped"
    kinds = commands.add_parser("wisdom", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    sub = _sub(kinds, "list", show_all, "all wisdom, the most frequent first")
    sub.add_argument("--domain", metavar="NAME", help="code, testing, architecture, concurrency or performance")
    sub.add_argument("--tag", metavar="WORD", help="wisdom with this tag")
    sub.add_argument("--retired", action="store_true", help="only retired wisdom: it failed too often to be recalled")
    sub.add_argument(
        "--limit", metavar="N", type=place.count, default=20, help="maximum number, 0 for all (%(default)s)"
    )
    sub = _sub(kinds, "show", show, "one wisdom, whole, and the episodes that it comes from")
    sub.add_argument("id", metavar="ID")
    description = (
        "how much wisdom there is and what became of its use; with run folders the transfer report: how often they "
        "read it, and, against a baseline on the same tasks, what it changed"
    )
    sub = _sub(kinds, "stats", stats, description)
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
    entries = [entry for entry in book if options.domain in (None, entry.domain)]
    entries = [entry for entry in entries if options.tag is None or options.tag.casefold() in entry.tags]
    entries = [entry for entry in entries if book.is_retired(entry) or not options.retired]
    entries.sort(key=lambda entry: (-entry.frequency, -entry.impact))
    columns = ("id", "pattern", "domain", "seen", "impact", "used", "passed\n%")
    rows = [
        (
            entry.wisdom_id,
            _pattern(book, entry),
            entry.domain,
            f"{entry.frequency:,}",
            f"{entry.impact:.2f}",
            *_usage(entry),
        )
        for entry in entries[: options.limit or None]
    ]
    note = f"the first {len(rows)}; --limit 0 shows all" if len(rows) < len(entries) else ""
    table = sheet(f"Wisdom: {len(entries)} of {len(book)}", columns, rows, names=3, note=note)
    say(table if entries else "no wisdom found")
    if options.json:
        wisdom = [{**_plain(entry), "retired": book.is_retired(entry)} for entry in entries]
        say_json({"store": place.shown(options.store), "n": len(entries), "wisdom": wisdom})


def _pattern(book: WisdomBook, entry: Wisdom) -> str:
    """The pattern, marked if retired: a column more would break the ids at 80 characters."""
    return f"(retired) {entry.pattern}" if book.is_retired(entry) else entry.pattern


def _domain(book: WisdomBook, entry: Wisdom) -> str:
    return f"{entry.domain}, retired" if book.is_retired(entry) else entry.domain


def _usage(entry: Wisdom) -> tuple[str, str]:
    return f"{entry.use_count:,}", f"{100 * entry.success_rate:.0f}" if entry.use_count else "-"


def _plain(entry: Wisdom) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(entry)
    return plain


def show(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import episode_table, say, say_json, short, when

    with place.kept_at(options.store) as store:
        book = _book(store)
        entry = book[options.id]
        wanted = set(entry.sources[-QUOTED:])
        sources = [episode for episode in store.read(Episode) if episode.episode_id in wanted]
    passed = f", {100 * entry.success_rate:.0f} % passed, last {when(entry.last_used_at)}" if entry.use_count else ""
    say(
        f"{entry.wisdom_id} ({_domain(book, entry)}), known since {when(entry.created_at)}",
        f"pattern: {short(entry.pattern, 2000)}",
        f"what to change: {short(entry.advice, 2000) or '-'}",
        f"tags: {', '.join(entry.tags) or '-'}",
        f"seen {entry.frequency:,} times in {len(entry.tasks) or 'unknown'} tasks, impact {entry.impact:.2f}; "
        f"read by {entry.use_count:,} attempts{passed}",
    )
    note = f"{len(sources)} of {entry.frequency:,} shown; the newest, as far as the store still has them"
    say(episode_table("Comes from", sources, note) if sources else "its episodes are not in the store any more")
    if options.json:
        episodes = [{"episode_id": e.episode_id, "task_id": e.task_id, "passed": e.passed} for e in sources]
        say_json({**_plain(entry), "retired": book.is_retired(entry), "episodes": episodes})


def stats(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say_json

    if options.baseline and not options.runs:
        raise ConfigError("--baseline", "no RUN beside it", "runs with wisdom, of the same seeds")
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
    from reflexion_lab.analysis.report.cells import counts, rate
    from reflexion_lab.analysis.stats.intervals import Rate
    from reflexion_lab.cli.sheets import say

    used = [entry for entry in book if entry.use_count]
    uses = sum(entry.use_count for entry in used)
    passed = Rate.of(sum(round(entry.use_count * entry.success_rate) for entry in used), uses)
    retired = sum(map(book.is_retired, book))
    domains = Counter(entry.domain for entry in book)
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
    from reflexion_lab.runner.folder.folder import RunFolder

    runs, baseline = ([RunFolder.existing(path) for path in paths] for paths in (options.runs, options.baseline))
    report = transfer(runs, baseline, None if known is None else list(known))
    say(*transfer_lines(report))
    return report


def extract(options: argparse.Namespace) -> None:
    from reflexion_lab.cli.sheets import say, say_json
    from reflexion_lab.memory.wisdom import recount

    with place.kept_at(options.store) as store:
        counts = recount(store)
    same = "" if counts.new or counts.changed else "; nothing changed"
    news = f"{counts.new:,} new, {counts.changed:,} changed{same}"
    say(f"{counts.episodes:,} episodes read: {counts.wisdom:,} wisdom, {news}")
    if options.json:
        say_json({"store": place.shown(options.store), **counts._asdict()})


def _book(store: Store) -> WisdomBook:
    from reflexion_lab.memory.retrieval.jaccard import Jaccard
    from reflexion_lab.memory.wisdom import WisdomBook

    book = WisdomBook(Jaccard())
    for entry in store.read(Wisdom):
        book.upsert(entry)
    return book


def transfer_lines(transfer: Transfer) -> Iterator[str]:
    """The transfer report as lines for a terminal."""
    from reflexion_lab.analysis.report.cells import rate

    yield f"Transfer: {transfer.runs} runs, {transfer.tasks} tasks, {transfer.attempts} attempts"
    for name, share in transfer.read.items():
        whose = " of other loops" if name == "episodes" else ""
        yield f"  attempts whose actor read {name}{whose}: {rate(share, 'attempts')}"
    if transfer.used:
        yield f"  wisdom that anybody read: {rate(transfer.used, 'entries')}"
    yield from _success("with wisdom", transfer.with_wisdom)
    yield from _success("without wisdom", transfer.without_wisdom)
    yield "  (attempts of one task are not independent; those with wisdom differ in more than the reading)"
    if transfer.against:
        yield from _against(transfer.against)


def _success(which: str, success: Success) -> Iterator[str]:
    from reflexion_lab.analysis.report.cells import rate

    if success.feedback.n:
        yield f"  {which}, feedback tests passed: {rate(success.feedback, 'attempts')}"
    if success.hidden.n:
        yield f"  {which}, hidden tests passed: {rate(success.hidden, 'attempts')}"


def _against(comparison: Against) -> Iterator[str]:
    from reflexion_lab.analysis.report.cells import interval
    from reflexion_lab.analysis.stats.intervals import PAIRED

    solved = comparison.solved
    yield f"Against the baseline, {solved.n} pairs of loops, {comparison.left_out} unpaired loops left out"
    points = f"{100 * solved.difference:+.1f} points {interval(solved.low, solved.high, signed=True)}"
    pairs = f"{solved.repaired} gained, {solved.damaged} lost; p = {solved.p:.2g}, McNemar's exact test"
    yield f"  solved: {points} (95 %, {PAIRED}; {pairs})"
    yield f"  attempts until solved, where both solve: {_change(comparison.attempts_to_success)}"
    yield f"  attempts made: {_change(comparison.attempts)}"
    yield f"  negative transfer, solved without and not with: {_named(comparison.lost)}"
    yield f"  gained, solved with and not without: {_named(comparison.gained)}"
    yield f"  the runs differ in: {', '.join(comparison.differs_in) or 'nothing'}"


def _change(change: Change) -> str:
    from reflexion_lab.analysis.report.cells import interval

    if change.low is None or change.high is None:
        return f"{change.mean:+.2f} (n = {change.n}, too few for an interval)" if change.n else "no such task"
    ends = interval(change.low, change.high, digits=2, scale=1, signed=True)
    return f"{change.mean:+.2f} {ends} (n = {change.n} tasks, bootstrap 95 %)"


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:NAMED])}{more}" if tasks else "none"
