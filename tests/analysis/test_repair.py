"""Repair trees read from runs, and what `reflexion-lab tree` says of them."""

import csv
import json

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.analysis.figures.drawing import on_axes, save
from reflexion_lab.analysis.figures.trees import drawing
from reflexion_lab.analysis.learning.repair import repair
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import DataError
from reflexion_lab.records import Usage

R, W = (1.0, True), (0.0, False)
ACCEPTED, REJECTED = (1.0, False), (0.0, True)
"""A wrong program that passes its feedback, a right one that fails."""
EASY = [R, W, R, W, R]
"""Three draws, of which the second fails; its two repairs."""
HARD = [W, W, ACCEPTED, W, R, W, W]
TABLE = {f"easy{i}": EASY for i in range(6)} | {f"hard{i}": HARD for i in range(6)}
PARENTS = {"easy": (0, 0, 0, 2, 2), "hard": (0, 0, 0, 1, 1, 2, 2), "chain": (0, 1, 2)}


def parented(attempt, parents=PARENTS):
    own = parents[attempt.task_id.rstrip("0123456789")]
    shared = {"usage": Usage(calls=1, prompt_tokens=12), "others": {"critic": Usage(calls=1, prompt_tokens=8)}}
    parent = own[attempt.number - 1]
    memory, trajectory = replace(attempt.memory, own=int(parent > 0)), replace(attempt.trajectory, **shared)
    return replace(attempt, parent=parent, trajectory=trajectory, memory=memory)


@pytest.fixture
def answered(make_arm):
    def answered(*tables, change=parented, **options):
        arm = make_arm(*tables or (TABLE,), change=change, **options)
        return repair(arm), arm

    return answered


def test_a_run_of_trees_has_the_curves_of_its_draws_and_repairs(answered):
    answer, _ = answered()
    assert (answer.n, answer.repairs, answer.left_out) == (12, 2, 0)
    draws, spots = answer.curves.draws, {(spot.programs, spot.repairs): spot for spot in answer.curves.spots}
    # a draw takes 20 tokens, a reflection 7, a repair 20; one of three easy draws is repaired, two of three hard ones
    assert [spot.tokens for spot in draws] == pytest.approx([20, 40, 60])
    assert spots[1, 1].tokens == pytest.approx(20 + 0.5 * (7 + 20)) and spots[2, 2].tokens == pytest.approx(2 * 43.5)
    assert [spot.pass_at_t.value for spot in draws] == pytest.approx([1 / 3, 1 / 2, 1 / 2])
    easy, hard = 1 - 1 / 3 / 2, 1 / 3 / 2
    assert spots[1, 1].pass_at_t.value == pytest.approx((easy + hard) / 2)
    assert spots[1, 2].pass_at_t.value == pytest.approx((1 + 1 / 3) / 2)
    assert answer.curves.headline == spots[1, 2]
    assert (answer.submitted.k, answer.submitted.n) == (6, 12)
    assert (answer.stopped.k, answer.stopped.n) == (12, 12)
    assert answer.stopped_tokens == pytest.approx((20 + 20 + 7 + 20 + 20) / 2)


def test_the_trees_of_a_task_at_several_seeds_are_one_unit(answered):
    twice, arm = answered(TABLE, TABLE)
    assert twice.n == 24 and len(arm.seeds) == 2
    once, _ = answered()
    for one, two in zip(once.curves.spots, twice.curves.spots, strict=True):
        assert (one.pass_at_t, one.difference) == (two.pass_at_t, two.difference)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (
            {"chain1": [W, W, W]},
            "task chain1: got attempt 3, which continues attempt 2, a repair itself, .*repair_tree",
        ),
        ({"easy1": [R, R, R]}, "no repair of any program, .*policy=repair_tree"),
        (
            {"easy1": EASY, "easy2": EASY[:4]},
            "task easy2: got 3 programs, one with 1 repairs, .*3 with 2 each, as of policy=repair_tree",
        ),
        ({"easy1": EASY, "easy2": [R, R]}, "task easy2: got 2 programs"),
    ],
)
def test_a_run_of_another_form_is_refused(table, error, answered):
    with pytest.raises(DataError, match=error):
        answered(table)


def test_tasks_without_feedback_are_left_out_and_unknown_tokens_refused(answered):
    answer, _ = answered(TABLE | {"easy9": [(-1.0, True)]})
    assert (answer.n, answer.left_out) == (12, 1)

    def free(attempt):
        return replace(parented(attempt), trajectory=replace(attempt.trajectory, usage=Usage(calls=1)))

    with pytest.raises(DataError, match="unknown tokens"):
        answered(change=free)


def test_the_figure_has_draws_repairs_and_the_headline(answered, tmp_path):
    answer, arm = answered()
    axes = on_axes(drawing(answer, arm))
    lines = {line.get_gid() or line.get_label(): line for line in axes.lines}
    assert list(lines["draws"].get_xdata()) == pytest.approx([20, 40, 60])
    assert list(lines["2 repairs of each failed program"].get_ydata()) == pytest.approx([2 / 3, 5 / 6, 1])
    assert lines["headline"].get_xdata() == [answer.curves.headline.tokens]
    rows = list(csv.DictReader(save(tmp_path, drawing(answer, arm)).table.open()))
    assert len(rows) == 3 + 2 * 3 and float(rows[0]["pass_at_t"]) == pytest.approx(1 / 3)


@pytest.fixture
def folder(run, records):
    attempts = {task_id: [parented(each) for each in own] for task_id, own in records(TABLE)[0].items()}
    return run("trees", TABLE, attempts=attempts).path


def test_the_command_answers_first_within_one_screen(folder, tmp_path, capsys):
    assert cli.main(["tree", str(folder), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out.pop(2).endswith(" tokens a task, the largest common budget, with 95 % intervals:")
    assert out[:5] == [
        "trees · n = 12 trees of 3 programs, 2 repairs of each that failed",
        "pass@t: any program passes its hidden tests, an upper bound of what is submitted",
        "  1 program, 2 repairs  66.7 [42.3, 87.1] %",
        "  2.2 independent draws  50.0 [25.0, 74.5] %",
        "  difference  +16.7 [-7.2, +37.2] points: not decided",
    ]
    assert any(line.startswith("upper bound (stops on hidden tests): 100.0 [75.8, 100.0] %, 44 tok") for line in out)
    assert len(out) < 15 and all(len(line) <= 80 for line in out[:-1])  # the last one is a path
    assert (tmp_path / "out" / "tree.png").is_file() and (tmp_path / "out" / "tree.csv").is_file()
    assert cli.main(["tree", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["n"] == 12 and len(document["curves"]["spots"]) == 6
    assert document["curves"]["headline"]["break_even"]["value"] is None


def test_runs_of_several_arms_or_of_chains_are_refused(folder, run, tmp_path, capsys):
    other = run("chains", {"a": [W, W, R]}).path
    assert cli.main(["tree", str(folder), str(other)]) == 2
    assert "RUN: got 2 arms: trees, chains, expected runs of one arm" in capsys.readouterr().err
    assert cli.main(["tree", str(other)]) == 2
    assert "expected fresh draws and repairs of them, as of policy=repair_tree" in capsys.readouterr().err


def test_a_simulated_student_passes_as_often_as_its_rates_say(tmp_path, capsys):
    first, again, n_p, n_r = 0.2, 0.25, 4, 2
    student = ["model=simulated", "model.spread=0", f"model.first={first}", f"model.repair={again}", "temperature=0.8"]
    tree = ["policy=repair_tree", f"policy.programs={n_p}", f"policy.repairs={n_r}", "loop.timeout=3600"]
    where = [f"run_root={tmp_path}", "tracker=none", "benchmark.load.n=30"]
    rl.run([*student, *tree, *where], quiet=True)
    assert cli.main(["tree", str(tmp_path), "--json"]) == 0
    curves = json.loads(capsys.readouterr().out.splitlines()[-1])["curves"]
    assert len(curves["draws"] + curves["spots"]) == n_p * (1 + n_r)
    for spot in curves["draws"] + curves["spots"]:
        known = 1 - ((1 - first) * (1 - again) ** spot["repairs"]) ** spot["programs"]
        assert spot["pass_at_t"]["low"] <= known <= spot["pass_at_t"]["high"], spot
    assert cli.main(["show", str(tmp_path)]) == 0
    assert "BLIND" not in (screen := capsys.readouterr().out) and "reflexion-lab tree " in screen
