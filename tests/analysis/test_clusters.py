"""Tasks of one cluster are no independent units: of intervals, tests, tables, frames and power."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.budgets import per_solved
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.learning.effect import effect
from reflexion_lab.analysis.learning.transfer import transfer
from reflexion_lab.analysis.learning.transitions import transitions
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import difference, interval, rate
from reflexion_lab.analysis.stats.clusters import ALONE, are_shared, by_cluster, merged, places
from reflexion_lab.analysis.stats.estimators import paired
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.stats.permutation import mean_pass_at_k, sign_flip
from reflexion_lab.cli.main import main
from reflexion_lab.notebook.frames import load
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

RIGHT, WRONG = (1.0, True), (0.0, False)
BASE = {f"t{i:02}": [RIGHT] if i < 12 else [WRONG, RIGHT] if i < 18 else [WRONG, WRONG] for i in range(40)}
WORDS = {f"t{i:02}": [RIGHT] if i < 12 else [WRONG, RIGHT] if i < 30 else [WRONG, WRONG] for i in range(40)}


def twice(verdicts):
    """Every task a second time, with the same outcome."""
    return {f"{task}{copy}": history for task, history in verdicts.items() for copy in ("", "-again")}


TWINS = {task: task.removesuffix("-again") for task in twice(BASE)}


def compared(run, verdicts_of, clusters, seeds=(1, 2)):
    """Two arms over these seeds."""
    every = (("feedback_only", BASE), ("words", WORDS))
    return arms([run(arm, verdicts_of(table), seed, clusters=clusters) for arm, table in every for seed in seeds])


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_a_task_and_its_copy_count_as_one(run, seeds):
    single = compare(compared(run, dict, None, seeds)).rows[1]
    double = compare(compared(run, twice, TWINS, seeds)).rows[1]
    assert [row.number(unit) for row in (single, double) for unit in ("tasks", "clusters")] == [40, 40, 80, 40]
    for before, after in zip(single.differences.values(), double.differences.values(), strict=True):
        assert (after.n, after.tasks, after.clusters) == (2 * before.n, 80, 40)
        figures = ("value", "low", "high", "p_tasks", "minimum")
        assert [getattr(after, name) for name in figures] == [getattr(before, name) for name in figures]
        assert "clusters" in after.method and "tasks" not in after.method
    if len(seeds) > 1:
        shares = ([row.first, row.final, row.metrics["repair"]] for row in (single, double))
        assert len({tuple((share.value, share.low, share.high) for share in each) for each in shares}) == 1


def test_tasks_taken_alone_have_a_narrower_interval(run):
    alone, clustered = (compare(compared(run, twice, clusters)).rows[1] for clusters in (None, TWINS))
    assert alone.number("clusters") == 80
    width, wider = (row.differences["as_run"].high - row.differences["as_run"].low for row in (alone, clustered))
    assert wider > 1.3 * width
    assert clustered.differences["as_run"].p_tasks > alone.differences["as_run"].p_tasks


def test_figures_of_an_arm_are_over_clusters(run):
    single, double = (compared(run, *how)[1] for how in ((dict, None), (twice, TWINS)))
    assert double.share_method == "adjusted t over clusters"
    assert per_solved(double, "tokens") == per_solved(single, "tokens")
    curves = [[(point.low, point.high) for point in Curve.over(arm).points] for arm in (single, double)]
    assert curves[0] == curves[1]
    repair, of_copies = (transitions(arm).programs[0].repair for arm in (single, double))
    assert (of_copies.low, of_copies.high, of_copies.n) == (repair.low, repair.high, 2 * repair.n)


def test_one_run_is_over_clusters_in_its_summary_and_page(run, capsys):
    single, double = (run("words", verdicts, clusters=of) for verdicts, of in ((WORDS, None), (twice(WORDS), TWINS)))
    logs = [Log.read(folder) for folder in (single, double)]
    alone, shared = (metrics.pass_at_1(log) for log in logs)
    assert (alone.method, shared.method, shared.n) == ("Wilson", "over 40 clusters", 80)
    outcomes = [[verdicts[-1][1]] * 2 for _, verdicts in sorted(WORDS.items())]
    assert (shared.low, shared.high) == (interval(outcomes).low, interval(outcomes).high)
    before, after = (metrics.against_attempt_1(log) for log in logs)
    assert (after.low, after.high, after.p) == pytest.approx((before.low, before.high, before.p))
    assert logs[1].points[-1].low == shared.low
    assert main(["show", str(double.path), "--full"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "over 40 clusters 95 %" in text and "shares in %, 95 %: adjusted t over clusters" in text


def test_seeds_that_draw_other_tasks_have_wilsons_interval_under_its_name(run):
    arm = Arm(
        "words", [Log.read(run("words", {f"{task}/{seed}": WORDS[task] for task in WORDS}, seed)) for seed in (1, 2)]
    )
    final, expected = arm.share(arm.verdicts()), Rate.of(60, 80)
    assert (arm.share_method, final.low, final.high) == ("Wilson", expected.low, expected.high)


@pytest.mark.parametrize(
    ("units", "others", "cell", "line"),
    [
        (2, 1, "none: 2 clusters", "TOO FEW: 2 clusters cannot show a difference: at least 6 are needed"),
        (6, 2, "none: 6 clusters", "TOO FEW: 6 clusters cannot show a difference: at least 7 are needed for 2 arms"),
        (6, 1, "29.3", ""),
        (0, 1, "none: 4 tasks", "TOO FEW: 4 tasks cannot show a difference: at least 6 are needed"),
    ],
)
def test_a_design_that_can_show_no_difference_says_so_and_has_no_effect_to_detect(
    run, capsys, tmp_path, units, others, cell, line
):
    of = {task: f"family {place % units}" for place, task in enumerate(BASE)} if units else None
    tables = [("feedback_only", BASE), *((f"words-{number}", WORDS) for number in range(others))]
    tables = tables if units else [(arm, dict([*table.items()][16:20])) for arm, table in tables]
    runs = [str(run(arm, table, seed, clusters=of).path) for arm, table in tables for seed in (1, 2)]
    assert main(["compare", *runs]) == 0
    screen = capsys.readouterr().out
    assert (cell in screen or others > 1) and line in screen and ("TOO FEW" in screen) is bool(line)
    assert ("size < " in screen) is not bool(line)
    assert main(["report", *runs, "--out", str(tmp_path / "out")]) == 0
    assert f"| {cell} | {'undecided' if line else 'not detected'}" in (tmp_path / "out" / "report.md").read_text()
    capsys.readouterr()
    assert main(["compare", *runs, "--json"]) == 0
    each, *_ = (each for each in json.loads(capsys.readouterr().out)["lines"] if each.get("budget") == "as_run")
    assert each["verdict"].startswith("undecided") is bool(line)


def test_frames_name_the_cluster_of_every_task(run):
    frames = load(run("words", {"a": [WRONG, RIGHT], "b": [RIGHT]}, clusters={"a": "family"}))
    assert frames.tasks.cluster.tolist() == ["family", "b"]
    assert frames.attempts.cluster.tolist() == ["family", "family", "b"]


def test_an_arm_without_clusters_takes_the_clusters_of_the_other(run):
    named, unnamed = (
        Arm(name, [Log.read(run(name, twice(verdicts), clusters=clusters))])
        for name, verdicts, clusters in (("words", WORDS, TWINS), ("feedback_only", BASE, None))
    )
    assert {each.clusters for row in compare([unnamed, named]).rows for each in row.differences.values()} == {40}


def test_rows_and_rates_of_tasks_that_stand_alone_are_sorted_by_id_and_wilsons():
    cases = [("b", 1.0), ("a", 0.0), ("b", 0.0), ("c", 1.0)]
    for clusters in (ALONE, {"a": "z", "b": "y", "c": "x"}):
        assert np.array_equal(by_cluster(cases, clusters), [[0, np.nan], [1, 0], [1, np.nan]], equal_nan=True)
    assert places("cab", {"c": "a"}) == {"a": 0, "b": 1, "c": 0}
    assert are_shared("abc", {"c": "a"}) and not are_shared("abc", {"c": "d"})
    assert merged({"a": "a", "b": "f"}, {"b": "b", "c": "f"}) == {"b": "f", "c": "f"}
    outcomes = [("a", True), ("b", False), ("c", None), ("d", True)]
    assert rate(outcomes) == rate(outcomes, {"a": "x", "b": "y"}) == Rate.of(2, 3)
    assert rate(outcomes, {"c": "a"}) == Rate.of(2, 3)  # an unknown outcome is no case


def test_pairs_of_one_cluster_flip_together():
    rng = np.random.default_rng(3)
    first, second = (dict(zip("abcdefgh", rng.random(8) < share, strict=True)) for share in (0.2, 0.9))
    clusters = {"b": "a", "d": "c", "f": "e"}
    sides = [np.array([[s["a"], s["b"]], [s["c"], s["d"]], [s["e"], s["f"]]], float) for s in (first, second)]
    rows = [
        np.vstack([side, [[s["g"], np.nan], [s["h"], np.nan]]]) for side, s in zip(sides, (first, second), strict=True)
    ]
    pairs = paired(first, second, clusters)
    assert (pairs.low, pairs.high) == (difference(*rows).low, difference(*rows).high)
    assert pairs.p == sign_flip(*rows)


def test_pass_at_k_is_over_clusters():
    rng = np.random.default_rng(5)
    samples = [(4, int(c)) for c in rng.integers(0, 5, 30)]
    repeated = [sample for sample in samples for _ in range(2)]
    alone, doubled = mean_pass_at_k(samples, 2), mean_pass_at_k(repeated, 2, clusters=[n // 2 for n in range(60)])
    assert (doubled.value, doubled.low) == pytest.approx((alone.value, alone.low), abs=0.03)
    assert doubled.high - doubled.low > 1.2 * (mean_pass_at_k(repeated, 2).high - mean_pass_at_k(repeated, 2).low)


def test_effects_and_calibration_resample_clusters():
    rng = np.random.default_rng(6)
    after, base = ({(f"t{i:02}", n): bool(rng.random() < 0.5) for i in range(30)} for n in (1, 2))
    copies = [{**v, **{(f"{t}-again", n): passed for (t, n), passed in v.items()}} for v in (after, base)]
    twins = {f"t{i:02}-again": f"t{i:02}" for i in range(30)}
    assert effect(*copies, clusters=twins) == effect(after, base)
    few = {case: passed for case, passed in after.items() if case[0] < "t06"}
    copied = {case: passed for case, passed in copies[0].items() if case[0] < "t06"}
    own, other = effect(few, base), effect(copied, copies[1], clusters=twins)  # of clusters of two cases: Student's t
    assert other.value == own.value
    assert other.high - other.low > own.high - own.low
    forecasts = [Forecast(f"t{i}", float(rng.random()), bool(rng.random() < 0.5)) for i in range(20)]
    repeated = [f._replace(task_id=f"{f.task_id}{c}", cluster=f.task_id) for f in forecasts for c in "ab"]
    assert calibration(repeated).brier == pytest.approx(calibration(forecasts).brier)


def test_transfer_pairs_of_a_task_and_of_a_cluster_are_one_unit(run):
    folders = {
        name: [run(name, twice(verdicts), seed, clusters=TWINS) for seed in (1, 2)]
        for name, verdicts in (("words", WORDS), ("base", BASE))
    }
    against = transfer([r.path for r in folders["words"]], [r.path for r in folders["base"]]).against
    sides = [[[float(v[-1][1])] * 4 for _, v in sorted(table.items())] for table in (BASE, WORDS)]
    assert (against.solved.low, against.solved.high) == (difference(*sides).low, difference(*sides).high)
    assert against.solved.p == sign_flip(*sides)
    singles = {name: [run(name, table)] for name, table in (("words", WORDS), ("base", BASE))}
    single = transfer([r.path for r in singles["words"]], [r.path for r in singles["base"]]).against
    assert (against.attempts.n, single.attempts.n) == (80, 40)
    assert against.attempts.low == pytest.approx(single.attempts.low, abs=0.02)


def test_basics_names_templates_and_a_cluster_changes_no_digest():
    tasks = basics(seed=0, n=140)
    assert len({task.cluster_id for task in tasks}) == 138
    assert (tasks[0].cluster, tasks[138].cluster) == (tasks[138].cluster, tasks[0].cluster)
    alone = [replace(task, cluster="") for task in tasks]
    assert alone[0].cluster_id == alone[0].task_id
    assert Benchmark("basics", tuple(tasks)).digest == Benchmark("basics", tuple(alone)).digest


def test_a_row_of_ones_own_benchmark_names_its_cluster(tmp_path):
    def row(number, **fields):
        name = f"up_{number}"
        prompt, tests = f'def {name}(n):\n    """Return n + 1."""\n', [f"assert {name}(1) == 2"]
        own = {"task_id": f"own/{number}", "prompt": prompt, "entry_point": name}
        return (
            own | {"visible_tests": tests, "hidden_tests": tests, "canonical_solution": "    return n + 1\n"} | fields
        )

    rows = [row(1, cluster="up"), row(2, cluster="up"), row(3)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    options = ("model=simulated", "actor=single_shot", "benchmark=jsonl", "tracker=none", "quiet=true")
    paths = (f"benchmark.load.path={tmp_path / 'own.jsonl'}", f"run_root={tmp_path / 'runs'}")
    assert main(["run", *options, *paths]) == 0
    (folder,) = (tmp_path / "runs").glob("2*")
    recorded = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert {result["task_id"]: result["cluster"] for result in recorded} == {
        "own/1": "up", "own/2": "up", "own/3": "own/3",
    }  # fmt: skip
    assert json.loads((folder / "summary.json").read_text())["pass_at_1"]["units"] == "2 clusters"
    assert main(["verify", str(folder)]) == 0
