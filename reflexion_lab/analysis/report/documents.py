"""A report as a folder: tables and figures as Markdown, HTML and LaTeX, and the numbers as CSV."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.budgets import ATTEMPTS
from reflexion_lab.analysis.comparison.cases import FILE, save_cases
from reflexion_lab.analysis.comparison.row import Difference, Row
from reflexion_lab.analysis.figures.drawing import Figure, Kind, inert, save_figures
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.comparison import answers, claim, sheets, warnings
from reflexion_lab.analysis.report.latex import TABLES, save_tables
from reflexion_lab.analysis.report.pieces import escaping, markup
from reflexion_lab.analysis.report.sheets import Document, Sheet
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.io.terminal_text import plain

FIGURE = re.compile(r"^!\[.*\]\((.+)\)\n\nData: \[", re.MULTILINE)
"""A figure in `report.md`."""
MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def save_report(
    folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png", are_captioned: bool = True
) -> list[Path]:
    """Write `report.md`, `report.html`, `table.csv`, `cases.csv`, the figures, and `tables/*.tex` into
    `folder`, and remove figures and tables of an earlier report there; returns the paths of all files.

    `kind`: format of the figures; PDF comes beside PNG. `are_captioned`: write titles and captions into the figures;
    off for papers. Raises OSError: the folder cannot be written to.
    """
    former = _figures_in(folder)
    figures, short = save_figures(folder, comparison, arms, kind, are_captioned), comparison.short
    document = Document(
        title=f"{plain(comparison.benchmark)}: {cells.listed((plain(row.arm) for row in short.rows), 6)}",
        answers=tuple(answers(short)),
        warnings=tuple(warnings(short)),
        sheets=(*sheets(comparison), _folders(short)),
        figures=tuple(figures),
    )
    written = []
    for name, write in (("report.md", markdown), ("report.html", page)):
        written.append(folder / name)
        written[-1].write_text(write(document), encoding="utf-8", errors="backslashreplace")
    written += [write_table(folder / "table.csv", comparison), save_cases(folder / FILE, arms)]
    written += [path for figure in figures for path in figure.files]
    for path in former.difference(written):
        path.unlink(missing_ok=True)
    return written + save_tables(folder / TABLES, document.sheets)


def _figures_in(folder: Path) -> set[Path]:
    """Files of the figures that the report in `folder` shows, whether they exist or not."""
    try:
        text = (folder / "report.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    figures = [folder / Path(match[1]).name for match in FIGURE.finditer(text)]
    in_print = {path.with_suffix(".pdf") for path in figures if path.suffix == ".png"}  # beside an SVG it is a user's
    return {*figures, *(path.with_suffix(".csv") for path in figures), *in_print}


def _folders(comparison: Comparison) -> Sheet:
    rows = tuple(
        (plain(row.arm), str(seed), plain(run_id))
        for row in comparison.rows
        for seed, run_id in zip(row.seeds, row.run_ids, strict=True)
    )
    return Sheet(title="Run folders", columns=("arm", "seed", "run"), rows=rows, names=3)


def page(document: Document) -> str:
    """The report as one HTML file. Texts are escaped; figures are images, in which no script runs."""
    template = escaping(Path(__file__).parent).get_template("document.html.jinja")
    tables = [(sheet, markup(sheet.html_table())) for sheet in document.sheets]
    return str(template.render(document=document, tables=tables, source=_source))


def _source(path: Path) -> str:
    """The file as a data URL."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(document: Document) -> str:
    return "\n\n".join([f"# {escaped(document.title)}", *_parts(document)]) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, escaped for Markdown and its tables."""
    safe = re.sub(r"([\\`*_{}\[\]|#!~$@])", r"\\\1", plain(text))
    return re.sub(r"[&<>]", lambda match: ENTITIES[match[0]], safe)


def _parts(document: Document) -> Iterator[str]:
    yield from map(escaped, document.answers)
    for warning in document.warnings:
        yield f"> **{escaped(warning)}**"
    for sheet in document.sheets:
        yield from (f"## {escaped(sheet.title)}", _table(sheet), escaped(sheet.caption))
    if document.figures:
        yield "## Figures"
    yield from map(_figure, document.figures)


def _table(sheet: Sheet) -> str:
    head, *body = [[escaped(cell) for cell in row] for row in (sheet.columns, *sheet.rows)]
    sides = ["---" if place < sheet.names else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *body))


def _figure(figure: Figure) -> str:
    """The figure with its caption as alternative text, and a link to its data."""
    picture, table = f"![{escaped(figure.drawing.caption)}]({figure.path.name})", figure.table.name
    return f"{picture}\n\nData: [{table}]({table})"


DIGITS = 6
"""Significant digits."""


def write_table(path: Path, comparison: Comparison) -> Path:
    """Write the numbers of every arm as CSV; returns `path`. Raises OSError."""
    return write_rows(path, rows(comparison))


def write_rows(path: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    """Write one row or more of the same columns as CSV; returns `path`. Raises OSError."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return path


def builtins(comparison: Comparison) -> dict[str, Any]:
    """The comparison as dicts and lists, with the verdict on every difference."""
    values: dict[str, Any] = msgspec.to_builtins(comparison)
    for row, fields in zip(comparison.rows, values["rows"], strict=True):
        if row.as_run:
            fields["as_run"]["verdict"] = claim(row, row.as_run)
        for unit, difference in row.equal.items():
            fields["equal"][unit]["verdict"] = claim(row, difference)
    return values


def rows(comparison: Comparison) -> list[dict[str, object]]:
    """Values of every arm by column; the same columns for all."""
    return [dict(_columns_of(row, comparison)) for row in comparison.rows]


def _columns_of(row: Row, comparison: Comparison) -> Iterator[tuple[str, object]]:
    """Columns and values. An upper bound has a column of its own, and no pass@1."""
    final = "upper_bound" if row.is_upper_bound else "pass_at_1"
    yield from (("arm", inert(row.arm)), ("feedback_source", row.feedback_source), ("study", inert(row.study)))
    yield from (("seeds", " ".join(map(str, row.seeds))), ("tasks", row.tasks), ("clusters", row.clusters))
    yield from (("n_expected", row.n_expected), ("n_logged", row.n_logged), ("n", row.n))
    if any(other.shards for other in comparison.rows):
        yield "shards_missing", "; ".join(row.shards)
    yield from _estimate("pass_at_1_first", row.first)
    for name in ("pass_at_1", "upper_bound"):
        yield from _estimate(name, row.final if name == final else None)
    yield from (("interval", row.method), ("area", _round(row.area)), ("baseline", inert(comparison.baseline or "")))
    for name in ("as_run", *(f"equal_{unit}" for unit in comparison.units)):
        yield from _difference(name, row.differences.get(name), row)
    for unit in comparison.units:
        if unit != ATTEMPTS:
            yield from _price(f"equal_{unit}", row, row.equal.get(unit))
    yield from (("refused", row.refused), ("unmatched", inert("; ".join(dict.fromkeys(row.unmatched.values())))))
    yield from (("repaired", row.moves.wc), ("damaged", row.moves.cw))
    yield from (*_estimate("repair", row.moves.repair), *_estimate("damage", row.moves.damage))
    yield from _rate("false_positives", row.feedback.false_positive_rate)
    yield from _rate("false_negatives", row.feedback.false_negative_rate)
    yield "attempts", row.spent.timeouts.n
    known = {name for other in comparison.rows for name in other.metrics}
    for metric in metrics.of_arms():
        if metric.level == "attempt" or metric.key(row.is_upper_bound) in known:
            yield from _metric(metric, row.metrics.get(metric.key(row.is_upper_bound)))
    yield from _spent(row)
    yield from (("no_verdict", len(row.no_verdict)), ("no_feedback", row.no_feedback))
    yield from (("absent", len(row.absent)), ("alone", len(row.alone)))
    yield "models", inert("; ".join(" ".join((role, *names)) for role, names in row.models.items()))


TOKENS = ("tokens", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


def _spent(row: Row) -> Iterator[tuple[str, object]]:
    """Spending; empty where it is not recorded."""
    usage = row.spent.usage
    units = {"calls": "calls", **dict.fromkeys(TOKENS, "tokens"), "cost": "cost"}
    yield from ((name, _round(getattr(usage, name)) if unit not in row.unknown else "") for name, unit in units.items())
    for unit, estimate in (("tokens", row.tokens_per_solved), ("cost", row.cost_per_solved)):
        yield f"{unit}_per_case", _round(getattr(usage, unit) / row.n_logged) if unit not in row.unknown else ""
        yield from _estimate(f"{unit}_per_solved", estimate)


def _difference(name: str, difference: Difference | None, row: Row) -> Iterator[tuple[str, object]]:
    yield from _estimate(f"{name}_difference", difference.estimate if difference else None)
    yield f"{name}_pairs", difference.n if difference else ""
    yield f"{name}_won", difference.won if difference else ""
    yield f"{name}_lost", difference.lost if difference else ""
    for place, end in enumerate(("low", "high")):
        yield f"{name}_{end}_90", _round(difference.interval_90[place]) if difference else ""
    for field in ("p", "p_tasks", "p_holm", "effective", "minimum", "margin"):
        is_corrected = field != "p_holm" or not row.is_upper_bound  # an upper bound is in no family
        yield f"{name}_{field}", _round(getattr(difference, field)) if difference and is_corrected else ""
    yield f"{name}_detected", difference.is_detected if difference and not row.is_upper_bound else ""
    yield f"{name}_verdict", claim(row, difference) if difference else ""
    yield f"{name}_exploratory", bool(difference.exploratory) if difference else ""
    yield f"{name}_interval", difference.method if difference else ""
    yield f"{name}_spend", _round(difference.cut.spend) if difference and difference.cut else ""
    yield f"{name}_baseline_spend", _round(difference.cut.baseline_spend) if difference and difference.cut else ""


def _price(name: str, row: Row, difference: Difference | None) -> Iterator[tuple[str, object]]:
    price = difference.price if difference else None
    for field in ("spend", "baseline_spend", "ratio", "break_even"):
        yield f"{name}_price_{field}", _round(getattr(price, field)) if price else ""
    for field in ("solved", "baseline_solved"):
        rate: Rate | None = getattr(price, field) if price else None
        yield from (
            (f"{name}_price_{field}", rate.k if rate else ""),
            (f"{name}_price_{field}_n", rate.n if rate else ""),
        )
    yield f"{name}_is_price", row.is_price(difference) if difference else ""


def _estimate(name: str, estimate: Estimate | None) -> Iterator[tuple[str, object]]:
    yield name, _round(estimate.value) if estimate else ""
    yield f"{name}_low", _round(estimate.low) if estimate else ""
    yield f"{name}_high", _round(estimate.high) if estimate else ""


def _rate(name: str, rate: Rate) -> Iterator[tuple[str, object]]:
    yield name, rate.k
    yield f"{name}_rate", _round(rate.share) if rate.n else ""


def _metric(metric: metrics.Metric, value: metrics.Value | None) -> Iterator[tuple[str, object]]:
    if metric.level == "attempt" and metric.unit == "share":
        yield from _rate(metric.name, value if isinstance(value, Rate) else Rate.of(0, 0))
        return
    values = metrics.numbers(metric.name, value)
    names = (metric.name, f"{metric.name}_low", f"{metric.name}_high") if metric.interval else (metric.name,)
    yield from ((name, _round(values.get(name))) for name in names)


def _round(value: float | None) -> object:
    return "" if value is None else value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
