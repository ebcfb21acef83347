import gc

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.notebook.frame_rows import _source
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import Attempt, Check, MemoryState, Usage, WrittenTests
from reflexion_lab.runner.folder.folder import RunFolder

VERDICTS = {"a": [(1.0, True)], "b": [(0.5, False), (1.0, False)], "c": [(0.0, True), (0.5, False), (0.5, True)]}
FAMILIAR = "20260101-000000-000001-reflexion-toy-s3"


@pytest.fixture
def named(write_run, tmp_path):
    """A run written to a folder of its own, with a config."""

    def make(name, config=None, verdicts=None, **options):
        folder = write_run(VERDICTS if verdicts is None and "attempts" not in options else verdicts, **options)
        moved = RunFolder(folder.path.rename(tmp_path / name))
        moved.write_manifest(replace(moved.manifest, run_id=name, config=config or {}))
        return moved

    return make


def test_every_task_attempt_check_and_reflection_has_one_row(named):
    frames = load(named("one"), texts=True)
    assert repr(frames).splitlines()[1].startswith(".tasks: 3 rows, ")
    assert "code" not in frames._repr_html_()
    assert [len(frame) for frame in frames] == [1, 3, 6, 6, 4, 0]
    assert list(zip(frames.attempts.task_id, frames.attempts.number, strict=True)) == [
        ("a", 1), ("b", 1), ("b", 2), ("c", 1), ("c", 2), ("c", 3),
    ]  # fmt: skip


def test_the_figures_of_a_run_are_those_of_its_summary(named):
    run = named("one")
    figures, (row,) = summary(Log.read(run)), load(run).runs.to_dict("records")
    rate = figures.pass_at_1
    assert (row["pass_at_1"], row["low"], row["high"]) == (rate.share, rate.low, rate.high)
    assert row["tokens"] == sum(usage.tokens for usage in figures.usage.values())
    assert row["calls"] == sum(usage.calls for usage in figures.usage.values())
    assert (row["n"], row["attempts"], row["seed"], row["feedback_source"]) == (3, 6, 7, "visible")


def test_tasks_hold_what_was_submitted_and_its_hidden_verdict(named):
    tasks = load(named("one")).tasks.set_index("task_id")
    assert tasks.submitted.to_dict() == {"a": 1, "b": 2, "c": 2}
    assert tasks.hidden_passed.to_dict() == {"a": True, "b": False, "c": False}
    assert tasks.hidden_passed_first.to_dict() == {"a": True, "b": False, "c": True}
    assert tasks.hidden_any_solved.to_dict() == {"a": True, "b": False, "c": True}
    assert tasks.passed.to_dict() == {"a": True, "b": True, "c": False}
    assert tasks.stop_reason.to_dict() == {"a": "passed", "b": "passed", "c": "max_attempts"}


def test_tasks_hold_how_the_rewards_went(write_run):
    rewards = {"a": [(0.2, False), (0.8, False), (0.9, False)], "b": [(1, True)], "c": [(0.5, False), (0.2, False)]}
    tasks = load(write_run(rewards)).tasks.set_index("task_id")
    assert tasks.learning_rate.round(3).to_dict() == {"a": 0.233, "b": 0, "c": -0.15}
    assert tasks.trend.to_dict() == {"a": "improving", "b": "insufficient", "c": "insufficient"}
    assert tasks.diminishing_returns.to_dict() == {"a": True, "b": False, "c": False}
    assert tasks.breakthroughs.to_dict() == {"a": "2 3", "b": "", "c": ""}
    failing = load(write_run(rewards, name="again")).checks.query("outcome == 'fail'").groupby(["task_id", "number"])
    counts = failing.size().reindex([("a", 1), ("a", 3)], fill_value=0)
    assert tasks.errors_removed["a"] == counts.iloc[0] - counts.iloc[1]


def test_the_curve_can_be_computed_from_the_attempts(named):
    run = named("one")
    attempts = load(run).attempts
    for point in Log.read(run).points:
        so_far = attempts[attempts.number <= point.attempt]
        assert so_far.groupby("task_id", observed=True).hidden_passed.max().mean() == point.any_solved
        assert so_far.tokens.sum() == point.tokens_cum


def test_what_hidden_tests_said_is_only_in_columns_that_say_so(named):
    frames = load(named("one"), texts=True)
    names = {name[7:] for frame in list(frames)[1:] for name in frame if name.startswith("hidden_")}
    assert names == {"passed", "outcome", "base_passed", "passed_first", "any_solved"}
    feedback = frames.attempts.set_index(["task_id", "number"]).passed
    assert feedback["b", 2]
    assert not feedback["c", 1]  # the hidden verdicts are the other way round


def test_an_unfinished_run_has_no_final_figures(named):
    frames = load(named("half", n_expected=5, sealed=False))
    assert frames.runs[["n", "n_expected"]].values.tolist() == [[3, 5]]
    assert frames.runs[["pass_at_1", "upper_bound", "low", "high"]].isna().all(axis=None)
    assert frames.attempts.hidden_passed.isna().tolist() == [False, True, False, True, False, True]
    assert frames.tasks.set_index("task_id").hidden_any_solved.isna().to_dict() == {"a": False, "b": True, "c": True}
    assert frames.attempts.passed.notna().all()


def test_a_run_that_has_just_begun_has_empty_tables_with_all_columns(named, write_run):
    full = load(named("full"))
    empty = load(named("empty", verdicts={}, n_expected=3))
    assert [len(frame) for frame in empty] == [1, 0, 0, 0, 0, 0]
    for frame, other in zip(list(empty)[1:], list(full)[1:], strict=True):
        items = [name for name in other if not name.startswith("tokens_") or name in frame]
        assert list(frame) == items
        assert [frame[name].dtype.name for name in frame] == [other[name].dtype.name for name in items]


def test_an_upper_bound_is_never_called_pass_at_1(named):
    runs = load(named("bound", feedback_source="oracle")).runs
    assert runs.upper_bound.tolist() == [pytest.approx(1 / 3)]
    assert runs.pass_at_1.isna().all()


def test_several_runs_are_stacked_with_differing_keys_as_columns(named):
    config = {"model": {"name": "m"}, "seed": 7, "run_root": "x"}
    first = named("one", {**config, "arm": "simple", "recall": {"omega": 1}, "stop": ["plateau"]})
    second = named("two", {**config, "arm": "reflexion", "recall": {"omega": "all"}, "stop": [], "run_root": "y"})
    frames = load(first, second)
    assert frames.runs[["run_id", "arm"]].values.tolist() == [["one", "simple"], ["two", "reflexion"]]
    assert frames.runs[["recall.omega", "stop"]].values.tolist() == [[1, "['plateau']"], ["all", "[]"]]
    assert not {"model.name", "run_root"} & set(frames.runs)
    assert frames.attempts.groupby("arm", observed=True).size().to_dict() == {"simple": 6, "reflexion": 6}


def test_a_swept_number_is_a_number_and_missing_where_there_is_none(named):
    recalls = {"one": {"omega": 1}, "two": {"omega": 3}, "no": {}}
    omega = load(named(name, {"recall": recall}) for name, recall in recalls.items()).runs["recall.omega"]
    assert omega.dtype.name == "Int64"
    assert omega.isna().tolist() == [False, False, True]
    assert omega.sum() == 4


def test_texts_come_only_when_asked_for_and_no_more_attempts_are_held_than_those_of_two_loops(named, monkeypatch):
    def read(line):
        live.append(sum(isinstance(each, Attempt) for each in gc.get_objects()))
        return msgspec.json.decode(line, type=Attempt)

    run, live = named("one"), []
    run.write_manifest(replace(run.manifest, prices={"actor": "0/0 per million"}))
    plain = load(run)
    monkeypatch.setattr("reflexion_lab.runner.folder.folder._ATTEMPT", type("", (), {"decode": staticmethod(read)}))
    full = load(run, texts=True)
    of = ("attempts", "checks", "attempts")
    assert [len(live), *(len(live) for name in of if any(getattr(full, name)))] == [6, 12, 18, 18]
    assert max(live) - live[0] <= 2 + 2  # a loop, and the first two of the next
    assert set(full.attempts) - set(plain.attempts) == {"solution", "prompt", "reply", "feedback"}
    assert {"what_to_change", "text"} <= set(full.reflections) - set(plain.reflections)
    assert {"expected", "actual", "message"} <= set(full.checks) - set(plain.checks)
    assert full.attempts.solution.tolist() == ["code"] * 6


def test_tokens_are_told_by_role_and_add_up(named):
    attempts = load(named("one")).attempts
    assert attempts.tokens_actor.tolist() == [20] * 6
    assert attempts.tokens_reflector.tolist() == [0, 7, 0, 7, 7, 7]
    assert (attempts.tokens_actor + attempts.tokens_reflector).tolist() == attempts.tokens.tolist()
    assert attempts[attempts.task_id == "c"].tokens_so_far.tolist() == [27, 54, 81]
    assert (attempts.prompt_tokens + attempts.completion_tokens).tolist() == attempts.tokens.tolist()
    assert not attempts[["cached_tokens", "reasoning_tokens"]].any(axis=None)


def test_tests_that_the_model_wrote_are_paid_before_the_first_attempt(named):
    run = named("one")
    run.append("written_tests.jsonl", WrittenTests(task_id="b", tests=(), usage=Usage(calls=1, prompt_tokens=100)))
    run.close()
    frames = load(run)
    assert frames.attempts[frames.attempts.task_id == "b"].tokens_so_far.tolist() == [127, 147]
    assert frames.tasks.set_index("task_id").tokens["b"] == 147
    assert frames.runs.tokens.tolist() == [frames.tasks.tokens.sum()]
    assert frames.runs.tokens[0] == Log.read(run).points[-1].tokens_cum


def test_a_program_without_any_test_has_neither_passed_nor_failed(named):
    frames = load(named("none", verdicts={"a": [(-1.0, True)]}))
    assert frames.attempts.passed.isna().all()
    assert frames.tasks.passed.isna().all()
    assert frames.tasks.hidden_passed.tolist() == [True]


def test_memories_name_the_run_and_task_that_they_are_from(named, attempt):
    second = replace(
        attempt("own/b", 1, 1.0),
        recalled=(f"ep-{FAMILIAR}/own/a-2", "ep-one/own/a-1", "ep-own/b-7", "ep-0123456789abcdef"),
        recalled_wisdom=("wis-12",),
        recalled_mistakes=(f"mistake-{FAMILIAR}/own/c-9f",),
        memory=MemoryState(capacity=3, size=1, in_context=1, total=1, omega=3),
    )
    memory = load(named("one", attempts={"own/b": [second]})).memory
    assert memory.kind.tolist() == ["episode"] * 4 + ["wisdom", "mistake"]
    assert memory.source_run.astype("string").fillna("").tolist() == [FAMILIAR, "one", "one", "", "", FAMILIAR]
    assert _source("ep-second/a-1", ("first", "second")) == ("first", "a", 1)  # of two shards
    assert memory.source_task.astype("string").fillna("").tolist() == ["own/a", "own/a", "own/b", "", "", "own/c"]
    assert memory.source_number.fillna(0).tolist() == [2, 1, 7, 0, 0, 0]


def test_checks_keep_their_order(named, attempt):
    record = attempt("a", 1, 0.5)
    checks = (Check(name="first", outcome="pass"), Check(name="second", outcome="error", error_type="KeyError", line=3))
    attempts = {"a": [replace(record, evaluation=replace(record.evaluation, checks=checks))]}
    frame = load(named("one", attempts=attempts)).checks
    assert frame[["place", "name", "outcome"]].values.tolist() == [[1, "first", "pass"], [2, "second", "error"]]
    assert frame.error_type.isna().tolist() == [True, False]
    assert frame.line.fillna(0).tolist() == [0, 3]
