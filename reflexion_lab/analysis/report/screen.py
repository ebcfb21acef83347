"""Answers in one screen of plain text: a run, one task of it, a comparison.

Details are in the tables of `run_tables` and `comparison`, which the commands print with `--full`. One file: all fit
their lines into a terminal by the same few rules.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.grouping import shared_words, short_names
from reflexion_lab.analysis.comparison.lines import EQUAL_ATTEMPTS, Difference
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.metrics import REGISTRY
from reflexion_lab.analysis.report import cells, run_tables
from reflexion_lab.analysis.report import comparison as tables
from reflexion_lab.analysis.report.history import Card, Sources, Turn, cards, tree_lines
from reflexion_lab.analysis.report.pieces import WORDS, check_details, tally
from reflexion_lab.analysis.run_list import model_names
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.estimators import Point, verdict
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.summary import Summary, has_model, spending, summary, writers, written
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.runner.folder.folder import RUNS, RunFolder
from reflexion_lab.text.shorten import bounded, cut, number_of
from reflexion_lab.text.shorten import line as shortened

LINES = 15
"""Maximum number of lines of the screen of a run or a comparison."""
WIDTH = 80
"""Maximum number of columns; wider terminals show no more."""
NARROWEST = 50
MOST_LINES = 24
"""Maximum lines of a program or a difference."""
MOST_ITEMS = 12
"""Maximum number of memory items of an attempt."""
MOST_CHARS = 600
"""Maximum characters of a reflection's field, or of a side of a failing check."""
WRAP: dict[str, Any] = {"subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
"""A path or an id stays in one piece."""
ENDS = " [95 %]"
SHARE, POINTS = f"pass@1{ENDS}", f"points{ENDS}"
HEADS = ("at equal", POINTS, "MDE", "p Holm", "verdict")
BAR = 24
"""Columns of a bar of 100 %."""
FEEDBACK = {"visible": "visible tests", "self_tests": "tests by the model", "none": "none", "oracle": "hidden tests"}


def run_screen(run: RunFolder, log: Log, width: int = WIDTH, facts: Sequence[str] = ()) -> list[str]:
    """pass@1 with n and interval, its change since attempt 1, the curve, `facts`, and what to look at next: at most
    `LINES` lines of at most `width` columns, but for long paths.
    """
    figures, name = summary(log), short_name(run)
    model = ", ".join(dict.fromkeys(model_names(log.manifest)))
    feedback = FEEDBACK.get(figures.feedback_source, figures.feedback_source)
    model = shortened(model, 30)
    about = f"{log.arm} on {figures.benchmark} · {model} · seed {figures.seed} · feedback: {feedback}"
    about += f" · {log.shards}" if log.shards else ""
    unsolved = _unsolved(log)
    failed = short_ids(log.results)[next(iter(unsolved or log.results))] if log.results else ""
    look = [f"show {name} {failed}"] * bool(failed) + [f"report --html {name}   (all tables: show {name} --full)"]
    look += [f"tree {name}"] * ("RepairTree" in str(log.manifest.config.get("policy")))
    warnings, top = run_tables.warnings(log, figures, run.path), [about, *_rates(figures)]
    base = REGISTRY["task", "hidden_base_passed"].in_run(log)
    top[2:2] = [f"by base tests  {rate(base)}"] if isinstance(base, Rate) else []
    calls = number_of(sum(usage.calls for usage in figures.usage.values()), "call")
    bottom = [*_changes(log, figures, unsolved), *_feedback(log, figures), f"{calls}, {spending(log)}", *facts]
    bottom.append(f"run folder: {run.path}")
    return _screen(warnings, top, _curve(log, width), bottom, _look(look), width)


def _screen(
    warnings: Iterable[str],
    top: Sequence[str],
    rows: Sequence[str],
    bottom: Sequence[str],
    look: Sequence[str],
    width: int,
) -> list[str]:
    """Trim to `LINES`: first rows, then the footer, last the warnings; `--full` shows what is cut."""
    width = _within(width)
    loud, head, tail, below = (_folded(part, width) for part in (map(plain, warnings), top, look, bottom))
    room = LINES - len(head) - len(tail)
    loud = _cut(loud, room - 1)
    below = _cut(below, room - len(loud))
    return [*loud, *head, *_cut(list(rows), room - len(loud) - len(below)), *below, *tail]


def _within(width: int) -> int:
    return max(NARROWEST, min(width, WIDTH))


def _folded(parts: Iterable[str], width: int) -> list[str]:
    return [line for part in parts for line in folded(part, width)]


def _cut(lines: list[str], most: int) -> list[str]:
    """At most `most` lines; the last one names how many are missing."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"{len(lines) - most + 1} more lines: --full"] if most > 0 else []


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns; further lines are indented."""
    text = visible(text, kept="")
    if len(text) <= width or max(map(len, text.split())) > width // 2:  # a path stays on the line of its words
        return [text]
    return textwrap.wrap(text, width, **WRAP)


def _look(commands: Sequence[str]) -> list[str]:
    """The next commands, one per line."""
    return [f"{'look:' if not n else '     '} reflexion-lab {command}" for n, command in enumerate(commands)]


def _rates(figures: Summary) -> Iterator[str]:
    """Final rate, first rate and their difference; what is no pass@1 is called an upper bound."""
    name = "upper bound (not pass@1)" if figures.is_upper_bound else "pass@1"
    yield f"{name}{', held-out tasks' * bool(figures.train)}  {rate(figures.pass_at_1)}"
    if figures.train:
        yield f"train tasks  {rate(figures.train)}"
    first, pair = figures.pass_at_1_first, figures.against_single
    if first and pair and pair.n and figures.attempts_mean > 1:
        change = f"{cells.number(pair.difference, signed=True)} {cells.interval(pair.low, pair.high, signed=True)}"
        yield f"change since attempt 1  {change} points, p {cells.p_value(pair.p)}"


def rate(value: Rate) -> str:
    """`75.0 % [40.9, 92.9], 6 of 8 tasks`."""
    if not value.n:
        return "not known: no task with a hidden verdict"
    share = f"{cells.number(value.share)} % {cells.interval(value.low, value.high)}"
    return f"{share}, {value.k} of {number_of(value.n, 'task')}, 95 % {value.method}"


def _curve(log: Log, width: int) -> list[str]:
    """A bar per attempt, at most five; nothing for loops with a single attempt."""
    points = log.points
    if len(points) < 2:
        return []
    points = [*points[:4], points[-1]] if len(points) > 5 else points
    columns = min(BAR, _within(width) - 48)
    solved, least = len(f"{points[0].n}") * 2 + 1, "≥ " * bool(summary(log).uncounted)

    def tokens(point: Point) -> str:
        return f"{least}{point.tokens_cum:,}" if point.tokens_cum else "unknown"

    return [
        f"attempt {point.attempt:<2} {bar(point.pass_at_1, columns)} {cells.number(point.pass_at_1):>5}"
        f"  {f'{point.solved}/{point.n}':>{solved}}  {tokens(point):>9} tokens"
        for point in points
    ]


def bar(share: float, columns: int) -> str:
    """`share` as a bar, in eighths of a column."""
    eighths = round(8 * columns * share)
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()).ljust(columns)


def _unsolved(log: Log) -> list[str]:
    """Tasks whose submission fails the hidden tests."""
    return [
        task_id
        for task_id, (_, grade) in log.headline.submitted.items()
        if not grade.passed and task_id not in log.no_verdict
    ]


def _changes(log: Log, figures: Summary, unsolved: Sequence[str]) -> Iterator[str]:
    """Repairs and damage since attempt 1, and tasks unsolved; nothing without a hidden verdict."""
    pair, ids = figures.against_single, short_ids(log.results)
    moves = f"repaired {pair.repaired}, damaged {pair.damaged}, " if pair and figures.attempts_mean > 1 else ""
    names = f": {cells.listed([ids[task_id] for task_id in unsolved], 3)}" if unsolved else ""
    if figures.pass_at_1.n:
        yield f"{moves}unsolved {len(unsolved)}{names}"


def _feedback(log: Log, figures: Summary) -> Iterator[str]:
    """Errors of the feedback tests on what was submitted, and the reflections."""
    parts = []
    if not figures.is_upper_bound and figures.no_feedback < figures.n_logged and figures.pass_at_1.n:
        passes, fails = figures.feedback.false_positives, figures.feedback.false_negatives
        parts.append(f"feedback on submissions: {passes} false passes, {fails} false fails")
    if reflections := [attempt.reflection for attempt in log.every if attempt.reflection]:
        again = f", {number_of(figures.reflections_repeated, 'duplicate')}" if figures.reflections_repeated else ""
        parts.append(f"reflections {written(writers(reflections), has_model(figures.reflections))}{again}")
    if parts:
        yield " · ".join(parts)


def short_ids(task_ids: Iterable[str]) -> dict[str, str]:
    """Short names of tasks by id: the part between slashes that no other task has, if it is a word, else the id."""
    ids = list(task_ids)
    uses = Counter(part for task_id in ids for part in set(task_id.split("/")))
    words = ((part for part in task_id.split("/") if uses[part] == 1 and part.isidentifier()) for task_id in ids)
    return {task_id: next(own, task_id) for task_id, own in zip(ids, words, strict=True)}


def short_name(run: RunFolder) -> str:
    """A name by which commands find the run: its time of day, if no other run in `runs/` has that in its name."""
    path = run.path.resolve()
    _, *parts = path.name.split("-")
    if path.parent == Path(RUNS).resolve():
        others = [other.name for other in path.parent.iterdir() if other != path]
        for end in range(1, len(parts) + 1):
            if not any((name := "-".join(parts[:end])) in other for other in others):
                return name
    return str(run.path)


def task_screen(run: RunFolder, log: Log, task_id: str, width: int = WIDTH, most: int | None = MOST_LINES) -> list[str]:
    """The attempts at one task: verdicts, what each one read, the program as a difference to the one before, failing
    checks, and the reflection.

    The loop at `task_id` has ended. Lines of programs longer than `width` are cut, other texts folded; of a program or
    a difference, `most` lines are shown, with None whole programs, texts, prompts and replies.
    """
    attempts = log.attempts[task_id]
    submission = submitted_at(attempts).number
    passed = verdict(log.grades.get((task_id, submission)))
    result = {None: "not graded", True: "solved", False: "not solved"}[passed]
    head = f"{task_id} · {number_of(len(attempts), 'attempt')} · submitted {submission} · {result}"
    width = max(NARROWEST, width)
    lines = folded(head, width)
    every = list(cards(attempts, log.grades, Sources.of(log)))
    lines += [cut(line, width) for line in tree_lines(every)]
    for card in every:
        lines += _attempt(card, width, most)
    return lines


def _attempt(card: Card, width: int, most: int | None) -> Iterator[str]:
    attempt, grade = card.attempt, card.grade
    passed, total = tally(attempt.evaluation)
    feedback = WORDS.get(attempt.evaluation.outcome, attempt.evaluation.outcome)
    hidden = f" · hidden tests: {WORDS.get(grade.outcome, grade.outcome)}" if grade else ""
    yield ""
    yield from folded(
        f"attempt {attempt.number}: {feedback}, {passed} of {total} feedback tests{hidden} · {card.tokens:,} tokens",
        width,
    )
    for item in card.memory_items[: None if most is None else MOST_ITEMS]:
        place = f", rank {item.retrieved.rank}, score {item.retrieved.score:.2f}" if item.retrieved else ""
        name = "" if item.kind == "insight" or (item.where and "/" in item.name) else f" {item.name}"
        where = f" ({item.where})" if item.where else ""
        text = dict(item.words).get("text", item.retrieved.text if item.retrieved else "")
        excerpt = f": {_text(text, most, width)}" if text and not item.is_own else ""
        yield from folded(f"  read: {item.kind}{name}{where}{place}{excerpt}", width)
    if most is not None and (left := len(card.memory_items) - MOST_ITEMS) > 0:
        yield f"  … {left} more: --full"
    if left_out := attempt.trajectory.left_out:
        names = f"no room in the prompt ({len(left_out)}): {', '.join(left_out)}"
        yield from folded(f"  {_text(names, most, width - 2)}", width)
    for retriever, query in dict.fromkeys((item.retriever, item.query) for item in attempt.retrieved):
        yield from folded(f"  query ({retriever}): {_text(query, most, width)}", width)
    work = attempt.trajectory
    turns = [(step.messages, step.reply) for step in work.steps] or [(work.messages, work.reply)]
    for messages, reply in () if most else turns:
        for name, text in [*((f"prompt ({message.role})", message.content) for message in messages), ("reply", reply)]:
            yield f"  {name}:"
            yield from (f"    {visible(line, kept='')}".rstrip() for line in text.split("\n"))
    yield from (line for turn in card.turns for line in _draft(turn, most, width))
    if work.strategy == "play":
        yield f"  play ended: {work.ended}"
    else:
        yield from _program(card, most, width)
    for check in attempt.evaluation.failures:
        sides = "; ".join(f"{label} {_text(text, most)}" for label, text in check_details(check))
        yield from folded(f"  failing check: {check.name}: {sides}", width)
    if words := attempt.reflection:
        yield from folded(f"  reflection ({words.source}): {_text(words.root_cause, most)}", width)
        if words.what_to_change.strip():
            yield from folded(f"    to change: {_text(words.what_to_change, most)}", width)


def _program(card: Card, most: int | None, width: int) -> Iterator[str]:
    """The submitted program, as its difference to the one before."""
    if ended := card.attempt.trajectory.ended:
        yield f"  drafts ended: {ended}"
    yield from folded(f"  {card.noun}: {card.heading}" if card.heading else f"  {card.noun}", width)
    lines, chars = card.lines[:most], width - 2 if most else sys.maxsize
    for line in lines:
        yield f"  {cut(visible(line.gutter + ''.join(text for text, _ in line.parts), kept=''), chars)}".rstrip()
    if left := len(card.lines) - len(lines):
        yield f"  … {left} more lines: --full"


def _draft(turn: Turn, most: int | None, width: int) -> Iterator[str]:
    if critique := turn.step.critique:
        score = "" if critique.score is None else f", score {critique.score:.2f}"
        change = "" if turn.improvement is None else f", improvement {turn.improvement:+.2f}"
        issues = f": {_text('; '.join(critique.issues), most, width)}" if critique.issues else ""
        yield from folded(f"  draft {turn.number}: severity {critique.severity:.2f}{score}{change}{issues}", width)
    elif turn.step.observation and not turn.step.program:
        yield from folded(f"  {turn.number:>3} > {turn.step.action}", width)
        yield from (f"        {line}" for line in _lines(turn.step.observation, most, width - 8))
    elif turn.step.program and turn.step.error:
        yield from folded(f"  draft {turn.number}: {_text(turn.step.error, most, width)}", width)


def _lines(text: str, most: int | None, width: int) -> list[str]:
    """The lines of an observation; in brief, its beginning on one line."""
    if most is not None:
        return [_text(text, most, width)]
    return [visible(line, kept="") for line in text.splitlines() if line.strip()]


def _text(text: str, most: int | None, chars: int = MOST_CHARS) -> str:
    return " ".join(text.split()) if most is None else shortened(text, chars)


def comparison_screen(comparison: Comparison, width: int = WIDTH, look: Sequence[str] = ()) -> list[str]:
    """Rates with n and intervals, then the differences to the baseline, and `look`, the next commands.

    At most `LINES` lines of at most `width` columns; warnings give way to arms, but for two lines. Where they are too
    few, fewer budgets of each arm: the registered ones stay longest, then that of equal attempts; then the best arms
    (`_kept`). A terminal too narrow for all columns has every verdict.
    """
    width, legend = _within(width), shared_words([row.arm for row in comparison.rows])
    comparison = comparison.renamed(_names([row.arm for row in comparison.rows], min(24, max(18, width - 40))))
    rows = comparison.rows
    cases, sources = (", ".join(dict.fromkeys(map(of, rows))) for of in (_cases, lambda row: row.of.feedback_source))
    about = f"{plain(comparison.benchmark)} · {cases} · feedback: {sources} · 95 % intervals"
    answer = [about, *filter(None, [tables.best(comparison)])]
    reason = f" ({comparison.reason})" if comparison.reason else ""
    differences = [difference for row in rows for difference in comparison.shown(row).values()]
    registered = dict.fromkeys(_budget(difference) for difference in differences if not difference.exploratory)
    reason += f"; registered: {', '.join(registered)}" if registered else "; exploratory" if differences else ""
    rooms = {cells.number(d.room or 0): d for d in differences if d.budget == EQUAL_ATTEMPTS and d.attempts != 1}
    reason += f"; room to lose {', '.join(rooms)}" if rooms and width == WIDTH else ""
    title = f"difference to {comparison.baseline}{reason}"
    warnings = sorted(tables.warnings(comparison), key=lambda text: not text.startswith(UPPER_BOUND))
    if excluded := len(list(tables.exclusions(comparison))):
        warnings.append(f"cases without a verdict or a pair: {excluded} lines in --full")
    room = LINES - len(_folded([*answer, *look, *map(plain, warnings)], width))
    budgets = max(len(comparison.shown(row)) for row in rows) or 1
    left_out = "; other budgets: --full"
    fitting = (_separate(comparison, title + left_out * (n < budgets), width, n) for n in range(budgets, 0, -1))
    table = next((lines for lines in fitting if len(lines) <= room and max(map(len, lines)) <= width), [])
    top, notes = (answer, []) if table else ([*answer, title], [legend] * bool(legend))
    if not table:
        most = LINES - len(_folded([*top, *notes, *look], width)) - 1 - 2 * bool(warnings)
        kept, left = _kept(comparison, max(most, 2))
        table = [*_in_one(replace(comparison, rows=tuple(kept)), width), *left, *_folded(notes, width)]
    room = LINES - len(_folded(top, width)) - len(table) - len(_folded(look, width))
    return _screen([], top, table, _cut(_folded(map(plain, warnings), width), max(room, 2)), look, width)


def _kept(comparison: Comparison, most: int) -> tuple[list[Row], list[str]]:
    """At most `most` rows, the baseline and the highest, and a line on the others."""
    ranked = sorted(comparison.rows, key=lambda row: (row.arm != comparison.baseline, -row.final.value))
    lower = ranked[most - 1 :] if len(ranked) > most else []
    line = [f"{len(lower)} not shown, none higher: --full"]
    return [row for row in comparison.rows if row not in lower], line[: len(lower)]


def _names(labels: Sequence[str], most: int) -> dict[str, str]:
    """Short names of arms of at most `most` characters, with a number where that would make two of them equal."""
    short = short_names(labels)
    names = {label: bounded(name, most) for label, name in short.items()}
    if len(set(names.values())) == len(names):
        return names
    return {label: bounded(f"{n} {name}", most) for n, (label, name) in enumerate(short.items(), 1)}


def _cases(row: Row) -> str:
    """`8 tasks x 2 seeds`; cases and tasks where seeds draw different tasks."""
    n, n_tasks, n_clusters, n_seeds = tables.sizes(row)
    tasks, seeds = number_of(n_tasks, "task"), number_of(n_seeds, "seed")
    clusters = f" in {number_of(n_clusters, 'cluster')}" * (n_clusters != n_tasks)
    if n == n_tasks * n_seeds:
        return f"{tasks}{clusters} x {seeds}"
    return f"{tasks}{clusters} over {seeds}" + (", no repeats" if n == n_tasks else f", {n} cases")


def _separate(comparison: Comparison, title: str, width: int, most: int) -> list[str]:
    """A table of rates, and one of differences with a line for each of `most` budgets of an arm; a verdict without
    room stands below.
    """
    rates = _fitted([_rates_of(row) for row in comparison.rows], ("tokens/case", "n", "attempt 1"), width)
    others = [row for row in comparison.rows if row.arm != comparison.baseline]
    lines = [{"": row.arm, **line} for row in others for line in _differences(row, comparison, most)]
    pairs = zip(
        _fitted(lines, ("MDE", "p Holm"), width), ["verdict", *(line["verdict"] for line in lines)], strict=False
    )
    cut_lines = ([text] if len(text) <= width else [text.removesuffix(end).rstrip(), f"  {end}"] for text, end in pairs)
    return [*rates, *(folded(title, width) if others else []), *(part for parts in cut_lines for part in parts)]


def _in_one(comparison: Comparison, width: int) -> list[str]:
    """One line per arm: its rate, and one difference."""
    lines = []
    for row in comparison.rows:
        difference = next(iter(_differences(row, comparison, 1)), dict.fromkeys(HEADS, "") | {POINTS: "baseline"})
        lines.append({"arm": row.arm, SHARE: _rates_of(row)[SHARE], **difference})
    rate_steps = [SHARE, SHARE.removesuffix(ENDS)]
    steps = [*rate_steps, POINTS] if width == WIDTH else [POINTS, *rate_steps]  # a narrow one has intervals of rates
    has_p = width == WIDTH and any(line["p Holm"] not in ("", cells.NONE) for line in lines)
    steps = [*steps, "p Holm"] if has_p else ["p Holm", *steps]
    return _fitted(lines, ("MDE", *steps, "at equal"), width)


def _fitted(lines: Sequence[Mapping[str, str]], steps: Sequence[str], width: int) -> list[str]:
    """Cells by column as a table, without as many of `steps` as `width` asks for; intervals go before their column."""
    for step in (cells.NONE, *steps):
        bare = step.removesuffix(ENDS)
        lines = [
            {bare if head == step else head: cell.partition(" [")[0] if head == step else cell
             for head, cell in line.items() if head != step or bare != step}
            for line in lines
        ]  # fmt: skip
        rows = [[*line] for line in lines[:1]] + [[*line.values()] for line in lines]
        for gap in ("  ", " "):
            table = _aligned(rows, gap)
            if max(map(len, table), default=0) <= width:
                return table
    return table


def _rates_of(row: Row) -> dict[str, str]:
    tokens = tables.amount("tokens_per_case", row)
    share = f"{UPPER_BOUND} " * row.of.is_upper_bound + cells.estimate(row.final)
    first = cells.number(row.first.value)
    return {"arm": row.arm, "attempt 1": first, SHARE: share, "n": str(row.final.n), "tokens/case": tokens}


def _differences(row: Row, comparison: Comparison, most: int) -> list[dict[str, str]]:
    """Cells of `most` differences to print, that at equal attempts first."""
    if row.refused:
        return [dict.fromkeys(HEADS, "") | {POINTS: row.refused}]
    lines, shown, first = [], comparison.shown(row), EQUAL_ATTEMPTS
    kept = sorted(shown, key=lambda name: (shown[name].exploratory, name != first))[:most]
    for difference in (shown[name] for name in sorted(shown, key=lambda name: name != first) if name in kept):
        p = cells.NONE if difference.p_holm is None else cells.p_value(difference.p_holm)
        at = f": {difference.attempts}" if difference.attempts else ""
        points = cells.estimate(difference, signed=True)
        values = (_budget(difference) + at, points, tables.mde(difference), p, _short_verdict(difference.verdict))
        lines.append(dict(zip(HEADS, values, strict=True)))
    return lines


def _budget(difference: Difference) -> str:
    return difference.words.removeprefix("equal ").replace("completion", "compl.")


def _short_verdict(claim: str) -> str:
    short = re.sub(r"^(no worse than .*), no better than .*", r"\1", claim.removesuffix(" points"))
    return short.replace("not detected, size below ", "size < ")


def _aligned(rows: Sequence[Sequence[str]], gap: str) -> list[str]:
    """Rows of cells in columns: the first and last are text, those between are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        gap.join(
            cell.ljust(size) if place == 0 or (place == last and size > 12) else cell.rjust(size)
            for place, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
