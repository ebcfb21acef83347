"""A run as tables for a terminal, with the warnings and facts that its page shows too.

One file: each table is a list of labels and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.learning.reflections import Group, ReflectionFigures
from reflexion_lab.analysis.learning.transitions import reactions
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.cells import NONE
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.clusters import units
from reflexion_lab.analysis.stats.estimators import Point
from reflexion_lab.analysis.stats.intervals import Estimate, Rate, methods
from reflexion_lab.analysis.summary import Summary, cost_is_known, spending, summary, usages
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.memory.curators.items import EXCEEDS
from reflexion_lab.records import BY_MODEL, OUTCOMES, SAMPLED, Reflection, Trajectory, Update, Usage, WrittenTests
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import changes, resumed
from reflexion_lab.runner.silence import silence
from reflexion_lab.text.shorten import number_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ROWS = 60
"""Maximum number of tasks shown by default."""

STYLES = dict.fromkeys(OUTCOMES, "red")
STYLES |= {"pass": "green", "repaired": "bold green", "damaged": "bold red", "not graded": "yellow"}
"""Styles of whole cells."""
FLAGS_SHOWN = 3
"""Number of flags shown per source, the most frequent first; `reflections.csv` has all."""

VACUOUS = {"hidden": "every program passes", "visible": "no attempt is ever retried"}
"""What it means if the tests of a side check nothing."""
CONFUSION = {
    "passed, and right": "true_positives",
    "passed, but wrong": "false_positives",
    "failed, but right": "false_negatives",
    "failed, and wrong": "true_negatives",
    "without a verdict": "unknown",
    "wrong among passed": "wrong_if_passed",
    "right among failed": "right_if_failed",
    "passed among wrong": "false_positive_rate",
    "failed among right": "false_negative_rate",
}
"""Rows of the table of feedback tests, with the fields of `Confusion`: counts of programs, then shares."""


def show(run: RunFolder, console: Console, all_tasks: bool = False, log: Log | None = None) -> None:
    """Print a run: its warnings, tasks, convergence, metrics and costs. `log`: its log, if already read. Raises
    FolderError: a file of the run cannot be read.
    """
    log = log or Log.read(run, texts=False)
    figures = summary(log)
    loud = [cells.line(text, "bold white on red") for text in warnings(log, figures, run.path)]
    before = [_tasks(log, all_tasks), *_convergence(log, figures), *_releases(log.headline), *_feedback(figures)]
    before += [*_reflections(figures), *_reactions(log)]
    tables = [*(as_table(sheet, STYLES) for sheet in before), headline(log), cells.line(""), as_table(usage(log))]
    for part in (*loud, *tables, *map(cells.line, resumed(log.manifest, log.resumptions)), *loud):
        console.print(part)
    console.print(cells.line(f"run folder: {run.path}"), soft_wrap=True)


def warnings(log: Log, figures: Summary, path: Path | None = None) -> Iterator[str]:
    """Warnings to show above the results, one per line; with the run's `path`, also how to resume it."""
    if figures.harness_errors:
        verdicts = f"{figures.harness_errors} verdicts are failures of the harness and say nothing about a program"
        yield f"HARNESS ERRORS: {verdicts}{_first_problem(log)}. Run `reflexion-lab doctor`"
    forgeable, checks = metrics.in_process(log)
    if forgeable:
        yield f"{forgeable} of {checks} checks in process: forgeable"
    if blind := figures.blind_retries.k:
        yield (
            f"BLIND RETRIES: {blind} of {figures.blind_retries.n} retries read nothing of their own past though Ω >= 1:"
            " no room in the prompt. Raise recall.max_tokens or the model's context, or lower the actor's max_tokens"
        )
    yield from _limited(log)
    yield from _silent(log, figures)
    yield from _cut_prompts(log)
    yield from _uncounted_budget(log, figures)
    place = log.unfinished[0] if log.unfinished else path
    resume = f". To resume, give the command that began it, with resume={place}" if path else ""
    if changed := [resumption for resumption in log.resumptions if changes(log.manifest, resumption)]:
        yield f"RESUMED WITH CHANGES: {'; '.join(resumed(log.manifest, changed))}"
    yield from _left_out(log, figures, path)
    sides = log.manifest.provenance.vacuous_tests
    for side, means in VACUOUS.items():
        if tasks := [task_id for task_id, of in sides.items() if of == side]:
            yield f"TESTS THAT CHECK NOTHING: the {side} ones of {cells.listed(tasks, 5)}: {means}"
    if figures.is_upper_bound:
        yield f"UPPER BOUND, not pass@1: this loop was shown {log.manifest.leak}."
    if log.lacks_shards:
        yield shards_missing(log)
    if figures.n_logged != figures.n_expected:
        ended = f"{figures.n_logged} of {figures.n_expected} tasks have ended"
        without = {loop.task_id for loop in log.set_aside if loop.outcome != "reflector_error"} - log.results.keys()
        ended += f", {len(without)} had no answer ({cells.listed(sorted(without), 5)})" if without else ""
        yield f"INCOMPLETE: {ended}; no figure is final{resume}"
    elif not log.is_graded:
        yield f"NOT ALL GRADED: some attempts have no hidden verdict yet, so there is no curve{resume}"


def _left_out(log: Log, figures: Summary, path: Path | None) -> Iterator[str]:
    """Tasks that are in no rate's n, and how to ask again."""
    spoilt, untested = log.unscored, sorted(set(figures.no_verdict) - set(log.unscored))
    if spoilt:
        again = f". To ask again for them alone, give that command with resume={path} only=unscored" if path else ""
        why = "tasks are spoilt by the sandbox or the server, and are in no rate's n"
        yield f"UNSCORED: {len(spoilt)} of {figures.n_logged} {why}: {cells.listed(spoilt, 5)}{again}"
    if untested:
        why = "tasks have no hidden tests, and are in no rate's n"
        yield f"NO VERDICT: {len(untested)} of {figures.n_logged} {why}: {cells.listed(untested, 5)}"


def _limited(log: Log) -> Iterator[str]:
    """Items of memory that its limits removed or refused."""
    applied = [operation for update in log.updates for operation in update.operations]
    removed = sum(len(operation.item_ids) for operation in applied if operation.reason == "limit")
    refusals = [refusal for update in log.updates for refusal in update.refused if refusal.operation.kind == "add"]
    refused = sum(refusal.reason == EXCEEDS for refusal in refusals)
    every = sum(operation.kind == "add" for operation in applied) + refused
    every += len(log.beginning.items) if log.beginning else 0
    if removed + refused:
        limits: Any = log.manifest.config["memory"]["shared"]["items"]  # type: ignore[index]
        keys = f"memory.shared.items.{'max_items or .' if limits.get('max_items') else ''}max_tokens"
        yield f"ITEMS LOST: limits removed {removed + refused} of {every} items; raise {keys}"
    elif every and any(update.round for update in log.updates) and not any(a.recalled_items for a in log.every):
        yield f"ITEMS UNREAD: no attempt read one of {every} items; raise memory.shared.items.max_tokens"


MANY = 0.2
"""Share of a role's replies from which a warning is due."""


def _silent(log: Log, figures: Summary) -> Iterator[str]:
    """Roles whose replies said nothing."""
    lost: dict[str, Sequence[Trajectory | Reflection | WrittenTests | Update]] = {
        "actor": [attempt.trajectory for attempt in log.every if not attempt.trajectory.solution.strip()],
        "reflector": [a.reflection for a in log.every if a.reflection and a.reflection.source not in BY_MODEL],
        "suite_writer": [written for written in log.written.values() if not written.tests],
        "curator": [update for update in log.updates if update.unreadable],
    }
    steps = [step for attempt in log.every for step in attempt.trajectory.steps]
    read = sum((step.critique.usage for step in steps if step.critique), Usage())
    plays = [attempt.trajectory for attempt in log.every if attempt.trajectory.strategy == "play"]
    turns = [step for play in plays for step in play.steps]
    without = sum(not step.action for step in turns)
    if without >= max(1, MANY * len(turns)):
        yield f"NO ACTION: {without} of {len(turns)} turns of plays have none that could be read: show RUN TASK --full"
    for role, used in figures.usage.items():
        silent = sum((record.usage for record in lost[role]), Usage()) if role in lost else used
        if role == "critic":
            unread = {mark: getattr(used, mark) - getattr(read, mark) for mark in ("empty_replies", "cut_replies")}
            silent = replace(used, **unread)
        if silent.empty_replies + silent.cut_replies >= max(1, MANY * used.replies):
            ends = [attempt.trajectory.finish_reason for attempt in log.every] if role == "actor" else ()
            yield f"SILENT {role.upper()}: {silence(role, used.replies, silent, log.manifest.config, ends)}"
        if own := used.servers_own(SAMPLED[1:]):
            yield f"SERVER'S OWN {own} of the {role}: the server did not get what the config sets"
    withheld, every = sum(figures.withheld.values()), len(log.every)
    roles = [f"{u.refused} of {u.calls} prompts of the {role}" for role, u in figures.usage.items() if u.refused]
    texts = [f"the server refused {', '.join(roles)}"] * bool(roles)
    texts += [f"attempts without a program: {withheld} of {every} ({cells.counts(figures.withheld)})"] * bool(withheld)
    if roles:
        last = {a.task_id: a.trajectory.finish_reason for a in log.every if a.trajectory.usage.refused}
        quoted = [f"show RUN {task_id} has its words; " for task_id, end in last.items() if end == "refused"]
        yield f"REFUSED PROMPTS: {'; '.join(texts)}: {''.join(quoted[:1])}set model.context if they are too long"
    elif withheld >= max(1, MANY * every):
        yield f"WITHHELD: {texts[0]}: see whether model.model and the prompts suit each other"


def _cut_prompts(log: Log) -> Iterator[str]:
    """Roles of whose prompts the server counts less than a third of our estimate, or less than half of it and as many
    tokens as in another prompt, the role's most.
    """
    by_role: dict[str, list[Usage]] = {}
    for role, used in usages(log):
        by_role.setdefault(role, []).extend([used] * bool(used.calls))
    for role, every in by_role.items():
        counts = [used.prompt_tokens for used in every if used.calls == 1]
        most = max(counts, default=0)
        window = (1, most) if counts.count(most) > 1 else None
        least = ((2 if (used.calls, used.prompt_tokens) == window else 3) * used.prompt_tokens for used in every)
        cut = [used for used, tokens in zip(every, least, strict=True) if used.prompt_estimate > tokens]
        if cut:
            worst = max(cut, key=lambda used: used.prompt_estimate)
            sizes = f"{worst.prompt_tokens:,} tokens counted of about {worst.prompt_estimate:,} sent"
            advice = "raise the server's context (Ollama: num_ctx), or set model.context to it"
            advice += "; no cut if it leaves tokens of its prompt cache out"
            yield f"CUT PROMPTS: the server cuts {len(cut)} of {len(every)} prompts of the {role}, {sizes}: {advice}"


def _uncounted_budget(log: Log, figures: Summary) -> Iterator[str]:
    rules: Any = log.manifest.config.get("stop") or {}
    budget = rules.get("budget") or {}
    keys = " and ".join(f"stop.budget.{name}" for name in ("tokens", "cost") if budget.get(name) is not None)
    if keys and figures.uncounted:
        yield f"BUDGET: {keys} took {figures.uncounted} replies without usage for free: set stop.budget.calls"


def shards_missing(log: Log) -> str:
    return f"SHARDS MISSING: {log.shards}; no figure is final"


def _first_problem(log: Log) -> str:
    """The first message of a harness error in feedback; grades hold no messages."""
    checks = (check for attempt in log.every for check in attempt.evaluation.checks)
    problem = next((f"{check.name}: {check.message}" for check in checks if check.outcome == "harness_error"), "")
    return f"; the first: {' '.join(problem.split())[:200].rstrip('.: ')}" if problem else ""


def _tasks(log: Log, all_tasks: bool) -> Sheet:
    """One row per task; of more than `ROWS`, failures and changes of verdict come first."""
    left_out = set(log.no_verdict)
    rows = [_row(log, task_id, left_out) for task_id in log.results]
    lines, caption = rows, ""
    if len(rows) > ROWS and not all_tasks:
        lines = sorted(rows, key=lambda row: row[3:5] == ("pass", ""))[:ROWS]
        caption = f"{len(rows) - ROWS} more tasks left out; failures, repairs and damage come first"
    columns = ("task", "submitted", "feedback", "hidden", "vs\nattempt 1", "ended by")
    return Sheet(title="Tasks", columns=columns, rows=tuple(lines), caption=caption, names=6)


def _row(log: Log, task_id: str, left_out: Collection[str]) -> tuple[str, ...]:
    """Task, attempt submitted, feedback verdict, hidden verdict, change since attempt 1, why the loop ended."""
    attempts = log.attempts[task_id]
    submission = submitted_at(attempts)
    first, final = (log.grades.get((task_id, number)) for number in (1, submission.number))
    change = ""
    if first and final and task_id not in left_out and first.passed != final.passed:
        change = "repaired" if final.passed else "damaged"
    submitted = f"{submission.number} of {len(attempts)}"
    hidden = final.outcome if final else "not graded"
    return task_id, submitted, submission.evaluation.outcome, hidden, change, log.results[task_id].stop_reason


def _convergence(log: Log, figures: Summary) -> Iterator[Sheet]:
    points = log.points
    if not points:
        return
    feedback = f", feedback n = {points[-1].n_feedback}" if points[-1].n_feedback != points[-1].n else ""
    columns: dict[str, Callable[[Point], str]] = {
        "attempt": lambda point: str(point.attempt),
        "solved": lambda point: f"{point.solved}/{point.n}",
        "upper\nbound" if figures.is_upper_bound else "pass@1": lambda point: cells.number(point.pass_at_1),
        "95 %\ninterval": lambda point: cells.interval(point.low, point.high),
        "feedback\npassed": lambda point: NONE if point.visible_pass is None else cells.number(point.visible_pass),
        "any\nsolved": lambda point: cells.number(point.any_solved),
        "mean\nreward": lambda point: NONE if point.reward is None else f"{point.reward:.3f}",
        "tokens\nso far": lambda point: f"{point.tokens_cum:,}",
    }
    title = f"Convergence, n = {points[0].n} tasks{feedback}: every loop cut at this attempt; shares in %"
    yield Sheet.of(title, points, columns)


def _releases(log: Log) -> Iterator[Sheet]:
    """Rates before and after each possible cut-off of a model's training; nothing where no task has a date."""
    quarter = {
        task_id: f"{result.released[:4]}-Q{(int(result.released[5:7]) + 2) // 3}"
        for task_id, result in log.results.items()
        if result.released
    }
    judged = {task_id: grade.passed for task_id, (_, grade) in log.submitted.items() if task_id not in log.no_verdict}
    cases = [(task_id, quarter[task_id], passed) for task_id, passed in judged.items() if task_id in quarter]

    def rate(is_of: Callable[[str], bool]) -> Rate:
        return bootstrap.rate(((each, passed) for each, when, passed in cases if is_of(when)), log.clusters)

    quarters = sorted({when for _, when, _ in cases})
    sides = [(each, rate(each.__gt__), rate(each.__le__)) for each in quarters]
    columns: dict[str, Callable[[tuple[str, Rate, Rate]], str]] = {
        "quarter": lambda row: row[0],
        "before\nit": lambda row: str(row[1].n),
        "%\n[95 %]": lambda row: cells.estimate(row[1]) if row[1].n else NONE,
        "in it or\nlater": lambda row: str(row[2].n),
        "% \n[95 %]": lambda row: cells.estimate(row[2]),
    }
    caption = "A model may have read what was released before its cut-off: take the first quarter after it."
    if without := len(judged) - len(cases):
        caption += f" {number_of(without, 'task')} without a date."
    if sides:
        yield Sheet.of("Solved by quarter of release, with n", sides, columns, caption)


def _feedback(figures: Summary) -> Iterator[Sheet]:
    """Feedback verdicts against hidden ones; nothing for an oracle's run, where they are the same."""
    if figures.is_upper_bound or figures.no_feedback == figures.n_logged:
        return
    columns = {"attempt 1": figures.feedback_first, "submitted": figures.feedback}
    columns["all attempts"] = figures.feedback_attempts
    known = {name: confusion for name, confusion in columns.items() if confusion}
    counts = {name: [_counted(getattr(each, field)) for each in known.values()] for name, field in CONFUSION.items()}
    shares = [getattr(each, field) for each in known.values() for field in CONFUSION.values()]
    yield Sheet(
        title=f"Feedback {_feedback_by(figures)} against hidden tests",
        columns=("programs", *known),
        rows=tuple((name, *row) for name, row in counts.items()),
        caption=f"shares in %, 95 %: {methods(rate for rate in shares if isinstance(rate, Rate))}",
    )


def _counted(value: int | Rate) -> str:
    """A count, or a share with its interval in whole per cent, so that three columns fit a terminal."""
    if not isinstance(value, Rate):
        return str(value)
    return f"{cells.number(value.share)} {cells.interval(value.low, value.high, digits=0)}" if value.n else NONE


def _feedback_by(figures: Summary) -> str:
    """The source of the feedback verdict: `tests`, also in a combined reward, or `by lint` and such."""
    others = sorted(figures.verification_types.keys() - {"unit_tests", "combined"})
    return f"by {', '.join(others)}" if others else "tests"


def _reflections(figures: Summary) -> Iterator[Sheet]:
    """One row per source: counts of reflections, success of the retries that read one, and flags."""
    reflections = figures.reflection_figures
    if reflections:
        total = {"all": reflections.every} if len(reflections.by_source) > 1 else {}
        yield Sheet(
            title="Reflections, and the retries that read them; shares in %",
            columns=("by", "n", "read", "retries\npassed", "against\nbase", "95 %\ninterval", "hidden\npassed"),
            rows=tuple((name, *_group(group)) for name, group in (reflections.by_source | total).items()),
            caption="\n".join(_reading(reflections, figures.feedback_source)),
        )


def _reactions(log: Log) -> Iterator[Sheet]:
    """Whether programs change after feedback; nothing without a program that was continued."""
    figures = reactions(log.attempts.values(), log.clusters)
    kinds = {"another behaviour (uptake)": figures.uptake, "the same program": figures.resistance}
    rows = tuple((name, cells.estimate(share), f"{share.k}/{share.n}") for name, share in kinds.items() if share)
    caption = "Of attempts that failed feedback checks and were continued; behaviour on these checks."
    if rows:
        columns = ("the next attempt has", "%  [95 %]", "n")
        yield Sheet(title="Reactions to feedback", columns=columns, rows=rows, caption=caption)


def _group(group: Group) -> tuple[str, ...]:
    effect = group.effect
    return (
        f"{group.n:,}",
        f"{group.read.k:,}",
        f"{group.retries.k}/{group.retries.n}" if group.retries.n else NONE,
        f"{100 * effect.value:+.1f}" if effect else NONE,
        cells.interval(effect.low, effect.high) if effect else NONE,
        f"{group.hidden.k}/{group.hidden.n}" if group.hidden else NONE,
    )


def _reading(figures: ReflectionFigures, feedback_source: str) -> Iterator[str]:
    base = figures.base
    rate = f"{cells.number(base.share)} % of {base.n} passed" if base.n else "none with a verdict"
    yield f"base: {figures.base_of}, {rate}"
    if feedback_source == "oracle":
        yield "UPPER BOUND, not pass@1: the feedback tests are the hidden ones"
    else:
        yield f"read: by a later attempt; passed: {feedback_source} feedback; hidden: other tests, unseen"
    if any(group.effect for group in figures.by_source.values()):
        yield "readers differ in more than the reading; its effect takes a comparison of arms"
    if not figures.mentions_check or not figures.leaks:
        yield "no flag on any of them: not reviewed, or nothing found"
        return
    named = f"{100 * figures.mentions_check.share:.0f} % name a failing check"
    yield f"{named}, {100 * figures.leaks.share:.0f} % give away a value or code"
    for name, group in figures.by_source.items():
        shares = (f"{flag} {100 * rate.share:.0f} %" for flag, rate in list(group.flags.items())[:FLAGS_SHOWN])
        yield f"{name}: {', '.join(shares) or 'no flag'}"


def usage(log: Log) -> Sheet:
    """Calls, tokens, seconds and cost by role, of all roles, and of reflections that no attempt read."""
    figures, prices = summary(log), log.manifest.prices
    unread = "after the last attempt"
    rows = {**figures.usage, "all": sum(figures.usage.values(), Usage()), unread: figures.usage_last_reflections}
    solved, both = figures.solved, ", train and held-out" * bool(figures.train)
    unpriced = {role for role in rows if prices.get(role, prices.get("actor")) == "unknown"}
    unpriced |= {"all", unread} if "unknown" in prices.values() else set()
    is_known = cost_is_known(log)
    unpriced |= {role for role, used in rows.items() if not is_known and (not prices or used.uncounted)}
    each = f"tokens per solved task: prompt and completion, over all tasks{both}" if solved else "no task solved"
    why = "replies without usage" if figures.uncounted else "no known price"
    unknown = f"; cost unknown: {why}" if unpriced else ""
    return Sheet(
        title="Usage",
        columns=("role", "calls", "prompt\ntokens", "completion\ntokens", "tokens /\nsolved", "model\nseconds", "cost"),
        rows=tuple((role, *_usage(used, solved, role in unpriced)) for role, used in rows.items()),
        caption=f"{each}; token counts include cached calls{unknown}",
    )


def _usage(used: Usage, solved: int, is_unpriced: bool) -> tuple[str, ...]:
    calls = f"{used.calls:,}"
    if used.calls and not used.tokens:  # a recorded run whose log counts none
        return calls, *["unknown"] * 5
    each = f"{used.tokens / solved:,.0f}" if solved else NONE
    cost = "unknown" if is_unpriced else f"{used.cost:,.4f}"
    least = "≥ " * bool(used.uncounted)
    prompt = f"{least}{used.prompt_tokens:,}" + f"\n{used.cached_tokens:,} cached" * bool(used.cached_tokens)
    reasoning = f"\n{used.reasoning_tokens:,} reasoning" * bool(used.reasoning_tokens)
    written = f"{least}{used.completion_tokens:,}{reasoning}"
    return calls, prompt, written, each, f"{used.seconds:,.1f}", cost


COUNTS = {
    "left out of the reward": "did_not_run",
    "reflections": "reflections",
    "known at the start": "known_before",
    "items read from other tasks": "read_of_others",
    "loops ended by": "stop_reasons",
    "inner loops ended by": "inner_loops",
    "hidden outcomes": "submitted_outcomes",
    "feedback outcomes, all attempts": "feedback_outcomes",
    "withheld by the model": "withheld",
    "loops restarted": "set_aside",
}
"""Names of counts by kind, with the fields of `Summary`."""
OVER_ATTEMPT_1 = ("pass_at_1_first", "gain_over_attempt_1", "gain_over_attempt_1_p")
"""Metrics left out for loops with a single attempt."""


def headline(log: Log) -> Table:
    """Facts for a terminal, one per line."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in facts(log):
        grid.add_row(cells.line(name, "bold"), cells.line(value))
    return grid


def facts(log: Log) -> Iterator[tuple[str, str]]:
    """Names and values: pass@1, what was run, every registered metric, counts by kind."""
    figures = summary(log)
    lines = _metrics(log, figures)
    name, value = next(lines)
    yield name + ", held-out tasks" * bool(figures.train), value
    if figures.train:
        yield "train tasks", cells.rate(figures.train)
    if figures.empty_retries.n:
        yield "retries without a program", cells.rate(figures.empty_retries, "retries")
    other = ", ".join(sorted(figures.verification_types.keys() - {"unit_tests"}))
    by = f", evaluated by {other}" if other else ""
    yield "benchmark", f"{figures.benchmark}, feedback source {figures.feedback_source}, seed {figures.seed}{by}"
    names = [f"{role} {model}" if len(figures.models) > 1 else model for role, model in figures.models.items()]
    yield "models" if len(names) > 1 else "model", ", ".join(names)
    yield from ((f"server of the {role}", str(served)) for role, served in log.manifest.served.items())
    yield from lines
    yield from _counts(figures)
    if figures.uncounted:
        yield "usage missing", spending(log)
    yield from ((f"server's own, {role}", own) for role, used in figures.usage.items() if (own := used.servers_own()))


def _metrics(log: Log, figures: Summary) -> Iterator[tuple[str, str]]:
    left_out = () if figures.attempts_mean > 1 else OVER_ATTEMPT_1
    unit = units(log.results, log.clusters)
    for metric, value in metrics.in_run(log):
        is_empty = isinstance(value, Rate) and not value.n and metric.name != "pass_at_1"
        if not is_empty and metric.name not in (*left_out, "empty_retries"):
            label = metric.label.replace("pass@1", "upper bound") if log.is_upper_bound else metric.label
            yield f"{label}, attempts" if metric.level == "attempt" else label, text(metric, value, unit)


def text(metric: metrics.Metric, value: metrics.Value, unit: str) -> str:
    """A metric in its unit, with interval over `unit` (tasks or clusters), n and note."""
    if isinstance(value, Rate):
        line = cells.rate(value, metric.cases)
    elif isinstance(value, Estimate):
        is_points = metric.unit == "points"
        amount = f"{cells.estimate(value, signed=is_points)} {'points' if is_points else '%'}"
        line = f"{amount}, {metric.interval.replace('tasks', unit)}" if metric.interval else amount
    elif metric.unit == "p":
        line = cells.p_value(value)
    else:
        line = f"{value:,.0f}" if metric.unit == "count" or abs(value) >= 100 else f"{value:.2f}"
    return f"{line}, {metric.note}" if metric.note else line


def _counts(figures: Summary) -> Iterator[tuple[str, str]]:
    """Repairs, model-written tests, confidence, and the counts by kind."""
    if (pair := figures.against_single) and figures.attempts_mean > 1:
        yield "against attempt 1", f"{pair.repaired} repaired, {pair.damaged} damaged"
    if suites := figures.suites:
        empty = f"{suites.empty} of {suites.suites} tasks without any" if suites.empty else "some for every task"
        yield "tests by the model", f"{suites.tests} kept, {empty}; left out: {cells.counts(suites.dropped)}"
    for name, each in (figures.reflection_figures.calibration if figures.reflection_figures else {}).items():
        brier = f"Brier {cells.estimate(each.brier, digits=3, scale=1)}, base-rate Brier {each.uncertainty:.3f}"
        yield f"confidence, {name}", f"{brier}; mean {each.confidence:.2f}, {each.came_true.k} of {each.n} passed"
    for name, field in COUNTS.items():
        if counts := getattr(figures, field):
            yield name, cells.counts(counts)
