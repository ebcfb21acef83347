"""`reflexion-lab compare` and `report`, as the shell would call them."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report import comparison as comparison_tables
from reflexion_lab.cli.main import main
from reflexion_lab.records import Check, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.registration import read, section
from tests.analysis.conftest import BASE, RIGHT, WORDS, WRONG, lines_of, run_writer, spender


@pytest.fixture
def run(write_run, tmp_path):
    """Writes one run of an arm and returns its folder's name."""
    write = run_writer(write_run, tmp_path)
    return lambda *arguments, **fields: str(write(*arguments, **fields).path)


@pytest.fixture
def four(run):
    return [run(arm, verdicts, s) for arm, verdicts in (("feedback_only", BASE), ("words", WORDS)) for s in (7, 8)]


@pytest.fixture
def run_command(capsys):
    """What the command printed, its lines unbroken; and its exit code."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split()), printed.out

    return call


def test_compare_prints_the_table_of_distinct_runs_by_baseline_and_unit(four, run_command):
    code, text, _ = run_command("compare", *four, four[0], f"{four[0]}/", "--full")
    assert code == 0
    assert "Difference to feedback_only" in text and "75.0 [" in text
    assert "4 x 2" in text, "each run once"
    code, text, _ = run_command("compare", *four, "--baseline", "words", "--unit", "calls", "--full")
    assert code == 0
    assert "Difference to words" in text and "attempts: 2" in text
    assert "tokens" not in text.partition("Price of a further attempt")[2].partition("Errors")[0]


def test_warnings_give_way_to_arms(four, run_command, monkeypatch):
    monkeypatch.setattr(comparison_tables, "warnings", lambda _: [f"WARNING {n}: {'word ' * 25}" for n in range(20)])
    lines = run_command("compare", *four)[2].splitlines()
    for arm in ("feedback_only", "words"):
        assert any(line.startswith(arm) for line in lines)
    assert len(lines) <= 15 and max(map(len, lines)) <= 80
    assert lines[-2].endswith(" more lines: --full") and any(line.startswith("WARNING ") for line in lines)


@pytest.mark.parametrize("columns", [80, 60, 50])
@pytest.mark.parametrize("margin", [(), ("--margin", "12")])
@pytest.mark.parametrize("long", ["", "-with-a-name-longer-than-the-screen-is-wide"])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_screen_has_every_verdict_and_equal_attempts_first(run, capsys, monkeypatch, n, long, margin, columns):
    """Every second arm was allowed more attempts; all of 100.0 %, so that figures are as wide as they get."""
    monkeypatch.setenv("COLUMNS", str(columns))
    runs, names = [], ["feedback_only", *(f"{number}{long}{number}" for number in range(1, n))]
    for attempts, arm in ((2 + number % 2, arm) for number, arm in enumerate(names)):
        verdicts = {f"t{task:02}": [WRONG] * (attempts - 1) + [RIGHT] for task in range(20)}
        config = {"arm": arm, "loop": {"max_attempts": attempts}}
        runs += [run(arm, verdicts, seed, config=config) for seed in (7, 8)]
    assert main(["compare", *runs, *margin]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= columns
    heads = next(place for place, line in enumerate(lines) if line.endswith("verdict"))
    verdicts = ("detected", "undecided", "no worse than", "size <")
    assert sum(any(word in line for word in verdicts) for line in lines[heads:]) >= n - 1
    budgets = [line for line in lines[heads:] if "attempts: 2" in line or "as run" in line]
    assert not budgets or "attempts: 2" in budgets[0]
    assert (columns == 50) or sum("attempts: 2" in line for line in budgets) == n - 1


@pytest.mark.parametrize("longest", [3, 1])
def test_beside_a_single_attempt_nothing_is_equal_by_construction(run, capsys, longest):
    """Both arms begin with the same first attempts, so that at one attempt none is won and none lost."""
    tries = {f"t{task:02}": [RIGHT] if task < 20 else [WRONG, WRONG, RIGHT][:longest] for task in range(40)}
    alone = {task: history[:1] for task, history in tries.items()}
    tables = (("simple", alone, 1), ("reflexion", tries, longest))
    runs = [
        run(arm, table, seed, config={"arm": arm, "loop": {"max_attempts": most}})
        for arm, table, most in tables
        for seed in (7, 8)
    ]
    for options in (["--margin", "12"], ["--margin", "12", "--full"]):
        assert main(["compare", *runs, *options]) == 0
        text = capsys.readouterr().out
        assert text.count("no worse than") == (longest == 1) and "attempts: 1" not in text
        assert "as run" in text and "compl. tokens" not in text
    assert main(["compare", *runs, "--json"]) == 0
    assert "equal_attempts" in {line.get("budget") for line in json.loads(capsys.readouterr().out)["lines"]}


def test_by_default_the_lines_are_at_equal_attempts_completion_tokens_and_tokens(four, run_command, tmp_path):
    _, _, out = run_command("compare", *four, "--csv", tmp_path / "t.csv", "--full")
    _, differences = out.split("Difference to feedback_only")
    table = " ".join(differences.split())
    assert [name in table for name in ("as run", "attempts: 2", "completion", "1.0x", "price")] == [
        False, True, True, True, True,
    ]  # fmt: skip
    lines = lines_of(tmp_path / "t.csv")
    for budget in ("as_run", "equal_attempts", "equal_completion_tokens", "equal_tokens"):
        assert float(lines["words", "pass_at_1", budget]["value"]) == 0.25
    assert lines["words", "price_ratio", "equal_tokens"]["value"] == "1.0"
    assert "budget only" not in lines["words", "pass_at_1", "equal_tokens"]["verdict"]


def test_arms_are_named_by_the_keys_that_are_asked_for(run, run_command):
    runs = [run("words", WORDS, s, config={"arm": "words", "recall": {"omega": n}}) for n in (1, 2) for s in (7, 8)]
    _, _, out = run_command("compare", *runs, "--by", "recall.omega", "--json")
    assert [row["arm"] for row in json.loads(out)["arms"]] == ["words recall.omega=1", "words recall.omega=2"]


def test_the_margin_is_in_points_and_the_verdict_in_every_output(run, run_command, tmp_path):
    tasks = {f"t{number}": [RIGHT] if number < 20 else [WRONG] for number in range(40)}
    runs = [run(arm, tasks, s) for arm in ("feedback_only", "words") for s in (7, 8)]
    code, text, _ = run_command("compare", *runs, "--margin", "10", "--full")
    assert code == 0
    assert all(part in text for part in ("no worse than", "(90 %)", "±10"))
    result = json.loads(run_command("compare", *runs, "--margin", "10", "--json", "--csv", tmp_path / "t.csv")[2])
    line = next(line for line in result["lines"] if line.get("budget") == "as_run")
    for verdict in (line["verdict"], lines_of(tmp_path / "t.csv")["words", "pass_at_1", "as_run"]["verdict"]):
        assert verdict == "no worse than -4.7, no better than 4.7 (90 %), inside ±10 points"
    assert run_command("report", *runs, "--out", tmp_path / "out", "--margin", "10")[0] == 0
    assert "inside ±10 points" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--baseline", "nobody"], "baseline: got 'nobody', expected one of the arms: feedback_only, words"),
        (["--margin", "0"], "--margin: got 0, expected percentage points in (0, 100]"),
        (["--unit", "cost"], "unit: got cost, but feedback_only has no prices"),
        (["no/such/folder"], "no/such/folder: got no manifest.json"),
        (["--csv", "no/such/folder/t.csv"], "no/such/folder/t.csv"),
    ],
)
def test_an_error_is_one_line(four, run_command, options, expected):
    code, text, out = run_command("compare", *four, *options, "--full")
    assert code == 2
    assert text.count("error:") == 1
    assert expected in text
    assert out == ""


def test_registered_comparisons_are_told_from_exploratory_ones(run, run_command, tmp_path):
    fields = {
        "name": "words help", "hypotheses": ["words solve more"], "primary_metric": "pass_at_1",
        "arms": {"feedback_only": "", "words": ""}, "baseline": "feedback_only", "benchmark": "toy", "n_tasks": 4,
        "seeds": [7, 8], "budget": {"calls": 1000}, "minimum_detectable_effect": 0.1, "exclusions": [],
        "stopping": "after all runs",
    }  # fmt: skip
    arms = {"feedback_only": BASE, "words": WORDS}
    manifests = {
        arm: [RunFolder.existing(run(arm, verdicts, s)).manifest for s in (7, 8)] for arm, verdicts in arms.items()
    }
    fields["registered"] = msgspec.to_builtins(section(manifests, at="2026-01-01T00:00:00Z", power=0.8))
    (tmp_path / "study.yaml").write_text(json.dumps(fields))  # JSON is YAML
    known = {"study": "words help", "study_digest": read(tmp_path / "study.yaml").digest}
    runs = [run(arm, verdicts, s, **known) for arm, verdicts in arms.items() for s in (7, 8)]
    for folder in runs:
        shutil.copy(tmp_path / "study.yaml", folder)
    other = [run("other", WORDS, s) for s in (7, 8)]
    lines = json.loads(run_command("compare", *runs, *other, "--json")[2])["lines"]
    as_run = {line["arm"]: line for line in lines if line.get("budget") == "as_run"}
    assert [as_run[arm]["exploratory"] for arm in ("words", "other")] == [False, True] and as_run["other"]["reasons"]
    assert "registered: words help" in run_command("compare", *runs, *other, "--full")[1]
    assert "NOT AT HAND" not in run_command("compare", *runs)[1]
    assert run_command("report", *runs, "--out", tmp_path / "out")[0] == 0
    assert "STUDY NOT AT HAND: words help: all is" in run_command("compare", tmp_path / "out" / "cases.csv")[1]


def test_report_writes_documents_and_figures_to_a_new_folder(four, run_command, tmp_path):
    out = tmp_path / "new" / "report"
    code, text, _ = run_command("report", *four, "--out", out, "--figures", "svg", "--no-captions")
    assert code == 0
    assert "pass@1 by attempt" not in (out / "curves.svg").read_text()
    names = {path.name for path in out.iterdir()}
    assert {"report.md", "report.html", "table.csv"} <= names
    assert all(f"written: {path}" in text for path in out.rglob("*") if path.is_file())
    kinds = {Path(name).suffix for name in names}
    assert ".svg" in kinds and ".png" not in kinds
    assert "data:image/svg+xml" in (out / "report.html").read_text()


REFUSED, USED = Usage(calls=1, refused=1), Usage(calls=1, prompt_tokens=9)


@pytest.mark.parametrize(
    ("acted", "judged"),
    [
        ({"usage": REFUSED, "solution": ""}, {}),
        ({"usage": USED, "others": {"critic": Usage(completion_tokens=5)}}, {}),
        ({}, {"checks": [Check(name="", outcome=of) for of in ("fail", "timeout", "harness_error")]}),
    ],
)
def test_cases_print_what_the_runs_print(run, records, run_command, tmp_path, acted, judged):
    """`acted`, `judged`: fields of the trajectories and evaluations of retries."""

    def changed(attempt):
        trajectory, evaluation = replace(attempt.trajectory, **acted), replace(attempt.evaluation, **judged)
        return attempt if attempt.number == 1 else replace(attempt, trajectory=trajectory, evaluation=evaluation)

    names = {"feedback_only": BASE, "words": WORDS, "retry": BASE}
    histories = {name: {task: [*map(changed, own)] for task, own in records(v)[0].items()} for name, v in names.items()}
    runs = [run(arm, names[arm], s, attempts=own) for arm, own in histories.items() for s in (7, 8)]
    assert run_command("report", *runs, "--out", tmp_path / "out", "--figures", "svg")[0] == 0
    cases, packed = tmp_path / "out" / "cases.csv", tmp_path / "cases.csv.gz"
    packed.write_bytes(gzip.compress(cases.read_bytes()))
    for options in ((), ("--full",)):
        of_runs, *of_cases = (run_command("compare", *of, *options)[2] for of in (runs, [cases], [packed]))
        assert of_cases == [of_runs] * 2 and of_runs
    assert "expected run folders, one file of cases" in run_command("compare", cases, runs[0])[1]


def test_a_file_is_no_folder_to_report_into(four, run_command, tmp_path):
    (tmp_path / "taken").write_text("mine")
    code, text, _ = run_command("report", *four, "--out", tmp_path / "taken")
    assert code == 2
    assert "--out" in text
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.fixture
def respent(records):
    return spender(records)


def test_cost_is_a_budget_where_there_are_prices(run, respent, run_command):
    paid = Usage(calls=1, prompt_tokens=9, cost=0.5)
    runs = [run(arm, attempts=respent(of, paid)) for arm, of in (("feedback_only", BASE), ("words", WORDS))]
    code, text, _ = run_command("compare", *runs, "--unit", "cost", "--full")
    assert code == 0
    assert "Price of a further attempt" in text
    assert "0.875" in text  # 7 attempts at 0.50 over 4 cases


@pytest.fixture
def free_actor(run, respent):
    """A run whose actor is free and whose reflector costs very little: its first attempts cost nothing."""
    verdicts = {"a": [(0, False), RIGHT], "b": [(0, False), (0, False), RIGHT], "c": [RIGHT]}
    prices = {"actor": "nothing is paid: it runs here", "reflector": "0.1/0.4 USD per million"}
    free, cheap = Usage(calls=1, completion_tokens=9), Usage(calls=1, prompt_tokens=9, cost=8.6e-7)
    return run("free", attempts=respent(verdicts, free, reflected=cheap), prices=prices)


def test_a_report_is_made_where_first_attempts_cost_nothing_and_small_sums_keep_six_digits(free_actor, tmp_path):
    assert main(["report", free_actor, "--out", str(tmp_path / "out")]) == 0
    spends = [float(row["mean_a_case"]) for row in _rows(tmp_path / "out" / "budget.csv") if row["unit"] == "cost"]
    assert spends[0] == 0 < spends[1] < spends[2]
    assert (tmp_path / "out" / "budget.png").exists()
    assert main(["compare", free_actor, "--csv", str(tmp_path / "table.csv")]) == 0
    values = {metric: float(line["value"]) for (_, metric, _), line in lines_of(tmp_path / "table.csv").items()}
    assert [values["cost"], values["cost_per_case"]] == pytest.approx([3 * 8.6e-7, 8.6e-7], rel=1e-5)


def test_no_p_in_the_table_is_zero_and_an_upper_bound_is_never_detected(run, tmp_path):
    tasks = [f"t{number}" for number in range(25)]
    base = [run("feedback_only", {task: [WRONG] for task in tasks})]
    solved = {task: [RIGHT] for task in tasks}
    words = [run("words", solved), run("oracle", solved, 7, feedback_source="oracle")]
    assert main(["compare", *base, *words, "--csv", str(tmp_path / "table.csv")]) == 0
    lines = lines_of(tmp_path / "table.csv")
    line, bound = lines["words", "pass_at_1", "as_run"], lines["oracle", "upper_bound", "as_run"]
    assert 0 < float(line["p"]) < 1e-6 and 0 < float(line["p_holm"]) < 1e-6
    # an upper bound is in no family, hence nothing is corrected or detected
    assert (line["detected"], bound["detected"], bound["p_holm"], bound["verdict"]) == ("True", "", "", "UPPER BOUND")


def test_one_seed_has_one_interval_for_one_share(run, tmp_path):
    folder = run("words", {f"t{number}": [RIGHT if number < 16 else WRONG] for number in range(30)})
    assert main(["report", folder, "--out", str(tmp_path / "out")]) == 0
    line = lines_of(tmp_path / "out" / "table.csv")["words", "pass_at_1", ""]
    ends = [row for row in _rows(tmp_path / "out" / "budget.csv") if row["unit"] == "tokens"][-1]
    of_table = [float(line[name]) for name in ("value", "low", "high")]
    assert of_table == pytest.approx([float(ends[name]) for name in ("share", "low", "high")], abs=1e-5)


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))
