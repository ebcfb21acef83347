"""Table, figure and README of this experiment, from `cases.csv.gz` and both readers' labels; `--check` compares."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments._tools.evidence import CASES, Row, read_rows
from experiments._tools.output import legend, plain_axes, save, value_of
from experiments._tools.recompute import README, TABLE, csv_text, main, percent, points, readme
from experiments.recorded_reflections.cases import is_primary
from experiments.recorded_reflections.stratified import Outcome, of_two_flags, stratified
from experiments.words_and_their_controls.rating import cohen
from reflexion_lab.analysis.figures.style import COLOURS, INK
from reflexion_lab.analysis.learning.effect import effect
from reflexion_lab.analysis.report.cells import estimate, p_value
from reflexion_lab.analysis.stats.bootstrap import difference, rate
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS, SECOND = "labels.csv", "labels_2.csv"
"""Answers of the reader who also wrote the analysis, and of a second one, added afterwards."""
COVERAGE = "coverage.csv"
MODELS = {
    "gpt-3.5-turbo-0613": "gpt-3.5",
    "gpt-4-0613": "gpt-4",
    "gpt-4-turbo-2024-04-09": "gpt-4-turbo",
    "deepseek-coder": "deepseek-coder",
}
"""Names of the models of the primary comparison."""
OTHERS = {"noah_ucs_humaneval_gpt4": "GPT-4 with search, HumanEval", "noah_mbpp_gpt4": "GPT-4, MBPP"}
"""Names of the groups outside the primary comparison, by file."""
FEATURES = {
    "names_check": "names a failing check",
    "names_cause": "names the cause",
    "is_advice": "executable advice",
    "names_cause_canonical": "names the cause, canonical program",
}
CHANCE = {
    "names_check": "chance_check",
    "names_cause": "chance_cause",
    "is_advice": "chance_advice",
    "names_cause_canonical": "chance_cause_canonical",
}
POOLS = {"": "chance", "_wrong": "chance, words on wrong programs", "_alike": "chance, words on wrong programs alike"}
"""Kinds of chance by the ending of their columns: words on all other programs of the model; on wrong ones; on wrong
ones, for a whole program whole ones and for a cut one cut ones."""
POOLED = "all four models"
SEEN = ("gpt-3.5", "gpt-4")
"""Models whose repairs the review that suggested the primary comparison had counted."""
DRAWN = (
    (POOLED, "names_check"),
    *((group, "names_check") for group in (*MODELS.values(), *OTHERS.values())),
    ("whole programs", "names_check"),
    ("within model, whole and cut apart", "names_check"),
    ("within model and difficulty", "names_check"),
    (POOLED, "names_cause"),
    (POOLED, "is_advice"),
    *((f"{POOLED}, blind reader", name) for name in ("names_check", "names_cause", "is_advice")),
    *(("whole programs, blind reader", name) for name in ("names_check", "names_cause", "is_advice")),
)
"""Comparisons of the figure, by label and flag, in order."""


class Case(NamedTuple):
    """A reflection that a further attempt followed; None: not defined."""

    item: str
    group: str
    run: str
    task: str
    attempt: int
    is_primary: bool
    right: bool | None
    next_right: bool | None
    right_strict: bool | None
    next_right_strict: bool | None
    flags: Mapping[str, bool | None]
    chance: Mapping[tuple[str, str], float | None]
    """By flag and the ending of `POOLS`."""
    failing: int
    failing_true: int | None
    """Failing checks that the canonical program passes."""
    words: int
    is_whole: bool
    solved_singly: float | None
    """Share of recorded single attempts that solve the task."""
    program: str
    """Digest of the program; equal for equal programs."""
    reflection: str
    """Digest of the words."""
    right_own: bool | None
    """Verdict of the row's own tests."""
    ending: str
    """Of the program: `cases.ending`."""
    features: int
    """Tokens in which the program differs from the nearest correct one."""


def read_cases(folder: Path) -> list[Case]:
    return [_case(row) for row in read_rows(folder / CASES)]


def _case(row: Mapping[str, str]) -> Case:
    def flag(name: str) -> bool | None:
        return None if row[name] == "" else row[name] == "1"

    right = flag("right")
    group = OTHERS.get(row["file"]) or MODELS[row["model"]]
    return Case(
        item=row["item"],
        group=group,
        run=row["run"],
        task=row["task"],
        attempt=int(row["attempt"]),
        is_primary=is_primary(row["file"], right) and row["names_check"] != "",
        right=right,
        next_right=flag("next_right"),
        right_strict=flag("right_strict"),
        next_right_strict=flag("next_right_strict"),
        flags={name: flag(name) for name in FEATURES},
        chance={
            (name, pool): float(row[column + pool]) if row[column + pool] else None
            for name, column in CHANCE.items()
            for pool in POOLS
        },
        failing=int(row["failing"]),
        failing_true=int(row["failing_true"]) if row["failing_true"] else None,
        words=int(row["words"]),
        is_whole=row["whole"] == "1",
        solved_singly=int(row["solved_singly"]) / int(row["single_attempts"])
        if row["single_attempts"] != "0"
        else None,
        program=row["program"],
        reflection=row["reflection"],
        right_own=flag("right_own"),
        ending=row["ending"],
        features=int(row["features"]),
    )


class Contrast(NamedTuple):
    """Share of cases with an outcome, with a flag and without it."""

    kind: str
    """`primary`, `secondary`, `sensitivity`, or `added` after a reading of the page."""
    label: str
    flag: str
    outcome: str
    yes: Rate
    no: Rate
    tasks: int
    difference: Estimate | None
    p: float | None
    """Of the pooled differences alone."""

    @property
    def counts(self) -> str:
        return f"{self.yes.k} of {self.yes.n} against {self.no.k} of {self.no.n}"


def contrast(
    kind: str,
    label: str,
    cases: Iterable[Case],
    flag: str | Callable[[Case], bool | None] = "names_check",
    outcome: Callable[[Case], bool | None] = lambda case: case.next_right,
    strata: Callable[[Case], str] | None = None,
    names: tuple[str, str] = ("", "repaired"),
) -> Contrast:
    """`strata`: of a pooled difference; None: one group, the lab's own `effect`."""
    flagged = flag if callable(flag) else lambda case: case.flags[flag]
    rows = [
        (case, yes, passed) for case in cases if (yes := flagged(case)) is not None is not (passed := outcome(case))
    ]
    sides = [rate((case.task, passed) for case, yes, passed in rows if yes is side) for side in (True, False)]
    if strata:
        pooled = stratified([Outcome(case.task, strata(case), yes, passed) for case, yes, passed in rows])
        value, p = pooled or (None, None)
    else:
        by_side: dict[bool, dict[tuple[str, int], bool]] = {True: {}, False: {}}
        for place, (case, yes, passed) in enumerate(rows):
            by_side[yes][case.task, place] = passed
        value, p = effect(by_side[True], by_side[False]), None
    tasks = len({case.task for case, *_ in rows})
    return Contrast(kind, label, names[0] or str(flag), names[1], sides[0], sides[1], tasks, value, p)


def by_model(case: Case) -> str:
    return case.group


def difficulty(case: Case) -> str:
    """Model, and the task's third by the share of recorded single attempts that solve it."""
    share = case.solved_singly or 0.0
    return f"{case.group} {(share > 1 / 3) + (share > 2 / 3)}"


def wrong(cases: Iterable[Case], group: str = "") -> list[Case]:
    """Wrong programs with a failing check: those of the primary comparison, or of one group."""
    return [
        case
        for case in cases
        if (case.group == group if group else case.is_primary)
        and case.right is False
        and case.flags["names_check"] is not None
    ]


@functools.cache
def contrasts(folder: Path) -> list[Contrast]:
    """All comparisons of the page: one primary, all others secondary or sensitivity of it."""
    cases = read_cases(folder)
    primary = wrong(cases)
    rows = [contrast("primary", POOLED, primary, strata=by_model)]
    for flag in FEATURES:
        if flag != "names_check":
            rows.append(contrast("secondary", POOLED, primary, flag, strata=by_model))
        for group in (*MODELS.values(), *OTHERS.values()):
            if any(case.flags[flag] is not None for case in wrong(cases, group)):
                rows.append(contrast("secondary", group, wrong(cases, group), flag))
    rows += _sensitivity(cases, primary)
    right = [case for case in cases if case.right and case.group in MODELS.values()]
    rows.append(
        contrast(
            "secondary",
            "right programs, four models",
            right,
            outcome=lambda case: not case.next_right,
            strata=by_model,
            names=("names_check", "broken"),
        )
    )
    rows += _by_reader(folder, primary)
    for label, is_seen in (("models that the review had seen", True), ("the other models", False)):
        some = [case for case in primary if (case.group in SEEN) is is_seen]
        rows.append(contrast("added", label, some, strata=by_model))
    return rows


def _sensitivity(cases: Sequence[Case], primary: Sequence[Case]) -> list[Contrast]:
    middle = {group: median(case.words for case in primary if case.group == group) for group in MODELS.values()}

    def completeness(case: Case) -> str:
        return f"{case.group} {case.is_whole}"

    def length(case: Case) -> str:
        return f"{case.group} {case.words > middle[case.group]}"

    strict = [case for case in cases if case.group in MODELS.values() and case.right_strict is False and case.failing]
    everyone = [case for group in (*MODELS.values(), *OTHERS.values()) for case in wrong(cases, group)]
    narrowed = {
        "whole programs": [case for case in primary if case.is_whole],
        "cut programs": [case for case in primary if not case.is_whole],
        "first retries": [case for case in primary if case.attempt == 1],
        "a failing check that the canonical program passes": [case for case in primary if case.failing_true],
        "all groups, search and MBPP included": everyone,
    }
    return [
        contrast(
            "sensitivity", "strict verdicts", strict, outcome=lambda case: case.next_right_strict, strata=by_model
        ),
        *(contrast("sensitivity", label, some, strata=by_model) for label, some in narrowed.items()),
        contrast("sensitivity", "within model, whole and cut apart", primary, strata=completeness),
        contrast("sensitivity", "gpt-3.5, whole and cut apart", wrong(cases, "gpt-3.5"), strata=completeness),
        contrast("sensitivity", "within model and difficulty", primary, strata=difficulty),
        contrast("sensitivity", "within model and length of the words", primary, strata=length),
    ]


Labels = Mapping[str, Mapping[str, bool]]
"""Answers of the reader by item, then by feature."""


def read_labels(folder: Path, file: str = LABELS) -> Labels:
    rows = read_rows(folder / file)
    features = [name for name in FEATURES if name in rows[0]]
    return {row["item"]: {name: row[name] == "yes" for name in features} for row in rows}


def answers_of(labels: Labels, name: str) -> Callable[[Case], bool | None]:
    return lambda case: labels[case.item][name] if case.item in labels else None


class Direct(NamedTuple):
    """A difference of two differences."""

    value: Estimate
    p: float
    tasks: int


def cause_beyond_check(folder: Path, some: Iterable[Case]) -> Direct | None:
    """The difference in repair by the reader's label of the cause - that by the label of the check, within models."""
    labels = read_labels(folder)
    known = [(case, labels[case.item]) for case in some if case.item in labels and case.next_right is not None]
    check, cause = (
        [Outcome(case.task, by_model(case), answers[name], bool(case.next_right)) for case, answers in known]
        for name in ("names_check", "names_cause")
    )
    pooled = of_two_flags(check, cause)
    return pooled and Direct(*pooled, tasks=len({case.task for case, _ in known}))


class Pair(NamedTuple):
    """Reflections of two runs of one model on the same program."""

    first: Case
    second: Case

    @property
    def task(self) -> str:
        return self.first.task

    def is_equal(self, value: Callable[[Case], object]) -> bool:
        return value(self.first) == value(self.second)


def pairs(cases: Iterable[Case]) -> list[Pair]:
    """All pairs of cases with one model, task and program, and different runs."""
    same: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        same[case.group, case.task, case.program].append(case)
    return [
        Pair(first, second)
        for some in same.values()
        for first, second in combinations(some, 2)
        if first.run != second.run
    ]


class Pairs(NamedTuple):
    """What the pairs have in common."""

    wrong_in_both: int
    """Tasks of a model that two runs fail at the first attempt, with reflections of the primary comparison."""
    every: Sequence[Pair]
    other_words: Sequence[Pair]
    other_flag: Sequence[Pair]
    """Pairs of which one names the check by rule and the other does not."""
    labelled: Sequence[Pair]
    other_cause: Sequence[Pair]
    """Pairs of which one names the cause for the blind reader and the other does not."""

    @staticmethod
    def same_outcome(some: Iterable[Pair]) -> Rate:
        return rate((pair.task, pair.is_equal(lambda case: case.next_right)) for pair in some)

    @staticmethod
    def repaired(some: Iterable[Pair]) -> int:
        """Pairs with both repaired."""
        return sum(bool(pair.first.next_right and pair.second.next_right) for pair in some)


def same_program(folder: Path, cases: Iterable[Case]) -> Pairs:
    labels = read_labels(folder)
    some = list(cases)
    every, cause = pairs(some), answers_of(labels, "names_cause")
    firsts = Counter((case.group, case.task) for case in some if case.attempt == 1)
    labelled = [pair for pair in every if pair.first.item in labels and pair.second.item in labels]
    return Pairs(
        wrong_in_both=sum(runs == 2 for runs in firsts.values()),
        every=every,
        other_words=[pair for pair in every if not pair.is_equal(lambda case: case.reflection)],
        other_flag=[pair for pair in every if not pair.is_equal(lambda case: case.flags["names_check"])],
        labelled=labelled,
        other_cause=[pair for pair in labelled if not pair.is_equal(cause)],
    )


def _by_reader(folder: Path, primary: Sequence[Case]) -> list[Contrast]:
    answers = functools.partial(answers_of, read_labels(folder))
    names = [name for name in FEATURES if name in next(iter(read_labels(folder).values()))]
    whole = [case for case in primary if case.is_whole]
    rows = [
        contrast("secondary", f"{label}, blind reader", some, answers(name), strata=by_model, names=(name, "repaired"))
        for label, some in ((POOLED, primary), ("whole programs", whole))
        for name in names
    ]
    label, named = "whole programs, within model and difficulty, blind reader", ("names_cause", "repaired")
    rows.append(contrast("secondary", label, whole, answers("names_cause"), strata=difficulty, names=named))
    return rows + [
        contrast("secondary", f"{group}, blind reader", wrong(primary, group), answers("names_cause"), names=named)
        for group in MODELS.values()
    ]


def by_second_reader(folder: Path) -> list[Contrast]:
    """The comparisons that the first reader's labels carry, by those of the second: added afterwards."""
    primary = wrong(read_cases(folder))
    answers = functools.partial(answers_of, read_labels(folder, SECOND))
    sides = ((POOLED, primary), ("whole programs", [case for case in primary if case.is_whole]))
    return [
        contrast("added", f"{label}, second reader", some, answers(name), strata=by_model, names=(name, "repaired"))
        for label, some in sides
        for name in ("names_check", "names_cause", "is_advice")
    ]


class Beside(NamedTuple):
    """How often reflections have a flag, and how often those on other tasks would."""

    pool: str
    """A key of `POOLS`."""
    group: str
    flag: str
    own: Rate
    chance: float
    excess: Estimate


@functools.cache
def beside_chance(folder: Path) -> list[Beside]:
    cases = read_cases(folder)
    groups = {POOLED: wrong(cases), **{name: wrong(cases, name) for name in (*MODELS.values(), *OTHERS.values())}}
    groups["whole programs"] = [case for case in groups[POOLED] if case.is_whole]
    rows = [_beside(pool, name, flag, some) for pool in POOLS for name, some in groups.items() for flag in FEATURES]
    return [row for row in rows if row]


def _beside(pool: str, group: str, flag: str, cases: Sequence[Case]) -> Beside | None:
    known = [
        (case.task, float(own), chance)
        for case in cases
        if (own := case.flags[flag]) is not None and (chance := case.chance[flag, pool]) is not None
    ]
    if not known:
        return None
    chances = by_cluster([(task, chance) for task, _, chance in known], ALONE)
    flags = by_cluster([(task, own) for task, own, _ in known], ALONE)
    return Beside(
        pool,
        group,
        flag,
        rate((task, bool(own)) for task, own, _ in known),
        fmean(chance for *_, chance in known),
        difference(chances, flags),
    )


def balance(cases: Sequence[Case]) -> list[tuple[str, float, float]]:
    """Means of what may confound the primary comparison, with the flag and without it."""
    measures: dict[str, Callable[[Case], float | None]] = {
        "tasks solved by single attempts, %": lambda case: (
            None if case.solved_singly is None else 100 * case.solved_singly
        ),
        "whole programs, %": lambda case: 100.0 * case.is_whole,
        "failing checks": lambda case: float(case.failing),
        "some failing check is one that the canonical program passes, %": lambda case: 100.0 * bool(case.failing_true),
        "words of the reflection": lambda case: float(case.words),
    }

    def mean(measure: Callable[[Case], float | None], side: bool) -> float:
        return fmean(
            value for case in cases if case.flags["names_check"] is side and (value := measure(case)) is not None
        )

    return [(name, mean(measure, True), mean(measure, False)) for name, measure in measures.items()]


class Agreed(NamedTuple):
    """Agreement of the reader with the rule, or with the second reader."""

    flag: str
    n: int
    reader: int
    other: int
    agreed: Estimate | None
    kappa: Estimate | None


def agreements(folder: Path, some: Sequence[Case], other: str = "") -> list[Agreed]:
    """`other`: file of the second reader's labels; "" for the rule."""
    labels, rows = read_labels(folder), []
    others = read_labels(folder, other) if other else {case.item: case.flags for case in some}
    for flag in (name for name in FEATURES if name in next(iter(labels.values()))):
        pairs = [
            (case.task, labels[case.item][flag], second)
            for case in some
            if case.item in labels and (second := others[case.item][flag]) is not None
        ]
        agreed, kappa = cohen([(first, second) for _, first, second in pairs], [task for task, *_ in pairs])
        counts = (sum(pair[1] for pair in pairs), sum(pair[2] for pair in pairs))
        rows.append(Agreed(flag, len(pairs), *counts, agreed, kappa))
    return rows


def table(folder: Path) -> list[dict[str, Any]]:
    rows = [
        {
            "kind": row.kind, "cases": row.label, "flag": row.flag, "outcome": row.outcome,
            "with_k": row.yes.k, "with_n": row.yes.n, "without_k": row.no.k, "without_n": row.no.n, "tasks": row.tasks,
            **_ends(row.difference), "p": "" if row.p is None else round(row.p, 5), "chance": "",
        }
        for row in (*contrasts(folder), *by_second_reader(folder))
    ]  # fmt: skip
    rows += [
        {
            "kind": POOLS[row.pool], "cases": row.group, "flag": row.flag, "outcome": "has the flag",
            "with_k": row.own.k, "with_n": row.own.n, "without_k": "", "without_n": "", "tasks": "",
            **_ends(row.excess), "p": "", "chance": round(row.chance, 4),
        }
        for row in beside_chance(folder)
    ]  # fmt: skip
    primary = wrong(read_cases(folder))
    for label, some in ((POOLED, primary), ("whole programs", [case for case in primary if case.is_whole])):
        direct = cause_beyond_check(folder, some)
        assert direct, "both labels are of both kinds in some model"
        rows.append(
            dict.fromkeys(rows[0], "")
            | {"kind": "added", "cases": f"{label}, blind reader", "flag": "names_cause - names_check"}
            | {"outcome": "repaired", "tasks": direct.tasks, "p": round(direct.p, 5)}
            | _ends(direct.value)
        )
    return rows


def _ends(value: Estimate | None) -> dict[str, object]:
    ends = ("", "", "") if value is None else (round(end, 4) for end in (value.value, value.low, value.high))
    return dict(zip(("difference", "low", "high"), ends, strict=True))


def compute(folder: Path) -> Mapping[str, str]:
    cases, rows = read_cases(folder), contrasts(folder)
    primary = wrong(cases)
    by_key = {(row.label, row.flag, row.outcome): row for row in rows}
    chances = {(row.pool, row.group, row.flag): row for row in beside_chance(folder)}
    whole = [case for case in primary if case.is_whole]
    assert all(case.group == "gpt-3.5" for case in primary if not case.is_whole), "the page says so"
    own_passes = [case for case in wrong(cases, "gpt-3.5") if case.right_own]
    assert len(own_passes) == 1 and not own_passes[0].flags["names_check"], "the page says so"
    values = {
        "primary": rows[0],
        "rows": rows,
        "row": lambda label, flag="names_check", outcome="repaired": by_key[label, flag, outcome],
        "secondary": [row for row in rows if row.kind == "secondary"],
        "sensitivity": [row for row in rows if row.kind == "sensitivity"],
        "beside": lambda group, flag, pool="": chances[pool, group, flag],
        "groups": [*MODELS.values(), *OTHERS.values()],
        "models": list(MODELS.values()),
        "has": lambda group, flag: ("", group, flag) in chances,
        "FEATURES": FEATURES,
        "POOLED": POOLED,
        "balance": balance(primary),
        "balance_whole": balance(whole),
        "agreements": agreements(folder, primary),
        "agreements_whole": agreements(folder, whole),
        "between": agreements(folder, primary, SECOND),
        "between_whole": agreements(folder, whole, SECOND),
        "second": {(row.label.partition(",")[0], row.flag): row for row in by_second_reader(folder)},
        "labels": len(read_labels(folder)),
        "cases": cases,
        "wrong": primary,
        "whole": whole,
        "one_failing": sum(case.failing == 1 for case in primary),
        "n_secondary": sum(row.kind == "secondary" for row in rows),
        "n_all": sum(row.kind in ("secondary", "sensitivity") for row in rows),
        "pairs": same_program(folder, primary),
        "programs": len({(case.task, case.program) for case in primary}),
        "seen": [case for case in primary if case.group in SEEN],
        "own_passes": own_passes[0],
        "alike_features": [case for case in primary if not case.features],
        "cause_beyond_check": lambda some: cause_beyond_check(folder, some),
        "cut": [case for case in primary if not case.is_whole],
        "cut_of": lambda side: [case for case in primary if case.flags["names_check"] is side and not case.is_whole],
        "repaired_of": lambda some: rate((case.task, case.next_right) for case in some),
        "of": lambda group: [case for case in cases if case.group == group],
        "wrong_of": lambda group: wrong(cases, group),
        "coverage": lambda subset: [row for row in read_rows(folder / COVERAGE) if row["cases"] == subset],
        "ends": lambda values, scale=1: [f"{scale * end:.1f}" for end in (min(values), max(values))],
        "p_value": p_value,
        "as_kappa": lambda kappa: estimate(kappa, digits=2, scale=1).replace("-", "−"),
        "zip": zip,
    }
    return {TABLE: csv_text(table(folder)), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = {(row.label, row.flag): row for row in contrasts(folder)}
    primary = rows[POOLED, "names_check"]
    whole, cause = rows["whole programs", "names_check"], rows["whole programs, blind reader", "names_cause"]
    verdict = "detected" if primary.p is not None and primary.p < 0.05 else "not detected"
    effects = [points(row.difference) for row in (primary, whole, cause) if row.difference]
    cases = wrong(read_cases(folder))
    both, seen = same_program(folder, cases), fmean(case.group in SEEN for case in cases)
    same = both.same_outcome(both.other_flag)
    kappa = agreements(folder, cases, SECOND)[1].kappa
    assert kappa, "readers differ"
    text = (
        f"words that name the failing check, by rule: {primary.counts} repaired, {effects[0]} points within models "
        f"({verdict}; named after {percent(seen, 0)} % of its cases had been seen), {effects[1]} without cut programs; "
        f"where two runs differ in it on the same program, the outcome is the same in {same.k} of {same.n} pairs; "
        f"words that name the cause for a blind reader, a language model that also wrote the analysis, not planned: "
        f"{cause.counts} on whole programs, {effects[2]}; kappa of a second reader {estimate(kappa, digits=2, scale=1)}"
    )
    return Row(text, str(primary.yes.n + primary.no.n))


def draw(folder: Path) -> Sequence[Path]:
    written = save(table(folder), lambda figure: _draw(figure, folder), folder, salt="reflections", line_end="\n")
    return [path for path in written if path.name != TABLE]


def _draw(figure: Figure, folder: Path) -> None:
    figure.set_size_inches(13, 5.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    rows = [row for row in contrasts(folder) if (row.label, row.flag) in DRAWN and row.outcome == "repaired"]
    rows.sort(key=lambda row: DRAWN.index((row.label, row.flag)))
    for place, row in enumerate(rows):
        colour = COLOURS[("primary", "secondary", "sensitivity").index(row.kind)]
        assert row.difference
        left.hlines(place, 100 * row.difference.low, 100 * row.difference.high, color=colour, alpha=0.5, linewidth=2.4)
        left.plot(100 * value_of(row.difference), place, "o", color=colour, label=row.kind, markeredgecolor="white")
    left.axvline(0, color=INK, linewidth=0.8)
    left.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_xlabel("repaired, with the flag − without, points", color=INK)
    chances = [
        row
        for row in beside_chance(folder)
        if not row.pool and row.group in (POOLED, "whole programs", *OTHERS.values())
    ]
    chances = [row for row in chances if row.flag != "names_cause_canonical"]
    for place, beside in enumerate(chances):
        own = beside.own
        right.hlines(place, 100 * own.low, 100 * own.high, color=COLOURS[0], alpha=0.5, linewidth=2.4)
        right.plot(100 * own.share, place, "o", color=COLOURS[0], label="own words", markeredgecolor="white")
        right.plot(100 * beside.chance, place, "D", color=INK, label="words on other tasks", markersize=4)
    names = [f"{row.group}: {FEATURES[row.flag]}" for row in chances]
    right.set_yticks(range(len(chances)), names, fontsize=8)
    right.set_ylim(len(chances) - 0.5, -0.5)
    right.set_xlim(-2, 102)
    right.set_xlabel("reflections with the flag (rule), %", color=INK)
    for ax in (left, right):
        plain_axes(ax, grid="x")
        legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8)
    figure.tight_layout(w_pad=2)


def _label(row: Contrast) -> str:
    return f"{row.label}: {FEATURES[row.flag]} ({row.yes.k}/{row.yes.n}, {row.no.k}/{row.no.n})"


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
