from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import run_view as view
from reflexion_lab.studies.tracking.run_view import LONGEST_VALUE, params

Run = Callable[..., Path]


def manifest(path: Path) -> Manifest:
    return RunFolder.existing(path).manifest


def metrics_of(path: Path) -> dict[tuple[str, int], float]:
    log = Log.read(RunFolder.existing(path))
    return {(metric.name, metric.step): metric.value for metric in view.metrics(log, summary(log))}


def text(path: Path) -> str:
    log = Log.read(RunFolder.existing(path))
    return view.note(log, summary(log), path)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "reflexion a3 Ω1 s0 basics"),
        ({"arm": "simple", "seed": 4, "loop__max_attempts": 1}, "simple a1 s4 basics"),
        ({"feedback_source": "oracle"}, "reflexion oracle a3 Ω1 s0 ba"),
        ({"feedback_source": "oracle", "arm": "oracle"}, "oracle a3 Ω1 s0 basics"),
    ],
)
def test_a_name_begins_with_what_distinguishes_a_run(run: Run, values: dict[str, Any], name: str) -> None:
    assert view.run_name(manifest(run(**values, solved_at=(1, 0)))) == name


@pytest.mark.parametrize("arm", ["x", "x" * 20, "x" * 200])
def test_a_name_is_short_and_keeps_attempts_omega_and_seed(run: Run, arm: str) -> None:
    name = view.run_name(replace(manifest(run(arm=arm, seed=12)), benchmark="b" * 40))
    assert len(name) <= view.NAME_LENGTH
    assert " a3 Ω1 s12" in name


def test_params_are_dotted_keys_and_classes_of_groups(run: Run) -> None:
    figures = params(manifest(run(actor__prompt="p" * 9000)))
    expected = {
        "loop.max_attempts": "3", "recall.omega": "1", "recall.max_tokens": "600", "arm": "reflexion", "seed": "0",
        "actor.sampling.stop": '["\\ndef ", "#"]', "actor": "Continuation", "recall": "Window", "model": "OpenAIModel",
        "model.base_url": "http://host:8000/v1", "model.path": "tiny.gguf", "actor.prompt": "p" * LONGEST_VALUE,
    }  # fmt: skip
    assert {key: figures[key] for key in expected} == expected
    assert list(figures)[:3] == ["arm", "seed", "feedback_source"]


def test_secrets_folders_and_execution_settings_are_no_params(run: Run) -> None:
    figures = params(manifest(run()))
    assert not [key for key in figures if "key" in key or "secret" in key or "auth" in key or "_target_" in key]
    assert not [
        value for value in figures.values() if "hunter2" in value or "/home" in value or value == "abc-auth-token"
    ]
    assert not [key for key in figures if key.startswith(("tracker", "run_root", "sweep_id"))]
    assert "benchmark.ids" not in figures


def test_curves_have_the_attempt_as_step(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 2, 3, 0)))
    assert [figures["curve/pass_at_1", step] for step in (1, 2, 3)] == [0.25, 0.5, 0.75]
    assert [figures["curve/reward", step] for step in (1, 2, 3)] == [0.625, 0.75, 0.875]
    # 100 tokens an attempt and 10 a reflection: four attempts and three reflections at the first step
    assert [figures["usage/tokens_cum", step] for step in (1, 2, 3)] == [430, 750, 960]


def test_a_curve_extends_to_the_allowed_attempts(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 2), n_expected=2, loop__max_attempts=5))
    assert [figures["curve/pass_at_1", step] for step in range(1, 6)] == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_parts_that_a_run_never_called_are_no_params(run: Run) -> None:
    writer = {"suite_writer": {"writer": {"max_tests": 6}}, "critic": {"weight": 1.0}}
    assert not [key for key in params(manifest(run("a", **writer))) if key.startswith(("suite_writer", "critic"))]
    written = params(manifest(run("b", feedback_source="self_tests", **writer)))
    assert written["suite_writer.writer.max_tests"] == "6"


def test_headline_figures_come_with_interval_and_n(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 2, 3, 0)))
    assert [name for name, _ in figures][:3] == ["final/pass_at_1", "final/pass_at_1_low", "final/pass_at_1_high"]
    assert figures["final/pass_at_1", 0] == 0.75
    assert figures["final/pass_at_1_low", 0] < 0.75 < figures["final/pass_at_1_high", 0]
    assert figures["final/attempt_1_pass_at_1", 0] == 0.25
    assert figures["final/gain_over_attempt_1", 0] == 0.5
    assert figures["final/n", 0] == 4
    assert figures["final/attempts_mean", 0] == 2.25
    assert figures["final/reflections_by_model_share", 0] == 0.5
    assert figures["usage/actor/tokens", 0] + figures["usage/reflector/tokens", 0] == 960


def test_every_role_has_its_own_usage(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 2, 3, 0)))
    expected = {
        "usage/actor/tokens": 900, "usage/actor/calls": 9, "usage/actor/prompt_tokens": 720,
        "usage/reflector/completion_tokens": 18, "usage/reflector/tokens_per_solved": 20, "usage/cost": 0,
    }  # fmt: skip
    assert {name: figures[name, 0] for name in expected} == expected
    assert ("usage/actor/cost", 0) not in figures  # a role's zeros are left out
    assert not [name for name, _ in metrics_of(run("b", solved_at=(0, 0))) if name.endswith("tokens_per_solved")]


def test_reflections_are_metrics_where_there_are_any(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 2, 3, 0)))
    assert figures["reflections/n", 0] == 6
    assert figures["reflections/read_share", 0] == 0.0
    assert figures["reflections/base", 0] == 2 / 5
    assert ("reflections/passed_after", 0) not in figures  # no retry here read any
    assert ("reflections/mentions_check_share", 0) not in figures  # nor did anybody review them
    assert not [name for name, _ in metrics_of(run("b", solved_at=(1, 1))) if name.startswith("reflections/")]


def test_the_effect_of_reading_reflections_is_a_metric(run: Run) -> None:
    path = run(solved_at=(0, 2), n_expected=2)
    text = (path / "attempts.jsonl").read_text()
    second, third = (f'"task_id":"t/0","number":{number},"recalled":[' for number in (2, 3))
    text = text.replace(second + "]", second + '"ep-t/0-1"]').replace('"flags":[]', '"flags":["generic"]')
    assert second + '"' in text
    assert third in text
    (path / "attempts.jsonl").write_text(text)
    figures = metrics_of(path)
    assert figures["reflections/passed_after", 0] == 0.0
    assert figures["reflections/effect", 0] == -0.5
    assert figures["reflections/effect_low", 0] < -0.5 < figures["reflections/effect_high", 0]
    assert figures["reflections/flag_generic", 0] == figures["reflections/mentions_check_share", 0] == 1.0
    assert figures["reflections/brier_stated", 0] == 0.25


def test_models_of_further_roles_are_tags(run: Run) -> None:
    log = Log.read(RunFolder.existing(run()))
    manifest = replace(log.manifest, role_fingerprints={"critic": "big:1"})
    figures = view.tags(manifest, summary(log))
    assert (figures["model_fingerprint"], figures["model_fingerprint.critic"]) == ("tiny:1234", "big:1")


def test_the_quality_of_feedback_is_a_metric_where_there_was_any(run: Run) -> None:
    figures = metrics_of(run(solved_at=(1, 0)))
    assert figures["final/feedback_wrong_if_passed", 0] == 0.0
    assert figures["final/feedback_right_if_failed", 0] == 0.0
    assert ("final/feedback_wrong_if_passed", 0) not in metrics_of(run(solved_at=(0, 0)))
    assert ("final/feedback_right_if_failed", 0) not in metrics_of(run(feedback_source="oracle"))


def test_an_oracle_run_has_no_figure_called_pass_at_1(run: Run) -> None:
    path = run(feedback_source="oracle")
    figures = metrics_of(path)
    assert not [name for name, _ in figures if "pass_at_1" in name]
    assert figures["final/upper_bound", 0] == 0.75
    assert "upper bound, no pass@1" in text(path)


def test_a_run_cut_off_before_its_grades_has_no_curve_and_says_so(run: Run) -> None:
    path = run()
    (path / "grades.jsonl").unlink()
    assert not [name for name, _ in metrics_of(path) if "pass_at_1" in name]
    assert "unfinished" in text(path)


def test_the_note_has_figure_interval_and_n(run: Run) -> None:
    path = run()
    assert "pass@1 **0.750** (95 % interval 0.301 to 0.954); 0.250 at attempt 1" in text(path)
    assert "n = 4 of 4 tasks" in text(path)


def test_tags_say_whether_runs_may_be_compared(run: Run) -> None:
    log = Log.read(RunFolder.existing(run(n_expected=6)))
    figures = view.tags(log.manifest, summary(log))
    assert figures == {
        "kind": "job",
        "run_id": "run-id",
        "sweep_id": "sweep-7",
        "feedback_source": "visible",
        "benchmark_digest": "d" * 64,
        "config_digest": "c0ffee",
        "model_fingerprint": "tiny:1234",
        "slots": "1",
        "isolation": "process, rlimits",
        "git_commit": "0123456789abcdef",
        "dirty": "true",
        "n_expected": "6",
        "n_logged": "4",
        "interval": "[0.301, 0.954]",
    }
