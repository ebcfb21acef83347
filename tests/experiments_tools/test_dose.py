"""Dose and response: cases by the truth of their words, and a planted curve that the pipeline recovers."""

import csv
from pathlib import Path

import pytest

from experiments._tools.dose import PLANTED, Case, cases_of, main, read, table
from experiments.dose_and_response_simulated.analysis import held, rows_of
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.studies.run import finish

FOLDER = Path(__file__).parents[2] / "experiments" / "dose_and_response_simulated"
CURVE = {"none": 0.2, "true": 0.6, "wrong": 0.1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs of a simulated student on 100 tasks, by arm."""
    root = tmp_path_factory.mktemp("dose")
    arms = {
        "feedback_only": (),
        "oracle_words": (),
        "quoted": (),
        "corrupted_sweep": ("reflector.share=0.5",),
    }
    folders = {}
    for experiment, overrides in arms.items():
        cfg = compose(
            f"experiment={experiment}", "model=simulated_student", "actor=single_shot", "benchmark.load.n=100",
            "loop.max_attempts=2", "loop.reflect_on_last=false", "tracker=none", "quiet=true", f"run_root={root}",
            *overrides,
        )  # fmt: skip
        lab = assemble(cfg)
        finish(lab, cfg)
        folders[experiment] = lab.folder
    return folders


def test_each_case_names_the_words_that_it_read(runs):
    kinds = {name: {case.words for case in cases_of(Log.read(folder))} for name, folder in runs.items()}
    assert kinds == {
        "feedback_only": {"none"}, "oracle_words": {"true"}, "quoted": {"true"}, "corrupted_sweep": {"true", "wrong"},
    }  # fmt: skip


def test_the_pipeline_recovers_the_planted_curve(runs):
    cases = [case for folder in runs.values() for case in cases_of(Log.read(folder))]
    rows = table(cases, CURVE)
    assert {row["name"] for row in rows if row["by"] == "words"} == set(PLANTED)
    assert {row["dose"] for row in rows} == {"", 0.0, 0.5}
    for row in rows:
        assert row["n"] >= 25
        assert row["low"] <= row["planted"] <= row["high"], row
        assert row["high"] - row["low"] < 0.45


def test_a_dose_weighs_the_planted_shares():
    cases = [Case("corrupted", 0.25, 0, f"t{i}", "wrong" if i < 2 else "true", i > 2) for i in range(8)]
    (row, *_) = table(cases, CURVE)
    assert (row["n"], row["repaired"], row["planted"]) == (8, 5, 0.475)


def test_the_command_writes_cases_table_and_figure(runs, tmp_path, capsys):
    paths = [str(folder.path) for folder in runs.values()]
    assert main([*paths, "--planted", "0.2", "0.6", "0.1", "--out", str(tmp_path)]) == 0
    assert "Dose and response" in capsys.readouterr().out
    with (tmp_path / "table.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    computed = table(read(tmp_path / "cases.csv"), CURVE)
    assert [{key: str(value) for key, value in row.items()} for row in computed] == written
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_the_published_intervals_hold_the_planted_curve():
    rows = rows_of(FOLDER)
    assert {row["dose"] for row in rows} == {"", 0.0, 0.25, 0.5, 0.75, 1.0}
    assert held(rows) == len(rows) == 9
    assert held(rows_of(FOLDER, early=True)) == 7
