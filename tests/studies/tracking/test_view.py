import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Operation, Update, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import run_view as view
from reflexion_lab.studies.tracking.run_view import LONGEST_VALUE, params


def manifest(path):
    return RunFolder.existing(path).manifest


def metrics_of(path):
    log = Log.read(RunFolder.existing(path))
    return {(metric.name, metric.step): metric.value for metric in view.metrics(log, summary(log))}


def text(path):
    log = Log.read(RunFolder.existing(path))
    return view.note(log, summary(log), path)


@pytest.mark.parametrize(("values", "name"), [
    ({}, "s0 reflexion a3 Ω1 basics"), ({"arm": "simple", "seed": 4, "loop__max_attempts": 1}, "s4 simple a1 basics"),
    ({"feedback_source": "oracle"}, "s0 reflexion oracle a3 Ω1 ba"),
    ({"feedback_source": "oracle", "arm": "oracle"}, "s0 oracle a3 Ω1 basics"),
    ({"arm": "x" * 200, "seed": 12}, "s12 " + "x" * 18 + " a3 Ω1"),
])  # fmt: skip
def test_a_short_name_begins_with_what_distinguishes_a_run(run, values, name):
    assert view.run_name(manifest(run(**values, solved_at=(1, 0)))) == name
    assert len(name) <= view.NAME_LENGTH


def test_params_are_dotted_keys_and_classes_of_groups(run):
    figures = params(manifest(run(actor__prompt="p" * 9000, actor__sampling__seed=7)))
    expected = {
        "loop.max_attempts": "3", "recall.omega": "1", "recall.max_tokens": "600", "arm": "reflexion", "seed": "0",
        "actor.sampling.stop": '["\\ndef ", "#"]', "actor": "Continuation", "recall": "Window", "model": "OpenAIModel",
        "model.base_url": "http://host:8000/v1", "model.path": "tiny.gguf", "actor.prompt": "p" * LONGEST_VALUE,
    }  # fmt: skip
    assert {key: figures[key] for key in expected} == expected
    assert "actor.sampling.seed" not in figures


def test_secrets_folders_and_execution_settings_are_no_params(run):
    figures = params(manifest(run()))
    assert not [key for key in figures if "key" in key or "secret" in key or "auth" in key or "_target_" in key]
    assert not [
        value for value in figures.values() if "hunter2" in value or "/home" in value or value == "abc-auth-token"
    ]
    assert not [key for key in figures if key.startswith(("tracker", "run_root", "sweep_id"))]
    assert "benchmark.ids" not in figures


def test_metrics_are_curves_rates_and_usage(run):
    figures = metrics_of(run(solved_at=(1, 2, 3, 0)))
    assert [name for name, _ in figures][:3] == ["final/pass_at_1", "final/pass_at_1_low", "final/pass_at_1_high"]
    assert figures["final/pass_at_1_low", 0] < 0.75 < figures["final/pass_at_1_high", 0]
    curves = {
        "curve/pass_at_1": [0.25, 0.5, 0.75],
        "curve/reward": [0.625, 0.75, 0.875],
        # 100 tokens an attempt and 10 a reflection: four attempts and three reflections at the first step
        "usage/tokens_cum": [430, 750, 960],
    }
    assert {name: [figures[name, step] for step in (1, 2, 3)] for name in curves} == curves
    expected = {
        "final/pass_at_1": 0.75, "final/pass_at_1_first": 0.25, "final/gain_over_attempt_1": 0.5, "final/n": 4,
        "final/attempts_mean": 2.25, "final/reflections_by_model_share": 0.5, "usage/actor/tokens": 900,
        "usage/actor/calls": 9, "usage/actor/prompt_tokens": 720, "usage/reflector/tokens": 60,
        "usage/reflector/completion_tokens": 18, "usage/reflector/tokens_per_solved": 20,
        "reflections/n": 6, "reflections/read_share": 0.0, "reflections/base": 2 / 5,
    }  # fmt: skip
    assert {name: figures[name, 0] for name in expected} == expected
    # a role's zeros, a rate of retries that read a reflection, a rate of reviewed reflections
    absent = {"usage/actor/cost", "reflections/passed_after", "reflections/mentions_check_share"}
    assert not absent & {name for name, _ in figures}


@pytest.mark.parametrize(("values", "absent"), [
    ({"solved_at": (0, 0)}, ("tokens_per_solved", "feedback_wrong_if_passed")),
    ({"solved_at": (1, 1)}, ("reflections/",)),
    ({"feedback_source": "oracle"}, ("feedback_right_if_failed", "pass_at_1")),
])  # fmt: skip
def test_a_metric_without_cases_is_left_out(run, values, absent):
    assert not [name for name, _ in metrics_of(run(**values)) if any(part in name for part in absent)]


def test_a_curve_extends_to_the_allowed_attempts_and_feedback_has_its_quality(run):
    figures = metrics_of(run(solved_at=(1, 2), n_expected=2, loop__max_attempts=5))
    assert [figures["curve/pass_at_1", step] for step in range(1, 6)] == [0.5, 1.0, 1.0, 1.0, 1.0]
    figures = metrics_of(run(solved_at=(1, 0)))
    assert figures["final/feedback_wrong_if_passed", 0] == figures["final/feedback_right_if_failed", 0] == 0.0


def test_the_effect_of_reading_reflections_is_a_metric(run):
    path = run(solved_at=(0, 2), n_expected=2)
    text = (path / "attempts.jsonl").read_text()
    second, third = (f'"task_id":"t/0","number":{number},"parent":{number - 1},"recalled":[' for number in (2, 3))
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


def test_memory_across_tasks_has_rounds_as_steps(run):
    path, usage = run(), Usage(calls=1, prompt_tokens=7, completion_tokens=3)
    log, add = Log.read(RunFolder.existing(path)), Operation(kind="add", item_ids=("a",), text="a rule")
    calls = [Update(round=number // 2, call=number % 2, task_ids=(f"t/{number}",), operations=(add,), usage=usage,
                    unreadable=number, items=number + 1, tokens=5 * number) for number in range(4)]  # fmt: skip
    log = replace(log, updates=tuple(calls))
    figures = {(metric.name, metric.step): metric.value for metric in view.metrics(log, summary(log))}
    names = ("items", "tokens", "operations", "refused", "unreadable", "curator_tokens")
    assert [[figures[f"memory/{name}", step] for name in names] for step in (1, 2)] == [
        [2, 5, 2, 0, 1, 20], [4, 15, 2, 0, 5, 20],
    ]  # fmt: skip
    assert figures["usage/curator/tokens", 0] == 40
    log = replace(log, updates=tuple(replace(calls[0], round=number) for number in range(1_001)))
    steps = {step: value for name, value, step in view.metrics(log, summary(log)) if name == "memory/operations"}
    assert (len(steps), max(steps), sum(steps.values())) == (91, 1_001, 1_001)


def test_the_note_has_figure_interval_and_n(run):
    path = run("oracle", feedback_source="oracle")
    assert metrics_of(path)["final/upper_bound", 0] == 0.75
    assert "UPPER BOUND, not pass" in text(path)
    path = run()
    assert "75.0 % \\[30.1, 95.4\\] (3 of 4 tasks, Wilson 95 %)" in text(path)
    (path / "grades.jsonl").unlink()
    assert not [name for name, _ in metrics_of(path) if "pass_at_1" in name]
    assert "NOT ALL GRADED" in text(path)


def test_tags_say_whether_runs_may_be_compared(run):
    log = Log.read(RunFolder.existing(run(n_expected=6)))
    log = replace(log, manifest=replace(log.manifest, role_fingerprints={"critic": "big:1"}), deviations=("a", "b"))
    assert view.tags(log, summary(log)) == {
        "deviations": "a; b", "kind": "job", "run_id": "run-id", "sweep_id": "sweep-7", "feedback_source": "visible",
        "benchmark_digest": "d" * 64, "config_digest": "c0ffee", "model_fingerprint": "tiny:1234",
        "model_fingerprint.critic": "big:1", "slots": "1", "isolation": "process, rlimits",
        "git_commit": "0123456789abcdef", "dirty": "true", "n_expected": "6", "n_logged": "4",
        "interval": "[0.301, 0.954]",
    }  # fmt: skip
