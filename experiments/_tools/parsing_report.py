"""What parser and extractor made of recorded replies: sheets for terminal and notebook, and rows for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from experiments._tools.output import show_sheet
from experiments._tools.parsing_causes import CAUSES
from experiments._tools.replies import Reply, Words
from experiments._tools.replies_parsed import Parsing
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Estimate, clustered
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal_text import visible

if TYPE_CHECKING:
    from rich.console import Console

Case = TypeVar("Case", Words, Reply)
WORD = {True: "pass", False: "fail"}
INTERVALS = "95 % intervals: Wilson, discounted for cases that share a task."


def show(parsing: Parsing, console: Console) -> None:
    """Print a line a model and a line a rule, every cause of a disagreement, and loudly what must not be."""
    sheets = [reflections(parsing)] if parsing.words else []
    if parsing.replies:
        sheets += [replies(parsing, "model"), replies(parsing, "rule"), disagreements(parsing)]
    for sheet in sheets:
        show_sheet(sheet, console)
    for line in alarms(parsing):
        console.print(visible(line), style="bold white on red", markup=False, highlight=False, soft_wrap=True)


def alarms(parsing: Parsing) -> Iterator[str]:
    """Exceptions and harness errors, which no reply may cause."""
    crashes = Counter(one.crash for one in parsing.words) + Counter(one.crash for one in parsing.replies)
    del crashes[""]
    for crash, count in crashes.items():
        yield f"EXCEPTION at {count} recorded replies: {crash}; parser and extractor must not raise it: please report"
    if broken := sum(one.broken for one in parsing.replies):
        yield f"HARNESS ERRORS: {broken} programs have no verdict; run `reflexion-lab doctor`"


def reflections(parsing: Parsing) -> Sheet:
    """By model: how many recorded reflections the parser reads, and how many it would, had they been put in form."""
    rows = [
        (
            name,
            str(len(own)),
            str(sum(one.parsed for one in own)),
            cell(share(own, lambda one: not one.parsed)),
            str(sum(one.kept for one in own)),
            str(sum(bool(one.crash) for one in own)),
        )
        for name, own in grouped(parsing.words, lambda one: one.model)
    ]
    columns = ("model", "reflections", "parsed", "need the rules, %", "whole in form", "exceptions")
    caption = (
        f"Asked for free text, these models were never shown the labels. Whole in form: the same words, written as "
        f"labelled lines and as JSON, come back unchanged. {INTERVALS}"
    )
    return Sheet(title="Reflections", columns=columns, rows=tuple(rows), caption=caption)


def replies(parsing: Parsing, by: str) -> Sheet:
    """By `model` or by `rule` of extraction: programs found, and their verdicts beside the logged ones.

    Raises:
        ConfigError: `by` is neither.
    """
    rows = [
        (
            name,
            str(len(own)),
            str(sum(not one.program for one in own)),
            cell(share(own, lambda one: not one.usable)),
            str(sum(bool(one.crash) for one in own)),
            str(sum(one.logged for one in own)),
            str(sum(one.lenient for one in own)),
            str(sum(one.passed for one in own)),
            str(len(own) - differing(own)),
            cell(share(own, lambda one: not one.differs)),
        )
        for name, own in grouped(parsing.replies, key(by))
    ]
    found = ("replies", "no program", "no whole function, %", "exceptions")
    judged = ("logged passes", "lenient passes", "extracted passes", "agree", "agree, %")
    caption = f"{parsing.executed} different programs were run. Agree: with the log's strict verdict. {INTERVALS}"
    return Sheet(title=f"Completions by {by}", columns=(by, *found, *judged), rows=tuple(rows), caption=caption)


def disagreements(parsing: Parsing) -> Sheet:
    """Verdicts that are not the log's, by what executing variants showed of them."""
    found = Counter((one.cause, one.logged) for one in parsing.replies if one.differs)
    rows = [
        (
            cause,
            WORD[logged],
            WORD[not logged],
            str(count),
            str(len({one.task_id for one in parsing.replies if (one.cause, one.logged) == (cause, logged)})),
            CAUSES[cause],
        )
        for (cause, logged), count in found.most_common()
    ]
    columns = ("cause", "logged", "extracted", "replies", "tasks", "what was shown")
    gained = sum(count for (_, logged), count in found.items() if not logged)
    caption = f"{gained} of {found.total()} disagreements are passes that the log does not have."
    return Sheet(title="Disagreements", columns=columns, rows=tuple(rows), names=6, caption=caption)


def as_rows(parsing: Parsing) -> Iterator[dict[str, Any]]:
    """One row a line of the sheets: the contract of `table.csv` and of `--json`; "" where a figure has no meaning."""
    for name, said in grouped(parsing.words, lambda one: one.model):
        row = _row("reflections", "model", name, said, share(said, lambda one: not one.parsed))
        yield row | {"failed": sum(not one.parsed for one in said), "in_form": sum(one.kept for one in said)}
    for by in ("model", "rule"):
        for name, own in grouped(parsing.replies, key(by)):
            row = _row("completions", by, name, own, share(own, lambda one: not one.usable))
            yield row | {"failed": sum(not one.usable for one in own)} | _verdicts(own)
    for cause in CAUSES:
        if own := [one for one in parsing.replies if one.cause == cause]:
            yield _row("disagreements", "cause", cause, own, None) | _verdicts(own)


def key(by: str) -> Callable[[Reply], str]:
    keys: dict[str, Callable[[Reply], str]] = {"model": lambda one: one.model, "rule": lambda one: one.rule}
    if by not in keys:
        raise ConfigError("by", repr(by), " or ".join(keys))
    return keys[by]


def grouped(cases: Sequence[Case], name: Callable[[Case], str]) -> Iterator[tuple[str, list[Case]]]:
    """The cases of each name, names in alphabetical order; and `all`, where there are any."""
    names = sorted({name(one) for one in cases}, key=str.casefold)
    for each in names:
        yield each, [one for one in cases if name(one) == each]
    if cases:
        yield "all", list(cases)


def share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> Estimate:
    """Of how many cases it holds, in [0, 1]; tasks, not cases, are independent."""
    value = sum(map(holds, cases)) / len(cases)
    low, high = clustered(value, list(Counter(one.task_id for one in cases).values()))
    return Estimate(value=value, low=low, high=high)


def differing(own: Iterable[Reply]) -> int:
    return sum(one.differs for one in own)


def cell(found: Estimate) -> str:
    return f"{100 * found.value:.1f} {interval(found.low, found.high)}"


def _row(part: str, by: str, name: str, cases: Sequence[Words | Reply], failed: Estimate | None) -> dict[str, Any]:
    row: dict[str, Any] = {"part": part, "by": by, "name": name, "n": len(cases)}
    row |= {"tasks": len({one.task_id for one in cases}), "exceptions": sum(bool(one.crash) for one in cases)}
    blank = dict.fromkeys(("failed", "failed_share", "failed_low", "failed_high", "in_form"), "")
    blank |= dict.fromkeys(("no_program", "logged_pass", "lenient_pass", "extracted_pass", "agree"), "")
    row |= blank | dict.fromkeys(("agree_share", "agree_low", "agree_high"), "")
    return row | (_flat("failed", failed) if failed else {})


def _verdicts(own: Sequence[Reply]) -> dict[str, Any]:
    return {
        "no_program": sum(not one.program for one in own),
        "logged_pass": sum(one.logged for one in own),
        "lenient_pass": sum(one.lenient for one in own),
        "extracted_pass": sum(one.passed for one in own),
        "agree": len(own) - differing(own),
    } | _flat("agree", share(own, lambda one: not one.differs))


def _flat(name: str, found: Estimate) -> dict[str, float]:
    ends = {f"{name}_share": found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return {column: round(value, 4) for column, value in ends.items()}
