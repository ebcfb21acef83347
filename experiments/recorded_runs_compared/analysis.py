"""Tables, README and figures of this experiment, from its evidence alone; `--check` names what differs.

The evidence is `runs.csv` and `cases.csv.gz` of the recorded runs, `environments.csv` and `retries.csv` of the agents.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments._tools.evidence import Row
from experiments._tools.output import legend, plain_axes
from experiments._tools.output import save as save_figure
from experiments._tools.recompute import README, TABLE, amount, csv_text, main, readme
from experiments.recorded_runs_compared import trials_report
from experiments.recorded_runs_compared.cases import Evidence, read_cases
from experiments.recorded_runs_compared.trials import Trials, pairings
from experiments.recorded_runs_compared.trials_cases import read_cases as read_trials
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.figures.style import COLOURS, INK, MARKERS
from reflexion_lab.analysis.report.cells import p_value
from reflexion_lab.analysis.report.documents import rows as comparison_rows
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRIALS = "trials.csv"
HOTPOTQA = ("hotpotqa/ReAct__reflexion__100_questions_7_trials", "hotpotqa/ReAct__base__100_questions_5_trials")
"""Reflexion's run and its control."""
HOTPOTQA_COT = (
    "hotpotqa/CoT__no_context__reflexion__100_questions_5_trials",
    "hotpotqa/CoT__no_context__base__100_questions_5_trials",
    "hotpotqa/CoT__context__reflexion__100_questions_8_trials",
)
"""Likewise without tools; and Reflexion's run with the passages, whose control is not among the logs."""
CUTS = {"two_attempts": ("both cut at two attempts", 2), "as_run": ("as run", None)}
BASELINE = "reflexion"


class Control(NamedTuple):
    """An arm of the comparison."""

    label: str
    variant: str
    """End of the recorded variant."""

    @property
    def arm(self) -> str:
        return self.label.partition(",")[0].partition(" ")[0]


MODELS = {
    "gpt-4-turbo": (
        Control("reflexion", "gpt-4-turbo-2024-04-09"),
        Control("simple", "gpt-4-turbo-2024-04-09"),
        Control("retry, t 0", "gpt-4-turbo-0409-5repeats-no-temp-incr"),
        Control("retry, t 0.5", "gpt-4-turbo-0409-5repeats-0.5temp"),
        Control("retry, t 0 (of 8)", "gpt-4-turbo-0409-8repeats-no-temp-incr"),
        Control("warming", "gpt-4-turbo-0409-5step"),
        Control("escalation (starts with Llama 3 8B)", "l3_8b-gpt35-l3_70b-gpt4-0409"),
    ),
    "gpt-4": (
        Control("reflexion", "gpt-4-0613"),
        Control("simple", "gpt-4-0613"),
        Control("retry, t 0", "gpt-4-0613-5repeats-no-temp-incr"),
        Control("warming", "gpt-4-0613-5step"),
    ),
    "gpt-3.5": (
        Control("reflexion", "gpt-3.5-turbo-0613"),
        Control("simple", "gpt-3.5-turbo-0613"),
        Control("retry, t 0", "gpt-3.5-turbo-0613-5repeats-no-temp-incr"),
        Control("warming", "gpt-3.5-turbo-0613-5step"),
    ),
}
ESCALATION = MODELS["gpt-4-turbo"][-1].label
EARLIER = {
    ("gpt-4-turbo", "two_attempts", ESCALATION),
    *(("gpt-4", cut, control.label) for cut in CUTS for control in MODELS["gpt-4"][1:]),
    *(("gpt-3.5", cut, "warming") for cut in CUTS),
}
"""Differences that the bootstrap over tasks detected, on this page before November 2026."""
OTHERS = {
    "noah_mbpp_gpt4": "Reflexion, GPT-4 (2023-04), MBPP",
    "noah_ucs_humaneval_gpt4": "Reflexion with search, GPT-4 (2023-03), HumanEval",
    "cray_deepseek_humaneval": "Reflexion, deepseek-coder, HumanEval",
    "ldb_humaneval": "LDB, {model}, HumanEval",
    "ldb_mbpp": "LDB, {model}, MBPP",
}
"""Names of the runs that are not compared, by file."""
BUDGETS = ("as_run", "equal_calls")
DIFFERENCE = {"difference": "value", "difference_low": "low", "difference_high": "high", "pairs": "n"}
DIFFERENCE |= {name: name for name in ("won", "lost", "p", "p_tasks", "p_holm", "minimum", "detected")}
DIFFERENCE |= {"interval": "method", "spend": "spend", "baseline_spend": "baseline_spend"}
"""Fields of the line of a difference, by the end of a column of `table.csv`."""


@functools.cache
def table(folder: Path) -> list[dict[str, Any]]:
    """Rows of `table.csv`, read once: the page and the figure show them."""
    return list(_rows(read_cases(folder)))


def compute(folder: Path) -> Mapping[str, str]:
    evidence, trials, rows = read_cases(folder), read_trials(folder), table(folder)
    values = _comparison(rows) | _recorded(evidence) | _agents(trials)
    shown = {"amount": amount, "p_value": p_value}
    return {
        TABLE: csv_text(rows),
        TRIALS: csv_text(list(trials_report.as_rows(trials))),
        README: readme(folder, **values, **shown),
    }


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    values = _comparison(rows := table(folder))
    best, as_run = values["of"]("gpt-4-turbo", ESCALATION), values["of"]("gpt-4-turbo", ESCALATION, "as_run")
    behind, detected, ahead = (len(values[name]) for name in ("behind", "behind_detected", "ahead"))
    text = (
        f"behind in {behind} of {values['n_differences']} paired differences, of which {detected} are detected; "
        f"ahead in {ahead}, against a loop that starts with a weaker model ({_reversed(best)}, "
        f"{_detected(best)}, as run {_reversed(as_run)}); feedback and prompts differ as well"
    )
    return Row(text, f"{rows[0]['tasks']} × {len(str(rows[0]['seeds']).split())} runs each")


def _reversed(row: Mapping[str, Any]) -> str:
    """Reflexion less the arm, in points with its interval."""
    value, low, high = (-100 * row[f"as_run_difference{end}"] for end in ("", "_high", "_low"))
    return _minus(f"{value:+.1f} [{low:.1f}, {high:.1f}]")


def draw(folder: Path) -> Sequence[Path]:
    rows = table(folder)
    figures = [
        *save_figure(rows, lambda figure: _draw(rows, figure), folder, salt="reflexion_lab", line_end="\n"),
        *trials_report.save(read_trials(folder), folder),
    ]
    return [path for path in figures if path.suffix == ".svg"]


def _rows(evidence: Sequence[Evidence]) -> Iterator[dict[str, Any]]:
    """One row per model, cut and arm: the first arm of a model is the baseline."""
    for model, controls in MODELS.items():
        for cut, (_, attempts) in CUTS.items():
            arms = [Arm(control.label, [run.cut(attempts) for run in _runs(evidence, control)]) for control in controls]
            comparison = compare(arms, BASELINE, "calls")
            lines = {(line["arm"], line["metric"], line["budget"]): line for line in comparison_rows(comparison)}
            for control, row in zip(controls, comparison.rows, strict=True):
                names = {"model": model, "cut": cut, "arm": control.label, "variant": control.variant}
                facts = {"feedback_source": row.of.feedback_source, "seeds": " ".join(map(str, row.of.seeds))}
                yield names | facts | dict(_columns(lines, row.arm))


def _columns(lines: Mapping[tuple[object, object, object], Mapping[str, Any]], arm: str) -> Iterator[tuple[str, Any]]:
    """Columns and values of an arm, from the lines of its comparison."""

    def of(metric: str, field: str = "value", budget: str = "") -> Any:
        value = lines.get((arm, metric, budget), {}).get(field)
        return "" if value is None else value

    def count(metric: str) -> int:
        return round(of(metric) * of(metric, "n")) if of(metric, "n") else 0

    yield from ((name, of(name)) for name in ("tasks", "n"))
    for name in ("pass_at_1_first", "pass_at_1"):
        yield from ((name, of(name)), (f"{name}_low", of(name, "low")), (f"{name}_high", of(name, "high")))
    for budget in BUDGETS:
        yield from ((f"{budget}_{end}", of("pass_at_1", field, budget)) for end, field in DIFFERENCE.items())
    yield from (("repaired", count("repair")), ("damaged", count("damage")))
    for name in ("false_positive", "false_negative"):
        rate = f"feedback_attempts_{name}_rate"
        yield from ((f"{name}s", count(rate)), (f"{name}s_rate", of(rate)))
    yield from ((name, of(name)) for name in ("attempts", "calls"))


def _runs(evidence: Sequence[Evidence], control: Control) -> list[Evidence]:
    return [
        run
        for run in evidence
        if run.run.is_compared
        and (run.run.method, run.run.variant.rpartition("/")[2]) == (control.arm, control.variant)
    ]


def _comparison(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Values of the README on the compared arms."""
    by_name = {(row["model"], row["cut"], row["arm"]): row for row in rows}
    differences = [row for row in rows if row["arm"] != BASELINE]
    ahead = [row for row in differences if row["as_run_difference"] < 0]
    behind = [row for row in differences if row["as_run_difference"] >= 0]

    def of(model: str, arm: str, cut: str = "two_attempts") -> Mapping[str, Any]:
        return by_name[model, cut, arm]

    def controls(model: str, cut: str = "two_attempts", simple: bool = True) -> list[Mapping[str, Any]]:
        """Arms of the model besides Reflexion and escalation; without feedback only if `simple`."""
        left_out = {BASELINE, ESCALATION} | (set() if simple else {"simple"})
        return [row for row in rows if (row["model"], row["cut"]) == (model, cut) and row["arm"] not in left_out]

    def is_same(row: Mapping[str, Any]) -> bool:
        other = of(row["model"], row["arm"], "as_run")
        return all(row[name] == other[name] for name in ("as_run_difference", "as_run_won", "as_run_lost"))

    at_two = [row for row in differences if row["cut"] == "two_attempts"]
    return {
        "models": {
            model: [row for row in rows if row["model"] == model and row["cut"] == "two_attempts"] for model in MODELS
        },
        "n_differences": len(differences),
        "n_by_cut": Counter(row["cut"] for row in differences),
        "ahead": ahead,
        "ahead_of": sorted({row["arm"].partition(" ")[0] for row in ahead}),
        "behind": behind,
        "behind_detected": [row for row in behind if row["as_run_detected"]],
        "same": [row for row in at_two if is_same(row)],
        "changed": [
            row for row in differences if row["as_run_detected"] != ((row["model"], row["cut"], row["arm"]) in EARLIER)
        ],
        "of": of,
        "controls": controls,
        "escalation": ESCALATION,
        "difference": _difference,
        "detected": _detected,
        "listed": _listed,
        "span": _span,
    }


def _difference(row: Mapping[str, Any], budget: str = "as_run", signed: bool = True) -> str:
    """In points with its interval."""
    value, low, high = (100 * row[f"{budget}_difference{end}"] for end in ("", "_low", "_high"))
    return _minus(f"{value:+.1f} [{low:.1f}, {high:.1f}]" if signed else f"{value:.1f} [{low:.1f}, {high:.1f}]")


def _points(value: float) -> str:
    return _minus(f"{100 * value:+.1f}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _detected(row: Mapping[str, Any], budget: str = "as_run") -> str:
    return "detected" if row[f"{budget}_detected"] else "not detected"


def _listed(rows: Sequence[Mapping[str, Any]], budget: str = "as_run") -> str:
    """Detected differences by model, or `none`."""
    texts = {
        model: ", ".join(f"{row['arm']} {_points(row[f'{budget}_difference'])}" for row in own)
        for model in MODELS
        if (own := [row for row in rows if row["model"] == model and row[f"{budget}_detected"]])
    }
    return "; ".join(f"{model}: {text}" for model, text in texts.items()) or "none"


def _span(rows: Sequence[Mapping[str, Any]], column: str, scale: float = 100, form: str = ".1f") -> str:
    """Smallest and largest value of a column: `2 to 7`."""
    values = [scale * row[column] for row in rows]
    ends = [_minus(f"{end:{form}}") for end in (min(values), max(values))]
    return " to ".join(dict.fromkeys(ends))


def _recorded(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Values of the README on all runs."""
    compared = [run for run in evidence if run.run.is_compared]
    others = [_other(run) for name in OTHERS for run in evidence if run.run.file.partition(".")[0] == name]
    loops = [own for run in evidence for own in run.by_task.values()]
    turbo = _runs(evidence, MODELS["gpt-4-turbo"][0])
    by_file = {run.run.file.partition(".")[0]: run for run in evidence}
    return {
        "others": others,
        "compared_runs": len(compared),
        "identical": [run for run in compared if run.run.same_as],
        "excluded": sum(run.run.excluded for run in evidence),
        "absent": len(turbo[0].by_task) - len(by_file["cray_deepseek_humaneval"].by_task),
        "loops": len(loops),
        "hidden": _agreement(evidence, "hidden"),
        "feedback": _agreement(evidence, "feedback"),
        "curves": _curves(by_file["noah_mbpp_gpt4"]),
        "went_on": {name: _went_on(run) for name, run in by_file.items()},
        "all_went_on": sum(map(_went_on, evidence)),
        "ended_early": {name: _ended_early(run) for name, run in by_file.items()},
        "no_tests": {
            name: sum(own[0].feedback == "no_tests" for own in run.by_task.values()) for name, run in by_file.items()
        },
        "without_program": sum(not case.program for run in compared for case in run.cases),
        "submissions": [_submissions(run) for run in turbo],
        "overlapping": [run.run.overlapping for run in turbo],
        "overlapping_controls": sorted(
            {run.run.overlapping for control in MODELS["gpt-4-turbo"][2:6] for run in _runs(evidence, control)}
        ),
        "minus": _minus,
    }


def _agreement(runs: Sequence[Evidence], name: str) -> dict[str, Any]:
    """Verdicts here and in the record, where both are known."""
    pairs = [(run, case, getattr(case, name), getattr(case, f"{name}_recorded")) for run in runs for case in run.cases]
    both = [
        (
            f"{case.task}, attempt {case.attempt} of {run.run.arm}, run {run.run.seed}",
            outcome == "pass",
            recorded == "1",
        )
        for run, case, outcome, recorded in pairs
        if outcome not in UNKNOWN and recorded
    ]
    differing = [place for place, ours, theirs in both if ours != theirs]
    passed_here = sum(ours > theirs for _, ours, theirs in both)
    return {"n": len(both), "agree": len(both) - len(differing), "differing": differing, "ours": passed_here}


def _other(run: Evidence) -> dict[str, Any]:
    """A run of the second table."""
    log = run.log
    verdicts = {(case.task, case.attempt): case.hidden == "pass" for case in run.cases}
    submitted = {task: verdicts[task, submitted_at(own).number] for task, own in log.attempts.items()}
    first = {task: verdicts[task, 1] for task in submitted}
    stem = run.run.file.partition(".")[0]
    return {
        "name": OTHERS[stem].format(model=run.run.variant.rpartition("/")[2]),
        "feedback_source": log.manifest.feedback_source,
        "tasks": len(submitted),
        "first": sum(first.values()),
        "submitted": Rate.of(sum(submitted.values()), len(submitted)),
        "by_source": sum(case.hidden == "pass" for case in run.cases if case.by_source),
        "repaired": sum(submitted[task] > first[task] for task in submitted),
        "damaged": sum(submitted[task] < first[task] for task in submitted),
        "any": sum(any(case.hidden == "pass" for case in own) for own in run.by_task.values()),
    }


def _curves(run: Evidence) -> dict[str, Any]:
    """Hidden passes by attempt. `current`: a task whose loop has ended keeps its last verdict."""
    tasks = {task: [case.hidden == "pass" for case in own] for task, own in run.by_task.items()}
    cuts = range(1, run.run.max_attempts + 1)
    first = Counter(f"{own[0].feedback == 'pass'} {own[0].hidden == 'pass'}" for own in run.by_task.values())
    return {
        "current": [sum(own[min(cut, len(own)) - 1] for own in tasks.values()) for cut in cuts],
        "any": [sum(any(own[:cut]) for own in tasks.values()) for cut in cuts],
        "submitted": [point.solved for point in run.log.points],
        "first": first,
        "hidden": _agreement([run], "hidden"),
        "feedback": _agreement([run], "feedback"),
    }


def _went_on(run: Evidence) -> int:
    """Loops that continued after their feedback tests passed."""
    return sum(any(case.feedback == "pass" for case in own[:-1]) for own in run.by_task.values())


def _ended_early(run: Evidence) -> int:
    """Loops shorter than the longest that ended on a failing attempt."""
    ends = [own[-1] for own in run.by_task.values()]
    return sum(end.attempt < run.run.max_attempts and end.feedback not in ("pass", "no_tests") for end in ends)


def _submissions(run: Evidence) -> dict[str, int]:
    """Tasks for which the source submitted another attempt, and hidden passes by its rule and ours."""
    log = run.log
    verdicts = {(case.task, case.attempt): case.hidden == "pass" for case in run.cases}
    ours = {task: submitted_at(own).number for task, own in log.attempts.items()}
    theirs = {case.task: case.attempt for case in run.cases if case.by_source}
    return {
        "differ": sum(ours[task] != number for task, number in theirs.items()),
        "by_source": sum(verdicts[case] for case in theirs.items()),
        "ours": sum(verdicts[case] for case in ours.items()),
    }


def _agents(trials: Sequence[Trials]) -> dict[str, Any]:
    curves = {run.label: " ".join(str(rate.k) for rate in run.curve) for run in trials}
    last = {pairing.second: pairing.by_trial[-1] for pairing in pairings(trials)}
    length = {pairing.second: len(pairing.by_trial) for pairing in pairings(trials)}
    ahead = [
        trial
        for pairing in pairings(trials)
        for trial, pair in enumerate(pairing.by_trial, 1)
        if pairing.second.startswith("alfworld") and pair.low > 0
    ]

    def against(run: str) -> str:
        pair = last[run]
        value, low, high = (100 * number for number in (pair.difference, pair.low, pair.high))
        p = f"p = {pair.p:.6f}" if pair.p < 1e-4 else f"p = {p_value(pair.p)}"
        return _minus(f"{value:+.1f} [{low:.1f}, {high:.1f}], {pair.repaired} : {pair.damaged}, {p}")

    return {
        "hotpotqa": HOTPOTQA,
        "cot": HOTPOTQA_COT,
        "curve": lambda label: curves[label],
        "environments": {run.world: len(run.solved) for run in trials},
        "against": against,
        "trial": length,
        "ahead_from": min(ahead, default="none"),
        "first": {pairing.second: pairing.by_trial[0] for pairing in pairings(trials)},
        "retries": {run.label: run for run in trials},
        "discordant": last["webshop/reflexion_run_logs_1"].repaired + last["webshop/reflexion_run_logs_1"].damaged,
    }


def _draw(rows: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    figure.set_size_inches(14, 4.6)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, len(MODELS), sharex=True)
    for model, ax in zip(MODELS, panels, strict=True):
        _panel([row for row in rows if row["model"] == model and row["arm"] != BASELINE], model, ax)
    legend(panels[0], loc="lower left", bbox_to_anchor=(0, 1.08), ncols=2, labelcolor=INK)
    n = f"n = {rows[0]['tasks']} tasks x {len(rows[0]['seeds'].split())} runs"
    caption = (
        f"HumanEval, {n}, paired by task and run; 95 %: {rows[1]['as_run_interval']}. In brackets: feedback source.\n"
        "Right of 0: the arm without words submits more right programs than Reflexion."
    )
    figure.text(0.01, -0.02, caption, va="top", fontsize=8, color=INK)


def _panel(rows: Sequence[Mapping[str, Any]], model: str, ax: Axes) -> None:
    names = list(dict.fromkeys(map(_name, rows)))
    for number, (cut, (cut_name, _)) in enumerate(CUTS.items()):
        look: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 7}
        for row in (row for row in rows if row["cut"] == cut):
            value, low, high = (100 * row[f"as_run_difference{end}"] for end in ("", "_low", "_high"))
            y = names.index(_name(row)) + (number - 0.5) * 0.3
            ax.hlines(y, low, high, color=COLOURS[number], linewidth=2.4, alpha=0.5)
            ax.plot(value, y, linestyle="", zorder=4, label=cut_name, markeredgecolor="white", **look)
    ax.axvline(0, color=INK, linewidth=1)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_title(model, color=INK, loc="left", fontweight="bold")
    ax.set_xlabel("pass@1 minus Reflexion's (self_tests), points", color=INK)
    plain_axes(ax, grid="x")


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['arm'].partition(' (starts')[0]}\n({row['feedback_source']})"


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
