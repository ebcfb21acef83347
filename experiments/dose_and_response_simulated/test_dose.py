"""Dose and response: cases by the truth of their words, and a planted curve that the pipeline recovers."""

import csv
from pathlib import Path

import pytest

from experiments._tools.dose import PLANTED, cases_of, main, read, table
from experiments.dose_and_response_simulated.analysis import held, rows_of
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import finish

FOLDER = Path(__file__).parent
FOLDERS = "hydra.searchpath=[file://experiments/oracle_words/conf,file://experiments/dose_and_response_simulated/conf]"
CURVE = {"none": 0.2, "true": 0.6, "wrong": 0.1}


ARMS = {
    "feedback_only": ({"none"},),
    "oracle_words": ({"true"},),
    "quoted": ({"true"},),
    "corrupted_sweep": ({"true", "wrong"}, "reflector.share=0.5"),
}
"""By experiment, the words that its retries read, and its overrides."""


@pytest.mark.slow
def test_the_pipeline_recovers_the_planted_curve(tmp_path, capsys):
    """From runs of a simulated student on 100 tasks."""
    cases, paths = [], []
    for experiment, (words, *overrides) in ARMS.items():
        cfg = compose(
            FOLDERS, f"experiment={experiment}", "model=simulated_student", "actor=single_shot", "benchmark.load.n=100",
            "loop.max_attempts=2", "loop.reflect_on_last=false", "tracker=none", "quiet=true",
            f"run_root={tmp_path / 'runs'}", *overrides,
        )  # fmt: skip
        lab = assemble(cfg)
        finish(lab)
        own = list(cases_of(Log.read(lab.folder)))
        assert {case.words for case in own} == words, experiment
        cases += own
        paths.append(str(lab.folder.path))
    rows = table(cases, CURVE)
    assert {row["name"] for row in rows if row["by"] == "words"} == set(PLANTED)
    assert {row["dose"] for row in rows} == {"", 0.0, 0.5}
    for row in rows:
        assert row["n"] >= 25
        assert row["low"] <= row["planted"] <= row["high"], row
        assert row["high"] - row["low"] < 0.45
    assert main([*paths, "--planted", "0.2", "0.6", "0.1", "--out", str(tmp_path)]) == 0
    assert "Dose and response" in capsys.readouterr().out
    with (tmp_path / "table.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [{key: str(value) for key, value in row.items()} for row in rows] == written
    assert table(read(tmp_path / "cases.csv"), CURVE) == rows
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_the_published_intervals_hold_the_planted_curve():
    rows = rows_of(FOLDER)
    assert {row["dose"] for row in rows} == {"", 0.0, 0.25, 0.5, 0.75, 1.0}
    assert held(rows) == len(rows) == 9
    assert held(rows_of(FOLDER, early=True)) == 7
