"""preset=jido by the command line: the critique loop, its initial candidate, what is shown of it, and its mistakes."""

import json
from itertools import groupby

import pytest
from msgspec.structs import replace

from reflexion_lab.cli import main as cli
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.lessons.mistakes import Mistakes, mistakes_of
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Episode
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from tests.builders import TABLES

WRONG, RIGHT = "\n    return None\n", "\n    return sum(x)\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run tasks by the command line; returns the attempts of each."""
    monkeypatch.chdir(tmp_path)

    def run(*words, reply=WRONG, n=1, **fields):
        rules = [*TABLES["rules of a critic"], {"when": "", "scope": "conversation", "reply": reply}]
        (tmp_path / "script.json").write_text(json.dumps(rules))
        rows = [
            {"task_id": f"t/{n}", "prompt": f'def f(x):\n    """Return the sum of list {n}."""\n', "entry_point": "f",
             "visible_tests": ["assert f([1]) == 1"], "hidden_tests": ["assert f([2]) == 2"], **fields}
            for n in range(n)
        ]  # fmt: skip
        (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
        small = ("model=scripted", "model.path=script.json", "benchmark=tasks.jsonl", "tracker=none", "quiet=true")
        assert cli.main(["run", "preset=jido", *small, "memory.shared.round_size=1", *words]) == 0
        return RunFolder(max((tmp_path / "runs").glob("*-jido-*"))).attempts

    return run


def test_initial_code_is_criticised_and_revised_in_attempt_1(run):
    given = "def f(x):\n    return x\n"
    (attempt,) = run(reply=RIGHT, initial_code=given)["t/0"]
    first, second = (work := attempt.trajectory).steps
    assert (first.program, first.critique.severity, first.usage.calls) == (given, 0.8, 0)
    assert "return sum(x)" in second.program
    assert (work.strategy, work.ended, attempt.evaluation.passed) == ("critique_revise", "low_severity", True)
    assert (attempt.usage["actor"].calls, attempt.usage["critic"].calls) == (1, 2)


def test_the_critic_of_initial_code_reads_mistakes_and_they_count_as_read(run):
    _, (first, *_) = run("memory.shared.shown.min_score=0", n=2, initial_code="def f(x):\n    pass\n").values()
    assert "Mistakes on similar tasks" in first.trajectory.steps[0].critique.messages[0].content
    assert len(first.recalled_mistakes) == 1 and first.recalled_mistakes[0] not in first.trajectory.left_out


def test_show_prints_drafts_with_severities_and_how_they_ended(run, capsys):
    (attempt, *_) = run(n=1)["t/0"]
    assert cli.main(["show", "--last", "t/0"]) == 0
    printed = capsys.readouterr().out
    drafts = [number for number, step in enumerate(attempt.trajectory.steps, 1) if step.critique]
    assert all(f"  draft {number}: severity 0.80" in printed for number in drafts)
    assert "improvement +0.00: nothing is returned" in printed
    assert f"  drafts ended: {attempt.trajectory.ended}" in printed


def test_the_mistakes_of_a_run_are_limited_by_a_key(run):
    for limit, known in ((1, 1), (1000, 3)):
        words = ("memory.shared.shown={mistakes: 9, min_score: 0}", f"memory.shared.max_mistakes={limit}", "store=none")
        *_, (last, *_) = run(*words, n=4).values()
        assert len(last.recalled_mistakes) == known
    assert compose("memory.shared.max_mistakes=5").memory.shared.max_mistakes == 5
    with pytest.raises(ConfigError, match="max_mistakes"):
        check(RunConfig.of(compose("preset=jido", "memory.shared.max_mistakes=0")))


def test_mistakes_twice_or_without_a_prompt_are_left_out_and_have_a_time(run, tmp_path):
    run()
    run()
    loops = groupby(opened(tmp_path / "runs" / "memory").read(Episode), key=lambda episode: episode.session_id)
    mistakes = [mistake for _, loop in loops for mistake in mistakes_of(list(loop))]
    assert len({entry.mistake_id for entry in mistakes}) == len(mistakes) == 2
    assert all(entry.timestamp > 1.7e9 for entry in mistakes)
    memory = Mistakes(Jaccard())
    memory.extend([*mistakes, *mistakes, replace(mistakes[0], mistake_id="another", prompt=" ")])
    assert len(memory) == 2
