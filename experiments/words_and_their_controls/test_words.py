"""Quality of reflections by rules, and the agreement of raters."""

from __future__ import annotations

import csv
import re

import pytest
from msgspec.structs import replace

from experiments._tools import output
from experiments.words_and_their_controls import kappa_coverage, rating, words
from experiments.words_and_their_controls.rating import agreements, cohen, key_of, rated, write
from experiments.words_and_their_controls.words import SYNTAX, difference, names_any, quality, word_quality
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Task

SUM = 'def total(ns: list[int]) -> int:\n    """Sum."""\n    s = 0\n    for n in ns:\n        s += n\n    return s\n'


@pytest.mark.parametrize(
    ("program", "features"),
    [
        ("def total(xs):\n    t = 0\n    for x in xs:\n        t -= x\n    return t\n", {"+", "-"}),
        ("def total(xs):\n    t = 7\n    for x in xs:\n        t += x\n    return t\n", {"7"}),
        (
            "def total(xs):\n    t = 0\n    for x in xs:\n        if x > 0:\n            t += x\n    return t\n",
            {"if", "<"},
        ),
        ("def total(ys):\n    u = 0\n    for y in ys:\n        u += y\n    return u\n", set()),
        ("def total(", {SYNTAX}),
        ("", set()),
    ],
)
def test_a_difference_names_tokens_and_no_variables(program, features):
    assert difference(program, SUM) == features


def test_without_a_canonical_solution_there_is_no_difference():
    assert difference("def total(xs): return 1", "") == frozenset()


@pytest.mark.parametrize(
    ("text", "features", "names"),
    [
        ("I subtract where the sum is needed", {"+"}, True),
        ("The initial value must not be 7", {"7"}, True),
        ("It must be 70, not 7.5", {"7"}, False),
        ("The condition is wrong", {"if"}, True),
        ("I use sorted without reverse", {"reverse"}, True),
        ("I must be more careful", {"if", "+", "7"}, False),
        ("Close the parenthesis", {SYNTAX}, True),
    ],
)
def test_words_name_a_cause_by_word_or_value(text, features, names):
    assert names_any(text, frozenset(features)) is names


@pytest.fixture
def failed(attempt, reflection):
    """An attempt that subtracts, with these words about it."""

    def make(change="", cause="", task_id="t/1", number=1, reward=0.0, **fields):
        words = replace(reflection(number, "llm"), root_cause=cause, what_went_wrong="", what_to_change=change)
        program = "def total(xs):\n    t = 0\n    for x in xs:\n        t -= x\n    return t\n"
        written = attempt(task_id, number, reward, program, reflection=words if reward < 1 else None)
        check = Check(name="assert total([2, 3]) == 5", outcome="fail", expected="5", actual="-5")
        evaluation = replace(written.evaluation, checks=(check,) if reward < 1 else ())
        return replace(written, evaluation=evaluation, **fields)

    return make


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"cause": "total([2, 3]) gives -5"}, (True, False, False)),
        ({"cause": "The loop subtracts"}, (False, True, False)),
        ({"change": "I will replace t -= x by an addition"}, (False, True, True)),
        ({"change": "I will change the loop"}, (False, False, True)),
        ({"change": "I will change my attitude"}, (False, False, False)),
        ({"change": "I will be careful with the loop"}, (False, False, False)),
    ],
)
def test_each_quality_has_its_own_rule(failed, words, expected):
    assert quality(failed(**words), SUM) == expected


def test_qualities_that_are_not_defined_are_none(failed):
    assert quality(failed(cause="The loop subtracts")).names_cause is None
    unchecked = failed(cause="The loop subtracts")
    unchecked = replace(unchecked, evaluation=replace(unchecked.evaluation, checks=()))
    assert quality(unchecked, SUM).names_check is None
    assert quality(failed(), SUM) is None


def history(failed, task_id, cause, repaired):
    first = failed(cause=cause, task_id=task_id)
    return [first, replace(failed(task_id=task_id, number=2, reward=float(repaired)), recalled=(f"ep-{task_id}-1",))]


@pytest.fixture
def log(failed, write_run):
    """Of four named causes three are repaired, of four others one."""
    causes = ["I subtract"] * 4 + ["I was careless"] * 4
    histories = {f"t/{n}": history(failed, f"t/{n}", cause, n in (0, 1, 2, 4)) for n, cause in enumerate(causes)}
    verdicts = {
        task_id: [(a.evaluation.reward, a.evaluation.passed) for a in every] for task_id, every in histories.items()
    }
    return Log.read(write_run(verdicts, attempts=histories))


def programs(log):
    """The same canonical program for each task of the run."""
    return {log.manifest.run_id: dict.fromkeys(log.attempts, SUM)}


def test_repairs_are_related_to_each_quality(log):
    by_name = {figures.name: figures for figures in word_quality([log], programs(log))}
    cause = by_name["names_cause"]
    assert (cause.rate.k, cause.rate.n) == (4, 8)
    assert (cause.repaired_with.k, cause.repaired_with.n) == (3, 4)
    assert (cause.repaired_without.k, cause.repaired_without.n) == (1, 4)
    assert cause.effect.value == pytest.approx(0.5)
    assert cause.effect.low < 0.5 < cause.effect.high
    assert (cause.by_chance.k, cause.by_chance.n) == (4, 8), "all tasks have the same difference"
    assert by_name["is_advice"].effect is None


def test_without_solutions_the_true_cause_is_left_out(log):
    cause = word_quality([log], {})[1]
    assert (cause.rate, cause.by_chance, cause.effect) == (None, None, None)


def test_a_sheet_is_blind_shuffled_and_has_its_key_apart(log, tmp_path):
    sheet = tmp_path / "sheet.csv"
    tasks = {name: Task(task_id=name, prompt=f"prompt of {name}", entry_point="total") for name in log.attempts}
    by_run = {log.manifest.run_id: tasks}
    assert write(sheet, rated([log], programs(log)), by_run, limit=6) == key_of(sheet)
    text, rows = sheet.read_text(), list(csv.DictReader(sheet.open(newline="")))
    assert len(rows) == 6
    assert log.manifest.run_id not in text and log.arm not in text
    assert [*rows[0]] == [
        "item", "task", "program", "failing_checks", "words", "names_check", "names_cause", "is_advice",
    ]  # fmt: skip
    assert {row["names_cause"] for row in rows} == {""}
    keys = list(csv.DictReader(key_of(sheet).open(newline="")))
    assert [row["task"] for row in rows] == [f"prompt of {row['task_id']}" for row in keys]
    assert [row["task_id"] for row in keys] != sorted(row["task_id"] for row in keys)
    assert {row["names_cause"] for row in keys} == {"yes", "no"}


def test_a_sheet_is_not_overwritten(log, tmp_path):
    sheet = tmp_path / "sheet.csv"
    write(sheet, rated([log], programs(log)), {})
    answers = sheet.read_text() + "filled in"
    sheet.write_text(answers)
    with pytest.raises(ConfigError, match="a new file: a sheet may hold answers"):
        write(sheet, rated([log], programs(log)), {})
    assert sheet.read_text() == answers


def test_items_keep_their_names_in_another_draw(log, tmp_path):
    for seed in (0, 1):
        write(tmp_path / f"{seed}.csv", rated([log], programs(log)), {}, seed=seed)
    items = [[row["item"] for row in csv.DictReader((tmp_path / f"{seed}.csv").open(newline=""))] for seed in (0, 1)]
    assert items[0] != items[1]
    assert sorted(items[0]) == sorted(items[1])


def test_no_item_is_a_number_which_a_spreadsheet_would_rewrite(log):
    first = rated([log], programs(log))[0]
    items = [first._replace(run_id=f"run-{number}").id for number in range(500)]
    assert len({*items}) == 500
    assert not [item for item in items if re.fullmatch(r"\d+(e\d+)?", item)]


def filled(sheet, path, answers):
    """A copy of a sheet with these answers to names_cause."""
    rows = list(csv.DictReader(sheet.open(newline="")))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(row | {"names_cause": answer} for row, answer in zip(rows, answers, strict=True))
    return path


def test_raters_are_compared_with_each_other_and_the_rules(log, tmp_path, capsys):
    sheet = tmp_path / "sheet.csv"
    write(sheet, rated([log], programs(log)), {})
    rules = [row["names_cause"] for row in csv.DictReader(key_of(sheet).open(newline=""))]
    other = ["" if n == 0 else {"yes": "No", "no": "1"}[answer] if n == 1 else answer for n, answer in enumerate(rules)]
    filled(sheet, sheet, rules)
    second = filled(sheet, tmp_path / "second.csv", other)
    rows = {(row.first, row.second): row for row in agreements([sheet, second]) if row.quality == "names_cause"}
    assert rows[str(sheet), "rules"].kappa.value == 1
    assert rows[str(sheet), "rules"].kappa.low < 1
    assert (rows[str(sheet), str(second)].n, rows[str(second), "rules"].n) == (7, 7)
    assert rows[str(second), "rules"].agreed.value == pytest.approx(6 / 7)
    assert rate("--read", str(sheet), str(second)) == 0
    assert "Agreement of ratings" in capsys.readouterr().out
    filled(sheet, second, ["perhaps", *other[1:]])
    assert rate("--read", str(sheet), str(second)) == 2
    assert "got 'perhaps', expected yes, no or an empty cell" in capsys.readouterr().err


def rate(*arguments):
    return output.run(rating.parser(), rating.rate, arguments)


def test_the_scripts_take_run_folders(log, tmp_path, capsys):
    assert output.run(words.parser(), words.show, [str(tmp_path / "run")]) == 0
    assert "executable advice" in capsys.readouterr().out
    assert rate(str(tmp_path / "run"), "--out", str(tmp_path / "sheet.csv")) == 0
    assert "written: " in capsys.readouterr().out
    assert rate() == 2


@pytest.mark.parametrize("table", [(20, 5, 10, 15), (1, 2, 3, 40), (9, 0, 1, 10)])
def test_kappa_equals_that_of_statsmodels(table):
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    both, first, second, neither = table
    pairs = [(True, True)] * both + [(True, False)] * first + [(False, True)] * second + [(False, False)] * neither
    _, kappa = cohen(pairs, range(len(pairs)))
    other = inter_rater.cohens_kappa([[both, first], [second, neither]])
    assert kappa.value == pytest.approx(other.kappa)
    assert kappa.high - kappa.low > 0.8 * (other.kappa_upp - other.kappa_low)


def test_kappa_is_undefined_if_both_always_say_the_same():
    agreed, kappa = cohen([(True, True)] * 5, range(5))
    assert (agreed.value, kappa) == (1, None)
    assert cohen([], []) == (None, None)


@pytest.mark.slow
@pytest.mark.soak
def test_simulated_coverage_of_kappa():
    _, _, *rows = kappa_coverage.table(40)
    assert len(rows) == 4
    for row in rows:
        low, high = map(float, row.split("|")[3].split(" to "))
        assert 75 < low <= high <= 100
