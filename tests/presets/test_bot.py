"""What the bot's document promises, through the user's door."""

import reflexion_lab as rl
from reflexion_lab.cli.main import main

SMALL = ("preset=bot", "model=simulated", "model.first=0", "model.repair=0", "benchmark.load.n=2", "tracker=none")


def prompts(run):
    return [
        [attempt.trajectory.messages[-1].content for attempt in run.attempts(task)] for task in sorted(run.task_ids)
    ]


def test_a_second_run_reads_the_session_that_the_first_one_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (rl.run(*SMALL, "actor=single_shot", quiet=True) for _ in range(2))
    for (*_, last), (again, after, *_) in zip(prompts(first), prompts(second), strict=True):
        lines = [line for line in last.splitlines() if line.startswith(("Parts: ", "Previous trajectory: "))]
        assert len(lines) == 2
        assert {*lines, "Progress: no better than the attempt before"} < {*again.splitlines()}
        assert "Issues: assert " in again
        assert "Progress: no better than the attempt before" in after  # than the last of the run before
    assert main(["bundle", str(second.path), "-o", "second.zip"]) == main(["replay", "second.zip"]) == 0
