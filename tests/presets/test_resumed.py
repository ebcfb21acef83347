"""A second run of each preset that was cut off, as by a kill, and resumed."""

import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from tests.presets.test_choices import PRESETS

SMALL = ("model=simulated", "model.first=0.2", "model.repair=0.3", "benchmark.limit=6", "tracker=none")


def read(run):
    """Prompt and recalled items of each attempt, by task and number."""
    attempts = [attempt for task in run.task_ids for attempt in run.attempts(task)]
    return {(a.task_id, a.number): (a.trajectory.messages, a.recalled, a.recalled_wisdom) for a in attempts}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.filterwarnings("ignore:torn lines")
def test_a_second_run_that_is_cut_off_and_resumed_reads_what_the_whole_one_read(tmp_path, monkeypatch, preset):
    monkeypatch.chdir(tmp_path)
    _, whole = (rl.run(*SMALL, f"preset={preset}", quiet=True) for _ in range(2))
    expected, folder = read(whole), whole.path
    text = (folder / "attempts.jsonl").read_text()
    for path in folder.iterdir():
        if path.name not in ("manifest.json", "memory.json", ".lock"):
            path.unlink()
    (folder / "attempts.jsonl").write_text(text[: len(text) // 2])
    resumed = rl.run(*SMALL, f"preset={preset}", f"resume={folder}", quiet=True)
    assert read(resumed) == expected
    assert main(["verify", str(folder)]) == 0
