"""Success by trial: the published curves, and logs that cannot be believed."""

import csv
import json

import pytest

from experiments._tools.trials import main
from experiments._tools.trials_cases import read_cases, write_cases
from experiments._tools.trials_report import as_rows
from reflexion_lab.audit.trials import pairings, read_trials

PUBLISHED = {
    "alfworld/reflexion_run_logs": [84, 103, 111, 113, 117, 118, 123, 126, 128, 129, 130, 130, 131, 133, 134],
    "alfworld/base_run_logs": [84, 94, 97, 98, 100, 101, 101],
    "webshop/reflexion_run_logs_1": [33, 33, 34, 35],
    "webshop/reflexion_run_logs_2": [33, 35, 35, 35],
    "webshop/base_run_logs_2": [33, 34, 34, 34],
    "webshop/base_run_logs_1": [31],
}
UNSOLVED = json.dumps([{"name": name, "is_success": False} for name in "abcd"])


@pytest.fixture
def log(tmp_path):
    """Writes one file a trial: which environments are solved by then."""

    def log(*trials, name="run", world="world"):
        folder = tmp_path / world / name
        folder.mkdir(parents=True)
        for number, solved in enumerate(trials):
            rows = [{"name": env, "memory": [], "is_success": env in solved} for env in "abcd"]
            (folder / f"env_results_trial_{number}.json").write_text(json.dumps(rows))
        return folder

    return log


def test_the_published_curves_come_out_of_the_logs(recorded_runs):
    trials = read_trials([recorded_runs / "trials"])
    assert {run.label: [rate.k for rate in run.curve] for run in trials} == PUBLISHED
    assert all(len(run.solved) == (134 if run.world == "alfworld" else 100) for run in trials)
    result = {pairing.second: pairing for pairing in pairings(trials)}
    assert all(pairing.same_start for pairing in result.values())
    alfworld = result["alfworld/reflexion_run_logs"].by_trial
    assert [(pair.repaired, pair.damaged) for pair in alfworld][-1] == (23, 1)
    assert all(pair.low <= 0 <= pair.high for name in result if "webshop" in name for pair in result[name].by_trial)


def test_runs_are_paired_by_environment_at_common_trials(log, tmp_path):
    log("a", "ab", "abc", name="mine")
    log("b", "b", name="base")
    log("a", name="other", world="elsewhere")
    (pairing,) = pairings(read_trials([tmp_path]))
    assert (pairing.first, pairing.second, pairing.same_start) == ("world/base", "world/mine", False)
    assert [(pair.n, pair.repaired, pair.damaged) for pair in pairing.by_trial] == [(4, 1, 1), (4, 1, 0)]


@pytest.mark.parametrize(
    ("trial", "text", "message"),
    [
        (0, None, "got no env_results_trial_0.json"),
        (1, "{", "expected a list of objects"),
        (1, "[]", "expected each once, and one"),
        (1, '[{"name": "z", "is_success": true}]', "in one trial alone"),
        (1, UNSOLVED, "a unsolved, which was solved before"),
        (None, None, "got no env_results_trial_N.json"),
    ],
)
def test_a_log_that_cannot_be_believed_is_refused_by_file(log, trial, text, message):
    folder = log("a", "a")
    for number, path in enumerate(sorted(folder.iterdir())):
        if text is not None and number == trial:
            path.write_text(text)
        elif text is None and trial in (number, None):
            path.unlink()
    with pytest.raises(ValueError, match=message) as raised:
        read_trials([folder])
    assert str(folder) in str(raised.value)


def test_evidence_gives_the_same_rows_without_names(log, tmp_path):
    log("a", "ab", "abc", name="mine")
    log("b", "b", name="base")
    read = read_trials([tmp_path])
    (path,) = write_cases(read, tmp_path)
    assert list(as_rows(read_cases(tmp_path))) == list(as_rows(read))
    assert path.read_text().splitlines()[1:3] == ["world,base,1,2,", "world,base,2,2,1"]
    path.write_text("world,run\nworld,base\n")
    with pytest.raises(ValueError, match=r"got KeyError\('trials'\)"):
        read_cases(tmp_path)


def test_the_command_prints_curves_and_writes_figure_and_table(log, tmp_path, capsys):
    log("a", "ab", "abc", name="mine")
    log("a", "a", name="base")
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "world/mine: 1 2 3; 75.0 %" in output and "world/mine against world/base" in output
    rows = list(csv.DictReader((tmp_path / "out" / "trials.csv").open()))
    assert [(row["run"], row["trial"], row["solved"], row["gained"]) for row in rows][2:4] == [
        ("mine", "1", "1", "0"),
        ("mine", "2", "2", "1"),
    ]
    figure = (tmp_path / "out" / "trials.svg").read_text()
    assert figure.lstrip().startswith("<?xml")
