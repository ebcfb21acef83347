"""Every evaluator of the config folder works in a run, from the composition to the records."""

import json

import pytest

from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out

SCRIPT = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return undefined\n"},
]


@pytest.fixture
def overrides(tmp_path):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return [
        *("model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path / 'runs'}"),
        *("benchmark=basics", "benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true", "workers=2"),
    ]


def ran(tmp_path, *overrides):
    carry_out(compose(*overrides))
    (manifest,) = (tmp_path / "runs").glob("*/manifest.json")
    return RunFolder(manifest.parent)


def test_the_combined_reward_drives_a_loop(tmp_path, overrides):
    folder = ran(tmp_path, *overrides, "evaluator=combined")
    for first, second in folder.attempts.values():
        assert set(first.evaluation.components) == {"tests", "types", "lint"}
        assert (first.evaluation.passed, first.evaluation.components["lint"]) == (False, 0.0)
        assert "undefined" in first.evaluation.feedback
        assert first.evaluation.verification_type == "combined"
        assert second.stop_reason == "max_attempts"


@pytest.mark.parametrize(("evaluator", "kind"), [("lint", "lint"), ("type_check", "type")])
def test_a_tool_alone_drives_a_loop(tmp_path, overrides, evaluator, kind):
    folder = ran(tmp_path, *overrides, f"evaluator={evaluator}")
    for first, _ in folder.attempts.values():
        assert (first.evaluation.outcome, first.evaluation.verification_type) == ("fail", evaluator)
        assert {check.kind for check in first.evaluation.checks} == {kind}


def test_heuristics_are_no_feedback_and_get_one_attempt(tmp_path, overrides):
    folder = ran(tmp_path, *overrides, "evaluator=trajectory")
    assert [len(attempts) for attempts in folder.attempts.values()] == [1, 1, 1]
    for (attempt,) in folder.attempts.values():
        assert (attempt.stop_reason, attempt.evaluation.reward) == ("no_feedback", 0.99)


@pytest.mark.parametrize(("change", "message"), [
    (["evaluator=combined", "evaluator.tests_weight=-1"], "evaluator.tests_weight: got -1"),
    (["evaluator=lint", "evaluator.tool=flake9"], "evaluator.tool: got 'flake9'"),
    (["evaluator=trajectory", "evaluator.max_turns=-2"], "evaluator.max_turns: got -2"),
])  # fmt: skip
def test_an_invalid_value_is_refused_before_anything_is_written(tmp_path, overrides, change, message):
    with pytest.raises(ValueError, match=message):
        assemble(compose(*overrides, *change))
    assert not list(tmp_path.glob("runs/*/manifest.json"))


def test_every_evaluator_runs_under_the_limits_of_one_sandbox():
    names = sorted(path.stem for path in (CONF / "evaluator").glob("*.yaml"))
    assert {"combined", "lint", "trajectory", "type_check", "unit_tests"} <= set(names)
    cells = [compose("model=scripted", "model.path=x", f"evaluator={name}") for name in names]
    assert all("limits" not in cell.evaluator and cell.sandbox == cells[0].sandbox for cell in cells)
