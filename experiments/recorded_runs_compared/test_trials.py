"""Success by trial: the published curves, and logs that cannot be believed."""

import csv
import json

import pytest

from experiments.recorded_runs_compared.trials import pairings, read_trials
from experiments.recorded_runs_compared.trials_cases import read_cases, write_cases
from experiments.recorded_runs_compared.trials_report import as_rows, main

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
    discordant = [(0, 0), (13, 4), (18, 4), (18, 3), (18, 1), (18, 1), (23, 1)]
    assert [(pair.repaired, pair.damaged) for pair in alfworld] == discordant
    assert [f"{pair.p:.1g}" for pair in alfworld[1:]] == ["0.05", "0.004", "0.001", "8e-05", "8e-05", "3e-06"]
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


HOTPOT = """
########################################
BEGIN TRIAL {number}
Trial summary: Correct: {correct}, Incorrect: {incorrect}
#######################################
------------- BEGIN CORRECT AGENTS -------------

{right}
------------- BEGIN INCORRECT AGENTS -----------

{wrong}
"""


def hotpot(tmp_path, name, *trials):
    """A text log: by trial, for each question its answer and whether it is right."""
    texts = []
    for number, answers in enumerate(trials, 1):
        agents = {True: [], False: []}
        for question, (answer, is_right) in answers.items():
            grade = "CORRECT" if is_right else "INCORRECT"
            hint = "You have attempted to answer following question before and failed." * (number > 1 and not is_right)
            lines = [f"Question: {question}?{hint}", f"Thought 1: {answer}", f"Observation 1: Answer is {grade}"]
            agents[is_right].append("\n".join([*lines, "Correct answer: x", ""]))
        right, wrong = ("\n".join(agents[side]) for side in (True, False))
        counts = {"correct": len(agents[True]), "incorrect": len(agents[False])}
        texts.append(HOTPOT.format(number=number, right=right, wrong=wrong, **counts))
    path = tmp_path / name
    path.write_text("".join(texts))
    return str(path)


def test_text_trials_are_paired_at_common_trials(tmp_path):
    failed = [{f"q{n}": (f"no {trial}", False) for n in range(12)} for trial in range(4)]
    right = {"q0": ("x", True)}
    base = hotpot(tmp_path, "a_base_run.txt", failed[0], failed[1], failed[1])
    learns = hotpot(tmp_path, "learns.txt", failed[0], failed[1] | right, failed[2] | right, failed[3] | right)
    trials = read_trials([base, learns])
    assert [str(run.repeats) for run in trials] == ["12 of 24", "0 of 33"]
    assert [run.repeats.is_fixed for run in trials] == [True, False]
    (pairing,) = pairings(trials)
    assert [pair.repaired for pair in pairing.by_trial] == [0, 1, 1]


@pytest.mark.parametrize(
    ("correct", "wrong", "message"),
    [
        (3, "", "got 1 transcripts of correct agents, expected 3, as its summary says"),
        (1, "Question: a\ny\n", "got a correct and a failed transcript of 'a'"),
    ],
)
def test_a_text_log_that_cannot_be_taken_apart_is_refused(tmp_path, correct, wrong, message):
    path = tmp_path / "log.txt"
    path.write_text(HOTPOT.format(number=1, correct=correct, incorrect=1, right="Question: a\nx\n", wrong=wrong))
    with pytest.raises(ValueError, match=f"trial 1: {message}"):
        read_trials([path])


HOTPOTQA = {
    "ReAct__base__100_questions_5": [34] * 5, "ReAct__reflexion__100_questions_5": [32, 42, 48, 50, 51],
    "ReAct__reflexion__100_questions_7": [32, 42, 48, 50, 51, 53, 53],
    "CoT__context__reflexion__100_questions_8": [61, 69, 69, 70, 72, 74, 75, 75],
    "CoT__no_context__base__100_questions_5": [32, 33, 33, 33, 33],
    "CoT__no_context__reflexion__100_questions_5": [32, 37, 40, 40, 40],
}  # fmt: skip


def test_the_papers_control_on_hotpotqa_cannot_change(recorded_runs):
    logs = recorded_runs / "trials" / "hotpotqa"
    runs = read_trials([logs / f"{name}_trials.txt.gz" for name in HOTPOTQA])
    assert [[rate.k for rate in run.curve] for run in runs] == [*HOTPOTQA.values()]
    assert [str(retries) for retries in runs[0].retries] == ["47 of 66", "49 of 66", "51 of 66", "56 of 66"]
    assert [run.repeats.is_fixed for run in runs] == [True, False, False, False, True, False]
    result = {pairing.second.rpartition("/")[2]: pairing for pairing in pairings(runs)}
    assert {name.partition("__")[0] for name in result} == {"ReAct", "CoT"} and len(result) == 3  # each by its strategy
    (cot,) = (pairing for name, pairing in result.items() if name.startswith("CoT"))
    assert (cot.first, cot.by_trial[-1].repaired, cot.by_trial[-1].damaged) == (runs[4].label, 8, 1)
