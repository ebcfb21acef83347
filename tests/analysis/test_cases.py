"""`cases.csv`: every figure of a comparison can be computed from it without the runs."""

import csv

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.cases import COLUMNS, load_cases, save_cases
from reflexion_lab.analysis.comparison.grouping import arms as arms_of
from reflexion_lab.analysis.metrics import in_arm
from reflexion_lab.errors import DataError
from reflexion_lab.records import OUTCOMES, Beginning, Check, MemoryState, Provenance, Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import carry_out

RIGHT, WRONG = (1.0, True), (0.0, False)
BASE = {"a/1": [RIGHT], "a/2": [WRONG, RIGHT], "b": [WRONG, WRONG], "c": [(0.5, True), WRONG], "d": [WRONG, WRONG]}
WORDS = {"a/1": [RIGHT], "a/2": [WRONG, RIGHT], "b": [WRONG, RIGHT], "c": [(0.5, False), RIGHT], "d": [RIGHT]}


@pytest.fixture
def arms(make_arm):
    def change(attempt):
        use = Usage(calls=1, prompt_tokens=30, cached_tokens=10, completion_tokens=7, reasoning_tokens=3, cost=0.25)
        memory = MemoryState(capacity=10, size=1, in_context=0, total=attempt.number - 1, omega=1, own=0)
        trajectory = replace(attempt.trajectory, usage=use, others={"critic": Usage(calls=2, prompt_tokens=5)})
        return replace(attempt, trajectory=trajectory, memory=memory)

    clusters = {"a/1": "a", "a/2": "a"}
    return [
        make_arm(BASE, WORDS, label="feedback_only", clusters=clusters, change=change),
        make_arm(WORDS, WORDS, label="words", clusters=clusters, written=Usage(calls=1, completion_tokens=9)),
    ]


def check_equal(arms, path, baseline="feedback_only"):
    """Every field but the folders, and digests of texts and times, which a file of cases does not hold."""
    loaded = load_cases(save_cases(path, arms))
    runs, cases = (compare(each, baseline) for each in (arms, loaded))
    assert save_cases(path.with_name("again.csv"), loaded).read_bytes() == path.read_bytes()
    for run, case in zip(runs.rows, cases.rows, strict=True):
        assert replace(run, of=case.of, metrics=run.metrics | {"seconds": 0.0}) == case
        assert replace(run.of.usage, seconds=0.0) == case.of.usage
    facts, kept = ([arm | {"run_ids": (), "calls": ""} for arm in each.document["arms"]] for each in (runs, cases))
    assert facts == kept
    return facts


def test_a_comparison_of_the_cases_is_that_of_the_runs(arms, tmp_path):
    check_equal(arms, tmp_path / "cases.csv")


COUNTS = st.fixed_dictionaries({f.name: st.integers(0, 2).map(f.type) for f in fields(Usage)})
CHECKS = st.lists(st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(("test", "type"))), max_size=3)


@st.composite
def odd(draw, attempt):
    """An attempt with any outcomes, checks, reflection and usage: refused, silent and cut replies, missing counts."""
    outcome, own = draw(st.sampled_from(OUTCOMES)), draw(st.integers(0, 1))
    actor, critic, words = (Usage(**draw(COUNTS)) for _ in range(3))
    reflection = attempt.reflection and replace(attempt.reflection, usage=words)
    if reflection and draw(st.booleans()):
        texts = dict.fromkeys(("root_cause", "what_went_wrong", "what_to_change"), "")
        reflection = replace(reflection, source=draw(st.sampled_from(("failed", "llm"))), **texts)
    checks = tuple(Check(name="", outcome=of, kind=kind) for of, kind in draw(CHECKS))
    return replace(
        attempt,
        trajectory=replace(
            attempt.trajectory, solution=draw(st.sampled_from(("", "x"))), usage=actor, others={"critic": critic}
        ),
        evaluation=replace(attempt.evaluation, outcome=outcome, passed=outcome == "pass", checks=checks),
        reflection=reflection,
        memory=MemoryState(capacity=1, size=1, in_context=own, total=1, omega=draw(st.none() | st.just(1)), own=own),
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_odd_attempts_survive_as_well(arms, tmp_path, data):
    def changed(log):
        of = {task_id: [data.draw(odd(attempt)) for attempt in own] for task_id, own in log.attempts.items()}
        outcomes = {case: data.draw(st.sampled_from(OUTCOMES)) for case in log.grades if case[0] != "b"}
        grades = {case: replace(grade, outcome=outcomes.get(case, grade.outcome)) for case, grade in log.grades.items()}
        return replace(log, attempts=of, grades=grades)

    base, other = arms
    check_equal([base, Arm("words", [changed(log) for log in other.logs])], tmp_path / "cases.csv")


def test_what_runs_began_with_is_kept(arms, tmp_path):
    changes = {"prompt_digests": {"act": "0f"}, "prices": {"actor": "10/1 USD per million"}}
    logs = [
        replace(log, beginning=began, manifest=replace(log.manifest, provenance=Provenance(store="0f"), **fields))
        for log, began, fields in zip(arms[0].logs, (None, Beginning(episodes=2)), ({}, changes), strict=True)
    ]
    facts = check_equal([Arm("feedback_only", logs), arms[1]], tmp_path / "cases.csv")
    assert [len(values) for values in facts[0]["began"].values()] == [2, 2, 2]


def write(path, rows, columns):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def test_runs_of_one_data_set_under_two_names_are_compared_from_cases_as_well(make_arm, tmp_path):
    names = {"feedback_only": "toy", "words": "toy-copy"}
    arms = [
        make_arm(BASE, WORDS, label=label, benchmark=name, benchmark_digest=name, tasks_digest="0f")
        for label, name in names.items()
    ]
    check_equal(arms, tmp_path / "cases.csv")


def test_names_that_a_spreadsheet_would_compute_stand_behind_an_apostrophe(make_arm, tmp_path):
    names = ["=1+1", "+1", "-1", "@sum", "\t=1", "\n=1", "'", "'=1", "'quoted'", "it's", "=cmd|'/C calc'!A0"]
    tables = {name: [WRONG] for name in names}, {name: [RIGHT] for name in names[:-1]}
    clusters = {names[0]: "=c", names[1]: "=c"}
    arms = [make_arm(of, of, label=label, clusters=clusters) for label, of in zip(("=a", "'b"), tables, strict=True)]
    facts = check_equal(arms, tmp_path / "cases.csv", "=a")
    assert {case.task_id for case in facts[1]["absent"]} == {names[-1]}, "ids are as they were"
    cells = [cell for row in csv.reader((tmp_path / "cases.csv").open(newline="")) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))]
    assert "'=1+1" in cells and "''" in cells and "it's" in cells


@pytest.fixture
def of_eight(make_arm):
    """Two arms of at most two attempts that were allowed eight and three."""
    return [
        make_arm(BASE, WORDS, label=label, config={"arm": label, "loop": {"max_attempts": n}})
        for label, n in (("feedback_only", 3), ("words", 8))
    ]


def test_cases_hold_the_attempts_that_loops_were_allowed(of_eight, tmp_path):
    loaded = load_cases(save_cases(tmp_path / "cases.csv", of_eight))
    assert [arm.max_attempts for arm in loaded] == [3, 8]
    assert compare(loaded).rows[1].differences["equal_attempts"].attempts == 3


def test_cases_hold_verdicts_clusters_and_spending_by_role(arms, tmp_path):
    with save_cases(tmp_path / "cases.csv", arms).open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert set(COLUMNS) <= lines[0].keys()
    line = next(
        it for it in lines if (it["arm"], it["seed"], it["task"], it["attempt"]) == ("feedback_only", "0", "a/2", "2")
    )
    assert {name: line[name] for name in ("cluster", "parent", "feedback", "hidden", "blind")} == {
        "cluster": "a", "parent": "1", "feedback": "1", "hidden": "1", "blind": "1",
    }  # fmt: skip
    spent = {name: value for name, value in line.items() if name.startswith(("actor", "critic")) and value}
    assert spent == {
        "actor_calls": "1", "actor_prompt_tokens": "30", "actor_cached_tokens": "10", "actor_completion_tokens": "7",
        "actor_reasoning_tokens": "3", "actor_cost": "0.25", "critic_calls": "2", "critic_prompt_tokens": "5",
    }  # fmt: skip


def test_calls_of_a_curator_before_tasks_are_kept(tmp_path):
    words = ["curator=dynamic_cheatsheet", "curator.variant=retrieval_synthesis", "memory.shared.round_size=1"]
    plain = ["benchmark=basics", "benchmark.limit=4", "model=simulated", "actor=single_shot", "tracker=none"]
    carry_out(compose(*words, *plain, "quiet=true", f"run_root={tmp_path}"))
    carry_out(compose("curator=awm", *plain, "quiet=true", "arm=awm", "benchmark.limit=1", f"run_root={tmp_path}"))
    before = arms_of(tmp_path.glob("2*-reflexion-*"))
    after = load_cases(save_cases(tmp_path / "cases.csv", before))
    (tokens,) = {in_arm(arm)["curation_tokens"] for arm in (*before, *after)}
    assert tokens > 0
    (folder,) = tmp_path.glob("2*-awm-*")
    (folder / "operations.jsonl").unlink()  # as where no task passed
    (without,) = arms_of([folder])
    (stored,) = load_cases(save_cases(tmp_path / "cases.csv", [without]))
    assert in_arm(stored)["curation_tokens"] == in_arm(without)["curation_tokens"] == 0, "a curator without a call"


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("attempt", "two", "seed 0"),
        ("seed", "x", "line 2: got seed x, checkpoint none, expected whole numbers"),
        ("hidden", "", "seed 0"),
    ],
)
def test_a_damaged_value_is_named_with_its_run(arms, tmp_path, column, value, expected):
    path = save_cases(tmp_path / "cases.csv", arms)
    lines = list(csv.DictReader(path.open(newline="")))
    lines[0][column] = value
    write(path, lines, lines[0])
    with pytest.raises(ValueError, match=expected):
        load_cases(path)


def test_a_file_that_lost_a_task_a_cell_or_a_column_is_refused(arms, tmp_path):
    path = save_cases(tmp_path / "cases.csv", arms)
    kept = [line for line in path.read_text().splitlines(keepends=True) if ",d," not in line]
    path.write_text("".join(kept))
    with pytest.raises(DataError, match="4 of 5 tasks, expected all of them"):
        load_cases(path)
    path.write_text("".join(kept).rpartition(",")[0])
    with pytest.raises(DataError, match=f"line {len(kept)}: got too few or too many cells"):
        load_cases(path)
    path.write_text("arm,seed\nretry,0\n")
    with pytest.raises(ValueError, match="got no column task"):
        load_cases(path)
