"""Results of parser and extractor on recorded replies as tables, rows and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from experiments._tools import output
from experiments._tools.output import columns, percent
from experiments._tools.replies import CAUSES, Parsing, Reply, Words
from reflexion_lab.analysis.figures.style import COLOURS, INK, caption
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal_text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

Case = TypeVar("Case", Words, Reply)
WORD = {True: "pass", False: "fail"}
INTERVALS = "95 % intervals over tasks."
COLUMNS = (
    "part", "by", "name", "n", "tasks", "exceptions", "failed", "failed_share", "failed_low", "failed_high", "in_form",
    "no_program", "logged_pass", "lenient_pass", "extracted_pass", "agree", "agree_share", "agree_low", "agree_high",
)  # fmt: skip
METHOD = (
    "Left: share of completions whose program passes its row's own tests; bar: 95 % interval over tasks.\n"
    "Logged: as recorded. Extracted: our extractor, executed anew. Right: completions\n"
    "whose two verdicts differ, by what executing variants of the program showed."
)


def show(parsing: Parsing, console: Console) -> None:
    """Print reflections by model, completions by model and by rule, disagreements by cause, and alarms."""
    sheets = [reflections(parsing)] if parsing.words else []
    if parsing.replies:
        sheets += [replies(parsing, "model"), replies(parsing, "rule"), disagreements(parsing)]
    for sheet in sheets:
        output.show_sheet(sheet, console)
    for line in alarms(parsing):
        console.print(visible(line), style="bold white on red", markup=False, highlight=False, soft_wrap=True)


def alarms(parsing: Parsing) -> Iterator[str]:
    """Exceptions and harness errors, which no reply should cause."""
    crashes = [case.crash for case in parsing.words] + [case.crash for case in parsing.replies]
    for crash, count in Counter(filter(None, crashes)).items():
        yield f"EXCEPTION at {count} recorded replies: {crash}; parser and extractor must not raise it: please report"
    if broken := sum(case.broken for case in parsing.replies):
        yield f"HARNESS ERRORS: {broken} programs have no verdict; run `reflexion-lab doctor`"


def reflections(parsing: Parsing) -> Sheet:
    """By model: reflections that the parser reads, and that it would read in the requested form."""
    rows = [
        (
            name,
            str(len(own)),
            str(sum(case.parsed for case in own)),
            percent(share(own, lambda case: not case.parsed)),
            str(sum(case.kept for case in own)),
            str(sum(bool(case.crash) for case in own)),
        )
        for name, own in grouped(parsing.words, lambda case: case.model)
    ]
    names = ("model", "reflections", "parsed", "need the rules, %", "whole in form", "exceptions")
    text = (
        f"These models were asked for free text, without labels. Whole in form: written as labelled lines and as JSON, "
        f"the same words are read back unchanged. {INTERVALS}"
    )
    return Sheet(title="Reflections", columns=names, rows=tuple(rows), caption=text)


def replies(parsing: Parsing, by: str) -> Sheet:
    """Completions by `model` or by `rule` of extraction: extracted programs, and their verdicts beside the log's.

    Raises ConfigError: `by` is neither.
    """
    rows = [
        (
            name,
            str(len(own)),
            str(sum(not case.program for case in own)),
            percent(share(own, lambda case: not case.usable)),
            str(sum(bool(case.crash) for case in own)),
            str(sum(case.logged for case in own)),
            str(sum(case.lenient for case in own)),
            str(sum(case.passed for case in own)),
            str(len(own) - differing(own)),
            percent(share(own, lambda case: not case.differs)),
        )
        for name, own in grouped(parsing.replies, key(by))
    ]
    extracted = ("replies", "no program", "no whole function, %", "exceptions")
    judged = ("logged passes", "lenient passes", "extracted passes", "agree", "agree, %")
    text = f"{parsing.executed} distinct programs were executed. Agree: with the log's strict verdict. {INTERVALS}"
    return Sheet(title=f"Completions by {by}", columns=(by, *extracted, *judged), rows=tuple(rows), caption=text)


def disagreements(parsing: Parsing) -> Sheet:
    """Verdicts other than the log's, by cause."""
    differ = [case for case in parsing.replies if case.differs]
    counts = Counter((case.cause, case.logged) for case in differ)
    rows = [
        (
            cause,
            WORD[logged],
            WORD[not logged],
            str(count),
            str(len({case.task_id for case in differ if (case.cause, case.logged) == (cause, logged)})),
            CAUSES[cause],
        )
        for (cause, logged), count in counts.most_common()
    ]
    names = ("cause", "logged", "extracted", "replies", "tasks", "explanation")
    text = f"{sum(not case.logged for case in differ)} of {len(differ)} disagreements are passes here alone."
    return Sheet(title="Disagreements", columns=names, rows=tuple(rows), names=6, caption=text)


def as_rows(parsing: Parsing) -> Iterator[dict[str, Any]]:
    """Rows of `table.csv` and of `--json`, one per line of the tables; "" for a number that does not apply."""
    for name, words in grouped(parsing.words, lambda case: case.model):
        row = _row("reflections", "model", name, words)
        row |= {"failed": sum(not case.parsed for case in words), "in_form": sum(case.kept for case in words)}
        yield row | columns(share(words, lambda case: not case.parsed), "failed_share", "failed_")
    for by in ("model", "rule"):
        for name, own in grouped(parsing.replies, key(by)):
            row = _row("completions", by, name, own) | {"failed": sum(not case.usable for case in own)}
            yield row | columns(share(own, lambda case: not case.usable), "failed_share", "failed_") | _verdicts(own)
    for cause in CAUSES:
        if own := [case for case in parsing.replies if case.cause == cause]:
            yield _row("disagreements", "cause", cause, own) | _verdicts(own)


def _row(part: str, by: str, name: str, cases: Sequence[Words | Reply]) -> dict[str, Any]:
    row: dict[str, Any] = {"part": part, "by": by, "name": name, "n": len(cases)}
    row |= {"tasks": len({case.task_id for case in cases}), "exceptions": sum(bool(case.crash) for case in cases)}
    return dict.fromkeys(COLUMNS, "") | row


def _verdicts(own: Sequence[Reply]) -> dict[str, Any]:
    return {
        "no_program": sum(not case.program for case in own),
        "logged_pass": sum(case.logged for case in own),
        "lenient_pass": sum(case.lenient for case in own),
        "extracted_pass": sum(case.passed for case in own),
        "agree": len(own) - differing(own),
    } | columns(share(own, lambda case: not case.differs), "agree_share", "agree_")


def key(by: str) -> Callable[[Reply], str]:
    keys: dict[str, Callable[[Reply], str]] = {"model": lambda case: case.model, "rule": lambda case: case.rule}
    if by not in keys:
        raise ConfigError("by", repr(by), " or ".join(keys))
    return keys[by]


def grouped(cases: Sequence[Case], name: Callable[[Case], str]) -> Iterator[tuple[str, list[Case]]]:
    """The cases by name, in alphabetical order; then all of them, if there are any."""
    for each in sorted({name(case) for case in cases}, key=str.casefold):
        yield each, [case for case in cases if name(case) == each]
    if cases:
        yield "all", list(cases)


def share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> Rate:
    """Share of cases for which `holds`; cases of one task are a cluster."""
    return rate((case.task_id, holds(case)) for case in cases)


def differing(own: Iterable[Reply]) -> int:
    return sum(case.differs for case in own)


def save(parsing: Parsing, folder: Path) -> list[Path]:
    """Write `table.csv` and, if there are completions, `figure.svg`."""
    rows = list(as_rows(parsing))
    if not parsing.replies:
        return [output.write_csv(folder / "table.csv", rows)]
    return output.save(rows, partial(draw, parsing), folder, salt="parsing", line_end="\n", pad_inches=0.2)


def draw(parsing: Parsing, figure: Figure) -> Figure:
    """Draw pass shares by model and disagreements by cause into an empty figure; needs completions."""
    models = dict(grouped(parsing.replies, key("model")))
    figure.set_size_inches(12, 1 + 0.42 * len(models))
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    figure.subplots_adjust(wspace=0.32)
    rows = {
        f"{name} ({len(own)})": {
            "logged": share(own, lambda case: case.logged),
            "extracted": share(own, lambda case: case.passed),
        }
        for name, own in models.items()
    }
    output.forest(rows, left, "share that passes")
    output.legend(left, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _causes(parsing, right)
    unread = sum(not case.parsed for case in parsing.words)
    counts = f"{len(parsing.replies)} completions; of {len(parsing.words)} reflections {unread} need the rules."
    caption(left, f"{counts}\n{METHOD}")
    return figure


def _causes(parsing: Parsing, ax: Axes) -> None:
    """One bar per cause: passes of only the extracted program to the right, of only the log to the left."""
    counts = Counter((reply.cause, reply.passed) for reply in parsing.replies if reply.differs)
    causes = list(dict.fromkeys(cause for (cause, _), _ in counts.most_common()))
    for ours, sign, colour in ((True, 1, COLOURS[1]), (False, -1, COLOURS[0])):
        widths = [sign * counts[cause, ours] for cause in causes]
        ax.barh(causes, widths, color=colour, height=0.55)
        for place, width in enumerate(widths):
            if width:
                side = "left" if ours else "right"
                ax.text(width, place, f" {abs(width)} ", color=INK, fontsize=9, ha=side, va="center")
    most = max(map(abs, counts.values()), default=1)
    ax.set_xlim(-1.6 * most, 1.6 * most)
    ax.set_ylim(len(causes) - 0.4, -0.6)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xticks([-0.9 * most, 0.9 * most], ["passes in the log alone", "passes as extracted alone"])
    ax.set_title(f"{counts.total()} of {len(parsing.replies)} verdicts differ", fontsize=10, loc="left", color=INK)
    output.plain_axes(ax)
