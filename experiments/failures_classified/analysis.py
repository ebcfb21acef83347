"""Table, README and figure of this experiment, from `cases.csv.gz` and `labels.csv`; `--check` names what differs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments._tools.evidence import Row, read_rows
from experiments._tools.failure_cases import SHOWN, Comparison, compare
from experiments._tools.failure_evidence import OURS, Classified, column, read_cases
from experiments._tools.failure_labels import Label, read_labels
from experiments._tools.failures_report import as_rows, problems, save
from experiments._tools.recompute import README, TABLE, csv_text, main, points, readme
from reflexion_lab.agent.reflectors.evidence import LOOKED_AT
from reflexion_lab.analysis.report.cells import interval, p_value
from reflexion_lab.analysis.stats.intervals import Estimate, Rate

TEN = "ten keywords"
EXECUTED, HELD = "executed", "labels, held out"


def compute(folder: Path) -> Mapping[str, str]:
    cases, labels = _evidence(folder)
    compared = compare(cases, labels)
    by_key = {(each.against, each.evidence, each.typed): each for each in compared}
    rows = list(as_rows(compared))
    values = _counts(cases) | _labelled(cases, labels) | _scores(by_key) | {"rows": rows}
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = [row for row in read_rows(folder / TABLE) if row["group"] == "all"]
    held = {row["rules"]: row for row in rows if (row["truth"], row["evidence"]) == (HELD, SHOWN)}
    lab, ten = (
        f"{row['right']} of {row['n']} {interval(float(row['low']), float(row['high']), 0)}"
        for row in (held[OURS], held[TEN])
    )
    text = f"with the exception's type removed, rules are right in {lab}, an earlier system's keywords in {ten}"
    return Row(text, f"{held[OURS]['n']} of {int(rows[0]['n']):,}")


def draw(folder: Path) -> Sequence[Path]:
    cases, labels = _evidence(folder)
    return [path for path in save(compare(cases, labels), cases, folder) if path.name != TABLE]


def _evidence(folder: Path) -> tuple[list[Classified], dict[tuple[str, str], Label]]:
    return read_cases(folder), read_labels(folder / "labels.csv")


def _scores(compared: Mapping[tuple[str, str, bool], Comparison]) -> dict[str, Any]:
    """What the README reads of the comparisons, by truth, evidence and whether the text names the type."""
    typed, held = compared[EXECUTED, "traceback", True], compared[HELD, SHOWN, False]

    def accuracy(key: tuple[str, str, bool], rules: str) -> Rate:
        return compared[key].score(rules).accuracy

    def recalled(cases: Comparison, rules: str, name: str) -> Rate:
        return next(own.recall for own in cases.score(rules).classes if own.name == name)

    ten = typed.score(TEN).accuracy.k - recalled(typed, TEN, "assertion").k
    return {
        "SHOWN": SHOWN,
        "OURS": OURS,
        "TEN": TEN,
        "SIX": "six keywords",
        "keys": [
            ("traceback", (EXECUTED, "traceback", True)),
            ("the lab's check (type and message)", (EXECUTED, "check", True)),
            ("**no type**, traceback with source lines", (HELD, SHOWN, False)),
            ("no type, traceback without source lines", (HELD, "traceback", False)),
            ("no type, only the check's message", (HELD, "check", False)),
        ],
        "n": lambda key: len(compared[key].cases),
        "accuracy": accuracy,
        "f1": lambda key, rules: compared[key].score(rules).macro_f1,
        "gain": lambda key: compared[key].gained(TEN),
        "gain_points": lambda paired: points(Estimate(value=paired.difference, low=paired.low, high=paired.high)),
        "all_untyped": lambda evidence, rules: accuracy((EXECUTED, evidence, False), rules),
        "part": lambda name: accuracy((f"labels, {name}", SHOWN, False), OURS),
        "classes": list(zip(held.score(OURS).classes, held.score(TEN).classes, strict=True)),
        "called": lambda rules, name: next(own for own in held.score(rules).classes if own.name == name).precision,
        "recall": lambda rules, name: recalled(held, rules, name),
        "ten_other": ten,
        "ten_import": sum(case.guesses[TEN] == "import" != case.truth for case in typed.cases),
        "ten_wrong": sum(case.guesses[TEN] != case.truth for case in typed.cases),
        "by_type": _by_type(typed),
        "of_class": lambda name: len({case.problem for case in typed.cases if case.truth == name}),
        "p_value": p_value,
    }


def _by_type(typed: Comparison) -> list[tuple[str, int, float]]:
    """Exception type, its failures, and the share that the ten keywords classify correctly; the most common first."""
    counts = Counter(case.kind for case in typed.cases)
    right = Counter(case.kind for case in typed.cases if case.guesses[TEN] == case.truth)
    return [(kind, n, right[kind] / n) for kind, n in counts.most_common()]


def _counts(cases: Sequence[Classified]) -> dict[str, Any]:
    failed = [case for case in cases if case.raised]
    changes = Counter((case.recorded, case.raised) for case in cases if case.recorded != case.raised)
    return {
        "cases": cases,
        "failed": failed,
        "n_problems": problems(cases),
        "files": len({case.file for case in cases}),
        "programs": len({case.program for case in cases}),
        "assertions_logged": sum(case.recorded == "AssertionError" for case in cases),
        "not_assertions": sum(case.truth != "assertion" for case in failed),
        "same": sum(case.recorded == case.raised for case in cases),
        "changes": "; ".join(
            f"{n} {before or 'without a type'} → {after or 'pass'}" for (before, after), n in changes.most_common()
        ),
        "passing": len(cases) - len(failed),
        "limit": LOOKED_AT,
        "long": [case for case in failed if case.characters > LOOKED_AT],
        "recursions": [case for case in failed if case.raised == "RecursionError"],
        "shown_right": lambda group: sum(case.guesses[column(SHOWN, False, OURS)] == case.truth for case in group),
    }


def _labelled(cases: Sequence[Classified], labels: Mapping[tuple[str, str], Label]) -> dict[str, Any]:
    known = {case.id: case for case in cases}
    return {
        "labels": labels,
        "labels_differ": sum(label.label != known[id_].truth for id_, label in labels.items()),
        "long_held": sum(known[id_].characters > LOOKED_AT for id_, label in labels.items() if label.part != "first"),
    }


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
