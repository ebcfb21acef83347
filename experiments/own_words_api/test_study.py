"""The study from registration to verdict through the command line, against the stand-in for the hosted model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.own_words_api.stub import Stub
from reflexion_lab.runner.folder.registration import read

ROOT = Path(__file__).parents[2]
STUDY = Path(__file__).with_name("study.yaml")
TASKS, SLOTS = 12, 4
KEY = "rehearsal-0123456789-abcdef"


@pytest.fixture
def stub():
    with Stub() as server:
        yield server


@pytest.fixture
def lab(stub, tmp_path):
    """Starts the command line in the project's folder, as a user does."""
    places = {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": KEY, "NO_PROXY": "*", "COVERAGE_PROCESS_START": ""}
    environment = os.environ | places | {"COLUMNS": "160", "PYTHONWARNINGS": "ignore"}

    def start(*words):
        command = [sys.executable, "-m", "reflexion_lab", *map(str, words)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **streams)

    def run(*words, code=0):
        process = start(*words)
        printed, problems = process.communicate(timeout=1200)
        assert process.returncode == code, problems
        return printed

    run.start = start
    return run


def small(path):
    """The study on few tasks, with prices of its own since the address is not OpenAI's."""
    text = STUDY.read_text(encoding="utf-8")
    for pattern, new in (
        ("tracker=none", "tracker=none quiet=true model.price_per_million=[0.5,1.5]"),
        ("benchmark=humaneval", f"benchmark=humaneval benchmark.limit={TASKS}"),
        ("n_tasks: 164", f"n_tasks: {TASKS}"), ("minimum_detectable_effect: 0.07", "minimum_detectable_effect: 0.9"),
        ("discordance: 0.1\n", "discordance: 0.9\n"),
    ):  # fmt: skip
        assert pattern in text
        text = text.replace(pattern, new)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_study_registers_without_a_key_from_the_folder_of_the_repository(tmp_path, lab, monkeypatch):
    copy = tmp_path / "study.yaml"
    copy.write_text(STUDY.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "reflexion_lab", "study", "register", copy]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    study = read(copy)
    assert study.registered.power > 0.85
    assert study.registered.config["fingerprint of actor"].endswith("/v1:gpt-3.5-turbo-0125=unasked")
    parts = study.registered.arms["oracle_words"].config["sources of user-defined parts"]
    assert "experiments.own_words_api.behaviour" in parts


@pytest.mark.slow
def test_the_whole_study_runs_against_a_model_that_behaves_like_a_hosted_one(stub, lab, tmp_path):
    study, root = small(tmp_path / "study.yaml"), tmp_path / "runs"
    assert "registered: own_words_api" in lab("study", "register", study)
    expected = lab("estimate", "--study", study, "--tasks", TASKS, "--json", f"run_root={root}")
    expected = json.loads(expected.splitlines()[-1])
    assert expected["to_pay"]["calls"]["mean"] == 0
    paid = stub.requests.total()
    (root / "calls.sqlite").rename(tmp_path / "probe.sqlite")
    stub.requests.clear()

    command = ("study", "run", study, f"run_root={root}", f"workers={SLOTS}")
    process = lab.start(*command)
    deadline = time.monotonic() + 600
    while stub.requests.total() < paid // 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    lab(*command)
    twice = {digest: count for digest, count in stub.requests.items() if count > 1}
    assert sum(count - 1 for count in twice.values()) <= SLOTS  # those under way when it was killed
    assert len(stub.requests) == paid  # neither a call more nor less than the estimate of all tasks
    assert stub.busy > 0

    runs = sorted(root.glob("2*"))
    checked = " ".join(lab("study", "check", study, *runs).split())
    assert "18 registered and 0 exploratory runs, nothing is missing" in checked
    counted = int(re.search(r"tokens: ([\d,]+) of", checked)[1].replace(",", ""))
    assert counted == expected["apart"]["tokens"]["mean"]
    comparison = json.loads(lab("compare", *runs, "--json").splitlines()[-1])
    assert comparison["baseline"] == "feedback_only"
    differences = [line for line in comparison["lines"] if line.get("budget") == "equal_attempts"]
    assert {line["arm"] for line in differences} >= {"reflexion", "length_matched", "retry"}
    assert not any(line["exploratory"] for line in differences if line["metric"] == "pass_at_1_equal_attempts")
    lab("report", "--out", tmp_path / "report", *runs)
    assert (tmp_path / "report/cases.csv").exists()
    assert KEY not in "".join(path.read_text(errors="replace") for path in root.rglob("*.json*"))
