"""`reflexion-lab power`: the answer first, in one screen."""

import json

import pytest

from reflexion_lab.analysis.stats.power import Design, detectable, detected, equivalent
from reflexion_lab.cli.main import main


def test_it_says_what_a_design_detects_and_how_often_a_difference(capsys):
    sizes = ["--tasks", "40", "--seeds", "2", "--discordance", "0.3", "--studies", "200"]
    assert main(["power", *sizes, "--difference", "0.2"]) == 0
    design = Design(tasks=40, seeds=2, discordance=0.3)
    least = detectable(design, studies=200)
    share = detected(Design(tasks=40, seeds=2, discordance=0.3, difference=0.2), 200)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"detectable difference: {100 * least:.1f} points, by 80 % of studies of 40 tasks x 2 seeds"
    assert second.startswith(f"20.0 points: detected by {100 * share.share:.1f} % [")
    assert third == "200 simulated studies each; discordance 30 %, agreement of seeds 50 %"
    assert main(["power", *sizes, "--difference", "0.2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["detectable"], answer["detected"]["k"], answer["design"]["tasks"]) == (least, share.k, 40)


def test_a_margin_is_judged_before_the_study(capsys):
    sizes = ["--tasks", "40", "--discordance", "0.3", "--studies", "200", "--margin", "0.2"]
    assert main(["power", *sizes]) == 0
    inside = equivalent(Design(tasks=40, seeds=1, discordance=0.3), 0.2, 200)
    line = f"margin of 20 points: a true difference of 0 lies within it in {100 * inside.share:.1f} % ["
    assert line in capsys.readouterr().out
    assert main(["power", *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inside_margin"]["k"] == inside.k > 0


def test_clusters_of_tasks_are_part_of_the_design(capsys):
    sizes = ["--tasks", "40", "--clusters", "20", "--cluster-agreement", "0.8", "--discordance", "0.3"]
    assert main(["power", *sizes, "--studies", "100"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    least = detectable(Design(tasks=40, seeds=1, discordance=0.3, clusters=20, cluster_agreement=0.8), studies=100)
    points = "none" if least is None else f"{100 * least:.1f} points"
    assert f"detectable difference: {points}, by 80 % of studies of 40 tasks in 20 clusters x 1 seed" in text
    assert "of a cluster's tasks 80 %" in text


def test_clusters_too_few_for_any_difference_are_named(capsys):
    assert main(["power", "--tasks", "100", "--clusters", "5", "--discordance", "0.2", "--comparisons", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("detectable difference: none, ")
    assert "\n5 clusters cannot show a difference: at least 7 are needed\n" in text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--discordance", "1.5", "discordance: got 1.5"), ("--clusters", "41", "clusters: got 41"),
        ("--power", "1", "power: got 1.0"), ("--studies", "0", "studies: got 0"),
        ("--difference", "0.9", "difference: got 0.9"),
    ],
)  # fmt: skip
def test_what_no_design_can_have_is_named(option, value, message, capsys):
    assert main(["power", "--tasks", "40", "--discordance", "0.3", option, value]) == 2
    assert message in capsys.readouterr().err
