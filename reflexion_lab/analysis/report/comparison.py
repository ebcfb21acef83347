"""A comparison as sheets: the minimum honest table, in parts that fit a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.row import Difference, Row
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report.run_tables import text
from reflexion_lab.analysis.report.sheets import NONE, Sheet, amount, listed, p_value, percent, percents, points, share
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.io.terminal_text import plain


def sheets(comparison: Comparison) -> list[Sheet]:
    """All tables of a comparison; that of differences only where there are arms to compare."""
    tables = [
        _results(comparison),
        _loops(comparison),
        _costs(comparison),
        *_further(comparison),
        _left_out(comparison),
        _runs(comparison),
    ]
    return [tables[0], difference_sheet(comparison), *tables[1:]] if len(comparison.rows) > 1 else tables


def warnings(comparison: Comparison) -> Iterator[str]:
    """Warnings to show above the results, one per line."""
    for row in comparison.rows:
        yield from _warnings_of(row)
    by_calls: dict[str, list[str]] = {}
    for row in comparison.rows:
        by_calls.setdefault(row.calls, []).append(plain(row.arm))
    for calls, alike in by_calls.items():
        if calls and len(alike) > 1:
            yield f"SAME CALLS: {', '.join(alike)} differ in name alone: equal prompts and equal replies throughout"
    if odd := [plain(row.arm) for row in comparison.rows if row.models != comparison.rows[0].models]:
        yield f"DIFFERENT MODELS: {plain(comparison.rows[0].arm)} on one side, {', '.join(odd)} on the other"
    if len(paid := sorted({name for row in comparison.rows for name in row.currencies})) > 1:
        yield f"DIFFERENT CURRENCIES: costs are in {plain(', '.join(paid))}, and do not compare"
    if any(
        difference and len(difference.seeds) == 1 for row in comparison.rows for difference in (row.as_run, row.matched)
    ):
        yield "ONE SEED: a difference that rests on a single seed says nothing about another"
    for row in comparison.rows:
        if row.unmatched:
            yield f"NOT MATCHED: {plain(row.arm)} is compared as run alone ({plain(row.unmatched)})"
    if any(row.matched and row.matched.cut and not row.matched.cut.is_matched for row in comparison.rows):
        yield f"NOT MATCHED: the first attempts alone of an arm cost more {comparison.unit} than all of the other"


def _warnings_of(row: Row) -> Iterator[str]:
    if row.is_upper_bound:
        cause = "the hidden tests drove" if row.feedback_source == "oracle" else "canonical solutions were quoted in"
        yield f"{UPPER_BOUND}, not pass@1: {cause} the loops of {plain(row.arm)}"
    if row.no_verdict:
        cases = f"{len(row.no_verdict)} of {row.n_logged} cases of {plain(row.arm)}"
        yield f"NO VERDICT: {cases} have no hidden tests or a harness error, and are in no rate's n"
    if errors := row.spent.harness_errors.k:
        yield f"HARNESS ERRORS: {errors} attempts of {plain(row.arm)} have a verdict that says nothing of a program"
    blind = row.metrics.get("blind_retries_rate")
    if isinstance(blind, Rate) and blind.k:
        yield f"BLIND RETRIES: {blind.k} of {blind.n} retries of {plain(row.arm)} read nothing of their own past"


def exclusions(comparison: Comparison) -> Iterator[str]:
    """By name, cases without a hidden verdict, and unpaired cases: neither is in any figure of a difference."""
    for row in comparison.rows:
        if row.no_verdict:
            yield f"{plain(row.arm)}: {len(row.no_verdict)} cases without a hidden verdict: {_named(row.no_verdict)}"
        for cases, who in ((row.absent, comparison.baseline or ""), (row.alone, row.arm)):
            if cases:
                pair = f"{plain(row.arm)} against {plain(comparison.baseline or '')}"
                yield f"{pair}: {len(cases)} cases that {plain(who)} alone has: {_named(cases)}"


def method(comparison: Comparison) -> str:
    """Benchmark, n, seeds, feedback sources and the way of intervals, in a sentence."""
    sources = ", ".join(dict.fromkeys(row.feedback_source for row in comparison.rows))
    methods = " and ".join(dict.fromkeys(row.method for row in comparison.rows))
    n = f"n = {', '.join(dict.fromkeys(str(row.tasks) for row in comparison.rows))} tasks, {_seeds(comparison.rows)}"
    return f"{plain(comparison.benchmark)}, {n}, feedback source: {sources}; 95 %: {methods}"


def _size(row: Row) -> str:
    """Tasks x seeds; where each seed draws tasks of its own, the cases that they make."""
    size = f"{row.tasks} x {len(row.seeds)}"
    is_crossed = row.n == row.tasks * len(row.seeds)
    return size if is_crossed else f"{row.n} cases,\n{row.tasks} tasks"


def _results(comparison: Comparison) -> Sheet:
    columns = ("arm", "feedback\nsource", "tasks\nx seeds", "attempt 1\n[95 %]", "final\n[95 %]", "AUC")
    rows = tuple(
        (
            plain(row.arm),
            row.feedback_source,
            _size(row),
            percents(row.first),
            f"{UPPER_BOUND} {percents(row.final)}" if row.is_upper_bound else percents(row.final),
            percent(row.area),
        )
        for row in comparison.rows
    )
    caption = (
        f"{method(comparison)}. In %: cases (a task at a seed) whose submission passes the hidden tests, the loop cut "
        f"at attempt 1 and at its end. AUC: mean height of that curve over attempts 1 "
        f"to {len(comparison.rows[0].curve)}."
    )
    bounded = any(row.is_upper_bound for row in comparison.rows)
    title = f"pass@1; a row that says {UPPER_BOUND} is none" if bounded else "pass@1"
    return Sheet(title=title, columns=columns, rows=rows, caption=caption, names=2)


def _loops(comparison: Comparison) -> Sheet:
    columns = ("arm", "repaired", "damaged", "FP", "FN", "empty\nretries", "blind\nretries")
    rows = tuple(
        (
            plain(row.arm),
            _moved(row.moves.wc, row.moves.ww),
            _moved(row.moves.cw, row.moves.cc),
            share(row.feedback.false_positive_rate),
            share(row.feedback.false_negative_rate),
            _rate(row.metrics.get("empty_retries_rate")),
            _rate(row.metrics.get("blind_retries_rate")),
        )
        for row in comparison.rows
    )
    caption = (
        "In %. Repaired: of the cases wrong at attempt 1, those right as submitted; damaged: the reverse. FP: of all "
        "wrong programs, those that pass the feedback tests; FN: of all right ones, those that fail them. Blind: of "
        "the retries with Ω of 1 or more, those whose prompt held nothing of their own past. Empty: of all "
        "retries, those whose reply held no program."
    )
    return Sheet(title="Repairs and feedback errors", columns=columns, rows=rows, caption=caption)


def _moved(moved: int, stayed: int) -> str:
    n = moved + stayed
    return f"{percent(moved / n)} ({moved}/{n})" if n else NONE


def _costs(comparison: Comparison) -> Sheet:
    head = ("arm", "calls", "tokens", "tokens\na case", "tokens a\nsolved case", "cost\na case", "cost a\nsolved case")
    rows = tuple(
        (
            plain(row.arm),
            _spent(row, "calls"),
            _spent(row, "tokens"),
            _spent(row, "tokens", row.n_logged),
            amount(row.tokens_per_solved.value) if row.tokens_per_solved else NONE,
            _spent(row, "cost", row.n_logged),
            amount(row.cost_per_solved.value) if row.cost_per_solved else NONE,
            _cut(row),
        )
        for row in comparison.rows
    )
    caption = (
        "Prompts and replies of all roles; a cached reply counts as when first drawn. Last column: mean spending per "
        f"case at its submission after the cut, arm : baseline. {NONE}: not recorded, or no known price."
    )
    columns = (*head, f"{comparison.unit} per case\n(matched)")
    return Sheet(title="Cost", columns=columns, rows=rows, caption=caption)


def _spent(row: Row, unit: str, cases: int = 1) -> str:
    return NONE if unit in row.unknown else amount(getattr(row.spent.usage, unit) / cases)


def _cut(row: Row) -> str:
    cut = row.matched.cut if row.matched else None
    return f"{amount(cut.spend)} : {amount(cut.baseline_spend)}" if cut else NONE


def _further(comparison: Comparison) -> Iterator[Sheet]:
    """The registered metrics that stand in no other table, a line each and arm."""
    others = [
        metric
        for metric in metrics.of_level("arm", "task", "attempt")
        if metric not in _broken() and metric.name not in ("blind_retries", "empty_retries")
    ]
    rows = tuple(
        (metric.label, plain(row.arm), text(metric, row.metrics[key]))
        for metric in others
        for row in comparison.rows
        if (key := metric.key(row.is_upper_bound)) in row.metrics
    )
    if rows:
        yield Sheet(title="Further metrics", columns=("metric", "arm", "value"), rows=rows, names=3)


def _broken() -> list[metrics.Metric]:
    """Metrics of how often an attempt went wrong."""
    shares = [metric for metric in metrics.of_level("attempt") if (metric.unit, metric.direction) == ("share", "lower")]
    return [metric for metric in shares if metric.cases == "attempts"]


def _rate(value: metrics.Value | None) -> str:
    return f"{percent(value.share)} ({value.k})" if isinstance(value, Rate) else NONE


def _left_out(comparison: Comparison) -> Sheet:
    broken = _broken()
    head = ("arm", "logged of\nexpected", "no\nverdict", "no visible\ntests", "unpaired")
    rows = tuple(
        (
            plain(row.arm),
            f"{row.n_logged} of {row.n_expected}",
            str(len(row.no_verdict)),
            str(row.no_feedback),
            str(len(row.absent) + len(row.alone)),
            amount(row.spent.timeouts.n),
            *(_rate(row.metrics.get(metric.key())) for metric in broken),
        )
        for row in comparison.rows
    )
    named = " ".join(f"{line}." for line in exclusions(comparison)) or "No case was left out."
    caption = f"Counts of cases; then attempts, and in % of them those without a program and those that broke. {named}"
    columns = (*head, "attempts", *(metric.label.replace(" ", "\n") for metric in broken))
    return Sheet(title="Errors and exclusions", columns=columns, rows=rows, caption=caption)


def _runs(comparison: Comparison) -> Sheet:
    rows = tuple((plain(row.arm), mark(row), ", ".join(map(str, row.seeds)), _models(row)) for row in comparison.rows)
    return Sheet(title="Runs", columns=("arm", "study", "seeds", "model"), rows=rows, names=4)


def mark(row: Row) -> str:
    """`registered: NAME`, or `exploratory`."""
    differences = [difference for difference in (row.as_run, row.matched) if difference]
    is_registered = row.study and (not differences or any(not difference.exploratory for difference in differences))
    return f"registered: {plain(row.study)}" if is_registered else "exploratory"


def _models(row: Row) -> str:
    by_role = (names if role == "actor" else (f"{role}:", *names) for role, names in row.models.items())
    return plain("; ".join(" ".join(names) for names in by_role))


def _named(cases: Sequence[Case]) -> str:
    """By seed; the first ones by name."""
    tasks: dict[int, list[str]] = {}
    for case in cases:
        tasks.setdefault(case.seed, []).append(plain(case.task_id))
    return "; ".join(f"{len(names)} at seed {seed} ({listed(names, 5)})" for seed, names in tasks.items())


def _seeds(rows: Sequence[Row]) -> str:
    groups = dict.fromkeys(row.seeds for row in rows)
    text = " or ".join(", ".join(map(str, seeds)) for seeds in groups)
    return f"seed{'s' * any(len(seeds) > 1 for seeds in groups)} {text}"


def difference_sheet(comparison: Comparison) -> Sheet:
    """Two lines per arm: as run, and at an equal budget."""
    columns = (
        "arm",
        "budget",
        "difference\n[95 %]",
        "wins:\nlosses",
        "p",
        "p,\nHolm",
        "critical\nsplit",
        "MDE",
        "verdict",
    )
    rows = tuple(
        line
        for row in comparison.rows
        if row.arm != comparison.baseline
        for line in _difference_lines(row, comparison.unit)
    )
    differences = [difference for row in comparison.rows for difference in (row.as_run, row.matched) if difference]
    pairs = listed(dict.fromkeys(str(difference.n) for difference in differences)) or "0"
    methods = " and ".join(dict.fromkeys(difference.method for difference in differences)) or NONE
    caption = (
        f"Percentage points of pass@1, arm minus baseline, paired by task and seed, n = {pairs} pairs; 95 % intervals "
        f"of each difference by itself: {methods}. p: McNemar's exact test over pairs, as if those of one task were "
        "independent. p, Holm: exact test over whole tasks, corrected for all arms at this budget. Critical split: the "
        "split of the discordant pairs that is just significant, and its difference. MDE: minimum detectable effect "
        f"at 80 % power ({NONE}: none). Detected: the interval excludes 0, the difference reaches the critical one, "
        f"and p, Holm is below 0.05. Equal {comparison.unit}: the more expensive arm cut to the spending of the "
        "cheaper one; wins, losses and p are of one random choice of the cut cases, the difference is the mean over "
        "all choices, and p, Holm is the larger of that test and one that matches again in each permutation. "
        f"{_registered(differences)}"
    )
    title = (
        f"Difference to {plain(comparison.baseline)}"
        if comparison.baseline
        else "No difference: all arms are upper bounds"
    )
    return Sheet(title=title, columns=columns, rows=rows, caption=caption, names=2)


def _difference_lines(row: Row, unit: str) -> Iterator[tuple[str, ...]]:
    if row.refused:
        yield (plain(row.arm), "", row.refused.replace(": ", ":\n"), *[""] * 6)
    for difference in (row.as_run, row.matched):
        if difference:
            yield (
                plain(row.arm),
                difference.budget.replace("equal ", "equal\n"),
                points(difference.estimate),
                f"{difference.won}:{difference.lost}",
                p_value(difference.p),
                NONE if row.is_upper_bound else p_value(difference.p_holm),
                least(difference),
                percent(difference.minimum) if difference.minimum else NONE,
                verdict(row, difference),
            )
    if row.unmatched:
        yield (plain(row.arm), f"equal\n{unit}", f"{unit} unknown", *[""] * 6)


def least(difference: Difference) -> str:
    """The critical split of the discordant pairs and its difference in points: `13:3, 6.1`."""
    if not difference.needed or not difference.least:
        return "none"
    return f"{difference.needed[0]}:{difference.needed[1]}, {percent(difference.least)}"


def verdict(row: Row, difference: Difference) -> str:
    """`detected`, `not detected` or `UPPER BOUND`, and behind it what else must not be overlooked."""
    text = UPPER_BOUND if row.is_upper_bound else "detected" if difference.is_detected else "not detected"
    if difference.cut and not difference.cut.is_matched:
        text += "\nnot matched"
    return f"{text}\none seed" if len(difference.seeds) == 1 else text


def _registered(differences: Sequence[Difference]) -> str:
    """Which of the comparisons were."""
    exploratory = [difference for difference in differences if difference.exploratory]
    if len(exploratory) == len(differences):
        return "All of it is exploratory: none of these comparisons was registered."
    budgets = dict.fromkeys(difference.budget for difference in differences if not difference.exploratory)
    return f"Registered: {', '.join(budgets)}, of the arms marked so below; the others are exploratory."
