"""`compare` and `report` from Python are what the commands of these names say and write."""

import csv
import io
import json

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.notebook.compare import compare, report
from tests.analysis.conftest import BASE, RIGHT, WORDS, WRONG, run_writer

EVIL = "<script>alert(1)</script>\u202e"


@pytest.fixture
def four(write_run, tmp_path):
    write = run_writer(write_run, tmp_path)
    return [write(arm, verdicts, s) for arm, verdicts in (("feedback_only", BASE), (EVIL, WORDS)) for s in (7, 8)]


def test_the_table_is_that_of_the_command(four, tmp_path):
    comparison = compare(tmp_path / "run *", baseline="feedback_only")
    assert main(["compare", *(str(run.path) for run in four), "--csv", str(tmp_path / "t.csv")]) == 0
    written = list(csv.DictReader((tmp_path / "t.csv").open()))
    again = list(csv.DictReader(io.StringIO(comparison.table.to_csv(index=False))))
    assert [row.keys() for row in again] == [row.keys() for row in written]
    for ours, theirs in zip(again, written, strict=True):
        for name in ours:
            assert ours[name] == theirs[name] or float(ours[name]) == float(theirs[name]), name
    table = comparison.table[comparison.table.metric == "pass_at_1"]
    assert table[table.budget == "as_run"].value.tolist() == [0.25] and table.detected.isna().sum() == 2


def test_pass_at_k_draws_the_first_attempts_of_the_seeds(write_run, tmp_path, capsys):
    both, none = {"a": [RIGHT], "b": [WRONG, RIGHT]}, {"a": [WRONG, RIGHT], "b": [WRONG]}
    first = {7: both, 8: none, 9: both}
    folders = [write_run(verdicts, seed=seed, name=str(seed)) for seed, verdicts in first.items()]
    comparison, runs = compare(folders), [str(folder.path) for folder in folders]
    assert [comparison.pass_at_k(k).pass_at_k[0] for k in (1, 2, 3)] == pytest.approx([1 / 3, 1 / 2, 1 / 2])
    (row,) = comparison.pass_at_k(2).to_dict("records")
    assert row["low"] <= row["pass_at_k"] <= row["high"]
    with pytest.raises(ValueError, match="k: got 4 of n = 3"):
        comparison.pass_at_k(4)
    assert main(["compare", *runs, "--pass-at", "2"]) == 0
    text = f"{100 * row['pass_at_k']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
    assert text in capsys.readouterr().out
    assert main(["compare", *runs, "--pass-at", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["pass_at"][row["arm"]]["value"] == row["pass_at_k"]


def test_it_shows_warnings_first_and_obeys_nobodys_name(four):
    comparison = compare(four[0], four[2])
    html, text = comparison._repr_html_(), repr(comparison)
    assert comparison.warnings
    for view in (html, text):
        assert view.index("ONE SEED") < view.index("Repairs and feedback errors")
        assert "\u202e" not in view
    assert "<script" not in html and "&lt;script&gt;" in html
    assert [sheet.title for sheet in comparison.sheets][:2] == ["pass@1", "Difference to feedback_only"]


def test_what_cannot_be_compared_is_said(four, tmp_path):
    with pytest.raises(ValueError, match="baseline: got 'nobody'"):
        compare(four, baseline="nobody")
    with pytest.raises(ValueError, match=r"by: got 'recall\.omga', expected a config key of a run"):
        compare(four, by="recall.omga")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        report(four, out=tmp_path / "file")
    with pytest.raises(ValueError, match="figures: got 'jpg', expected one of png, svg, pdf"):
        report(four, out=tmp_path / "none", figures="jpg")
    assert not (tmp_path / "none").exists()
    with pytest.raises(FolderError, match=r"no manifest\.json"):
        compare(tmp_path / "nothing*")
