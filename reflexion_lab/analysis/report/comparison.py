"""A comparison as tables that fit a terminal of 100 columns.

One file: tables, warnings and sentences of a comparison use the same cells and words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.beginnings import ADVICE, MEMORY, began, listed
from reflexion_lab.analysis.comparison.budgets import currencies
from reflexion_lab.analysis.comparison.grouping import shared_words
from reflexion_lab.analysis.comparison.lines import AS_RUN, EQUAL_ATTEMPTS, Difference, RetryPrice
from reflexion_lab.analysis.comparison.row import Row, is_tested
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.learning.checkpoints import Matrix
from reflexion_lab.analysis.learning.memory import EFFECTS, Effect
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.cells import NONE
from reflexion_lab.analysis.report.run_tables import text
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.stats.power import counted, too_few
from reflexion_lab.analysis.summary import has_model
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import BY_MODEL, SAMPLED
from reflexion_lab.runner.folder.registration import NOT_AT_HAND

Cell = Callable[[Row], str]
ENOUGH = 0.9
"""Share of reflections by the model below which an arm is marked."""
MOST_ANSWERS = 5
"""Arms with a sentence of their own."""
AFTER = "memory.shared.items.after"
_ELSEWHERE = ("blind_retries", "empty_retries")
"""Metrics that another table has, too."""


def sheets(comparison: Comparison) -> list[Sheet]:
    """All tables of a comparison, with short names of arms, which the last table has in full; that of differences only
    where there are arms to compare.
    """
    labels, comparison = [row.arm for row in comparison.rows], comparison.short
    differences = [difference_sheet(comparison)] if len(comparison.rows) > 1 else []
    loops = [*_transitions(comparison), _loops(comparison), *_memory(comparison), _costs(comparison)]
    loops += [*_prices(comparison), *_further(comparison)]
    results = _results(comparison, shared_words(labels))
    return [results, *differences, *loops, _left_out(comparison), _runs(comparison, labels)]


def warnings(comparison: Comparison) -> Iterator[str]:
    """Warnings to show above the results, one per line."""
    if comparison.left_out:
        yield f"LEFT OUT: unfinished, not readable, or equal to another run: {cells.listed(comparison.left_out, 3)}"
    yield from _beginnings(comparison.rows)
    every = [difference for row in comparison.rows for difference in row.differences.values()]
    if any(NOT_AT_HAND in each.reasons for each in every):
        names = ", ".join(dict.fromkeys(plain(row.of.study) for row in comparison.rows if row.of.study))
        yield f"STUDY NOT AT HAND: {names}: all is exploratory here; its baseline and margin: --baseline, --margin"
    for row in comparison.rows:
        yield from warnings_of(row)
    if measured := [plain(row.arm) for row in comparison.rows if row.of.memory]:
        names = ", ".join(measured)
        yield f"CHECKPOINTS: runs on frozen memory of {names} measure it and are no arms; --by {AFTER} makes arms"
    yield from _same_calls(comparison.rows)
    yield from _noise(comparison)
    models: dict[str, list[str]] = {}
    for row in comparison.rows:
        models.setdefault(_models(row), []).append(plain(row.arm))
    if len(models) > 1:
        yield f"DIFFERENT MODELS: {'; '.join(f'{name} in {cells.listed(arms)}' for name, arms in models.items())}"
    if len(paid := sorted({name for row in comparison.rows for name in currencies(row.of)})) > 1:
        yield f"DIFFERENT CURRENCIES: costs are in {plain(', '.join(paid))}, and do not compare"
    if any(len(each.seeds) == 1 for each in every):
        yield "ONE SEED: a difference that rests on a single seed says nothing about another"
    yield from dict.fromkeys(_too_few(comparison))
    for row in comparison.rows:
        if row.unmatched:
            why = ", ".join(dict.fromkeys(row.unmatched.values()))
            yield f"NOT MATCHED: {plain(row.arm)} is compared as run and at equal attempts alone ({plain(why)})"
    if units := " and ".join(dict.fromkeys(_unit(each) for each in every if each.matched is False)):
        yield f"NOT MATCHED: the first attempts alone of an arm cost more {units} than all of the other"


def answers(comparison: Comparison) -> Iterator[str]:
    """The first screen in sentences, for the head of a report."""
    for row in comparison.rows[:MOST_ANSWERS]:
        yield answer(row, comparison)
    if (n := len(comparison.rows) - MOST_ANSWERS) > 0:
        yield f"{n} more in the tables below."
    if sentence := best(comparison):
        yield f"{sentence}."


def answer(row: Row, comparison: Comparison) -> str:
    """The rate of an arm, and its differences to the baseline, in a sentence."""
    parts = [f"{UPPER_BOUND if row.of.is_upper_bound else 'pass@1'} {cells.estimate(row.final)} % (n = {row.final.n})"]
    parts += [row.refused] * bool(row.refused)
    for each in sorted(comparison.shown(row).values(), key=lambda each: each.budget != EQUAL_ATTEMPTS):
        claims = verdict(each).replace("\none seed", ", one seed").replace("\nnot matched", ", not matched")
        p = "" if each.p_holm is None else f"; p, Holm {cells.p_value(each.p_holm)}; MDE {mde(each)}"
        parts.append(f"{budget(each)}, {cells.estimate(each, signed=True)} points ({claims}{p})")
    is_base = row.arm == comparison.baseline and len(comparison.rows) > 1
    return " ".join(f"{plain(row.arm)}{' (baseline)' * is_base}: {'; '.join(parts)}.".split())


def best(comparison: Comparison) -> str:
    """Sentence on the best cell of a sweep; "" for none."""
    if not (cell := comparison.best):
        return ""
    n, share = cell.differing, f"{cells.number(cell.share)} %"
    differing = f"{n or 'no'} cell{'s' * (n > 1)} differ{'s' * (n < 2)} from the baseline"
    of = f"simultaneous over {cell.cells} cells"
    if not cell.difference:
        return f"best cell: the baseline, {share}; {differing} ({of})"
    estimate = cells.estimate(cell.difference, signed=True)
    return f"best cell {plain(cell.arm)}: {share}, as run {estimate} to the baseline, {of}; {differing}"


def _beginnings(rows: Sequence[Row]) -> Iterator[str]:
    """What differs between runs of one arm, or in memory between arms, though their configs do not say it."""
    by_arm = {plain(row.arm): began(row.of.whole) for row in rows}
    for arm, facts in by_arm.items():
        for kind, values in facts.items():
            if len(values) > 1:
                yield f"{kind} differs in {arm}: {plain(listed(values))}: {ADVICE[kind]}"
    starts = {arm: ", ".join(facts[MEMORY]) for arm, facts in by_arm.items() if facts[MEMORY]}
    if len(set(starts.values())) > 1 and all(len(facts[MEMORY]) < 2 for facts in by_arm.values()):
        each = "; ".join(f"{arm} with {words}" for arm, words in starts.items())
        yield f"{MEMORY} differs between arms: {each}: arms of one sweep begin alike"


def _same_calls(rows: Sequence[Row]) -> Iterator[str]:
    """Arms with equal calls, by the words in which their names differ: `t0.5 = t1 in a2 Ω0, a4 Ω0`."""
    by_calls: dict[str, list[list[str]]] = {}
    for row in rows:
        by_calls.setdefault(row.of.calls, []).append(plain(row.arm).split())
    places: dict[str, list[str]] = {}
    for names in (names for calls, names in by_calls.items() if calls and len(names) > 1):
        common = [word for word in names[0] if all(word in name for name in names)]
        own = " = ".join(" ".join(word for word in name if word not in common) for name in names)
        places.setdefault(own, []).append(" ".join(common))
    if equal := [f"{names} in {cells.listed(where, 12)}".removesuffix(" in ") for names, where in places.items()]:
        yield f"SAME CALLS: {'; '.join(equal)}: equal prompts and replies throughout"


def _noise(comparison: Comparison) -> Iterator[str]:
    """The difference between the baseline and itself with other draws, for each such arm."""
    base = next(row for row in comparison.rows if row.arm == comparison.baseline)
    for row in comparison.rows:
        each = row.differences.get(EQUAL_ATTEMPTS) or row.differences.get(AS_RUN)
        if each and row.of.is_again(base.of):
            noise = f"A/A {cells.estimate(each, signed=True)} points"
            yield f"NOISE: {noise}: {plain(row.arm)} is the baseline with other draws; an effect inside it may be, too"


def _too_few(comparison: Comparison) -> Iterator[str]:
    bases = [row.of for row in comparison.rows if row.arm == comparison.baseline]
    tested = [row for row in comparison.rows if is_tested(row, bases)]
    for name, each in ((name, each) for row in tested for name, each in comparison.shown(row).items()):
        family = sum(name in other.differences for other in tested)
        if text := too_few(each.clusters, each.tasks, family):
            yield f"TOO FEW: {text}" + f" for {family} arms" * (family > 1)


def warnings_of(row: Row) -> Iterator[str]:
    arm = row.of
    if arm.is_upper_bound:
        cause = "the hidden tests drove" if arm.feedback_source == "oracle" else "canonical solutions were read in"
        yield f"{UPPER_BOUND}, not pass@1: {cause} the loops of {plain(row.arm)}"
    if arm.shards:
        yield f"SHARDS MISSING: {plain(row.arm)} has {', '.join(arm.shards)}"
    if arm.train:
        yield f"HELD-OUT TASKS ALONE: {arm.train} train cases of {plain(row.arm)} and their cost count in no rate"
    if arm.no_verdict:
        cases = f"{len(arm.no_verdict)} of {len(arm.attempts)} cases of {plain(row.arm)}"
        yield f"NO VERDICT: {cases} have no hidden tests or are spoilt by sandbox or server, and are in no rate's n"
    if (errors := row.rate("harness_errors_rate")) and errors.k:
        yield f"HARNESS ERRORS: {errors.k} attempts of {plain(row.arm)} have a verdict that says nothing of a program"
    if missing := arm.usage.uncounted_replies:
        used = f"at least {arm.usage.tokens:,} tokens, cost unknown"
        without = f"{missing} of {arm.usage.replies} replies without usage"
        yield f"USAGE MISSING: {plain(row.arm)}: {used} ({without})"
    if refused := arm.usage.refused:
        yield f"REFUSED PROMPTS: the server refused {refused} of {arm.usage.calls} prompts of {plain(row.arm)}"
    if own := arm.usage.servers_own(SAMPLED[1:]):
        yield f"SERVER'S OWN {own} of {plain(row.arm)}: the server did not get what the config sets"
    by_model, total = sum(arm.reflections.get(name, 0) for name in BY_MODEL), sum(arm.reflections.values())
    others = ", ".join(f"{n} {name}" for name, n in sorted(arm.reflections.items()) if name not in BY_MODEL)
    if has_model(arm.reflections) and by_model < ENOUGH * total:
        yield f"NOT THE MODEL'S WORDS: {plain(row.arm)}: {by_model} of {total} reflections by the model ({others})"
    elif others and not by_model:
        is_moved = arm.reflections.keys() - set(BY_MODEL) <= {"control:shuffled", "control:keywords"}
        wrote = "a control moved or changed the words of" if is_moved else "no model wrote"
        yield f"CONTROL: {wrote} the {total} reflections of {plain(row.arm)}: {others}"
    if (blind := row.rate("blind_retries_rate")) and blind.k:
        yield f"BLIND RETRIES: {blind.k} of {blind.n} retries of {plain(row.arm)} read nothing of their own past"


def exclusions(comparison: Comparison) -> Iterator[str]:
    """Cases without a hidden verdict, and unpaired cases, by name: neither counts in a difference."""
    for row in comparison.rows:
        if lacking := row.of.no_verdict:
            yield f"{plain(row.arm)}: {len(lacking)} cases without a hidden verdict: {_named(lacking)}"
        for cases, who in ((row.absent, comparison.baseline), (row.alone, row.arm)):
            if cases:
                pair = f"{plain(row.arm)} against {plain(comparison.baseline)}"
                yield f"{pair}: {len(cases)} cases that {plain(who)} alone has: {_named(cases)}"


def method(comparison: Comparison) -> str:
    """Benchmark, n, seeds, feedback sources and method of the intervals, in a sentence."""
    sources = ", ".join(dict.fromkeys(row.of.feedback_source for row in comparison.rows))
    methods = " and ".join(dict.fromkeys(row.of.share_method for row in comparison.rows))
    tasks, clusters = (
        ", ".join(dict.fromkeys(f"{row.number(unit):g}" for row in comparison.rows)) for unit in ("tasks", "clusters")
    )
    units = f" in {clusters} clusters" if clusters != tasks else ""
    n = f"n = {tasks} tasks{units}, {_seeds(comparison.rows)}"
    return f"{plain(comparison.benchmark)}, {n}, feedback source: {sources}; 95 %: {methods}"


def _size(row: Row) -> str:
    """Tasks x seeds, and clusters where tasks share one; cases and tasks where seeds draw different tasks."""
    n, tasks, clusters, seeds = sizes(row)
    size = f"{tasks} x {seeds}" if n == tasks * seeds else f"{n} cases,\n{tasks} tasks"
    return size if clusters == tasks else f"{size},\n{clusters} clusters"


def sizes(row: Row) -> list[int]:
    """Cases with a verdict, tasks, clusters and seeds."""
    return [int(row.number(name)) for name in ("n", "tasks", "clusters", "seeds")]


def _arm(row: Row) -> str:
    return plain(row.arm)


def _results(comparison: Comparison, shared: str) -> Sheet:
    columns: dict[str, Cell] = {
        "arm": _arm,
        "feedback\nsource": lambda row: row.of.feedback_source,
        "tasks\nx seeds": _size,
        "attempt 1\n[95 %]": lambda row: cells.estimate(row.first),
        "final\n[95 %]": lambda row: f"{UPPER_BOUND} " * row.of.is_upper_bound + cells.estimate(row.final),
        "mean over\nattempts": lambda row: cells.number(row.number(f"{row.metric}_area")),
    }
    caption = f"{method(comparison)}. {plain(shared)}".rstrip()
    bounded = any(row.of.is_upper_bound for row in comparison.rows)
    title = f"pass@1; rows marked {UPPER_BOUND} are not pass@1" if bounded else "pass@1"
    return Sheet.of(title, comparison.rows, columns, caption, names=2, key="pass_at_1")


def _loops(comparison: Comparison) -> Sheet:
    columns: dict[str, Cell] = {
        "arm": _arm,
        "repaired": partial(_share, "repair"),
        "damaged": partial(_share, "damage"),
        "FP": partial(_share, "feedback_attempts_false_positive_rate"),
        "FN": partial(_share, "feedback_attempts_false_negative_rate"),
        "empty\nretries": partial(_metric_rate, "empty_retries_rate"),
        "blind\nretries": partial(_metric_rate, "blind_retries_rate"),
    }
    caption = (
        "In %. Repaired: wrong at attempt 1, right as submitted; damaged: the reverse. FP, FN: wrong verdicts of the "
        "feedback tests."
    )
    return Sheet.of("Repairs and feedback errors", comparison.rows, columns, caption)


def _transitions(comparison: Comparison) -> Iterator[Sheet]:
    """What became of the first programs; nothing where no arm changed one."""
    rows = [row for row in comparison.rows if (kept := row.rate("unchanged")) and kept.k < kept.n]
    columns: dict[str, Cell] = {
        "arm": _arm,
        "wrong to right\n[95 %]": partial(_estimate, "wrong_to_right"),
        "right to wrong\n[95 %]": partial(_estimate, "right_to_wrong"),
        "unchanged\n[95 %]": partial(_estimate, "unchanged"),
        "gain, points\n[95 %]": partial(_estimate, "gain"),
        "n": lambda row: str(cast(Rate, row.rate("unchanged")).n),
    }
    caption = (
        "From attempt 1 to the submission, by hidden tests, in % of all cases; gain: wrong to right - right to wrong."
    )
    if rows:
        yield Sheet.of("Transitions", rows, columns, caption)


def _estimate(key: str, row: Row) -> str:
    return cells.estimate(cast(Estimate, row.metrics[key]), signed=key == "gain")


def _share(key: str, row: Row) -> str:
    rate = row.rate(key)
    return cells.share(rate) if rate else NONE


def _memory(comparison: Comparison) -> Iterator[Sheet]:
    """Measures of memory over the stream; nothing without runs on frozen memory."""
    rows = [(row, row.of.memory) for row in comparison.rows if row.of.memory]
    lines = tuple(line for row, matrix in rows for line in _measures(row, matrix))
    by_note: dict[str, list[str]] = {}
    for row, matrix in rows:
        for note in matrix.notes:
            by_note.setdefault(note, []).append(plain(row.arm))
    notes = "".join(f" {', '.join(arms)}: {note}." for note, arms in by_note.items())
    columns = ("arm", "runs x rounds,\ncheckpoints", "measure", "points\n[95 %]", "n", "clusters")
    caption = f"Paired by task and run. Gained, lost: tasks solved with memory alone, and without it alone.{notes}"
    if lines:
        title = "Memory over the stream"
        yield Sheet(title=title, columns=columns, rows=lines, caption=caption, names=3, key="memory")


def _measures(row: Row, matrix: Matrix) -> Iterator[tuple[str, ...]]:
    arm, measures = f"{UPPER_BOUND} " * row.of.is_upper_bound + plain(row.arm), matrix.measures
    rounds, at = (", ".join(map(str, dict.fromkeys(each))) for each in (matrix.rounds, matrix.checkpoints))
    stream = f"{len(matrix.rounds)} x {rounds}, at {at}"
    for name in EFFECTS:
        effect: Effect | None = getattr(measures, name)
        if effect:
            figures = (cells.estimate(effect, signed=True), str(effect.n), str(effect.clusters))
            yield arm, stream, name.replace("_", " "), *figures
    if pair := measures.against:
        yield arm, stream, "gained : lost", f"{pair.repaired} : {pair.damaged}", str(pair.n), ""
    if not pair and not any(getattr(measures, name) for name in EFFECTS):
        yield arm, stream, "none: see below", NONE, NONE, NONE


def _costs(comparison: Comparison) -> Sheet:
    columns: dict[str, Cell] = {
        "arm": _arm,
        "calls": partial(amount, "calls"),
        "tokens": partial(amount, "tokens"),
        "tokens\nper case": partial(amount, "tokens_per_case"),
        "tokens per\nsolved case": partial(amount, "tokens_per_solved"),
        "cost\nper case": partial(amount, "cost_per_case"),
        "cost per\nsolved case": partial(amount, "cost_per_solved"),
    }
    caption = (
        f"Prompts and replies of all roles; cached replies at their original cost. {NONE}: not recorded, or no "
        "known price."
    )
    return Sheet.of("Cost", comparison.rows, columns, caption)


def amount(key: str, row: Row) -> str:
    value = metrics.numbers(key, row.metrics.get(key)).get(key)
    return NONE if value is None else cells.amount(value)


def _prices(comparison: Comparison) -> Iterator[Sheet]:
    """What a further attempt costs and solves; nothing without a difference at equal spending."""
    lines = tuple(
        _price_line(row, difference, difference.price)
        for row in comparison.rows
        for difference in comparison.shown(row).values()
        if difference.price
    )
    columns = ("arm", "unit", "price,\narm :\nbaseline", "solved,\narm", "solved,\nbaseline", "needed",
               "per case,\narm :\nbaseline")  # fmt: skip
    caption = (
        "Price: mean spending on a further attempt. Solved: of further attempts on unsolved cases, in %, 95 %. "
        "Needed: the share that makes up for the price, and how many times that of the baseline."
    )
    if lines:
        title = "Price of a further attempt"
        yield Sheet(title=title, columns=columns, rows=lines, caption=caption, names=2)


def _price_line(row: Row, of: Difference, price: RetryPrice) -> tuple[str, ...]:
    needed = price.break_even and price.break_even * price.baseline_solved.share
    return (
        plain(row.arm),
        _unit(of).replace(" ", "\n"),
        f"{cells.amount(price.spend)} :\n{cells.amount(price.baseline_spend)},\n{_times(price.ratio)}",
        _solved(price.solved),
        _solved(price.baseline_solved),
        NONE if needed is None else f"{cells.number(needed)},\n{_times(price.break_even)}",
        f"{cells.amount(of.spend or 0)} :\n{cells.amount(of.baseline_spend or 0)}",
    )


def _solved(rate: Rate) -> str:
    if not rate.n:
        return NONE
    return f"{cells.number(rate.share)}\n{cells.interval(rate.low, rate.high)}\n({rate.k}/{rate.n})"


def _times(value: float | None) -> str:
    """As in `6.6x`."""
    return NONE if value is None else f"{value:.{1 if round(value, 2) >= 1 else 2}f}x"


def _unit(difference: Difference) -> str:
    return difference.words.removeprefix("equal ")


def _further(comparison: Comparison) -> Iterator[Sheet]:
    """The registered metrics that are in no other table, one row per metric and arm."""
    others = [
        metric
        for metric in metrics.of_arms()
        if metric.label and metric not in _broken() and metric.name not in _ELSEWHERE
    ]
    rows = tuple(
        (
            metric.label.replace("pass@1", "upper bound") if row.of.is_upper_bound else metric.label,
            plain(row.arm),
            text(metric, row.metrics[key], ("tasks", "clusters")[row.number("clusters") < row.number("tasks")]),
        )
        for metric in others
        for row in comparison.rows
        if (key := metric.key(row.of.is_upper_bound)) in row.metrics
    )
    if rows:
        caption = "Of the runs of an arm together: numbers are means of runs, counts are sums."
        yield Sheet(title="Further metrics", columns=("metric", "arm", "value"), rows=rows, caption=caption, names=3)


def _broken() -> list[metrics.Metric]:
    """The lab's metrics of broken attempts."""
    shares = [metric for metric in metrics.of_level("attempt") if (metric.unit, metric.direction) == ("share", "lower")]
    return [metric for metric in shares if metric.cases == "attempts" and metric.is_of_lab]


def _metric_rate(key: str, row: Row) -> str:
    rate = row.rate(key)
    return f"{cells.number(rate.share)} ({rate.k})" if rate else NONE


def _left_out(comparison: Comparison) -> Sheet:
    columns: dict[str, Cell] = {
        "arm": _arm,
        "logged of\nexpected": lambda row: f"{row.number('n_logged'):.0f} of {row.number('n_expected'):.0f}",
        "no\nverdict": lambda row: str(len(row.of.no_verdict)),
        "no visible\ntests": lambda row: f"{row.number('no_feedback'):.0f}",
        "unpaired": lambda row: str(len(row.absent) + len(row.alone)),
        "attempts": partial(amount, "attempts"),
    }
    for metric in _broken():
        columns[metric.label.replace(" ", "\n")] = partial(_metric_rate, metric.key())
    named = " ".join(f"{line}." for line in exclusions(comparison)) or "No case was left out."
    caption = f"Counts of cases; then attempts, and in % of them those without a program and those that broke. {named}"
    return Sheet.of("Errors and exclusions", comparison.rows, columns, caption)


def _runs(comparison: Comparison, labels: Sequence[str]) -> Sheet:
    whole = dict(zip((row.arm for row in comparison.rows), labels, strict=True))
    columns: dict[str, Cell] = {
        "arm": _arm,
        "study": mark,
        "seeds": lambda row: ", ".join(map(str, row.of.seeds)),
        "model": _models,
    }
    if any(name != label for name, label in whole.items()):
        columns["name in full"] = lambda row: plain(whole[row.arm])
    return Sheet.of("Runs", comparison.rows, columns, names=len(columns))


def mark(row: Row) -> str:
    """`registered: NAME`, or `exploratory`."""
    return f"registered: {plain(row.of.study)}" if is_registered(row) else "exploratory"


def is_registered(row: Row) -> bool:
    """Whether its study registered one of its differences; of the baseline, which has none, whether it has a study."""
    differences = row.differences.values()
    is_baseline = not differences and not row.refused
    return bool(row.of.study) and (is_baseline or any(not difference.exploratory for difference in differences))


def _models(row: Row) -> str:
    by_role = (names if role == "actor" else (f"{role}:", *names) for role, names in row.of.models.items())
    return plain("; ".join(" ".join(names) for names in by_role))


def _named(cases: Sequence[Case]) -> str:
    """Counts of cases by seed, with the first names."""
    tasks: dict[int, list[str]] = {}
    for case in cases:
        tasks.setdefault(case.seed, []).append(plain(case.task_id))
    return "; ".join(f"{len(names)} at seed {seed} ({cells.listed(names, 5)})" for seed, names in tasks.items())


def _seeds(rows: Sequence[Row]) -> str:
    groups = dict.fromkeys(row.of.seeds for row in rows)
    text = " or ".join(", ".join(map(str, seeds)) for seeds in groups)
    return f"seed{'s' * any(len(seeds) > 1 for seeds in groups)} {text}"


def difference_sheet(comparison: Comparison) -> Sheet:
    """By arm, a line for each of `Comparison.shown`."""
    columns = (
        "arm", "budget", "difference\n[95 %]", "wins:\nlosses", "room", "p", "p,\nHolm", "MDE", "verdict",
    )  # fmt: skip
    rows = tuple(
        line for row in comparison.rows if row.arm != comparison.baseline for line in _difference_lines(row, comparison)
    )
    differences = [difference for row in comparison.rows for difference in comparison.shown(row).values()]
    pairs = cells.listed(dict.fromkeys(str(difference.n) for difference in differences)) or "0"
    clustered = [each for each in differences if each.clusters < each.tasks]
    sizes = cells.listed(dict.fromkeys(f"{each.tasks} tasks in {each.clusters} clusters" for each in clustered))
    units, unit = (f" ({sizes})", "clusters of tasks") if clustered else ("", "tasks")
    caption = (
        f"Percentage points, arm minus baseline, n = {pairs} pairs{units}; 95 % intervals over {unit}. Room: what the "
        "baseline adds to attempt 1, the most that an arm with equal first attempts can lose if it breaks none. "
        f"{_registered(differences)}"
    )
    title = f"Difference to {plain(comparison.baseline)}"
    paper = tuple(map(columns.index, ("arm", "budget", "difference\n[95 %]", "p,\nHolm", "verdict")))
    return Sheet(title=title, columns=columns, rows=rows, names=2, caption=caption, key="differences", paper=paper)


def _difference_lines(row: Row, comparison: Comparison) -> Iterator[tuple[str, ...]]:
    if row.refused:
        yield (plain(row.arm), "", row.refused.replace(": ", ":\n"), *[""] * 6)
    for difference in comparison.shown(row).values():
        yield (
            plain(row.arm),
            budget(difference),
            cells.estimate(difference, signed=True),
            f"{difference.won}:{difference.lost}",
            NONE if difference.room is None else cells.number(difference.room),
            cells.p_value(difference.p),
            NONE if difference.p_holm is None else cells.p_value(difference.p_holm),
            mde(difference).replace(" ", "\n"),
            verdict(difference),
        )
    for name in row.unmatched:
        yield (plain(row.arm), name.replace("_", "\n"), f"{name.rpartition('_')[2]} unknown", *[""] * 6)


def budget(difference: Difference) -> str:
    """Name of the budget, a word a line: `equal attempts: 3`."""
    at = f": {difference.attempts}" if difference.attempts else ""
    return difference.words if difference.budget == AS_RUN else difference.words.replace(" ", "\n") + at


def mde(difference: Difference) -> str:
    """The minimum detectable effect in points, or what is too little for any: `none: 5 clusters`."""
    if difference.minimum is None:
        return f"none: {counted(difference.clusters, difference.tasks)}"
    return cells.number(difference.minimum)


def verdict(difference: Difference) -> str:
    """Its verdict, with the reservations below it."""
    text = re.sub(r"(?<=[,;]) | (?=(?:and|budget|attempts undecided|[±\d.]+ points)\b)", "\n", difference.verdict)
    if difference.matched is False:
        text += "\nnot matched"
    return f"{text}\none seed" if len(difference.seeds) == 1 else text


def _registered(differences: Sequence[Difference]) -> str:
    """Sentence on the registered comparisons."""
    exploratory = [difference for difference in differences if difference.exploratory]
    if len(exploratory) == len(differences):
        return "All of it is exploratory: none of these comparisons was registered."
    budgets = dict.fromkeys(difference.words for difference in differences if not difference.exploratory)
    return f"Registered: {', '.join(budgets)}, of the arms marked so in Runs; the others are exploratory."
