import json

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report.run_tables import facts
from reflexion_lab.analysis.summary import Log, Summary, summary
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Check, Usage
from reflexion_lab.runner.folder.folder import RunFolder

RUN = {
    "right at once": [(1.0, True)], "false pass": [(1.0, False)], "repaired": [(0.0, False), (1.0, True)],
    "damaged": [(0.5, True), (1.0, False)], "never": [(0.5, False), (0.5, True), (0.0, False)],
    "no tests": [(-1.0, True)],
}  # fmt: skip


@pytest.fixture
def figures(write_run) -> Summary:
    return summary(Log.read(write_run(RUN)))


def test_the_headline_and_the_usage_by_role_are_those_by_hand(figures):
    assert (figures.pass_at_1.k, figures.pass_at_1.n) == (3, 6)  # hidden verdicts on submissions
    assert figures.pass_at_1.low < figures.pass_at_1.share == 0.5 < figures.pass_at_1.high
    assert (figures.pass_at_1_first.k, figures.pass_at_1_first.n) == (3, 6)
    assert (figures.any_solved.k, figures.any_solved.n) == (5, 6)
    pair = figures.against_single
    assert (pair.both, pair.damaged, pair.repaired, pair.neither) == (2, 1, 1, 2)
    assert pair.difference == figures.pass_at_1.share - figures.pass_at_1_first.share
    assert figures.usage["actor"] == Usage(calls=10, prompt_tokens=100, completion_tokens=100, seconds=10.0)
    assert figures.usage["reflector"] == Usage(calls=5, prompt_tokens=25, completion_tokens=10)
    assert figures.usage_last_reflections == Usage(calls=1, prompt_tokens=5, completion_tokens=2)


def test_feedback_outcomes_and_stop_reasons_are_counted(figures):
    truth = figures.feedback
    assert (truth.true_positives, truth.false_positives, truth.false_negatives, truth.true_negatives) == (2, 2, 0, 1)
    assert (truth.unknown, figures.no_feedback) == (1, 1)
    assert figures.stop_reasons == {"passed": 4, "max_attempts": 2}
    assert figures.submitted_outcomes == {"pass": 3, "fail": 3}
    assert figures.feedback_outcomes == {"pass": 4, "fail": 5, "no_tests": 1}
    assert figures.attempts_mean == pytest.approx(10 / 6)
    assert figures.seconds == 12.0


def test_roles_of_an_actor_with_several_are_costed_apart(write_run, attempt):
    def critiqued(number):
        record = attempt("a", number, 0.0)
        others = {"critic": Usage(calls=2, prompt_tokens=7), "reviser": Usage(calls=1, completion_tokens=3)}
        return replace(record, trajectory=replace(record.trajectory, others=others))

    figures = summary(Log.read(write_run(attempts={"a": [critiqued(1), critiqued(2)]})))
    assert figures.usage["critic"] == Usage(calls=4, prompt_tokens=14)
    assert figures.usage["reviser"] == Usage(calls=2, completion_tokens=6)
    assert figures.usage["actor"].calls == 2


def test_reflections_are_counted_by_source_and_repeats_within_a_task(write_run, attempt, reflection):
    attempts = {
        "a": [
            attempt("a", 1, 0.0, reflection=reflection(1, "llm", "same")),
            attempt("a", 2, 0.0, reflection=reflection(2, "fallback:syntax", "same")),
            attempt("a", 3, 0.0, reflection=reflection(3, "llm", "other")),
        ],
        "b": [attempt("b", 1, 0.0, reflection=reflection(1, "rules:syntax", "same"))],
    }
    figures = summary(Log.read(write_run(attempts=attempts)))
    assert figures.reflections == {"llm": 2, "fallback:syntax": 1, "rules:syntax": 1}
    assert (figures.reflections_by_model.k, figures.reflections_by_model.n) == (2, 4)
    assert figures.reflections_repeated == 1


def test_recorded_reflections_are_the_models_and_repeat_by_their_text(write_run, attempt, reflection):
    none = {"root_cause": "", "what_went_wrong": "", "what_to_change": "", "action_items": ()}
    texts = ("the loop ends early", "the loop starts late", "the loop ends early", "")
    words = [replace(reflection(n, "recorded", ""), text=text, **none) for n, text in enumerate(texts, 1)]
    attempts = {"a": [attempt("a", n, 0.0, reflection=each) for n, each in enumerate(words, 1)]}
    figures = summary(Log.read(write_run(attempts=attempts), texts=False))
    assert (figures.reflections_by_model.k, figures.reflections_repeated) == (4, 1)


def judged_by(attempt, *checks, **fields):
    """`attempt` with these checks."""
    return replace(attempt, evaluation=replace(attempt.evaluation, checks=checks, **fields))


def test_failures_of_the_plumbing_are_counted(write_run, attempt):
    slow = judged_by(attempt("a", 2, 0.5), Check(name="c", outcome="fail"), Check(name="d", outcome="timeout"))
    broken = judged_by(attempt("b", 1, 0.0), outcome="harness_error")
    figures = summary(Log.read(write_run(attempts={"a": [attempt("a", 1, 0.0, " \n"), slow], "b": [broken]})))
    assert (figures.extraction_failures, figures.timeouts, figures.harness_errors) == (1, 1, 1)
    assert (figures.empty_retries.k, figures.empty_retries.n) == (0, 1)


def test_retries_without_a_program_stand_beside_pass_at_1(write_run, attempt):
    empty, written = attempt("a", 2, 0.0, " \n"), attempt("b", 2, 0.0)
    attempts = {"a": [attempt("a", 1, 0.0, ""), empty, attempt("a", 3, 0.0)], "b": [attempt("b", 1, 0.0), written]}
    log = Log.read(write_run(attempts=attempts))
    names = [name for name, _ in facts(log)]
    assert names[:2] == ["pass@1", "retries without a program"]
    assert names.count("retries without a program") == 1
    assert dict(facts(log))["retries without a program"].startswith("33.3 % [0.0, 100.0] (1 of 3 retries, over 2 tasks")


def test_a_harness_error_behind_another_failure_is_counted_too(write_run, attempt):
    checks = (Check(name="a", outcome="fail"), Check(name="types", kind="type", outcome="harness_error"))
    assert summary(Log.read(write_run(attempts={"a": [judged_by(attempt("a", 1, 0.0), *checks)]}))).harness_errors == 1


def test_parts_left_out_of_a_combined_reward_are_counted_by_name(write_run, attempt):
    issues = ("types by ty did not run: not installed", "tests did not run: the task shows none")
    combined = judged_by(attempt("a", 1, 0.0), verification_type="combined", issues=issues)
    other = judged_by(attempt("b", 1, 0.0), issues=issues)
    figures = summary(Log.read(write_run(attempts={"a": [combined], "b": [other]})))
    assert figures.did_not_run == {"types by ty": 1, "tests": 1}
    assert figures.verification_types == {"combined": 1, "unit_tests": 1}


def test_single_feedback_tests_are_set_against_the_hidden_verdict(write_run, attempt):
    outcomes = [Check(name="t", outcome=outcome) for outcome in ("pass", "fail", "harness_error")]
    judged = judged_by(attempt("a", 1, 0.0), *outcomes, Check(name="lint", kind="lint", outcome="fail"))
    single = summary(Log.read(write_run(attempts={"a": [judged]}))).feedback_asserts
    assert (single.false_positives, single.true_negatives, single.unknown) == (1, 1, 1)
    assert (single.true_positives, single.false_negatives) == (0, 0)


def test_a_summary_survives_json_and_agrees_with_the_last_point(write_run):
    log = Log.read(write_run(RUN))
    figures = summary(log)
    text = json.dumps(msgspec.to_builtins(figures))
    assert msgspec.json.decode(text, type=Summary) == figures
    assert [point.attempt for point in log.points] == [1, 2, 3]
    assert log.points[-1].pass_at_1 == figures.pass_at_1.share


def test_an_unsealed_run_has_its_headline_and_no_curve(write_run):
    log = Log.read(write_run(RUN, sealed=False, n_expected=9))
    figures = summary(log)
    assert log.points == []
    assert (figures.n_logged, figures.n_expected, figures.pass_at_1.k) == (6, 9, 3)
    assert figures.pass_at_1_first is figures.against_single is figures.any_solved is None


def test_a_run_without_any_task_summarises(write_run):
    figures = summary(Log.read(write_run({}, n_expected=3)))
    assert (figures.n_logged, figures.pass_at_1.n, figures.attempts_mean) == (0, 0, 0.0)


def test_a_task_cut_off_before_its_result_is_no_part_of_it(write_run, attempt):
    folder = write_run(RUN)
    folder.append("attempts.jsonl", attempt("cut off", 1, 0.0))
    folder.close()
    assert "cut off" not in Log.read(folder).attempts


def test_a_torn_line_is_skipped_and_counted_once(write_run):
    folder = write_run(RUN)
    with (folder.path / "grades.jsonl").open("a") as file:
        file.write('{"task_id": "cut')
    assert folder.grades
    assert summary(Log.read(folder)).torn == 1


def test_a_result_without_attempts_is_refused_by_name(write_run):
    folder = write_run(RUN)
    (folder.path / "attempts.jsonl").unlink()
    with pytest.raises(FolderError, match="got no attempt at damaged"):
        Log.read(RunFolder(folder.path))


def test_what_was_read_of_other_loops_is_counted_by_attempt(write_run, attempt):
    run_id = write_run(attempts={}).manifest.run_id
    attempts = [
        replace(attempt("a", 1, 0.0), recalled=("ep-earlier/a-1",), recalled_wisdom=("wis-1",)),
        replace(attempt("a", 2, 0.0), recalled=(f"ep-{run_id}/a-1",), recalled_mistakes=("mis-1", "mis-2")),
    ]
    run = write_run(attempts={"a": attempts})
    assert summary(Log.read(run)).read_of_others is None
    run.write_json("memory.json", {"episodes": 7, "wisdom": []})
    result = summary(Log.read(run))
    assert result.read_of_others == {"episodes": 1, "wisdom": 1, "mistakes": 1}
    assert result.known_before == {"episodes": 7}
