from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def shown(path: Path) -> dict[tuple[str, int], float]:
    log = Log.read(RunFolder.existing(path))
    return {(metric.name, metric.step): metric.value for metric in view.metrics(log, summary(log))}


def text(path: Path) -> str:
    log = Log.read(RunFolder.existing(path))
    return view.note(log, summary(log), path)


def test_a_name_begins_with_what_distinguishes_a_run(run: Run) -> None:
    assert view.run_name(manifest(run())) == "reflexion a3 Ω1 s0 basics"


def test_a_single_attempt_has_no_omega_in_its_name(run: Run) -> None:
    path = run(arm="simple", seed=4, loop__max_attempts=1, solved_at=(1, 0))
    assert view.run_name(manifest(path)) == "simple a1 s4 basics"


def test_the_name_of_an_upper_bound_says_oracle_once(run: Run) -> None:
    assert "oracle" in view.run_name(manifest(run("a", feedback_source="oracle")))
    assert view.run_name(manifest(run("b", feedback_source="oracle", arm="oracle"))).count("oracle") == 1


@pytest.mark.parametrize("arm", ["x", "x" * 20, "x" * 200])
def test_a_name_is_short_and_keeps_attempts_omega_and_seed(run: Run, arm: str) -> None:
    name = view.run_name(replace(manifest(run(arm=arm, seed=12)), benchmark="b" * 40))
    assert len(name) <= view.NAME_LENGTH
    assert " a3 Ω1 s12" in name


def test_params_have_the_dotted_keys_of_the_config(run: Run) -> None:
    found = params(manifest(run()))
    assert found["loop.max_attempts"] == "3"
    assert found["recall.omega"] == "1"
    assert found["recall.max_tokens"] == "600"
    assert found["arm"] == "reflexion"
    assert found["seed"] == "0"
    assert found["actor.sampling.stop"] == '["\\ndef ", "#"]'


def test_a_group_names_the_class_that_was_chosen(run: Run) -> None:
    found = params(manifest(run()))
    assert (found["actor"], found["recall"], found["model"]) == ("Continuation", "Window", "OpenAIModel")
    assert not any("_target_" in key for key in found)


def test_no_secret_and_no_folder_of_this_machine_is_shown(run: Run) -> None:
    found = params(manifest(run()))
    assert not [key for key in found if "key" in key or "secret" in key or "auth" in key]
    assert not [value for value in found.values() if "hunter2" in value or "/home" in value or value == "abc"]
    assert found["model.base_url"] == "http://host:8000/v1"
    assert found["model.path"] == "tiny.gguf"


def test_how_a_run_was_carried_out_is_no_parameter(run: Run) -> None:
    found = params(manifest(run()))
    assert not [key for key in found if key.startswith(("tracker", "run_root", "sweep_id"))]
    assert "benchmark.ids" not in found


def test_long_values_are_cut(run: Run) -> None:
    found = params(manifest(run(actor__prompt="p" * 9000)))
    assert found["actor.prompt"] == "p" * LONGEST_VALUE


def test_curves_have_the_attempt_as_step(run: Run) -> None:
    found = shown(run(solved_at=(1, 2, 3, 0)))
    assert [found["curve/pass_at_1", step] for step in (1, 2, 3)] == [0.25, 0.5, 0.75]
    assert [found["curve/reward", step] for step in (1, 2, 3)] == [0.625, 0.75, 0.875]
    # 100 tokens an attempt and 10 a reflection: four attempts and three reflections at the first step
    assert [found["usage/tokens_cum", step] for step in (1, 2, 3)] == [430, 750, 960]


def test_a_curve_goes_on_to_the_allowed_attempts_though_every_loop_ended_before(run: Run) -> None:
    found = shown(run(solved_at=(1, 2), n_expected=2, loop__max_attempts=5))
    assert [found["curve/pass_at_1", step] for step in range(1, 6)] == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_the_headline_stands_first_on_a_page(run: Run) -> None:
    names = [name for name, _ in shown(run(solved_at=(1, 2, 3, 0)))]
    assert names[:3] == ["final/pass_at_1", "final/pass_at_1_low", "final/pass_at_1_high"]
    assert list(params(manifest(run())))[:3] == ["arm", "seed", "feedback_source"]


def test_parts_that_a_run_never_asked_are_no_parameters(run: Run) -> None:
    writer = {"suite_writer": {"writer": {"max_tests": 6}}, "critic": {"weight": 1.0}}
    assert not [key for key in params(manifest(run("a", **writer))) if key.startswith(("suite_writer", "critic"))]
    asked = params(manifest(run("b", feedback_source="self_tests", **writer)))
    assert asked["suite_writer.writer.max_tests"] == "6"


def test_headline_figures_come_with_interval_and_n(run: Run) -> None:
    found = shown(run(solved_at=(1, 2, 3, 0)))
    assert found["final/pass_at_1", 0] == 0.75
    assert found["final/pass_at_1_low", 0] < 0.75 < found["final/pass_at_1_high", 0]
    assert found["final/attempt_1_pass_at_1", 0] == 0.25
    assert found["final/gain_over_attempt_1", 0] == 0.5
    assert found["final/n", 0] == 4
    assert found["final/attempts_mean", 0] == 2.25
    assert found["final/reflections_by_model_share", 0] == 0.5
    assert found["usage/actor/tokens", 0] + found["usage/reflector/tokens", 0] == 960


def test_every_role_has_its_own_usage(run: Run) -> None:
    found = shown(run(solved_at=(1, 2, 3, 0)))
    assert found["usage/actor/tokens", 0] == 900
    assert found["usage/actor/calls", 0] == 9
    assert found["usage/actor/prompt_tokens", 0] == 720
    assert found["usage/reflector/completion_tokens", 0] == 18
    assert found["usage/reflector/tokens_per_solved", 0] == 20
    assert "usage/actor/cost" not in {name for name, _ in found}  # what is 0 is not shown by role
    assert found["usage/cost", 0] == 0


def test_without_a_solved_task_no_tokens_are_those_of_one(run: Run) -> None:
    assert not [name for name, _ in shown(run(solved_at=(0, 0))) if name.endswith("tokens_per_solved")]


def test_reflections_are_figures_where_there_are_any(run: Run) -> None:
    found = shown(run(solved_at=(1, 2, 3, 0)))
    assert found["reflections/n", 0] == 6
    assert found["reflections/read_share", 0] == 0.0
    assert found["reflections/base", 0] == 2 / 5
    assert ("reflections/passed_after", 0) not in found  # no retry here read any
    assert ("reflections/mentions_check_share", 0) not in found  # nor did anybody review them
    assert not [name for name, _ in shown(run("b", solved_at=(1, 1))) if name.startswith("reflections/")]


def test_what_reading_was_worth_is_a_figure(run: Run) -> None:
    path = run(solved_at=(0, 2), n_expected=2)
    text = (path / "attempts.jsonl").read_text()
    second, third = (f'"task_id":"t/0","number":{number},"recalled":[' for number in (2, 3))
    text = text.replace(second + "]", second + '"ep-t/0-1"]').replace('"flags":[]', '"flags":["generic"]')
    assert second + '"' in text
    assert third in text
    (path / "attempts.jsonl").write_text(text)
    found = shown(path)
    assert found["reflections/passed_after", 0] == 0.0
    assert found["reflections/effect", 0] == -0.5
    assert found["reflections/effect_low", 0] < -0.5 < found["reflections/effect_high", 0]
    assert found["reflections/flag_generic", 0] == found["reflections/mentions_check_share", 0] == 1.0
    assert found["reflections/brier_stated", 0] == 0.25


def test_models_of_further_roles_are_tags(run: Run) -> None:
    log = Log.read(RunFolder.existing(run()))
    manifest = replace(log.manifest, role_fingerprints={"critic": "big:1"})
    found = view.tags(manifest, summary(log))
    assert (found["model_fingerprint"], found["model_fingerprint.critic"]) == ("tiny:1234", "big:1")


def test_what_the_feedback_was_worth_is_a_figure_where_there_was_any(run: Run) -> None:
    found = shown(run(solved_at=(1, 0)))
    assert found["final/feedback_wrong_if_passed", 0] == 0.0
    assert found["final/feedback_right_if_failed", 0] == 0.0
    assert ("final/feedback_wrong_if_passed", 0) not in shown(run(solved_at=(0, 0)))
    assert ("final/feedback_right_if_failed", 0) not in shown(run(feedback_source="oracle"))


def test_an_oracle_run_has_no_figure_called_pass_at_1(run: Run) -> None:
    path = run(feedback_source="oracle")
    found = shown(path)
    assert not [name for name, _ in found if "pass_at_1" in name]
    assert found["final/upper_bound", 0] == 0.75
    assert "upper bound, no pass@1" in text(path)


def test_a_run_cut_off_before_its_grades_has_no_curve_and_says_so(run: Run) -> None:
    path = run()
    (path / "grades.jsonl").unlink()
    assert not [name for name, _ in shown(path) if "pass_at_1" in name]
    assert "unfinished" in text(path)


def test_the_note_has_figure_interval_and_n(run: Run) -> None:
    path = run()
    assert "pass@1 **0.750** (95 % interval 0.301 to 0.954); 0.250 at attempt 1" in text(path)
    assert "n = 4 of 4 tasks" in text(path)


def test_tags_say_whether_runs_may_be_compared(run: Run) -> None:
    log = Log.read(RunFolder.existing(run(n_expected=6)))
    found = view.tags(log.manifest, summary(log))
    assert found == {
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
