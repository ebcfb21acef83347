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
    crashes = Counter(case.crash for case in parsing.words) + Counter(case.crash for case in parsing.replies)
    del crashes[""]
    for crash, count in crashes.items():
        yield f"EXCEPTION at {count} recorded replies: {crash}; parser and extractor must not raise it: please report"
    if broken := sum(case.broken for case in parsing.replies):
        yield f"HARNESS ERRORS: {broken} programs have no verdict; run `reflexion-lab doctor`"


def reflections(parsing: Parsing) -> Sheet:
    """By model: how many recorded reflections the parser reads, and how many it would, had they been put in form."""
    rows = [
        (
            name,
            str(len(own)),
            str(sum(case.parsed for case in own)),
            cell(share(own, lambda case: not case.parsed)),
            str(sum(case.kept for case in own)),
            str(sum(bool(case.crash) for case in own)),
        )
        for name, own in grouped(parsing.words, lambda case: case.model)
    ]
    columns = ("model", "reflections", "parsed", "need the rules, %", "whole in form", "exceptions")
    caption = (
        f"Asked for free text, these models were never shown the labels. Whole in form: the same words, written as "
        f"labelled lines and as JSON, come back unchanged. {INTERVALS}"
    )
    return Sheet(title="Reflections", columns=columns, rows=tuple(rows), caption=caption)


def replies(parsing: Parsing, by: str) -> Sheet:
    """By `model` or by `rule` of extraction: programs found, and their verdicts beside the logged ones.

    Raises
    ------
    ConfigError
        `by` is neither.
    """
    rows = [
        (
            name,
            str(len(own)),
            str(sum(not case.program for case in own)),
            cell(share(own, lambda case: not case.usable)),
            str(sum(bool(case.crash) for case in own)),
            str(sum(case.logged for case in own)),
            str(sum(case.lenient for case in own)),
            str(sum(case.passed for case in own)),
            str(len(own) - differing(own)),
            cell(share(own, lambda case: not case.differs)),
        )
        for name, own in grouped(parsing.replies, key(by))
    ]
    extracted = ("replies", "no program", "no whole function, %", "exceptions")
    judged = ("logged passes", "lenient passes", "extracted passes", "agree", "agree, %")
    caption = f"{parsing.executed} different programs were run. Agree: with the log's strict verdict. {INTERVALS}"
    return Sheet(title=f"Completions by {by}", columns=(by, *extracted, *judged), rows=tuple(rows), caption=caption)


def disagreements(parsing: Parsing) -> Sheet:
    """Verdicts that are not the log's, by what executing variants showed of them."""
    counts = Counter((case.cause, case.logged) for case in parsing.replies if case.differs)
    rows = [
        (
            cause,
            WORD[logged],
            WORD[not logged],
            str(count),
            str(len({case.task_id for case in parsing.replies if (case.cause, case.logged) == (cause, logged)})),
            CAUSES[cause],
        )
        for (cause, logged), count in counts.most_common()
    ]
    columns = ("cause", "logged", "extracted", "replies", "tasks", "what was shown")
    gained = sum(count for (_, logged), count in counts.items() if not logged)
    caption = f"{gained} of {counts.total()} disagreements are passes that the log does not have."
    return Sheet(title="Disagreements", columns=columns, rows=tuple(rows), names=6, caption=caption)


def as_rows(parsing: Parsing) -> Iterator[dict[str, Any]]:
    """One row a line of the sheets: the contract of `table.csv` and of `--json`; "" where a figure has no meaning."""
    for name, words in grouped(parsing.words, lambda case: case.model):
        row = _row("reflections", "model", name, words, share(words, lambda case: not case.parsed))
        yield row | {"failed": sum(not case.parsed for case in words), "in_form": sum(case.kept for case in words)}
    for by in ("model", "rule"):
        for name, own in grouped(parsing.replies, key(by)):
            row = _row("completions", by, name, own, share(own, lambda case: not case.usable))
            yield row | {"failed": sum(not case.usable for case in own)} | _verdicts(own)
    for cause in CAUSES:
        if own := [case for case in parsing.replies if case.cause == cause]:
            yield _row("disagreements", "cause", cause, own, None) | _verdicts(own)


def key(by: str) -> Callable[[Reply], str]:
    keys: dict[str, Callable[[Reply], str]] = {"model": lambda case: case.model, "rule": lambda case: case.rule}
    if by not in keys:
        raise ConfigError("by", repr(by), " or ".join(keys))
    return keys[by]


def grouped(cases: Sequence[Case], name: Callable[[Case], str]) -> Iterator[tuple[str, list[Case]]]:
    """The cases of each name, names in alphabetical order; and `all`, where there are any."""
    names = sorted({name(case) for case in cases}, key=str.casefold)
    for each in names:
        yield each, [case for case in cases if name(case) == each]
    if cases:
        yield "all", list(cases)


def share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> Estimate:
    """Of how many cases it holds, in [0, 1]; tasks, not cases, are independent."""
    value = sum(map(holds, cases)) / len(cases)
    low, high = clustered(value, list(Counter(case.task_id for case in cases).values()))
    return Estimate(value=value, low=low, high=high)


def differing(own: Iterable[Reply]) -> int:
    return sum(case.differs for case in own)


def cell(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} {interval(estimate.low, estimate.high)}"


def _row(part: str, by: str, name: str, cases: Sequence[Words | Reply], failed: Estimate | None) -> dict[str, Any]:
    row: dict[str, Any] = {"part": part, "by": by, "name": name, "n": len(cases)}
    row |= {"tasks": len({case.task_id for case in cases}), "exceptions": sum(bool(case.crash) for case in cases)}
    blank = dict.fromkeys(("failed", "failed_share", "failed_low", "failed_high", "in_form"), "")
    blank |= dict.fromkeys(("no_program", "logged_pass", "lenient_pass", "extracted_pass", "agree"), "")
    row |= blank | dict.fromkeys(("agree_share", "agree_low", "agree_high"), "")
    return row | (_flat("failed", failed) if failed else {})


def _verdicts(own: Sequence[Reply]) -> dict[str, Any]:
    return {
        "no_program": sum(not case.program for case in own),
        "logged_pass": sum(case.logged for case in own),
        "lenient_pass": sum(case.lenient for case in own),
        "extracted_pass": sum(case.passed for case in own),
        "agree": len(own) - differing(own),
    } | _flat("agree", share(own, lambda case: not case.differs))


def _flat(name: str, estimate: Estimate) -> dict[str, float]:
    ends = {f"{name}_share": estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return {column: round(value, 4) for column, value in ends.items()}
